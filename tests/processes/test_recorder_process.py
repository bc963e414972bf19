"""The recorder's process: started, found again, stopped, told why not; alone when it must be."""

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from firsthand.api import RecordingError, SettingsError, StorageError
from firsthand.cli import build
from firsthand.recording.client import DeviceChoice, RecorderProcess, RecorderSettings
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.recording.packetlog import EndEntry, NoteEntry, SessionEntry
from firsthand.recording.recorder_settings import RecorderState
from firsthand.recording.rendezvous import find, note_path
from firsthand.testing.devices import MODULE, FakeConfig
from firsthand.testing.recorders import (
    check_nothing_lost,
    end_process,
    fake_settings,
    handed_over,
    read_all,
    stored_seqs,
    wait_for_packets,
)
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.process

STREAMS = FakeConfig().streams
NAME = "P07-demonstration-01"
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run-time files and logs of the test's own; the logs must name no participant."""
    logs = tmp_path / "logs"
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(logs))
    yield
    for log in logs.glob("*"):
        assert NAME.encode() not in log.read_bytes(), log


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A session's folder; whatever still records into it afterwards is stopped."""
    folder = tmp_path / NAME
    yield folder
    if note_path(folder).exists():
        with contextlib.suppress(RecordingError):
            RecorderProcess.attach(folder).stop()


def assert_alive(recorder: RecorderProcess, alive: bool) -> None:
    assert recorder.alive is alive


def test_a_recording_is_started_watched_and_stopped(folder: Path) -> None:
    recorder = RecorderProcess.start(fake_settings(folder))
    assert_alive(recorder, True)
    wait_for_packets(folder, 20)
    status = recorder.status()
    assert status.state is RecorderState.RECORDING
    assert {stream.stream for stream in status.streams} == {s.name for s in STREAMS}
    assert all(stream.packets >= 20 for stream in status.streams)
    assert status.free_bytes > 0
    recorder.note("marker", {"text": "here"})
    with pytest.raises(RecordingError, match="cannot be stored"):
        recorder._ask({"ask": "note", "kind": "bad", "about": 5}, 2.0)
    with pytest.raises(RecordingError, match="does not know"):
        recorder._ask({"ask": "dance"}, 2.0)
    assert read_manifest(folder).state is RecordingState.RECORDING

    after = recorder.stop()

    assert after.state is RecorderState.STOPPED
    assert_alive(recorder, False)
    assert read_manifest(folder).state is RecordingState.RECORDED
    entries, damage = read_all(folder)
    assert damage == []
    assert isinstance(entries[-1], EndEntry)
    assert [e.about for e in entries if isinstance(e, NoteEntry)] == [{"text": "here"}]
    assert not note_path(folder).exists()
    with pytest.raises(RecordingError, match="gone"):
        recorder.status()


def test_the_process_has_loaded_neither_windows_nor_hdf5_nor_models(folder: Path) -> None:
    settings = fake_settings(folder, device=FakeConfig(tell_modules=True), plugins=None)
    recorder = RecorderProcess.start(settings)
    wait_for_packets(folder, 1)
    recorder.stop()
    entries, _ = read_all(folder)
    notes = [e for e in entries if isinstance(e, NoteEntry) and e.kind == "modules"]
    loaded = {name.partition(".")[0] for name in notes[0].about["names"]}
    plugins = {plugin["name"] for plugin in read_manifest(folder).plugins}
    assert {"hl2ss", "devices"} <= plugins
    assert "firsthand" in loaded
    assert not loaded & {"PySide6", "h5py", "openai", "vosk", "torch", "pandas", "cv2"}


def test_what_keeps_a_recorder_from_beginning_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = fake_settings(tmp_path / "file" / NAME)
    with pytest.raises(StorageError, match="Nothing can be written"):
        RecorderProcess.start(settings)

    def choose(name: str, **of_device: object) -> RecorderSettings:
        device = DeviceChoice(name=name, settings=of_device)
        return RecorderSettings(
            folder=tmp_path / "s", devices=[device], plugins=[], extra_plugins=[MODULE]
        )

    with pytest.raises(SettingsError, match=r"no device 'fke'.*fake"):
        RecorderProcess.start(choose("fke"))
    with pytest.raises(SettingsError, match="paket"):
        RecorderProcess.start(choose("fake", pakets=5))
    with pytest.raises(SettingsError, match="cannot be imported"):
        RecorderProcess.start(
            choose("fake").model_copy(update={"extra_plugins": ["no_such_module"]})
        )
    with pytest.raises(RecordingError, match="too long"):
        RecorderProcess.start(choose("fake").model_copy(update={"session": {"x": "y" * 70_000}}))
    assert not (tmp_path / "s" / "packets.log").exists()


