"""``info``, ``check``, ``recover`` and ``export`` as people type them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from firsthand.api import DamagedError, SettingsError
from firsthand.cli import build
from firsthand.testing.recordings import make_recording, small_world, without, write_log

pytestmark = pytest.mark.process


def run(*words: str) -> Result:
    return CliRunner().invoke(build(words), list(words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands") / "s"
    make_recording(made, seconds=1.0)
    return made


def test_info_tells_what_is_in_a_recording(folder: Path) -> None:
    words = run("info", str(folder))
    assert words.exit_code == 0
    assert "h264 320×240" in words.stdout
    facts = json.loads(run("info", str(folder), "--json").stdout)
    assert facts["state"] == "complete"
    assert {s["name"]: s["packets"] for s in facts["streams"]} == {
        "eet": 90,
        "mic": 62,
        "pv": 30,
        "si": 60,
    }


def test_info_of_a_foreign_file_goes_past_the_gate(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes((folder / "raw.h5").read_bytes()[:-1])
    result = run("info", str(path))
    assert isinstance(result.exception, DamagedError)


def test_check_ends_with_0_for_a_good_recording_and_with_1_for_another(
    folder: Path, tmp_path: Path
) -> None:
    good = run("check", str(folder))
    assert good.exit_code == 0
    assert good.stdout.rstrip().endswith("GOOD")
    world = small_world(2.0, streams=["si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 30 <= p.seq < 40)
    make_recording(tmp_path / "s", world)
    wrong = run("check", str(tmp_path / "s"), "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["verdict"] == "degraded"
    assert run("check", str(tmp_path / "s"), "--max-lost", "0.5").exit_code == 0


def test_recover_prints_a_line_for_each_and_may_be_run_again(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "s1", small_world(0.3, streams=["si"]), end=None)
    first = run("recover", str(tmp_path))
    assert first.exit_code == 0
    assert first.stdout.startswith("s1: recovered, 18 packets")
    assert "finished" in run("recover", str(tmp_path)).stdout
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "packets.log").write_bytes(b"nonsense that is no log")
    broken = run("recover", str(tmp_path), "--json")
    assert broken.exit_code == 1
    assert "not a packet log" in json.loads(broken.stdout)[0]["error"]


def test_export_writes_a_folder_per_recording(folder: Path, tmp_path: Path) -> None:
    result = run("export", str(folder), "--to", "csv", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert (tmp_path / "out" / "s" / "eet.csv").is_file()
    missing = run("export", str(tmp_path), str(folder), "--to", "wav", "--out", str(tmp_path / "o"))
    assert missing.exit_code == 1
    assert (tmp_path / "o" / "s" / "mic.wav").is_file()


def test_export_takes_settings_and_refuses_others(folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    good = run("export", str(folder), "--to", "mp4", "--out", out, "--set", "sound=false")
    assert good.exit_code == 0
    wrong = run("export", str(folder), "--to", "mp4", "--out", out, "--set", "sond=false")
    assert isinstance(wrong.exception, SettingsError)
    assert "sound" in str(wrong.exception)
