"""Watches the room on the disk: warns early, and stops in time for everything to be closed well.

After the session ``raw.h5`` is built from the log and needs about as much room again before the
log is removed. *Time left* therefore is how long can be recorded so that both fit. When it is used
up a recording still goes on, since what a participant does cannot be had again and room can be
made later; it ends at the reserve, which is never touched.
"""

import os
import shutil
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from firsthand.api import StorageError

LEAST_RESERVE: Final = 64 * 1024 * 1024
RESERVE: Final = 256 * 1024 * 1024
_RATE_S: Final = 60.0
_SETTLED_S: Final = 3.0
"""No rate is told from less than this."""
_EARLY_S: Final = 30 * 60.0
_LATE_S: Final = 5 * 60.0


class Room(IntEnum):
    """How much room there is; each is worse than the one before."""

    ENOUGH = 0
    EARLY = 1
    """Half an hour left."""
    LATE = 2
    """Five minutes left."""
    NOT_TO_FINISH = 3
    """The log still fits; building ``raw.h5`` beside it does not."""
    NONE = 4
    """The reserve is reached: stop."""


@dataclass(frozen=True, slots=True)
class Space:
    """The room on the disk at one moment. ``time_left_s`` is None until a rate is known."""

    free_bytes: int
    time_left_s: float | None
    room: Room
    words: str = ""


class SpaceGuard:
    """Told once a second what is free and what was written; says how long that will do.

    ``reserve_bytes`` is at least ``LEAST_RESERVE``.
    """

    def __init__(self, reserve_bytes: int = RESERVE) -> None:
        self.reserve_bytes: Final = max(reserve_bytes, LEAST_RESERVE)
        self._seen: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, free_bytes: int, log_bytes: int) -> Space:
        """Judge: ``free_bytes`` on the log's disk, ``log_bytes`` the log's length so far there."""
        self._seen.append((now_s, log_bytes))
        while len(self._seen) > 2 and self._seen[0][0] < now_s - _RATE_S:
            self._seen.popleft()
        usable = free_bytes - self.reserve_bytes
        if usable <= self._until_next_look():
            words = (
                f"The disk is full: {_size(free_bytes)} are left, which are kept to close the "
                "recording well. The recording ends here."
            )
            return Space(free_bytes, 0.0, Room.NONE, words)
        if usable <= log_bytes:
            words = (
                f"There is no room to finish this recording: {_size(free_bytes)} are free and "
                f"building the file needs {_size(log_bytes + self.reserve_bytes)}. Recording "
                "goes on; make room on the disk before the session ends."
            )
            return Space(free_bytes, 0.0, Room.NOT_TO_FINISH, words)
        rate = self._rate()
        if not rate:
            return Space(free_bytes, None, Room.ENOUGH)
        left_s = (usable - log_bytes) / (2 * rate)
        if left_s <= _LATE_S:
            return Space(free_bytes, left_s, Room.LATE, _soon(left_s, free_bytes))
        if left_s <= _EARLY_S:
            return Space(free_bytes, left_s, Room.EARLY, _soon(left_s, free_bytes))
        return Space(free_bytes, left_s, Room.ENOUGH)

    def _until_next_look(self) -> int:
        """Bytes that may come before the disk is looked at again: twice what came lately."""
        if len(self._seen) < 2:
            return 0
        return 2 * max(0, self._seen[-1][1] - self._seen[-2][1])

    def _rate(self) -> float:
        """Bytes per second lately; 0 where too little was seen."""
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        if last_s - first_s < _SETTLED_S:
            return 0.0
        return (last - first) / (last_s - first_s)


def free_bytes(folder: Path) -> int:
    """What this user may still write on the disk of ``folder``. Raises ``OSError``."""
    return shutil.disk_usage(folder).free


def same_disk(one: Path, other: Path) -> bool:
    """Whether two folders share their room. Raises ``OSError``."""
    return one.stat().st_dev == other.stat().st_dev


def check_room(folder: Path, reserve_bytes: int) -> None:
    """Refuse a folder in which nothing can be recorded, before anybody sits down.

    It is made if missing. Raises ``StorageError`` in words for the administrator.
    """
    probe = folder / f".firsthand-{os.getpid()}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"Firsthand can write here.")
        probe.unlink()
        free = free_bytes(folder)
    except OSError as error:
        raise StorageError(
            f"Nothing can be written to {folder}: {error.strerror or error}.",
            try_this="Choose a folder that exists, is not write-protected and whose disk is there.",
        ) from error
    reserve = max(reserve_bytes, LEAST_RESERVE)
    if free <= reserve:
        raise StorageError(
            f"The disk of {folder} is too full to record: {_size(free)} are free, and "
            f"{_size(reserve)} of them are kept to close a recording well.",
            try_this="Make room on the disk or choose another one.",
        )


def recording_time_s(folder: Path, bytes_per_s: float, reserve_bytes: int = RESERVE) -> float:
    """How long can be recorded on the disk of ``folder`` at a rate that is expected, log and file
    together: for the check before a session. Raises ``OSError``."""
    usable = free_bytes(folder) - max(reserve_bytes, LEAST_RESERVE)
    return max(0.0, usable / (2 * bytes_per_s))


def _soon(left_s: float, free: int) -> str:
    minutes = max(1, round(left_s / 60))
    return (
        f"The disk has room for about {minutes} more minute{'s' if minutes > 1 else ''} of "
        f"recording at the present rate ({_size(free)} free, half of it for building the file). "
        "Make room, or end the session before that."
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
