"""Looks after the room on the disk that a recording goes to."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from firsthand.api import StorageError
from firsthand.recording.diskspace import Room, Space, SpaceGuard, same_disk
from firsthand.recording.recorder_log import RecorderLog
from firsthand.recording.recorder_warnings import Warnings

_KEY: Final = "room"


class DiskWatch:
    """Looked through once a second. ``full`` once nothing more may be written anywhere."""

    def __init__(
        self,
        log: RecorderLog,
        reserve_bytes: int,
        fallback: Path | None,
        free: Callable[[Path], int],
        warnings: Warnings,
    ) -> None:
        self.space = Space(0, None, Room.ENOUGH)
        self.full = False
        self._log = log
        self._fallback = fallback
        self._free = free
        self._warnings = warnings
        self._reserve_bytes = reserve_bytes
        self._folder = log.folder
        self._guard = SpaceGuard(reserve_bytes)

    def look(self) -> None:
        """See how much room there is; warn, and go elsewhere where the disk is full."""
        folder = self._log.folder
        if folder != self._folder:
            self._folder = folder
            self._guard = SpaceGuard(self._reserve_bytes)
        try:
            free = self._free(folder)
        except OSError:
            return  # the log finds out by itself whether it can still write
        self.space = self._guard.look(time.monotonic(), free, self._log.segment_bytes)
        if self.space.words:
            self._warnings.warn(self.space.words, _KEY, loud=False)
        else:
            self._warnings.clear(_KEY)
        if self.space.room is Room.NONE:
            self.full = not self._moved()

    def _moved(self) -> bool:
        """Whether the log can go on in the fall-back folder, on another disk with room."""
        try:
            if self._fallback is None or same_disk(self._fallback, self._log.folder):
                return False
            if self._free(self._fallback) <= self._guard.reserve_bytes:
                return False
        except OSError:
            return False
        return self._log.move(StorageError(f"The disk of {self._log.folder} is full."))
