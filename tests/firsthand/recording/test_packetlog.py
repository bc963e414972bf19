"""The packet log gives back what was written, and all but what was damaged."""

import errno
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import (
    Clock,
    ClockPair,
    Column,
    DamagedError,
    GapRow,
    Packet,
    PacketFlags,
    PayloadKind,
    RecordingError,
    StorageError,
    StreamSchema,
    StreamState,
)
from firsthand.recording.logfile import OsLogFile
from firsthand.recording.packetlog import (
    CalibrationEntry,
    ClockEntry,
    Damage,
    EndEntry,
    EpochEntry,
    GapEntry,
    HealthEntry,
    LogEntry,
    LogWriter,
    NoteEntry,
    PacketEntry,
    SessionEntry,
    StateEntry,
    StreamEntry,
    read_log,
    record_crc32,
)
from firsthand.recording.packetlog_frames import FILE_HEADER, HEAD, HEAD_BYTES, MAX_BODY_BYTES
from firsthand.streams.clock import Epoch

pytestmark = pytest.mark.unit

GAZE = StreamSchema("gaze", "Gaze", (Column("direction", "<f4", (3,)),), nominal_hz=30.0)
VIDEO = StreamSchema("video", "Video", payload=PayloadKind.H264, nominal_hz=30.0)


def packet(stream: str, seq: int, size: int = 40) -> Packet:
    fields = np.full(3, seq, "<f4").tobytes() if stream == "gaze" else b""
    payload = bytes([seq % 251]) * size if stream == "video" else b""
    return Packet(stream, seq, seq * 10, seq * 10 + 3, fields, payload, PacketFlags(seq % 2))


def write(path: Path, packets: Sequence[Packet]) -> list[int]:
    """Write a log of the packets; give the offset at which each one's frame ends."""
    log = LogWriter(path, {"id": "s-1"})
    log.declare(GAZE)
    log.declare(VIDEO)
    log.flush()
    ends = []
    for each in packets:
        log.packet(each)
        log.flush()
        ends.append(log.written_bytes)
    log.close()
    return ends


def read(path: Path) -> tuple[list[LogEntry], list[Damage]]:
    damage: list[Damage] = []
    return list(read_log(path, damage.append)), damage


def packets_of(entries: Sequence[LogEntry]) -> list[Packet]:
    return [entry.packet for entry in entries if isinstance(entry, PacketEntry)]


MANY = [packet(stream, seq) for seq in range(60) for stream in ("gaze", "video")]


def test_every_kind_of_entry_comes_back_as_written(tmp_path: Path) -> None:
    class Row:
        def to_json(self) -> dict[str, Any]:
            return {"stream": "gaze", "rate_hz": 29.5}

    path = tmp_path / "packets.log"
    log = LogWriter(path, {"id": "s-1", "segment": 0, "continues": False})
    log.declare(GAZE)
    sent = packet("gaze", 7)
    log.packet(sent)
    gap = GapRow("gaze", 10, 20, "stalled", 3)
    log.gap(gap)
    pair = ClockPair(Clock.DEVICE, 5, 9, 70_000, 2)
    log.clock(pair)
    epoch = Epoch(Clock.DEVICE_WALL, 1, 44, "stepped")
    log.epoch(epoch)
    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    log.calibration("pv", {"matrix": matrix, "empty": np.zeros((0, 3))}, {"unit": "px"}, 45)
    log.note("version", {"server": "1.0.30"}, 46)
    log.state("gaze", StreamState.LIVE, "All is well.", 47)
    log.health([Row()], 48)
    log.end("stopped", 49)
    log.flush()
    log.sync()
    log.close()

    entries, damage = read(path)

    assert damage == []
    calibration = entries.pop(6)
    assert isinstance(calibration, CalibrationEntry)
    np.testing.assert_array_equal(calibration.values["matrix"], matrix)
    assert calibration.values["empty"].shape == (0, 3)
    assert (calibration.name, calibration.about, calibration.host_ns) == ("pv", {"unit": "px"}, 45)
    assert entries == [
        SessionEntry({"id": "s-1", "segment": 0, "continues": False}),
        StreamEntry(GAZE),
        PacketEntry(sent, record_crc32(sent.fields, b"")),
        GapEntry(gap),
        ClockEntry(pair),
        EpochEntry(epoch),
        NoteEntry("version", {"server": "1.0.30"}, 46),
        StateEntry("gaze", StreamState.LIVE, "All is well.", 47),
        HealthEntry(({"stream": "gaze", "rate_hz": 29.5},), 48),
        EndEntry("stopped", 49),
    ]


