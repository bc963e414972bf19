"""Writes one segment of a packet log: one batched write, one sync, four times a second.

Nothing written is touched again. After a write or sync that failed the file is never written or
synced again: the kernel may have dropped the pages of a failed sync and report the next one as
good.
"""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firsthand.api import StorageError, StreamSchema
from firsthand.recording.logfile import LogFile, open_log_file
from firsthand.recording.packetlog_frames import FILE_HEADER, FILE_MAGIC
from firsthand.recording.packetlog_queue import LogQueue

DECLARE_AGAIN_S: Final = 30.0
KEEP_UNSYNCED_BYTES: Final = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a segment that failed leaves to the next: its id, count and streams, and once more
    every entry not known to be on disk, framed."""

    log_id: int
    sequence: int
    streams: dict[str, tuple[int, StreamSchema]]
    pieces: list[bytes | memoryview]


class LogWriter(LogQueue):
    """Appends entries to one segment.

    ``carry_on`` is what a segment that failed handed over. Raises ``StorageError`` where the file
    cannot be made; it must not exist.
    """

    def __init__(
        self,
        path: Path,
        session: Mapping[str, Any],
        *,
        carry_on: HandOver | None = None,
        opener: Callable[[Path], LogFile] = open_log_file,
        keep_unsynced_bytes: int = KEEP_UNSYNCED_BYTES,
    ) -> None:
        begun = carry_on or HandOver(secrets.randbits(32), 0, {}, [])
        super().__init__(begun.log_id, session, begun.sequence, begun.streams)
        self.path = path
        self.written_bytes = 0
        self.synced_bytes = 0
        self.broken: StorageError | None = None
        self._file_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        # Batches written but not known to be on disk, each with the file's length after it.
        self._unsynced: deque[tuple[int, list[bytes | memoryview]]] = deque()
        self._keep_unsynced = keep_unsynced_bytes
        self._declared_s = time.monotonic()
        try:
            self._file = opener(path)
        except OSError as error:
            raise StorageError(
                f"The file {path} could not be made: {error.strerror or error}.",
                try_this="Choose a folder that exists, is not write-protected and has room.",
            ) from error
        self._queue([FILE_HEADER.pack(FILE_MAGIC, self.log_id)])
        self._queue_declarations()
        self._queue(begun.pieces)

    def hand_over(self) -> "HandOver":
        """Give everything not known to be on disk away; this writer is done for."""
        with self._queue_lock:
            pieces = [piece for _, batch in self._unsynced for piece in batch] + self._queued
            self._unsynced.clear()
            self._queued, self.queued_bytes = [], 0
            return HandOver(self.log_id, self._sequence, self._streams, pieces)

    def flush(self) -> int:
        """Write everything queued, in one call to the system where it takes one; give its size.

        Raises ``StorageError``; what was queued is then kept for whoever carries on.
        """
        with self._file_lock:
            self._raise_if_broken()
            with self._queue_lock:
                if time.monotonic() - self._declared_s > DECLARE_AGAIN_S:
                    self._declared_s = time.monotonic()
                    self._queue_declarations()
                pieces, size = self._queued, self.queued_bytes
                if not pieces:
                    return 0
                self._queued, self.queued_bytes = [], 0
                self._unsynced.append((self.written_bytes + size, pieces))
            try:
                self._file.write(pieces)
            except OSError as error:
                raise self._fail("written", error) from error
            with self._queue_lock:
                self.written_bytes += size
                oldest_bytes = self.written_bytes - self._keep_unsynced
                while len(self._unsynced) > 1 and self._unsynced[0][0] < oldest_bytes:
                    self._unsynced.popleft()  # the page cache has it; memory must not grow
            return size

    def sync(self) -> int:
        """Bring everything flushed to the disk; give the bytes of the file that are safe.

        Any thread may call it: packets and flushes do not wait for the disk. Raises
        ``StorageError``, now and at every later call.
        """
        with self._sync_lock:
            self._raise_if_broken()
            upto = self.written_bytes
            if upto > self.synced_bytes:
                try:
                    self._file.sync()
                except OSError as error:
                    raise self._fail("brought to the disk", error) from error
                self.synced_bytes = upto
                with self._queue_lock:
                    while self._unsynced and self._unsynced[0][0] <= upto:
                        self._unsynced.popleft()
            return self.synced_bytes

    def close(self) -> None:
        """Give the file back; neither writes nor syncs. May be called twice."""
        with self._file_lock, self._sync_lock:
            self._file.close()

    def _raise_if_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _fail(self, what: str, error: OSError) -> StorageError:
        _log.error("segment %s could not be %s: %s", self.path.name, what, error.strerror)
        self.broken = StorageError(
            f"The recording could not be {what} in {self.path.parent}: {error.strerror or error}.",
            try_this="Check the disk: is it full, unplugged or write-protected?",
        )
        return self.broken
