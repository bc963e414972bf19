"""``firsthand record``: what is refused before there is a folder, and what is told of streams."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from firsthand.api import SettingsError
from firsthand.cli import build


@pytest.mark.unit
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--device", "hl2s"], "Did you mean 'hl2ss'"),
        (["--set", "hots=127.0.0.1"], "Did you mean 'host'"),
        (["--set", "host=127.0.0.1", "--set", "pv.fsp=3"], "Did you mean 'fps'"),
    ],
)
def test_what_is_misspelt_leaves_no_folder_behind(
    tmp_path: Path, wrong: list[str], words: str
) -> None:
    arguments = ["record", "--out", str(tmp_path / "r"), *wrong]
    result = CliRunner().invoke(build(arguments), arguments)
    assert isinstance(result.exception, SettingsError)
    assert words in str(result.exception)
    assert not (tmp_path / "r").exists()


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_headset_that_is_not_there_is_told_while_recording_and_at_the_end(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firsthand", "record", "--out", str(tmp_path / "r"),
         "--set", "host=127.0.75.1", "--seconds", "2"],
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    reason = "The headset answers, but the hl2ss app is not running on it."
    assert f"! Front camera: {reason}" in done.stdout
    assert f"pv (losses): nothing was received. Front camera: {reason}" in done.stdout
    assert "gaze valid" not in done.stdout  # there was no gaze, so there is no share of it
    assert done.stderr == ""
