"""The event journal: what was done, shown and said, one JSON object to a line, one writer.

Each line is on the disk before ``write`` returns. A line torn by a crash stays where it is and is
passed over; the next writer begins a line of its own. Lines carry the hash of the line before, so
that a line changed or taken out later shows.
"""

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from firsthand.api import RecordingError, StorageError

FILE_NAME: Final = "journal.jsonl"
MOST_BYTES: Final = 1 << 20
"""The longest line; a longer event is refused before anything is written."""
_FIRST: Final = "0" * 64
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_LOCK_AT: Final = 1 << 40  # far behind any line, since Windows locks bytes and not files


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One event, with the recording computer's monotonic (``host_ns``) and wall clock (``utc_ns``).

    ``by`` is who did it: ``app``, ``administrator``, ``participant``, a plugin's name.
    """

    n: int
    utc_ns: int
    host_ns: int
    kind: str
    by: str
    about: Mapping[str, Any]
    hash: str

    @property
    def utc(self) -> datetime:
        """The wall-clock time, to the microsecond."""
        return datetime.fromtimestamp(self.utc_ns / 1e9, tz=UTC)


@dataclass(frozen=True, slots=True)
class JournalDamage:
    """A line that cannot be trusted: ``line`` from 1, and what is wrong with it in words."""

    line: int
    what: str


class Journal:
    """The one writer of a journal file; may be called from any thread.

    Raises ``RecordingError`` where another process writes it already, ``StorageError`` where the
    disk does not take it. After a failed write the journal is dead and says so at every call.
    """

    def __init__(
        self,
        path: Path,
        *,
        host_ns: Callable[[], int] = time.perf_counter_ns,
        utc_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = path
        self._host_ns = host_ns
        self._utc_ns = utc_ns
        self._lock = threading.Lock()
        self._failed: StorageError | None = None
        try:
            # Not "ab": the position must be ours to read the tail, and the lock keeps others out.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise StorageError(
                f"The journal {path.name} cannot be opened ({error.strerror}).",
                try_this="Look whether the folder is there and may be written.",
            ) from error
        self._file: BinaryIO = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            _lock_file(self._file)
        except OSError as error:
            self._file.close()
            raise RecordingError(
                f"The journal {path.name} is being written by another program.",
                try_this="Close the other window of this session first.",
            ) from error
        self._n = 0
        self._last = _FIRST
        for event in read_journal(path):
            self._n, self._last = event.n + 1, event.hash
        end = self._file.seek(0, os.SEEK_END)
        self._torn = False
        if end:
            self._file.seek(end - 1)
            self._torn = self._file.read(1) != b"\n"
            self._file.seek(end)

    def write(self, kind: str, about: Mapping[str, Any] | None = None, *, by: str = "app") -> None:
        """Store an event; it is on the disk when this returns.

        ``kind`` is dotted words such as ``step.begun``, ``about`` holds JSON types only. Raises
        ``ValueError`` for anything else or for more than 1 MiB.
        """
        if not _KIND.fullmatch(kind):
            raise ValueError(f"{kind!r} is not the kind of an event")
        with self._lock:
            if self._failed is not None:
                raise self._failed
            event = {
                "n": self._n,
                "utc_ns": self._utc_ns(),
                "host_ns": self._host_ns(),
                "kind": kind,
                "by": by,
                "about": dict(about or {}),
            }
            digest = _digest(event, self._last)
            line = _canonical({**event, "hash": digest}) + b"\n"
            if len(line) > MOST_BYTES:
                raise ValueError(f"an event of {len(line)} bytes is too long for the journal")
            self._append(b"\n" + line if self._torn else line)
            self._torn = False
            self._n += 1
            self._last = digest

    def _append(self, line: bytes) -> None:
        try:
            if self._file.write(line) != len(line):
                raise OSError("the disk took only a part of it")
            os.fsync(self._file.fileno())
        except OSError as error:
            # Never tried again on this file: after a failed fsync nobody knows what is on disk.
            self._failed = StorageError(
                f"The journal {self.path.name} could not be written ({error.strerror or error}).",
                try_this="Free some space or choose another folder. The recording goes on.",
            )
            raise self._failed from error

    def close(self) -> None:
        """Close the file and let others write it. May be called twice."""
        with self._lock:
            if not self._file.closed:
                _unlock_file(self._file)
                self._file.close()
            self._failed = self._failed or StorageError(f"The journal {self.path.name} is closed.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(
    path: Path, on_damage: Callable[[JournalDamage], None] | None = None
) -> Iterator[JournalEvent]:
    """The events of a journal in order, also of one that is being written.

    What is damaged is passed over and told to ``on_damage``: torn lines, lines that were changed,
    and places where lines are missing. Raises ``FileNotFoundError`` where there is no journal.
    """
    tell = on_damage or _ignore
    last, expected = _FIRST, 0
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                tell(JournalDamage(number, "the line is too long"))
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_BYTES + 1)
                continue
            try:
                # A line torn just before its end of line is whole; any other does not parse.
                data = json.loads(line)
                claimed = data.pop("hash")
                event = JournalEvent(
                    n=_whole(data["n"]),
                    utc_ns=_whole(data["utc_ns"]),
                    host_ns=_whole(data["host_ns"]),
                    kind=_text(data["kind"]),
                    by=_text(data["by"]),
                    about=_mapping(data["about"]),
                    hash=_text(claimed),
                )
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                if line.strip():
                    tell(JournalDamage(number, "the line cannot be read"))
                continue
            if event.n != expected:
                tell(JournalDamage(number, f"event {expected} is missing before event {event.n}"))
            elif claimed != _digest(data, last):
                tell(JournalDamage(number, f"event {event.n} or one before it was changed"))
            last, expected = event.hash, event.n + 1
            yield event


def _ignore(_: JournalDamage) -> None:
    return


def _canonical(data: Mapping[str, Any]) -> bytes:
    return json.dumps(
        data, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def _digest(event: Mapping[str, Any], last: str) -> str:
    return hashlib.sha256(last.encode() + _canonical(event)).hexdigest()


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not a mapping")
    return value


if sys.platform == "win32":
    import msvcrt

    def _lock_file(file: BinaryIO) -> None:
        file.seek(_LOCK_AT)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

    def _unlock_file(file: BinaryIO) -> None:
        file.seek(_LOCK_AT)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock_file(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock_file(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
