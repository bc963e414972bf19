"""Keeps a packet log being written, come what may: threads, segments, the fall-back folder.

One thread writes four times a second; another brings it to the disk, so that a slow disk keeps
neither packets nor the page cache waiting. When a write or sync fails, a new segment goes on with
everything that is not known to be on disk, in the same folder or, where that is full, gone or
failing, in the fall-back folder. When that is impossible too the log has failed and says so.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from firsthand.api import GapRow, Packet, StorageError, StreamSchema
from firsthand.recording.logfile import LogFile, open_log_file
from firsthand.recording.packetlog import LogWriter
from firsthand.recording.session_folder import segment_name

QUEUE_BYTES: Final = 64 * 1024 * 1024
_MOST_SEGMENTS: Final = 200
_GONE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOENT, errno.ESTALE, errno.ENODEV}
"""Errors after which the same folder need not be tried again."""

_log = logging.getLogger(__name__)


class RecorderLog:
    """The log of one recorder process, ``first`` being the number of its first segment.

    ``on_segment`` is told of every new segment, ``on_failure`` once when nothing can be written
    any more; both from the writing thread. Raises ``StorageError`` where not even the first
    segment can be made.
    """

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, Any],
        *,
        fallback: Path | None = None,
        first: int = 0,
        flush_every_s: float = 0.25,
        queue_bytes: int = QUEUE_BYTES,
        opener: Callable[[Path], LogFile] = open_log_file,
        on_segment: Callable[[Path, StorageError], None] = lambda *_: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self._home = folder
        self._about = dict(about)
        self._fallback = fallback
        self._every_s = flush_every_s
        self._queue_bytes = queue_bytes
        self._opener = opener
        self._on_segment = on_segment
        self._on_failure = on_failure
        self._switching = threading.Lock()
        self._wake = threading.Event()
        self._flushed = threading.Event()
        self._closing = False
        self._bad: set[Path] = set()
        self._before_bytes = 0
        self._retired: list[LogWriter] = []
        self._number = first
        self.failed: StorageError | None = None
        path = folder / segment_name(self._number)
        self._writer = LogWriter(path, self._session(False), opener=opener)
        self.paths = [path]
        self._threads = [
            threading.Thread(target=self._write_loop, name="log-writer", daemon=True),
            threading.Thread(target=self._sync_loop, name="log-sync", daemon=True),
        ]

    def start(self) -> None:
        """Put the beginning on the disk, then write on by itself. Raises ``StorageError``."""
        try:
            self._writer.flush()
            self._writer.sync()
        except StorageError:
            self._writer.close()
            raise
        for thread in self._threads:
            thread.start()

    # -- entries -------------------------------------------------------------------------------

    def has_room(self, packet: Packet) -> bool:
        """Whether ``packet`` may be stored; not where the disk is so far behind that memory would
        not do, or nothing can be written any more."""
        queued = self._writer.queued_bytes + len(packet.payload)
        return self.failed is None and queued <= self._queue_bytes

    def store(self, packet: Packet) -> None:
        """Queue a packet. Raises what ``LogWriter.packet`` raises."""
        with self._switching:
            self._writer.packet(packet)
        if 2 * self._writer.queued_bytes > self._queue_bytes:
            self._wake.set()

    def write(self, entry: Callable[[LogWriter], None]) -> None:
        """Queue another entry: ``log.write(lambda to: to.gap(row))``."""
        with self._switching:
            if self._writer.queued_bytes <= 2 * self._queue_bytes and self.failed is None:
                entry(self._writer)

    def declare(self, schema: StreamSchema) -> None:
        self.write(lambda to: to.declare(schema))

    def gap(self, row: GapRow) -> None:
        self.write(lambda to: to.gap(row))

    # -- facts ---------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the present segment is."""
        return self._writer.path.parent

    @property
    def bytes_written(self) -> int:
        """Over all segments."""
        return self._before_bytes + self._writer.written_bytes

    @property
    def segment_bytes(self) -> int:
        """Of the segments in the present folder."""
        here = self.folder
        return self._writer.written_bytes + sum(
            _length(path) for path in self.paths[:-1] if path.parent == here
        )

    def move(self, why: StorageError) -> bool:
        """Go on in the fall-back folder, because the present one is nearly full; False where
        there is none. Called by whoever watches the disk."""
        if self._fallback is None or self._fallback / self._home.name == self.folder:
            return False
        with self._switching:
            if self._writer.broken is None:
                self._writer.broken = why
                self._bad.add(self.folder)
        self._wake.set()
        return True

    # -- the end -------------------------------------------------------------------------------

    def close(self, reason: str, timeout_s: float = 10.0) -> None:
        """Write the end, bring everything to the disk, give the file back. May be called twice."""
        if self._closing:
            return
        self.write(lambda to: to.end(reason))
        self._closing = True
        self._wake.set()
        self._flushed.set()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0.1))
        if any(thread.is_alive() for thread in self._threads):
            _log.error("the disk did not take the end of the log in %.0f s", timeout_s)
            return
        self._last_flush()
        self._close_retired()
        self._writer.close()

    def _last_flush(self) -> None:
        """Both threads are gone: write and sync what is left, in another segment if need be."""
        while self.failed is None:
            try:
                self._writer.flush()
                self._writer.sync()
            except StorageError as error:
                self._go_on(error)
            else:
                return

    # -- the threads ---------------------------------------------------------------------------

    def _write_loop(self) -> None:
        while not self._closing and self.failed is None:
            self._wake.wait(self._every_s)
            self._wake.clear()
            self._write_once()
        self._flushed.set()

    def _write_once(self) -> None:
        try:
            try:
                self._writer.flush()
                self._flushed.set()
            except StorageError as error:
                self._go_on(error)
        except Exception:  # noqa: BLE001  (the next quarter of a second must be written)
            _log.exception("the log's writer stumbled")

    def _sync_loop(self) -> None:
        while not self._closing and self.failed is None:
            self._flushed.wait()
            self._flushed.clear()
            try:
                self._writer.sync()
            except StorageError:
                self._wake.set()  # the writing thread finds the segment broken and goes on
            self._close_retired()

    def _close_retired(self) -> None:
        """Here and not where segments are changed: closing waits for a sync that hangs."""
        while self._retired:
            self._retired.pop().close()

    # -- another segment -------------------------------------------------------------------------

    def _go_on(self, error: StorageError) -> None:
        """Begin the next segment, in the first folder that takes one."""
        old = self._writer
        cause = error.__cause__
        if (isinstance(cause, OSError) and cause.errno in _GONE) or not old.synced_bytes:
            self._bad.add(old.path.parent)
        while self._number < _MOST_SEGMENTS:
            folder = self._next_folder()
            if folder is None:
                break
            self._number += 1
            path = folder / segment_name(self._number)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = self._opener(path)
            except OSError as trouble:
                _log.warning("no segment could be made in the next folder: %s", trouble.strerror)
                self._bad.add(folder)
                continue
            with self._switching:
                self._before_bytes += old.written_bytes
                self._writer = LogWriter(
                    path, self._session(True), carry_on=old.hand_over(), opener=_given(file)
                )
            self.paths.append(path)
            self._retired.append(old)
            _log.warning("the log goes on in segment %d", self._number)
            self._wake.set()
            self._on_segment(path, error)
            return
        self.failed = error
        self._flushed.set()
        _log.error("nothing can be written any more")
        self._on_failure(error)

    def _next_folder(self) -> Path | None:
        """The present folder or the fall-back: the first that is not known to be bad."""
        choices = [self.folder]
        if self._fallback is not None:
            choices.append(self._fallback / self._home.name)
        return next((folder for folder in choices if folder not in self._bad), None)

    def _session(self, continues: bool) -> dict[str, Any]:
        return {**self._about, "segment": self._number, "continues": continues}


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _given(file: LogFile) -> Callable[[Path], LogFile]:
    """Opened before, since making a file may take long and packets must not wait for it."""
    return lambda _: file
