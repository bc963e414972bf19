"""The recorder's log goes on through failing disks, and says what it could not do."""

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from firsthand.api import StorageError
from firsthand.recording.logfile import LogFile, OsLogFile, open_log_file
from firsthand.recording.packetlog import EndEntry, PacketEntry, SessionEntry, read_log
from firsthand.recording.recorder_log import RecorderLog
from firsthand.testing.devices import FakeStream
from firsthand.testing.power_cut import WatchedDisk
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.unit

STREAM = FakeStream(name="video", payload_bytes=3000)


class Disk:
    """Opens files of which chosen operations fail or wait."""

    def __init__(self) -> None:
        self.opened: list[Path] = []
        self.failing: dict[str, OSError] = {}
        self.bad_folders: set[Path] = set()
        self.go = threading.Event()
        self.go.set()
        self.held = threading.Event()

    def open(self, path: Path) -> LogFile:
        if path.parent in self.bad_folders:
            raise OSError(errno.EROFS, "Read-only file system")
        self.opened.append(path)
        return DiskFile(path, self)

    def fail_once(self, what: str, number: int) -> None:
        self.failing[what] = OSError(number, os.strerror(number))


class DiskFile(OsLogFile):
    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path)
        self.disk = disk

    def _ask(self, what: str) -> None:
        if not self.disk.go.is_set():
            self.disk.held.set()
            self.disk.go.wait(20)
        if what in self.disk.failing:
            raise self.disk.failing.pop(what)
        if self.path.parent in self.disk.bad_folders:
            raise OSError(errno.EIO, "Input/output error")

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._ask("write")
        super().write(pieces)

    def sync(self) -> None:
        self._ask("sync")
        super().sync()


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.go.set()


def begin(folder: Path, disk: Disk, **more: object) -> RecorderLog:
    folder.mkdir(parents=True, exist_ok=True)
    log = RecorderLog(folder, {"id": "s"}, opener=disk.open, flush_every_s=0.01, **more)  # type: ignore[arg-type]  # keywords passed on
    log.start()
    log.declare(STREAM.declared())
    return log


def stored(paths: Sequence[Path]) -> list[int]:
    """Numbers of the packets in all segments, each once."""
    seqs: dict[int, None] = {}
    for path in paths:
        for entry in read_log(path):
            if isinstance(entry, PacketEntry):
                assert entry.packet.payload == STREAM.payload(entry.packet.seq)
                seqs[entry.packet.seq] = None
    return list(seqs)


def put(log: RecorderLog, first: int, count: int) -> None:
    for seq in range(first, first + count):
        log.store(STREAM.packet(seq))


def written(log: RecorderLog) -> Callable[[], bool]:
    return lambda: log._writer.queued_bytes == 0


@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_write_or_sync_costs_nothing_where_there_is_a_fallback(
    what: str, number: int, tmp_path: Path, disk: Disk
) -> None:
    told: list[tuple[Path, StorageError]] = []
    log = begin(
        tmp_path / "s",
        disk,
        fallback=tmp_path / "elsewhere",
        on_segment=lambda path, error: told.append((path, error)),
    )
    put(log, 0, 20)
    wait_until(written(log), "the first packets are written")
    disk.fail_once(what, number)
    put(log, 20, 20)
    wait_until(lambda: len(log.paths) == 2, "the next segment")
    put(log, 40, 20)
    log.close("done")
    assert log.failed is None
    assert sorted(stored(log.paths)) == list(range(60))
    # A full disk is left for the other one; a single error is tried again beside it.
    there = tmp_path / "s" if number == errno.EIO else tmp_path / "elsewhere" / "s"
    assert log.paths[1] == there / "packets-001.log"
    assert [path for path, _ in told] == [log.paths[1]]
    entries = list(read_log(log.paths[1]))
    assert entries[0] == SessionEntry({"id": "s", "segment": 1, "continues": True})
    assert isinstance(entries[-1], EndEntry)


def test_a_disk_that_stays_bad_ends_the_log_in_order(tmp_path: Path, disk: Disk) -> None:
    failed = threading.Event()
    log = begin(tmp_path / "s", disk, on_failure=lambda _: failed.set())
    put(log, 0, 20)
    wait_until(written(log), "the first packets are written")
    disk.bad_folders.add(tmp_path / "s")
    put(log, 20, 5)
    assert failed.wait(5)
    assert log.failed is not None
    assert not log.has_room(STREAM.packet(30))
    log.close("over")
    assert set(stored(log.paths)) >= set(range(20))
    assert len(log.paths) <= 2


