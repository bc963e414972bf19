"""The file is built from the log: everything once, in order, and what is missing accounted for."""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from firsthand.api import (
    Cancelled,
    Clock,
    ClockPair,
    Column,
    DamagedError,
    GapCause,
    GapRow,
    Packet,
    PacketFlags,
    PayloadKind,
    RecordingError,
    StorageError,
    StreamSchema,
    StreamState,
)
from firsthand.recording import finalise as finalising
from firsthand.recording.finalise import finalise
from firsthand.recording.finalise_build import FileBuilder
from firsthand.recording.finalise_lock import only_one
from firsthand.recording.finalise_segments import Joiner
from firsthand.recording.finalise_verify import verify
from firsthand.recording.manifest import Manifest, RecordingState, read_manifest
from firsthand.recording.packetlog import LogWriter
from firsthand.recording.packetlog_frames import HEAD_BYTES
from firsthand.recording.reader.opening import open_recording
from firsthand.streams.clock import Epoch
from firsthand.testing.recordings import (
    START_HOST_NS,
    START_UTC_NS,
    make_recording,
    small_world,
    without,
    write_log,
    write_manifest,
)

pytestmark = pytest.mark.unit
PERIOD_NS = 10_000_000
NUMBERS = StreamSchema(
    name="numbers", title="Numbers", columns=(Column("n", "<i8"),), nominal_hz=100.0
)
BYTES = StreamSchema(name="bytes", title="Bytes", payload=PayloadKind.BYTES, nominal_hz=100.0)


def numbers(count: int, first: int = 0, at: int = 0, stream: str = "numbers") -> list[Packet]:
    """Packets on a grid; the number in each counts from ``at``, ``seq`` from ``first``."""
    return [
        Packet(
            stream,
            first + i,
            (at + i) * PERIOD_NS,
            START_HOST_NS + (at + i) * PERIOD_NS,
            np.int64(at + i).tobytes() if stream == "numbers" else b"",
            b"" if stream == "numbers" else b"%d " % (at + i) * 50,
        )
        for i in range(count)
    ]


def segment(
    folder: Path,
    number: int,
    packets: Sequence[Packet],
    *,
    continues: bool = False,
    gaps: Sequence[GapRow] = (),
    end: bool = True,
    start_ns: int = START_HOST_NS,
    utc_ns: int = START_UTC_NS,
    pairs: Sequence[ClockPair] = (),
    schema: StreamSchema = NUMBERS,
) -> Path:
    path = folder / ("packets.log" if not number else f"packets-{number:03d}.log")
    folder.mkdir(exist_ok=True)
    about = {
        "segment": number,
        "continues": continues,
        "start": {"host_ns": start_ns, "utc_ns": utc_ns},
    }
    writer = LogWriter(path, about)
    for declared in (schema, BYTES):
        writer.declare(declared)
    for pair in pairs:
        writer.clock(pair)
    for packet in packets:
        writer.packet(packet)
    for gap in gaps:
        writer.gap(gap)
    if end:
        writer.end("stopped", packets[-1].arrival_ns if packets else start_ns)
    writer.flush()
    writer.close()
    return path


def stored(folder: Path, stream: str = "numbers") -> list[int]:
    with open_recording(folder, trusted=True) as recording:
        return [int(n) for n in recording.records(stream)["n"]]


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_packet_of_the_log_is_in_the_file_as_it_was(tmp_path: Path) -> None:
    world = small_world(1.0, streams=("pv", "eet", "si", "mic", "imu"))
    make_recording(tmp_path / "s", world)
    with open_recording(tmp_path / "s", trusted=True) as recording:
        for name, packets in world.packets.items():
            back = list(recording.packets(name))
            assert len(back) == len(packets)
            for was, now in zip(packets, back, strict=True):
                assert (was.seq, was.device_ns, was.arrival_ns) == (
                    now.seq,
                    now.device_ns,
                    now.arrival_ns,
                )
                assert was.fields == now.fields
                assert bytes(was.payload) == bytes(now.payload)
                assert was.flags & now.flags == was.flags


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    write_log(first, small_world(1.0), session={"id": "s"})
    second.mkdir()
    (second / "packets.log").write_bytes((first / "packets.log").read_bytes())
    for folder in (first, second):
        finalise(folder)
    assert (first / "raw.h5").read_bytes() == (second / "raw.h5").read_bytes()