def test_two_recorders_never_record_into_one_folder(folder: Path) -> None:
    with_first = RecorderProcess.start(fake_settings(folder))
    with pytest.raises(RecordingError, match="recorded already"):
        RecorderProcess.start(fake_settings(folder))
    assert with_first.stop().state is RecorderState.STOPPED


def test_a_recorder_that_was_let_go_is_found_by_its_folder(folder: Path) -> None:
    first = RecorderProcess.start(fake_settings(folder))
    first.detach()
    again = RecorderProcess.attach(folder)
    assert again.pid == first.pid
    assert_alive(again, True)
    wait_for_packets(folder, 5)
    assert again.stop().state is RecorderState.STOPPED
    assert_alive(again, False)
    with pytest.raises(RecordingError, match="Nothing is recording"):
        RecorderProcess.attach(folder)


@posix
def test_address_and_key_are_private_and_not_in_the_recording(folder: Path) -> None:
    recorder = RecorderProcess.start(fake_settings(folder))
    note = note_path(folder)
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700
    key = recorder._found.key.hex().encode()
    recorder.stop()
    assert all(key not in path.read_bytes() for path in folder.iterdir())


@posix
def test_ctrl_c_is_not_for_the_recorder_and_sigterm_closes_it_in_order(folder: Path) -> None:
    recorder = RecorderProcess.start(fake_settings(folder))
    wait_for_packets(folder, 5)
    os.kill(recorder.pid, signal.SIGINT)
    wait_for_packets(folder, 20)
    assert recorder.status().state is RecorderState.RECORDING
    before = handed_over(folder)
    os.kill(recorder.pid, signal.SIGTERM)
    wait_until(lambda: not recorder.alive, "the recorder to end")
    entries, _ = read_all(folder)
    assert isinstance(entries[-1], EndEntry)
    assert "SIGTERM" in entries[-1].reason
    check_nothing_lost(folder, STREAMS, before)
    assert read_manifest(folder).state is RecordingState.RECORDED
    recorder.detach()


def test_a_recorder_that_nobody_asks_for_closes_the_recording_itself(folder: Path) -> None:
    recorder = RecorderProcess.start(fake_settings(folder, orphan_after_s=0.5))
    wait_for_packets(folder, 40)  # more than half a second, attached
    assert recorder.status().state is RecorderState.RECORDING
    process = psutil.Process(recorder.pid)
    recorder.detach()
    process.wait(10)
    entries, damage = read_all(folder)
    assert damage == []
    assert isinstance(entries[-1], EndEntry)
    assert "Nobody was attached" in entries[-1].reason


def test_after_the_recorder_died_another_goes_on_in_the_next_segment(folder: Path) -> None:
    recorder = RecorderProcess.start(fake_settings(folder))
    wait_for_packets(folder, 60)
    end_process(recorder.pid)
    wait_until(lambda: not recorder.alive, "the recorder to be gone")
    with pytest.raises(RecordingError, match=r"gone.*safe"):
        recorder.status()
    first = len(stored_seqs(read_all(folder)[0], STREAMS[0]))

    again = RecorderProcess.resume(folder)
    wait_for_packets(folder, 10)
    again.stop()
    recorder.detach()

    assert sorted(path.name for path in folder.glob("*.log")) == ["packets-001.log", "packets.log"]
    assert [log.path for log in read_manifest(folder).logs] == ["packets.log", "packets-001.log"]
    entries, damage = read_all(folder)
    assert damage == []
    begun = [e.about for e in entries if isinstance(e, SessionEntry)]
    assert [(about["segment"], about["continues"]) for about in begun] == [(0, False), (1, False)]
    assert first > 40
    with pytest.raises(RecordingError, match="cannot be gone on with"):
        RecorderProcess.resume(folder)


def test_a_recorder_that_nobody_is_with_is_stopped_and_recovered_in_one_command(
    folder: Path,
) -> None:
    recorder = RecorderProcess.start(fake_settings(folder))
    wait_for_packets(folder, 50)
    recorder.detach()
    left = CliRunner().invoke(build(["recover"]), ["recover", str(folder)])
    assert "left alone" in left.stdout
    assert find(note_path(folder)) is not None
    done = CliRunner().invoke(build(["recover"]), ["recover", str(folder), "--stop"])
    assert done.exit_code == 0, done.output
    assert f"{NAME}: complete" in done.stdout
    assert find(note_path(folder)) is None
    assert read_manifest(folder).state is RecordingState.COMPLETE
