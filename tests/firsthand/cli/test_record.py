"""``firsthand record``: what is refused before there is a folder, and what is told of streams."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from firsthand.api import SettingsError, StorageError
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


@pytest.mark.unit
@pytest.mark.parametrize("place", ["a file", "a file/below", "shut/r"])
def test_a_folder_that_cannot_be_is_told_in_words(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("mine")
    (tmp_path / "shut").symlink_to(tmp_path / "gone" / "away")
    arguments = ["record", "--out", str(tmp_path / place), "--set", "host=127.0.0.1"]
    result = CliRunner().invoke(build(arguments), arguments)
    assert isinstance(result.exception, SettingsError | StorageError)
    assert str(tmp_path / place) in str(result.exception)
    assert (tmp_path / "a file").read_text() == "mine"


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
    assert "s, nothing was received. The recording is bad" in done.stdout
    assert done.stderr == ""
