"""Studies at the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from firsthand.api import SettingsError
from firsthand.cli import build
from firsthand.paths import study_protocols_dir

pytestmark = pytest.mark.unit


def study(*arguments: str) -> Result:
    return CliRunner().invoke(build(["study"]), ["study", *arguments])


def test_a_good_protocol_is_called_good(tmp_path: Path) -> None:
    result = study("check", str(study_protocols_dir() / "mica.yaml"))
    assert result.exit_code == 0
    assert "mica.yaml is good" in result.output


def test_a_bad_protocol_is_told_of_line_by_line_and_ends_with_one(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("format: firsthand-protocol\nversion: 1\nname: Bad Name\nphasen: []\n", "utf-8")
    result = study("check", str(bad))
    assert result.exit_code == 1
    assert "bad.yaml, line 3, column" in result.output
    assert "Did you mean 'phases'?" in result.output
    as_json = json.loads(study("check", str(bad), "--json").output)
    assert as_json["good"] is False
    assert {problem["line"] for problem in as_json["problems"]} >= {3, 4}


def test_from_a_new_study_to_its_status(tmp_path: Path) -> None:
    folder = str(tmp_path / "pilot")
    made = study("new", folder, "--device", "hl2ss", "--set", "host=10.0.0.7", "--set", "pv.fps=15")
    assert made.exit_code == 0
    assert study("check", folder).exit_code == 0
    assert study("participants", folder, "--code", "anna7").exit_code == 0
    people = json.loads(study("participants", folder, "--json").output)["participants"]
    assert [person["code"] for person in people] == ["anna7"]
    status = json.loads(study("status", folder, "--json").output)
    assert (status["participants"], status["sessions"]) == (1, [])
    assert "1 participant(s), 0 session(s)" in study("status", folder).output
    settings = (tmp_path / "pilot" / "study.toml").read_text(encoding="utf-8")
    assert '"host" = "10.0.0.7"' in settings
    assert '"pv" = {"fps" = 15}' in settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "hl2s", "--set", "host=10.0.0.7"], "Did you mean 'hl2ss'"),
        (["--device", "hl2ss", "--set", "hots=10.0.0.7"], "Did you mean 'host'"),
        (["--set", "host=10.0.0.7"], "--set needs --device"),
    ],
)
def test_a_device_that_cannot_be_is_refused_before_there_is_a_study(
    tmp_path: Path, options: list[str], words: str
) -> None:
    result = study("new", str(tmp_path / "pilot"), *options)
    assert isinstance(result.exception, SettingsError)
    assert words in str(result.exception)
    assert not (tmp_path / "pilot").exists()


def test_a_study_whose_device_is_misspelt_later_does_not_pass_and_is_not_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "pilot"
    study("new", str(folder), "--device", "hl2ss", "--set", "host=10.0.0.7")
    study("participants", str(folder), "--code", "anna7")
    toml = folder / "study.toml"
    toml.write_text(toml.read_text("utf-8").replace('"host"', '"hots"'), "utf-8")
    chosen = ("--participant", "anna7", "--phase", "demonstration")
    for arguments in (
        ("check", str(folder)),
        ("run", str(folder), *chosen, "--task", "shopping/birdhouse", "--autopilot"),
    ):
        result = study(*arguments)
        assert isinstance(result.exception, SettingsError)
        assert "Did you mean 'host'" in str(result.exception)
    assert list((folder / "sessions").iterdir()) == []


def test_sessions_are_listed_as_plain_text(tmp_path: Path) -> None:
    folder = tmp_path / "pilot"
    study("new", str(folder))
    session = folder / "sessions" / "anna7-demonstration-01"
    session.mkdir()
    manifest = {"format": "firsthand-recording", "format_version": 1, "state": "complete"}
    hostile = {"task": {"id": "[bold red]not markup[/]"}}
    (session / "manifest.json").write_text(json.dumps({**manifest, "session": hostile}), "utf-8")
    result = study("status", str(folder))
    assert "[bold red]not markup[/]" in result.output
    assert "complete" in result.output
