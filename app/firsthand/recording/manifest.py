"""``manifest.json``: who made a recording, with what, where its parts are, and is it whole.

It is always replaced whole (written beside, synced, renamed), so that a reader sees the old one or
the new one and never a half.
"""

import contextlib
import json
import os
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import firsthand
from firsthand.api import DamagedError, RecordingError, StorageError
from firsthand.recording.logfile import sync_folder
from firsthand.recording.names import FORMAT, FORMAT_VERSION, MANIFEST

_LIMIT_BYTES: Final = 16 * 1024 * 1024
_HELD_S: Final = 5.0
"""How long another program (a virus scanner) may hold the file before that is an error."""
_NAMED_PACKAGES: Final = ("av", "h5py", "numpy", "pluggy", "pydantic")


class RecordingState(StrEnum):
    """How far a recording has come."""

    RECORDING = "recording"
    RECORDED = "recorded"
    """Closed by the recorder; ``raw.h5`` not built yet."""
    COMPLETE = "complete"
    RECOVERED = "recovered"
    """Whole but for what the recorder could not close itself."""
    ABORTED = "aborted"
    """Ended early because something failed; what was recorded is good."""


class Moment(BaseModel):
    """One moment by the host's monotonic clock and in UTC, both nanoseconds."""

    host_ns: int
    utc_ns: int

    @classmethod
    def now(cls) -> "Moment":
        return cls(host_ns=time.perf_counter_ns(), utc_ns=time.time_ns())


class LogSegment(BaseModel):
    """A segment of the packet log: relative to the folder, or absolute where it had to go
    elsewhere. ``ended`` says why; None where nobody could write that down."""

    path: str
    ended: str | None = None


class FileFacts(BaseModel):
    """What a finished file must be."""

    sha256: str
    bytes: int


class Manifest(BaseModel):
    """The whole manifest. Keys that this version does not know are kept as they are."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    session: dict[str, Any] = Field(default_factory=dict)
    app: dict[str, Any] = Field(default_factory=dict)
    plugins: list[dict[str, str]] = Field(default_factory=list)
    created_utc: str = ""
    state: RecordingState = RecordingState.RECORDING
    rehearsal: bool = False
    logs: list[LogSegment] = Field(default_factory=list)
    recorder: dict[str, Any] | None = None
    """While recording: process, start and settings, for whoever attaches or starts it again."""
    home: str | None = None
    """In a fall-back folder: the session folder that this belongs to."""
    start: Moment | None = None
    stop: Moment | None = None
    reason: str = ""
    files: dict[str, FileFacts] = Field(default_factory=dict)
    streams: dict[str, Any] = Field(default_factory=dict)


def new_manifest(
    session: dict[str, Any],
    *,
    plugins: Sequence[dict[str, str]] = (),
    rehearsal: bool = False,
    start: Moment | None = None,
) -> Manifest:
    """The manifest of a recording that begins now."""
    return Manifest(
        session=session,
        app=app_facts(),
        plugins=list(plugins),
        created_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        rehearsal=rehearsal,
        start=start or Moment.now(),
    )


def app_facts() -> dict[str, Any]:
    """What this program is and runs on."""
    packages: dict[str, str] = {}
    for name in _NAMED_PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "version": firsthand.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": packages,
    }


def read_manifest(folder: Path) -> Manifest:
    """The manifest of ``folder``.

    Raises ``RecordingError`` where there is none or a newer version wrote it, ``DamagedError``
    where it is not readable as one, ``StorageError`` where the disk does not give it.
    """
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            raw = file.read(_LIMIT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RecordingError(
            f"{folder} is not a recording: it has no {MANIFEST}.",
            try_this="Give the folder of one session, as it lies below a study's sessions.",
        ) from error
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    try:
        if len(raw) > _LIMIT_BYTES:
            raise ValueError("too large")
        data = json.loads(raw)
        if data.get("format") != FORMAT:
            raise ValueError("of another format")
        version = int(data["format_version"])
        if version > FORMAT_VERSION:
            raise RecordingError(
                f"{folder} was made by a newer Firsthand (format {version}; this one knows "
                f"{FORMAT_VERSION}).",
                try_this="Update Firsthand to read it.",
            )
        return Manifest.model_validate(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = "has wrong entries" if isinstance(error, ValidationError) else str(error)
        raise DamagedError(
            f"{path} is damaged ({what}).",
            try_this="Run `firsthand recover` on the folder: the recording itself may be whole.",
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of ``folder``. Raises ``StorageError``; the old one is then in place."""
    path = folder / MANIFEST
    beside = folder / f".{MANIFEST}.{os.getpid()}.new"
    text = json.dumps(
        manifest.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False
    )
    try:
        with beside.open("wb") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _replace(beside, path)
        sync_folder(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}.",
            try_this="Check that the disk is there, has room and is not write-protected.",
        ) from error


def _replace(new: Path, old: Path) -> None:
    deadline = time.monotonic() + _HELD_S
    while True:
        try:
            new.replace(old)
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