@given(
    packets=st.lists(
        st.builds(
            Packet,
            st.sampled_from(["gaze", "video"]),
            st.integers(0, 2**32 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.binary(max_size=200),
            st.binary(max_size=2000),
            st.integers(0, 15).map(PacketFlags),
        ),
        max_size=30,
    )
)
def test_any_packet_comes_back_bit_for_bit(
    packets: list[Packet], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "packets.log"
    write(path, packets)
    entries, damage = read(path)
    assert packets_of(entries) == packets
    assert damage == []


def test_a_log_cut_anywhere_gives_every_frame_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    ends = write(path, MANY[:6])
    whole = path.read_bytes()
    first = ends[0]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        entries, damage = read(path)
        assert packets_of(entries) == MANY[: sum(end <= length for end in ends)]
        assert all(each.torn for each in damage)
        on_a_border = length in {*ends, 0, FILE_HEADER.size}
        assert length < first or bool(damage) != on_a_border


@given(data=st.data())
def test_flipped_bytes_cost_the_frames_they_touch_and_no_more(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "packets.log"
    ends = write(path, MANY)
    whole = bytearray(path.read_bytes())
    starts = [FILE_HEADER.size, *ends]
    at = data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8, unique=True))
    for offset in at:
        whole[offset] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)

    entries, damage = read(path)

    declared = ends[0] - frame_size(MANY[0])
    expected = [
        each
        for each, start, end in zip(MANY, [declared, *starts[1:]], ends, strict=False)
        if not any(start <= offset < end for offset in at)
    ]
    streams = {entry.schema.name for entry in entries if isinstance(entry, StreamEntry)}
    assert packets_of(entries) == [each for each in expected if each.stream in streams]
    assert len(streams) == 2 or any(offset < declared for offset in at)
    assert damage
    inside = [d for d in damage if not d.torn and d.frames >= 0]
    lost = len(MANY) - len(expected)
    assert sum(d.frames for d in inside) <= lost + len(MANY) * (len(streams) < 2)


def frame_size(each: Packet) -> int:
    return HEAD_BYTES + len(each.fields) + len(each.payload)


@pytest.mark.parametrize("how", ["cut out", "swapped", "zeroed", "doubled"])
def test_blocks_that_are_cut_out_swapped_zeroed_or_doubled_cost_their_frames_only(
    how: str, tmp_path: Path
) -> None:
    path = tmp_path / "packets.log"
    sent = [packet("video", seq, 900) for seq in range(60)]
    write(path, sent)
    whole = path.read_bytes()
    block = 4096
    one, two = whole[2 * block : 3 * block], whole[7 * block : 8 * block]
    between = whole[3 * block : 7 * block]
    middle = {
        "cut out": between + two,
        "swapped": two + between + one,
        "zeroed": bytes(block) + between + two,
        "doubled": one + one + between + two,
    }[how]
    path.write_bytes(whole[: 2 * block] + middle + whole[8 * block :])

    entries, damage = read(path)

    got = {each.seq for each in packets_of(entries)}
    touched = 2 if how == "swapped" else 1
    assert len(got) >= len(sent) - touched * 6
    assert damage
    assert all(each == sent[each.seq] for each in packets_of(entries))


