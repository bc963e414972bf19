"""Manifests are whole or not there, and folders have names that every system takes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import DamagedError, FirsthandError, RecordingError, SettingsError, StorageError
from firsthand.recording.layout import MANIFEST
from firsthand.recording.manifest import (
    LogSegment,
    RecordingState,
    new_manifest,
    read_manifest,
    write_manifest,
)
from firsthand.recording.session_folder import (
    new_session_folder,
    next_segment_number,
    segment_name,
    segment_number,
    segments,
)

pytestmark = pytest.mark.unit


def test_a_manifest_comes_back_as_written(tmp_path: Path) -> None:
    manifest = new_manifest({"id": "s-1"}, plugins=[{"name": "hl2ss", "version": "1"}])
    manifest.logs.append(LogSegment(path="packets.log", ended="stopped"))
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_keys_of_others_survive_a_change(tmp_path: Path) -> None:
    write_manifest(tmp_path, new_manifest({"id": "s-1"}))
    data = json.loads((tmp_path / MANIFEST).read_text())
    data["lab"] = {"room": 7}
    (tmp_path / MANIFEST).write_text(json.dumps(data))
    manifest = read_manifest(tmp_path)
    manifest.state = RecordingState.COMPLETE
    write_manifest(tmp_path, manifest)
    assert json.loads((tmp_path / MANIFEST).read_text())["lab"] == {"room": 7}
    assert read_manifest(tmp_path).state is RecordingState.COMPLETE


def test_a_manifest_cut_anywhere_is_called_damaged(tmp_path: Path) -> None:
    write_manifest(tmp_path, new_manifest({"id": "s-1"}))
    whole = (tmp_path / MANIFEST).read_bytes()
    for length in range(len(whole.rstrip())):
        (tmp_path / MANIFEST).write_bytes(whole[:length])
        with pytest.raises(DamagedError, match="damaged"):
            read_manifest(tmp_path)


@given(st.one_of(st.binary(max_size=300), st.text().map(str.encode), st.integers().map(json.dumps)))
def test_nothing_in_a_manifest_raises_anything_unexpected(content: bytes | str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        raw = content.encode() if isinstance(content, str) else content
        (Path(name) / MANIFEST).write_bytes(raw)
        with pytest.raises(FirsthandError):
            read_manifest(Path(name))


def test_a_newer_format_is_refused_in_words(tmp_path: Path) -> None:
    manifest = new_manifest({})
    manifest.format_version = 99
    write_manifest(tmp_path, manifest)
    with pytest.raises(RecordingError, match=r"newer Firsthand.*Update"):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="not a recording"):
        read_manifest(tmp_path)


def test_a_manifest_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).mkdir()
    (tmp_path / MANIFEST / "occupied").write_text("")
    with pytest.raises(StorageError, match="could not be written"):
        write_manifest(tmp_path, new_manifest({}))
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_sessions_of_a_participant_are_numbered(tmp_path: Path) -> None:
    names = [new_session_folder(tmp_path, "P01", "demonstration").name for _ in range(3)]
    assert names == ["P01-demonstration-01", "P01-demonstration-02", "P01-demonstration-03"]


@pytest.mark.parametrize("word", ["", "..", "a/b", "CON", "nul", "a b", "ü", "x" * 42, "-a", "a\n"])
def test_ids_that_some_system_cannot_name_a_file_by_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used"):
        new_session_folder(tmp_path, word, "demonstration")
    with pytest.raises(SettingsError, match="cannot be used"):
        new_session_folder(tmp_path, "P01", word)
    assert list(tmp_path.iterdir()) == []


def test_segments_come_in_order_wherever_they_are(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "s", tmp_path / "fallback" / "s"
    home.mkdir()
    elsewhere.mkdir(parents=True)
    for folder, number in ((home, 0), (elsewhere, 2), (home, 1), (home, 10)):
        (folder / segment_name(number)).write_bytes(b"")
    (home / "packets-notes.log").write_text("not ours")
    manifest = new_manifest({})
    manifest.logs = [
        LogSegment(path="packets.log"),
        LogSegment(path=str(elsewhere / "packets-002.log")),
        LogSegment(path=str(elsewhere / "packets-011.log")),
    ]
    write_manifest(home, manifest)
    assert [segment_number(path) for path in segments(home)] == [0, 1, 2, 10]
    assert segments(home)[2].parent == elsewhere
    assert next_segment_number(home) == 12


def test_segments_are_found_without_a_manifest(tmp_path: Path) -> None:
    assert next_segment_number(tmp_path) == 0
    (tmp_path / "packets.log").write_bytes(b"")
    assert segments(tmp_path) == [tmp_path / "packets.log"]
    assert next_segment_number(tmp_path) == 1
