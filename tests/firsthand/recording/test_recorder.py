"""The recorder stores first, accounts exactly, and outlives what its devices do."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firsthand.api import (
    Clock,
    ClockPair,
    Device,
    DeviceSink,
    GapCause,
    Packet,
    PluginConfig,
    SettingsError,
    StorageError,
    StreamSchema,
    StreamState,
)
from firsthand.recording.diskspace import LEAST_RESERVE
from firsthand.recording.logfile import OsLogFile
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.recording.packetlog import (
    CalibrationEntry,
    ClockEntry,
    EndEntry,
    EpochEntry,
    GapEntry,
    HealthEntry,
    LogEntry,
    NoteEntry,
    PacketEntry,
    SessionEntry,
    StateEntry,
    read_log,
)
from firsthand.recording.recorder import Recorder
from firsthand.recording.recorder_clock import UtcClock
from firsthand.recording.recorder_devices import install_hook
from firsthand.recording.recorder_settings import RecorderSettings, RecorderState, RecorderStatus
from firsthand.streams.fanout import EVERYTHING
from firsthand.testing.devices import FakeConfig, FakeDevice, FakeStream
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.unit

VIDEO = FakeStream(name="video", hz=100.0, payload_bytes=2000)
GAZE = FakeStream(name="gaze", hz=100.0, record_bytes=64)


def settings(folder: Path, **more: Any) -> RecorderSettings:
    return RecorderSettings(
        folder=folder, devices=[], session={"id": "s"}, flush_every_s=0.02, **more
    )


def fake(*streams: FakeStream, **more: Any) -> FakeDevice:
    return FakeDevice(FakeConfig(streams=streams, **more))


@pytest.fixture
def recorders() -> Iterator[list[Recorder]]:
    """Recorders that are stopped whatever happens."""
    made: list[Recorder] = []
    yield made
    for recorder in made:
        recorder.stop()


def record(
    recorders: list[Recorder], folder: Path, devices: Sequence[Device], **more: Any
) -> Recorder:
    folder.mkdir(exist_ok=True)
    chosen = more.pop("settings", settings(folder))
    recorder = Recorder(chosen, devices, **more)
    recorders.append(recorder)
    recorder.start()
    return recorder


def entries(folder: Path) -> list[LogEntry]:
    return list(read_log(folder / "packets.log"))


def packets(found: Sequence[LogEntry], stream: str) -> list[int]:
    return [e.packet.seq for e in found if isinstance(e, PacketEntry) and e.packet.stream == stream]


def got(recorder: Recorder, stream: str) -> int:
    return next(s.packets for s in recorder.status().streams if s.stream == stream)


def test_what_devices_deliver_is_stored_whole_and_in_order(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    device = fake(VIDEO, GAZE, packets=50, flat_out=True)
    recorder = record(recorders, tmp_path / "s", [device])
    wait_until(lambda: got(recorder, "video") == got(recorder, "gaze") == 50, "all packets")
    recorder.note("marker", {"text": "here"})
    recorder.stop("Enough.")
    recorder.stop("Too late.")

    found = entries(tmp_path / "s")
    assert isinstance(found[0], SessionEntry)
    assert found[0].about["id"] == "s"
    assert found[0].about["start"]["host_ns"] > 0
    assert packets(found, "video") == packets(found, "gaze") == list(range(50))
    for entry in found:
        if isinstance(entry, PacketEntry):
            stream = VIDEO if entry.packet.stream == "video" else GAZE
            assert entry.crc32 == stream.crc32(entry.packet.seq)
    assert [e.kind for e in found if isinstance(e, NoteEntry)] == ["marker"]
    assert {e.pair.clock for e in found if isinstance(e, ClockEntry)} == {Clock.UTC, Clock.DEVICE}
    last = found[-1]
    assert isinstance(last, EndEntry)
    assert last.reason == "Enough."
    assert sum(isinstance(e, EndEntry) for e in found) == 1
    health = [e for e in found if isinstance(e, HealthEntry)][-1]
    assert {row["stream"]: row["packets"] for row in health.rows} == {"video": 50, "gaze": 50}

    manifest = read_manifest(tmp_path / "s")
    assert manifest.state is RecordingState.RECORDED
    assert manifest.reason == "Enough."
    assert manifest.recorder is None
    assert [(log.path, log.ended) for log in manifest.logs] == [("packets.log", "Enough.")]
    assert manifest.streams["video"]["packets"] == 50
    assert recorder.status().state is RecorderState.STOPPED


def test_a_taker_sees_only_what_was_handed_to_the_log_before(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    device = fake(VIDEO, packets=30, flat_out=True)
    recorder = Recorder(settings(tmp_path), [device])
    recorders.append(recorder)
    shown = recorder.fanout.subscribe(EVERYTHING)
    recorder.start()
    wait_until(lambda: got(recorder, "video") == 30, "all packets")
    recorder.stop()
    assert [packet.seq for packet in shown.drain()] == list(range(30))
    assert packets(entries(tmp_path), "video") == list(range(30))


def test_a_device_that_cannot_be_opened_ends_its_own_streams_only(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    bad = fake(GAZE, open_error="The headset is switched off.")
    recorder = record(recorders, tmp_path, [bad, fake(VIDEO, packets=20)])
    wait_until(lambda: got(recorder, "video") == 20, "the other device's packets")
    status = {stream.stream: stream for stream in recorder.status().streams}
    assert status["gaze"].state is StreamState.ENDED
    assert status["gaze"].reason == "The headset is switched off."
    assert status["video"].state is StreamState.LIVE
    assert recorder.status().warnings == ["The headset is switched off."]


def test_a_device_whose_thread_dies_ends_with_a_reason_and_the_others_go_on(
    recorders: list[Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    install_hook(lambda: recorders[0].devices)
    broken = fake(GAZE, breaks_after=5)
    recorder = record(recorders, tmp_path, [broken, _Steady(PluginConfig())])
    wait_until(
        lambda: recorder.status().streams[0].state is StreamState.ENDED, "the broken one to end"
    )
    before = got(recorder, "steady")
    wait_until(lambda: got(recorder, "steady") > before + 5, "the other device to go on")
    recorder.stop()
    found = entries(tmp_path)
    assert packets(found, "gaze") == list(range(5))
    reasons = [e.reason for e in found if isinstance(e, StateEntry) and e.stream == "gaze"]
    assert "ZeroDivisionError" in reasons[1]
    assert "the others go on" in reasons[1]
    assert not any("ZeroDivisionError" in w for w in [s.reason for s in _steady(recorder)])


def _steady(recorder: Recorder) -> list[Any]:
    return [stream for stream in recorder.status().streams if stream.stream == "steady"]


class _Steady(Device):
    """A device of another module than the fake's."""

    name = "steady"
    title = "Steady"
    Config = PluginConfig
    stream = FakeStream(name="steady", hz=100.0)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def schemas(self) -> Sequence[StreamSchema]:
        return [self.stream.declared()]

    def open(self, sink: DeviceSink) -> None:
        self.sink = sink
        self.thread.start()

    def _run(self) -> None:
        self.sink.state("steady", StreamState.LIVE)
        seq = 0
        while not self.stop.wait(0.005):
            self.sink.packet(self.stream.packet(seq, seq))
            seq += 1

    def close(self) -> None:
        self.stop.set()
        if self.thread.ident is not None:
            self.thread.join()