def test_the_log_is_removed_once_the_manifest_bears_the_files_hash(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    report = make_and_finalise(folder)
    manifest = read_manifest(folder)
    assert report.state == "complete"
    assert manifest.state is RecordingState.COMPLETE
    assert manifest.files["raw.h5"].sha256 == sha(folder / "raw.h5")
    assert manifest.files["raw.h5"].bytes == (folder / "raw.h5").stat().st_size
    assert manifest.logs == []
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "raw.h5"]


def make_and_finalise(folder: Path) -> finalising.FinaliseReport:
    segment(folder, 0, numbers(100))
    write_manifest(folder)
    return finalise(folder)


def test_a_log_without_an_end_is_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(10), end=False)
    assert finalise(folder).state == "recovered"
    assert stored(folder) == list(range(10))


def test_a_torn_end_costs_what_is_torn_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    path = segment(folder, 0, numbers(10), end=False)
    path.write_bytes(path.read_bytes()[:-5])
    report = finalise(folder)
    assert report.damages == 0  # a crash is no damage
    assert stored(folder) == list(range(9))


def test_finishing_again_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    make_and_finalise(folder)
    before = sha(folder / "raw.h5"), (folder / "manifest.json").read_bytes()
    again = finalise(folder)
    assert again.already
    assert (sha(folder / "raw.h5"), (folder / "manifest.json").read_bytes()) == before