def test_where_the_first_folder_and_the_fallback_fail_the_log_says_so_once(
    tmp_path: Path, disk: Disk
) -> None:
    told: list[StorageError] = []
    log = begin(tmp_path / "s", disk, fallback=tmp_path / "f", on_failure=told.append)
    disk.bad_folders |= {tmp_path / "s", tmp_path / "f" / "s"}
    put(log, 0, 5)
    wait_until(lambda: log.failed is not None, "the log gives up")
    log.close("over")
    assert len(told) == 1
    assert "Check the disk" in str(told[0])


def test_a_folder_that_vanishes_is_left_for_the_fallback_with_everything_unsaved(
    tmp_path: Path, disk: Disk
) -> None:
    log = begin(tmp_path / "s", disk, fallback=tmp_path / "f")
    put(log, 0, 20)
    wait_until(lambda: log._writer.synced_bytes > 60_000, "the first packets are on disk")
    (tmp_path / "s").rename(tmp_path / "moved")
    put(log, 20, 20)
    wait_until(lambda: len(log.paths) == 2, "the next segment")
    put(log, 40, 5)
    log.close("done")
    there = [tmp_path / "moved" / "packets.log", tmp_path / "f" / "s" / "packets-001.log"]
    assert sorted(stored(there)) == list(range(45))


def test_the_beginning_is_on_disk_before_anything_else_happens(tmp_path: Path, disk: Disk) -> None:
    disk.fail_once("sync", errno.EIO)
    (tmp_path / "s").mkdir()
    log = RecorderLog(tmp_path / "s", {}, opener=disk.open)
    with pytest.raises(StorageError, match="brought to the disk"):
        log.start()


def test_a_disk_that_hangs_bounds_memory_and_counts_what_found_no_room(
    tmp_path: Path, disk: Disk
) -> None:
    log = begin(tmp_path / "s", disk, queue_bytes=100_000)
    wait_until(written(log), "the declarations are written")
    disk.go.clear()
    log.store(STREAM.packet(0))
    assert disk.held.wait(5)
    seq, refused = 1, 0
    while refused < 10:
        packet = STREAM.packet(seq)
        if log.has_room(packet):
            log.store(packet)
            seq += 1
        else:
            refused += 1
    assert log._writer.queued_bytes <= 100_000 + 200
    disk.go.set()
    wait_until(lambda: log.has_room(STREAM.packet(seq)), "room in the queue")
    log.store(STREAM.packet(seq))
    log.close("done")
    assert stored(log.paths) == list(range(seq + 1))


def test_a_sync_that_takes_long_keeps_nothing_from_being_written(
    tmp_path: Path, disk: Disk
) -> None:
    slow, entered = threading.Event(), threading.Event()

    class SlowSync(OsLogFile):
        def sync(self) -> None:
            entered.set()
            slow.wait(20)
            super().sync()

    slow.set()
    log = RecorderLog(tmp_path, {}, opener=SlowSync, flush_every_s=0.01)
    log.start()
    log.declare(STREAM.declared())
    slow.clear()
    entered.clear()
    put(log, 0, 1)
    assert entered.wait(5)
    put(log, 1, 50)
    wait_until(lambda: sorted(stored(log.paths)) == list(range(51)), "packets while syncing")
    slow.set()
    log.close("done")


def test_a_log_moved_off_a_full_disk_goes_on_in_the_fallback(tmp_path: Path, disk: Disk) -> None:
    log = begin(tmp_path / "s", disk, fallback=tmp_path / "f")
    put(log, 0, 10)
    assert log.move(StorageError("The disk is full."))
    wait_until(lambda: len(log.paths) == 2, "the next segment")
    assert not log.move(StorageError("This one too."))
    put(log, 10, 10)
    log.close("done")
    assert log.paths[1] == tmp_path / "f" / "s" / "packets-001.log"
    assert sorted(stored(log.paths)) == list(range(20))


def test_power_cuts_leave_readable_logs_with_all_that_was_synced(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = RecorderLog(tmp_path, {"id": "s"}, opener=disk.open, flush_every_s=0.01)
    log.start()
    log.declare(STREAM.declared())
    for seq in range(300):
        log.store(STREAM.packet(seq))
        if seq % 10 == 9:
            wait_until(written(log), "a batch is written")
    log.close("done")

    path = tmp_path / "image.log"
    for done, image in disk.images(random.Random(7), 40):
        path.write_bytes(image.get(tmp_path / "packets.log", b""))
        got = set(stored([path]))
        past = disk.operations[:done]
        syncs = [at for at, operation in enumerate(past) if operation.data is None]
        sure = past[: max(syncs, default=0)]
        path.write_bytes(b"".join(operation.data or b"" for operation in sure))
        assert got >= set(stored([path]))


def test_real_files_are_synced_with_their_folder(tmp_path: Path) -> None:
    file = open_log_file(tmp_path / "packets.log")
    file.write([b"some", memoryview(b" "), b"bytes"] * 2000)
    file.sync()
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.write([b"more"])
    assert (tmp_path / "packets.log").read_bytes() == b"some bytes" * 2000