def test_a_forged_length_neither_allocates_nor_leads_astray(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    ends = write(path, MANY[:10])
    whole = bytearray(path.read_bytes())
    # the payload's length in the head of the sixth packet's frame
    struct.pack_into("<I", whole, ends[4] + 20, 0xFFFFFFF0)
    path.write_bytes(whole)
    entries, damage = read(path)
    assert packets_of(entries) == MANY[:5] + MANY[6:10]
    assert [each.frames for each in damage] == [1]
    assert damage[0].offset == ends[4]
    assert damage[0].length == ends[5] - ends[4]


def test_a_log_inside_a_packet_is_not_mistaken_for_the_log(tmp_path: Path) -> None:
    inner = tmp_path / "inner.log"
    write(inner, MANY[:20])
    outer = tmp_path / "packets.log"
    carrier = Packet("video", 1, 1, 1, b"", inner.read_bytes())
    ends = write(outer, [packet("video", 0), carrier, packet("video", 2)])
    whole = bytearray(outer.read_bytes())
    whole[ends[0] + HEAD_BYTES + 3] ^= 1
    outer.write_bytes(whole)
    entries, damage = read(outer)
    assert [each.seq for each in packets_of(entries)] == [0, 2]
    assert len(damage) == 1


def test_declarations_lost_at_the_beginning_are_found_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "packets.log"
    monkeypatch.setattr("firsthand.recording.packetlog_writer.DECLARE_AGAIN_S", -1.0)
    write(path, MANY)
    whole = bytearray(path.read_bytes())
    whole[: FILE_HEADER.size + 600] = bytes(FILE_HEADER.size + 600)
    path.write_bytes(whole)
    entries, damage = read(path)
    assert entries[0] == SessionEntry({"id": "s-1"})
    assert [e.schema for e in entries if isinstance(e, StreamEntry)] in (
        [GAZE, VIDEO],
        [VIDEO, GAZE],
    )
    assert sum(isinstance(e, SessionEntry) for e in entries) == 1
    assert len(packets_of(entries)) >= len(MANY) - 2
    assert len(damage) == 1


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    path.write_bytes(b"PK\x03\x04 something else altogether" * 100)
    with pytest.raises(DamagedError, match="not a packet log"):
        list(read_log(path))
    with pytest.raises(StorageError, match="could not be read"):
        list(read_log(tmp_path / "absent.log"))


@pytest.mark.parametrize("content", [b"", b"\x89FHP", bytes(10_000)])
def test_a_log_of_which_nothing_reached_the_disk_is_empty(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    path.write_bytes(content)
    entries, damage = read(path)
    assert entries == []
    assert all(each.torn for each in damage)
    assert bool(damage) == bool(content)


def test_a_packet_that_cannot_be_written_leaves_the_log_good(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    log = LogWriter(path, {})
    log.declare(VIDEO)
    log.packet(packet("video", 0))
    with pytest.raises(struct.error):
        log.packet(Packet("video", -1, 0, 0))
    with pytest.raises(struct.error):
        log.packet(Packet("video", 1, 2**63, 0))
    with pytest.raises(KeyError):
        log.packet(Packet("nobody", 1, 1, 0))
    with pytest.raises(RecordingError, match="too large"):
        log.packet(Packet("video", 1, 1, 0, b"", bytes(MAX_BODY_BYTES + 1)))
    with pytest.raises(RecordingError, match="declared twice"):
        log.declare(VIDEO)
    with pytest.raises(RecordingError, match="other than numbers"):
        log.calibration("names", {"names": np.array(["a"], dtype=object)}, {})
    log.packet(packet("video", 1))
    log.flush()
    log.close()
    entries, damage = read(path)
    assert [each.seq for each in packets_of(entries)] == [0, 1]
    assert damage == []


def test_a_buffer_that_a_device_uses_again_does_not_change_what_was_queued(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    buffer = bytearray(b"first picture")
    log = LogWriter(path, {})
    log.declare(VIDEO)
    log.packet(Packet("video", 0, 0, 0, b"", memoryview(buffer)))
    buffer[:] = b"other picture"
    log.flush()
    log.close()
    entries, damage = read(path)
    assert [bytes(each.payload) for each in packets_of(entries)] == [b"first picture"]
    assert damage == []


def test_an_existing_log_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    path.write_bytes(b"precious")
    with pytest.raises(StorageError, match="could not be made"):
        LogWriter(path, {})
    assert path.read_bytes() == b"precious"


class Failing(OsLogFile):
    """A file whose write or sync fails when told to, and that counts what it is asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fail: str = ""
        self.asked: list[str] = []

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.asked.append("write")
        if self.fail == "write":
            super().write(pieces[: len(pieces) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(pieces)

    def sync(self) -> None:
        self.asked.append("sync")
        if self.fail == "sync":
            raise OSError(errno.EIO, "Input/output error")
        super().sync()


@pytest.mark.parametrize("fail", ["write", "sync"])
def test_after_a_failure_the_file_is_left_alone_and_the_next_segment_has_it_all(
    fail: str, tmp_path: Path
) -> None:
    files: list[Failing] = []

    def opener(path: Path) -> Failing:
        files.append(Failing(path))
        return files[-1]

    log = LogWriter(tmp_path / "packets.log", {"segment": 0}, opener=opener)
    log.declare(GAZE)
    log.declare(VIDEO)
    synced, unsynced, queued = MANY[:10], MANY[10:20], MANY[20:30]
    for each in synced:
        log.packet(each)
    log.flush()
    log.sync()
    files[0].fail = fail
    for each in unsynced:
        log.packet(each)
    step: Callable[[], int] = log.flush if fail == "write" else log.sync
    if fail == "sync":
        log.flush()
    with pytest.raises(StorageError, match=r"disk|written"):
        step()
    asked = list(files[0].asked)
    for each in queued:
        log.packet(each)
    for again in (log.flush, log.sync):
        with pytest.raises(StorageError):
            again()
    assert files[0].asked == asked

    after = LogWriter(
        tmp_path / "packets-001.log", {"segment": 1, "continues": True}, carry_on=log.hand_over()
    )
    log.close()
    after.packet(MANY[30])
    after.flush()
    after.sync()
    after.close()

    first, _ = read(tmp_path / "packets.log")
    second, damage = read(tmp_path / "packets-001.log")
    assert damage == []
    assert packets_of(first)[:10] == synced
    assert packets_of(second) == [*unsynced, *queued, MANY[30]]
    assert second[:3] == [
        SessionEntry({"segment": 1, "continues": True}),
        StreamEntry(GAZE),
        StreamEntry(VIDEO),
    ]


def test_a_log_whose_folder_was_taken_away_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    folder.mkdir()
    log = LogWriter(folder / "packets.log", {})
    log.flush()
    log.sync()
    folder.rename(tmp_path / "elsewhere")
    log.note("still", {})
    log.flush()
    with pytest.raises(StorageError, match="brought to the disk"):
        log.sync()
    log.close()


def test_what_is_kept_for_a_failed_sync_is_bounded(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "packets.log", {}, keep_unsynced_bytes=10_000)
    log.declare(VIDEO)
    for seq in range(100):
        log.packet(packet("video", seq, 1000))
        log.flush()
    kept = sum(map(len, log.hand_over().pieces))
    log.close()
    assert 8_000 < kept < 12_000


def test_the_head_is_as_documented() -> None:
    assert (HEAD.size, HEAD_BYTES, FILE_HEADER.size) == (52, 56, 16)
