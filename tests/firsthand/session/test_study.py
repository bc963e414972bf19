"""A study's folder: made whole, read with care, never written over."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import ProtocolError, SettingsError
from firsthand.paths import study_protocols_dir
from firsthand.recording.manifest import Moment, RecordingState, new_manifest, write_manifest
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.session.names import (
    checked_participant,
    parse_session_id,
    participant_code,
    session_id,
)
from firsthand.session.study import Study

pytestmark = pytest.mark.unit
MICA = study_protocols_dir() / "mica.yaml"


def test_a_new_study_has_its_own_copy_of_the_protocol_and_knows_its_devices(tmp_path: Path) -> None:
    device = DeviceChoice(
        name="hl2ss", settings={"host": '1.2.3.4 "é"', "pv": {"fps": 30}, "mic": None, "n": [1.5]}
    )
    made = Study.create(tmp_path / "Pilot 1", MICA, devices=[device])
    again = Study.open(tmp_path / "Pilot 1")
    assert again.protocol.hash == made.protocol.hash
    assert again.protocol.file.is_relative_to(tmp_path)
    assert again.name == "Pilot 1"
    settings = dict(device.settings)
    del settings["mic"]  # TOML has no null
    assert again.devices == (DeviceChoice(name="hl2ss", settings=settings),)
    assert list(again.sessions()) == []


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsError, match="not empty"):
        Study.create(tmp_path, MICA)


def test_a_study_with_a_bad_protocol_is_not_made(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("format: x\n", encoding="utf-8")
    with pytest.raises(ProtocolError, match=r"bad\.yaml, line 1"):
        Study.create(tmp_path / "study", bad)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("text", ["", "format = 1", "{{", "format = 'firsthand-study'\nversion=9"])
def test_a_damaged_study_file_is_told_of_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"study\.toml"):
        Study.open(tmp_path)


def test_a_folder_without_a_study_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="firsthand study new"):
        Study.open(tmp_path)


def test_participants_get_codes_and_a_code_is_never_given_twice(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", MICA)
    first = study.add_participant()
    study.add_participant("anna7")
    with pytest.raises(SettingsError, match="already"):
        study.add_participant("anna7")
    assert [p.code for p in study.participants()] == [first.code, "anna7"]
    assert study.participant("anna7").code == "anna7"
    with pytest.raises(SettingsError, match="no participant"):
        study.participant("bert1")


def test_an_excluded_participant_takes_part_no_more(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", MICA)
    study.add_participant("anna7")
    file = study.folder / "participants.csv"
    header = file.read_text(encoding="utf-8").splitlines()[0]
    file.write_text(f"{header}\nanna7,2026-01-01,yes\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="excluded"):
        study.participant("anna7")


def test_a_participants_file_with_a_name_in_it_is_refused_with_its_line(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", MICA)
    study.add_participant("anna7")
    with (study.folder / "participants.csv").open("a", encoding="utf-8") as file:
        file.write("../Anna Meier,,\n")
    with pytest.raises(SettingsError, match="line 3"):
        study.participants()


def test_sessions_are_listed_with_their_state(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", MICA)
    done = study.folder / "sessions" / "anna7-demonstration-01"
    done.mkdir()
    manifest = new_manifest({"id": done.name, "task": {"id": "shopping/own_needs"}})
    manifest.state = RecordingState.COMPLETE
    assert manifest.start is not None
    manifest.stop = Moment(host_ns=manifest.start.host_ns + 9_000_000_000, utc_ns=0)
    write_manifest(done, manifest)
    (study.folder / "sessions" / "anna7-replication-01").mkdir()
    (study.folder / "sessions" / "not a session").mkdir()
    found = [(s.id, s.state, s.task, s.duration_s) for s in study.sessions()]
    assert found == [
        ("anna7-demonstration-01", "complete", "shopping/own_needs", 9.0),
        ("anna7-replication-01", "not recorded", "", None),
    ]


@given(st.text(max_size=30))
def test_only_plain_codes_pass_and_they_are_their_own_folder_name(code: str) -> None:
    try:
        good = checked_participant(code)
    except SettingsError:
        return
    assert Path(good).name == good
    assert good.isascii()
    assert good.islower()


@pytest.mark.parametrize(
    "code",
    [
        "../a",
        "a/b",
        "con",
        "com1",
        "nul",
        "a\0b",
        "A12",
        "äbc",
        "a.b",
        "ab",
        "ａbc",
        "%2e%2e",
        "a\n",
    ],
)
def test_hostile_codes_are_refused(code: str) -> None:
    with pytest.raises(SettingsError):
        checked_participant(code)


@given(st.integers(1, 9999), st.sampled_from(["demonstration", "replication", "a_b"]))
def test_a_session_id_tells_what_it_was_made_of(number: int, phase: str) -> None:
    code = participant_code()
    assert parse_session_id(session_id(code, phase, number)) == (code, phase, number)


def test_new_codes_avoid_those_that_are_taken() -> None:
    codes: set[str] = set()
    for _ in range(500):
        codes.add(participant_code(codes))
    assert len(codes) == 500
    for code in codes:
        assert checked_participant(code) == code