@pytest.mark.parametrize("at", range(1, 9))
def test_whatever_moment_it_ends_at_the_next_run_gives_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Ends at the n-th of the steps that touch the disk: sync, rename, manifest, removal."""
    whole = tmp_path / "whole"
    segment(whole, 0, numbers(50))
    finalise(whole)
    folder = tmp_path / "s"
    segment(folder, 0, numbers(50))
    write_manifest(folder)
    steps = itertools.count(1)

    class Killed(BaseException):
        pass

    def dying(name: str, owner: object) -> None:
        real = getattr(owner, name)

        def step(*args: object, **more: object) -> object:
            if next(steps) == at:
                raise Killed
            return real(*args, **more)

        monkeypatch.setattr(owner, name, step)

    for name in ("sync", "sha256", "write_manifest", "verify"):
        dying(name, finalising)
    dying("unlink", Path)
    with contextlib.suppress(Killed):
        finalise(folder)
    monkeypatch.undo()
    finalise(folder)
    assert sha(folder / "raw.h5") == sha(whole / "raw.h5")
    assert not list(folder.glob("*.log"))
    assert not list(folder.glob("*.partial"))


def test_a_finished_file_that_is_another_one_keeps_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    make_and_finalise(folder)
    (folder / "raw.h5").write_bytes(b"something else")
    log = segment(folder, 0, numbers(10))
    with pytest.raises(StorageError, match="not the file"):
        finalise(folder)
    assert log.is_file()


def test_what_a_continuing_segment_repeats_is_taken_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    gap = GapRow("numbers", 1, 2, GapCause.DEVICE_DROPPED.value, 3)
    segment(folder, 0, numbers(10), gaps=[gap], end=False)
    segment(folder, 1, numbers(10, 5, 5), gaps=[gap], continues=True)
    report = finalise(folder)
    assert stored(folder) == list(range(15))
    assert report.lost == 3
    assert report.state == "complete"


def test_what_is_damaged_in_one_segment_is_taken_from_the_one_that_repeats_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "s"
    path = segment(folder, 0, numbers(10), end=False)
    damage_packet(path, 6, numbers(10))
    segment(folder, 1, numbers(10, 5, 5), continues=True)
    report = finalise(folder)
    assert stored(folder) == list(range(15))
    assert report.lost == 0
    assert report.damages == 1


def damage_packet(path: Path, which: int, packets: Sequence[Packet]) -> None:
    """Flip a byte in the record of one packet (numbers are found by their bytes)."""
    raw = bytearray(path.read_bytes())
    wanted = packets[which].fields
    at = raw.index(wanted, HEAD_BYTES)
    while raw[at - HEAD_BYTES : at - HEAD_BYTES + 4] != b"\xf5FH\n":
        at = raw.index(wanted, at + 1)
    raw[at] ^= 0xFF
    path.write_bytes(raw)


def test_packets_lost_to_damage_stand_in_a_gap_of_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    path = segment(folder, 0, numbers(20))
    for which in (7, 8, 15):
        damage_packet(path, which, numbers(20))
    report = finalise(folder)
    assert stored(folder) == [n for n in range(20) if n not in {7, 8, 15}]
    with open_recording(folder, trusted=True) as recording:
        gaps = recording.gaps("numbers")
        flags = recording.flags("numbers")
    assert [(gap.cause, gap.packets_lost) for gap in gaps] == [("disk", 2), ("disk", 1)]
    assert (gaps[0].start_ns, gaps[0].stop_ns) == (6 * PERIOD_NS, 9 * PERIOD_NS)
    assert flags[7] & PacketFlags.FIRST_AFTER_GAP
    assert report.lost == 3
    assert any("damaged" in note for note in report.notes)
    assert (read_manifest(folder).model_extra or {})["damage"]


def test_holes_that_the_recorder_told_of_are_not_counted_again(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    packets = [p for p in numbers(20) if p.seq not in {7, 8}]
    told = GapRow("numbers", 6 * PERIOD_NS, 9 * PERIOD_NS, GapCause.WRITER_BEHIND.value, 2)
    segment(folder, 0, packets, gaps=[told])
    assert finalise(folder).lost == 2


def test_a_recorder_that_began_anew_leaves_a_gap_of_true_length(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(30), end=False)
    not_started = GapRow("numbers", 0, 1, GapCause.NOT_STARTED.value, 0)
    segment(folder, 1, numbers(30, 0, 45), gaps=[not_started])
    report = finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        gaps = recording.gaps("numbers")
        seq = recording.streams["numbers"].header["seq"]
        flags = recording.flags("numbers")
    assert [(g.cause, g.packets_lost) for g in gaps] == [("recorder_down", 15)]
    assert (gaps[0].start_ns, gaps[0].stop_ns) == (29 * PERIOD_NS, 45 * PERIOD_NS)
    assert seq.tolist() == list(range(60))
    assert flags[30] & PacketFlags.FIRST_AFTER_GAP
    assert any("started again 1" in note for note in report.notes)


def test_a_device_that_began_anew_with_the_recorder_leaves_a_gap(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(30), end=False)
    segment(folder, 1, numbers(30))
    finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        gaps = recording.gaps("numbers")
    assert [(g.cause, g.packets_lost) for g in gaps] == [("recorder_down", -1)]


@pytest.mark.parametrize("told", [False, True])
def test_a_loss_that_a_killed_recorder_had_not_decided_is_counted_once(
    tmp_path: Path, told: bool
) -> None:
    folder = tmp_path / "s"
    gaze = replace(NUMBERS, clock=Clock.DEVICE_WALL)
    packets = [replace(p, seq=n) for n, p in enumerate(numbers(10) + numbers(10, 10, 25))]
    row = GapRow("numbers", 9 * PERIOD_NS, 25 * PERIOD_NS, GapCause.CONNECTION_LOST.value, 15)
    segment(folder, 0, packets, end=False, gaps=[row] if told else [], schema=gaze)
    assert finalise(folder).lost == 15


def pair(host_ns: int, device_ns: int, epoch: int = 0) -> ClockPair:
    return ClockPair(Clock.DEVICE, host_ns, host_ns + 1000, device_ns, epoch)


@pytest.mark.parametrize(("jump_ns", "epochs"), [(0, [0, 0]), (60_000_000_000, [0, 1])])
def test_epochs_go_on_over_a_restart_of_the_recorder(
    tmp_path: Path, jump_ns: int, epochs: list[int]
) -> None:
    folder = tmp_path / "s"
    later_ns = START_HOST_NS + 2_000_000_000
    segment(folder, 0, numbers(10), end=False, pairs=[pair(START_HOST_NS, 0)])
    segment(folder, 1, numbers(10, 0, 200), pairs=[pair(later_ns, 2_000_000_000 + jump_ns)])
    finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        assert [p.epoch for p in recording.clock_pairs] == epochs
        assert [e.epoch for e in recording.epochs] == epochs[1:][: sum(epochs)]


def test_a_computer_that_was_restarted_has_its_clock_carried_on(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(10), end=False)
    down_ns = 100_000_000_000
    rebooted = [
        replace(p, arrival_ns=p.arrival_ns - START_HOST_NS + 7) for p in numbers(10, 0, 10_000)
    ]
    segment(folder, 1, rebooted, start_ns=7, utc_ns=START_UTC_NS + down_ns)
    finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        arrival = recording.streams["numbers"].header["arrival_ns"]
    assert arrival[10] == START_HOST_NS + down_ns + 10_000 * PERIOD_NS
    assert (np.diff(arrival) > 0).all()


def test_a_packet_that_does_not_fit_its_stream_is_a_gap_and_not_an_end(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    packets = numbers(10)
    packets[4] = replace(packets[4], fields=b"too long for a number")
    segment(folder, 0, packets)
    report = finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        gaps = recording.gaps("numbers")
    assert [(g.cause, g.packets_lost) for g in gaps] == [("damaged_packet", 1)]
    assert len(stored(folder)) == 9
    assert any("did not fit" in note for note in report.notes)


def test_a_stream_that_is_declared_differently_later_gets_a_place_of_its_own(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(3), end=False)
    other = replace(NUMBERS, columns=(Column("n", "<i4"),))
    writer = LogWriter(folder / "packets-001.log", {"segment": 1, "continues": False})
    writer.declare(other)
    writer.packet(replace(numbers(1, 0, 9)[0], fields=np.int32(9).tobytes()))
    writer.end("stopped")
    writer.flush()
    writer.close()
    finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        assert recording.records("numbers")["n"].tolist() == [0, 1, 2]
        assert recording.records("numbers~2")["n"].tolist() == [9]


def test_everything_else_in_the_log_is_in_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    writer = LogWriter(folder / "packets.log", {"id": "s", "consent": ["video", "späße"]})
    writer.declare(NUMBERS)
    table = np.arange(6, dtype="<f4").reshape(2, 3)
    for _ in range(2):  # downloaded again after a reconnection: the same, kept once
        writer.calibration("front", {"table": table, "scale": np.array(2.0)}, {"model": "x"})
    writer.calibration("front", {"table": table + 1}, {"model": "x"})
    writer.note("version", {"app": "1.0.37", "words": "ä" * 5000}, 11)
    writer.state("numbers", StreamState.STALLED, "Nothing came for a second — wait.", 12)
    writer.epoch(Epoch(Clock.DEVICE, 1, 13, "began anew"))
    writer.clock(pair(5, 6))
    writer.end("stopped", 14)
    writer.flush()
    writer.close()
    finalise(folder)
    with open_recording(folder, trusted=True) as recording:
        assert recording.session["consent"] == ["video", "späße"]
        assert list(recording.calibration) == ["front", "front~2"]
        np.testing.assert_array_equal(recording.calibration["front"]["table"], table)
        assert recording.notes[0]["about"] == {"app": "1.0.37", "words": "ä" * 5000}
        assert recording.epochs == [Epoch(Clock.DEVICE, 1, 13, "began anew")]
        assert recording.clock_pairs == [pair(5, 6)]
        state = recording.facts.states[0]
        assert state["reason"].decode() == "Nothing came for a second — wait."


def test_a_listed_log_that_is_gone_is_told_and_nothing_is_given_up(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(5))
    lost = segment(folder, 1, numbers(5, 5, 5), continues=True)
    write_manifest(folder)
    lost.unlink()
    with pytest.raises(StorageError, match="part of the recording is missing"):
        finalise(folder)
    assert (folder / "packets.log").is_file()


def test_a_damaged_manifest_does_not_keep_a_recording_from_being_finished(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(5))
    (folder / "manifest.json").write_text("{ torn")
    assert finalise(folder).state == "complete"
    assert read_manifest(folder).start is not None


def test_too_little_room_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    log = segment(folder, 0, numbers(5))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(StorageError, match="free space"):
        finalise(folder)
    assert [path.name for path in folder.iterdir()] == [log.name]


def test_a_wish_to_stop_leaves_the_log_and_no_half_file(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    log = segment(folder, 0, numbers(5))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        finalise(folder, cancel=cancel)
    assert [path.name for path in folder.iterdir()] == [log.name]


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(50))
    told: list[float] = []
    finalise(folder, progress=lambda done, words="": told.append(done))
    assert told == sorted(told)
    assert told[0] == 0.0
    assert told[-1] <= 1.0


def test_two_do_not_finish_one_recording_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, numbers(5))
    with only_one(folder), pytest.raises(RecordingError, match="another process"):
        finalise(folder)
    assert finalise(folder).state == "complete"


def test_an_empty_folder_is_told_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no packet log"):
        finalise(tmp_path)


def test_a_log_of_nothing_becomes_a_file_of_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    segment(folder, 0, [])
    assert finalise(folder).packets == 0
    assert stored(folder) == []


@pytest.mark.parametrize("what", ["payload", "record", "index", "packet", "gap"])
def test_a_file_that_differs_from_its_log_is_noticed(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "s"
    gap = GapRow("bytes", 1, 2, GapCause.STALLED.value, 1)
    log = segment(folder, 0, [*numbers(9), *numbers(9, stream="bytes")], gaps=[gap])
    path = tmp_path / "raw.h5"
    builder = FileBuilder(path)
    joiner = Joiner(builder, lambda _: None)
    joiner.segment(log, None)
    joiner.finish()
    builder.close(joiner.joined.session, joiner.joined.start, {})
    verify(path, builder.writers, lambda _: None)
    with h5py.File(path, "r+") as file:
        streams = file["streams"]
        if what == "payload":
            streams["bytes/blob"][100] ^= 1
        elif what == "record":
            rows = streams["numbers/samples"][:]
            rows["n"][3] += 1
            streams["numbers/samples"][:] = rows
        elif what == "index":
            rows = streams["bytes/index"][:]
            rows["device_ns"][3] += 1
            streams["bytes/index"][:] = rows
        elif what == "packet":
            streams["numbers/samples"].resize((8,))
        else:
            streams["bytes/gaps"].resize((0,))
    with pytest.raises(DamagedError):
        verify(path, builder.writers, lambda _: None)


def test_lost_packets_of_a_world_are_counted_once(tmp_path: Path) -> None:
    world = small_world(2.0, streams=("pv", "mic"))
    lost = [p for p in world.packets["pv"] if 20 <= p.seq < 27]
    kept = without(world.packets["pv"], lambda p: 20 <= p.seq < 27)
    world.packets["pv"] = kept
    make_recording(tmp_path / "s", world)
    manifest: Manifest = read_manifest(tmp_path / "s")
    assert manifest.streams["pv"]["packets"] + manifest.streams["pv"]["lost"] == 60
    assert manifest.streams["pv"]["lost"] == len(lost)