class _Handed(_Steady):
    """A device whose sink a test plays with."""

    def open(self, sink: DeviceSink) -> None:
        self.sink = sink


def handed(recorders: list[Recorder], folder: Path, **more: Any) -> tuple[Recorder, DeviceSink]:
    device = _Handed(PluginConfig())
    return record(recorders, folder, [device], **more), device.sink


def test_a_device_that_hangs_while_opening_or_closing_keeps_nobody_waiting_for_ever(
    recorders: list[Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firsthand.recording.recorder_devices._OPEN_S", 0.1)
    go = threading.Event()

    class Hanging(_Handed):
        def open(self, sink: DeviceSink) -> None:
            go.wait(20)

        def close(self) -> None:
            go.wait(20)

    class Other(_Steady):
        stream = FakeStream(name="other", hz=100.0)

        def _run(self) -> None:
            self.sink.packet(self.stream.packet(0, 0))

    recorder = record(recorders, tmp_path, [Hanging(PluginConfig()), Other(PluginConfig())])
    wait_until(lambda: got(recorder, "other") == 1, "the other device's packet")
    recorder.stop(close_s=0.1)
    assert isinstance(entries(tmp_path)[-1], EndEntry)
    go.set()


def test_nothing_a_device_says_wrongly_reaches_the_log_or_comes_back_at_it(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    recorder, sink = handed(recorders, tmp_path)
    good = FakeStream(name="steady", hz=100.0)
    sink.packet(good.packet(0))
    sink.packet(Packet("nobody", 0, 0, 0))
    sink.packet(Packet("steady", 1, 0, 0, b"short"))
    sink.packet(Packet("steady", -1, good.device_ns(2), 0, good.fields(2)))
    sink.packet(Packet("steady", 3, 2**70, 0, good.fields(3)))
    sink.note("bad", {"what": object()})
    sink.calibration("bad", {"names": __import__("numpy").array(["x"], dtype=object)}, {})
    sink.packet(good.packet(4))
    recorder.stop()
    sink.packet(good.packet(5))
    sink.note("late", {})
    found = entries(tmp_path)
    assert packets(found, "steady") == [0, 4]
    gaps = [e.gap for e in found if isinstance(e, GapEntry)]
    assert sum(gap.packets_lost for gap in gaps) == 3
    assert {gap.cause for gap in gaps if gap.packets_lost} == {GapCause.DAMAGED_PACKET.value}
    assert sum("cannot be stored" in words for words in recorder.status().warnings) == 3


def test_facts_of_the_device_are_stored(recorders: list[Recorder], tmp_path: Path) -> None:
    import numpy as np

    recorder, sink = handed(recorders, tmp_path)
    sink.clock(ClockPair(Clock.DEVICE, 1, 3, 70))
    sink.epoch(Clock.DEVICE_WALL, 1, "The headset's clock was set.")
    sink.calibration("pv", {"k": np.eye(3)}, {"width": 1920})
    sink.note("version", {"server": "1.0"})
    sink.state("steady", StreamState.WAITING, "Another program may hold the stream.")
    recorder.stop()
    found = entries(tmp_path)
    assert ClockPair(Clock.DEVICE, 1, 3, 70) in [e.pair for e in found if isinstance(e, ClockEntry)]
    assert [e.epoch.reason for e in found if isinstance(e, EpochEntry)] == [
        "The headset's clock was set."
    ]
    assert [e.name for e in found if isinstance(e, CalibrationEntry)] == ["pv"]
    notes = [e.about for e in found if isinstance(e, NoteEntry)]
    assert notes == [{"device": "steady", "server": "1.0"}]
    states = [e.state for e in found if isinstance(e, StateEntry)]
    assert states == [StreamState.WAITING, StreamState.ENDED]


def test_packets_that_a_slow_disk_costs_stand_in_gaps_to_the_last_one(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    go = threading.Event()
    go.set()

    class Slow(OsLogFile):
        def write(self, pieces: Sequence[bytes | memoryview]) -> None:
            go.wait(20)
            super().write(pieces)

    recorder, sink = handed(recorders, tmp_path, opener=Slow, queue_bytes=20_000)
    stream = FakeStream(name="steady", hz=100.0)
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            sink.packet(stream.packet(sent, sent))
            sent += 1

    for _ in range(3):
        send(10)
        go.clear()
        send(2000)
        go.set()
        wait_until(lambda: recorder._log._writer.queued_bytes == 0, "the disk has caught up")
    send(10)
    recorder._look_at_losses()
    recorder.stop()

    found = entries(tmp_path)
    stored = packets(found, "steady")
    gaps = [e.gap for e in found if isinstance(e, GapEntry) and e.gap.cause != "not_started"]
    lost = sum(gap.packets_lost for gap in gaps)
    assert lost > 100
    assert len(stored) + lost == sent
    assert {gap.cause for gap in gaps} == {GapCause.WRITER_BEHIND.value}
    assert any("The disk is too slow" in words for words in recorder.status().warnings)


def test_a_full_disk_ends_the_recording_in_order(recorders: list[Recorder], tmp_path: Path) -> None:
    free = [10**12]
    chosen = settings(tmp_path, reserve_bytes=LEAST_RESERVE)
    device = fake(VIDEO, packets=10, flat_out=True)
    recorder = record(recorders, tmp_path, [device], free=lambda _: free[0], settings=chosen)
    wait_until(lambda: recorder.status().bytes_written > 20_000, "all packets in the log")
    recorder._look_at_disk()
    free[0] = LEAST_RESERVE + 500
    recorder._look_at_disk()
    wait_until(lambda: "no room to finish" in "".join(recorder.status().warnings), "a warning")
    assert recorder.status().time_left_s == 0
    assert not recorder.ended.is_set()
    free[0] = LEAST_RESERVE - 1
    assert recorder.ended.wait(5)
    status = recorder.status()
    assert status.state is RecorderState.STOPPED
    assert "The disk is full" in status.reason
    last = entries(tmp_path)[-1]
    assert isinstance(last, EndEntry)
    assert last.reason == status.reason


def test_a_disk_that_takes_nothing_more_ends_the_recording_and_says_so(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    bad = threading.Event()

    class Failing(OsLogFile):
        def __init__(self, path: Path) -> None:
            if bad.is_set():
                raise OSError(5, "Input/output error")
            super().__init__(path)

        def write(self, pieces: Sequence[bytes | memoryview]) -> None:
            if bad.is_set():
                raise OSError(5, "Input/output error")
            super().write(pieces)

    recorder = record(recorders, tmp_path, [fake(VIDEO)], opener=Failing)
    wait_until(lambda: got(recorder, "video") > 10, "some packets")
    wait_until(lambda: recorder.status().bytes_written > 20_000, "some bytes")
    bad.set()
    assert recorder.ended.wait(5)
    status = recorder.status()
    assert status.state is RecorderState.FAILED
    assert "What was recorded until then is good." in status.reason
    assert len(packets(entries(tmp_path), "video")) > 5
    assert read_manifest(tmp_path).reason == status.reason


def test_a_home_that_takes_nothing_sends_the_recording_to_the_fallback(
    recorders: list[Recorder], tmp_path: Path
) -> None:
    home = tmp_path / "home"

    class NotAtHome(OsLogFile):
        def __init__(self, path: Path) -> None:
            if path.parent == home:
                raise OSError(30, "Read-only file system")
            super().__init__(path)

    chosen = settings(home, fallback_folder=tmp_path / "f")
    recorder = record(recorders, home, [fake(VIDEO)], opener=NotAtHome, settings=chosen)
    wait_until(lambda: got(recorder, "video") > 3, "some packets")
    recorder.stop()
    assert packets(entries(tmp_path / "f" / "home"), "video")
    assert any("instead" in words for words in recorder.status().warnings)
    manifest = read_manifest(tmp_path / "f" / "home")
    assert manifest.home == str(home)
    assert read_manifest(home).logs[0].path == str(tmp_path / "f" / "home" / "packets.log")


def test_nothing_is_begun_where_nothing_can_be_written(tmp_path: Path) -> None:
    recorder = Recorder(settings(tmp_path / "absent"), [fake(VIDEO)])
    with pytest.raises(StorageError, match="could not be made"):
        recorder.start()


def test_two_devices_with_a_stream_of_the_same_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"fake and fake both deliver.*'video'"):
        Recorder(settings(tmp_path), [fake(VIDEO), fake(VIDEO)])


def test_a_status_goes_through_json(recorders: list[Recorder], tmp_path: Path) -> None:
    recorder = record(recorders, tmp_path, [fake(VIDEO, GAZE)])
    status = recorder.status()
    assert RecorderStatus.from_json(status.to_json()) == status


def test_a_wall_clock_that_is_set_begins_a_new_epoch() -> None:
    host = iter(range(0, 10**12, 1000))
    utc = [1_000_000_000]
    clock = UtcClock(lambda: next(host), lambda: utc[0])
    pair, epoch = clock.measure()
    assert (pair.clock, pair.epoch, epoch) == (Clock.UTC, 0, None)
    utc[0] += 20_000_000
    assert clock.measure()[1] is None
    utc[0] -= 400_000_000
    pair, epoch = clock.measure()
    assert pair.epoch == 1
    assert epoch is not None
    assert (epoch.clock, epoch.epoch) == (Clock.UTC, 1)
    assert "-400 ms" in epoch.reason
    assert clock.measure()[0].epoch == 1
