"""Where a session's recorder can be reached: a private note per session folder.

It lies in the run-time folder (0700, the file 0600) and not with the recording, which is shared,
copied and kept: address and key of a running process have no place there. Its name comes from the
session folder's, so that a restarted app finds the recorder by the folder alone.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

import firsthand.api
from firsthand.api import FirsthandError, RecordingError
from firsthand.paths import runtime_dir

_FOLDER: Final = "recorders"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """A running recorder."""

    pid: int
    born_s: float
    """When the process was created: its number may be used again."""
    address: str
    key: bytes

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.born_s)


def note_path(folder: Path) -> Path:
    """The note's place for the session in ``folder``."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return runtime_dir() / _FOLDER / f"{name}.json"


def announce(note: Path, address: str, key: bytes) -> None:
    """Tell that this process records and how to reach it. Raises ``OSError``."""
    pid = os.getpid()
    about = {"pid": pid, "born_s": born_s(pid), "address": address, "key": key.hex()}
    _write(note, about)


def announce_failure(note: Path, error: FirsthandError) -> None:
    """Tell why this process could not begin. Raises ``OSError``."""
    about = {
        "kind": type(error).__name__,
        "message": error.message,
        "try_this": error.try_this,
    }
    _write(note, {"pid": os.getpid(), "failed": about})


def find(note: Path) -> Rendezvous | None:
    """The recorder that the note tells of; None where none is announced or it is gone."""
    about = _read(note)
    try:
        found = Rendezvous(
            int(about["pid"]), float(about["born_s"]), about["address"], bytes.fromhex(about["key"])
        )
    except (KeyError, TypeError, ValueError):
        return None
    return found if found.alive else None


def failure(note: Path) -> FirsthandError | None:
    """Why the recorder that should have been announced could not begin, if it said so."""
    failed = _read(note).get("failed")
    if not isinstance(failed, dict):
        return None
    kind = getattr(firsthand.api, str(failed.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, FirsthandError)):
        kind = RecordingError
    return kind(str(failed.get("message")), try_this=failed.get("try_this"))


def withdraw(note: Path, *, of: int | None = None) -> None:
    """Remove the note; only if it is of the process ``of``, where that is given."""
    if of is None or _read(note).get("pid") == of:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)


def born_s(pid: int) -> float:
    """When a process was created; 0 where it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def is_alive(pid: int, born: float) -> bool:
    """Whether the very process is there and not only waits to be buried."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - born) < 1.0 and (
            process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def _write(note: Path, about: dict[str, Any]) -> None:
    note.parent.mkdir(mode=0o700, exist_ok=True)
    beside = note.with_suffix(f".{os.getpid()}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        json.dump(about, file)
    beside.replace(note)


def _read(note: Path) -> dict[str, Any]:
    try:
        about = json.loads(note.read_text("ascii"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}
