"""Turns a session's log into ``raw.h5``, verified, and only then removes the log.

May be killed at any moment and run again: until the manifest says *complete* everything is made
anew from the log, which is the same bytes every time; after that only the log is left to remove.
Never called in a process that must live on: a full disk can end HDF5's process without a word.
"""

import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from firsthand.api import Cancelled, Progress, RecordingError, StorageError
from firsthand.recording import layout
from firsthand.recording.finalise_build import FileBuilder
from firsthand.recording.finalise_lock import only_one
from firsthand.recording.finalise_manifest import (
    FINISHED,
    Built,
    completed,
    find_segments,
    load,
    notes_of,
    without_logs,
)
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.finalise_report import FinaliseReport
from firsthand.recording.finalise_segments import Joined, Joiner, segments_with_next
from firsthand.recording.finalise_verify import verify
from firsthand.recording.manifest import Manifest, write_manifest

__all__ = ["FinaliseReport", "finalise", "finalise_in_child", "sha256", "sync"]

_log = logging.getLogger(__name__)
_BUILD_SHARE: Final = 0.6
_VERIFY_SHARE: Final = 0.25
_SPARE_BYTES: Final = 32 * 1024 * 1024
_TELL_EVERY_S: Final = 0.1
_HASH_BYTES: Final = 1024 * 1024


class _Told:
    """Turns bytes done into progress, and a wish to end into ``Cancelled``."""

    def __init__(
        self, total: int, progress: Progress | None, cancel: threading.Event | None
    ) -> None:
        self._total = max(1, total)
        self._progress = progress
        self._cancel = cancel
        self._from = 0.0
        self._share = 1.0
        self._words = ""
        self._done = 0
        self._next_s = 0.0

    def stage(self, begin: float, share: float, words: str) -> None:
        self._from, self._share, self._words = begin, share, words
        self._done = 0
        self._next_s = 0.0
        self(0)

    def __call__(self, nbytes: int) -> None:
        self._done += nbytes
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + _TELL_EVERY_S
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled("Finishing the recording was stopped. It can be taken up at any time.")
        if self._progress is not None:
            part = min(1.0, self._done / self._total)
            self._progress(self._from + self._share * part, self._words)


def finalise(
    folder: Path, *, progress: Progress | None = None, cancel: threading.Event | None = None
) -> FinaliseReport:
    """Finish the session in ``folder``; does nothing to one that is finished.

    Raises ``StorageError`` where the disk does not take or give data, ``DamagedError`` where the
    file read back differs from the log (which is kept), ``RecordingError`` where there is nothing
    to finish, ``Cancelled`` when ``cancel`` is set.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise RecordingError(
            f"There is no folder {folder}.", try_this="Check the path of the recording."
        )
    with only_one(folder):
        began = time.monotonic()
        manifest = load(folder)
        segments = find_segments(folder, manifest)
        raw = folder / layout.RAW
        told = _Told(sum(path.stat().st_size for path in segments), progress, cancel)
        if manifest.state in FINISHED and raw.is_file():
            return _already(folder, manifest, segments, told)
        if not segments:
            raise RecordingError(
                f"{folder.name} holds no packet log to make a recording from.",
                try_this="If the disk with the log is not connected, connect it and try again.",
            )
        try:
            return _finish(folder, manifest, segments, told, began)
        except OSError as error:
            raise StorageError(
                f"The recording {folder.name} could not be finished: {error.strerror or error}.",
                try_this="It is safe in its log. Make room or mend the disk, and run recover.",
            ) from error
        finally:
            (folder / layout.PARTIAL).unlink(missing_ok=True)


def _finish(
    folder: Path, manifest: Manifest, segments: Sequence[Path], told: _Told, began: float
) -> FinaliseReport:
    _room(folder, segments)
    partial = folder / layout.PARTIAL
    told.stage(0.0, _BUILD_SHARE, "building the file")
    builder = FileBuilder(partial)
    try:
        joiner = Joiner(builder, told)
        for path, following in segments_with_next(segments):
            joiner.segment(path, following)
        joiner.finish()
        joined = joiner.joined
        if not joined.start.utc_ns:
            _start_from(joined, manifest)
        builder.close(joined.session, joined.start, joined.session.get("app") or {})
    except BaseException:
        builder.abandon()
        raise
    told.stage(_BUILD_SHARE, _VERIFY_SHARE, "verifying the file")
    verify(partial, builder.writers, told)
    told.stage(_BUILD_SHARE + _VERIFY_SHARE, 0.15, "closing the file")
    sync(partial)
    digest = sha256(partial, told)
    size = partial.stat().st_size
    raw = folder / layout.RAW
    partial.replace(raw)
    sync(folder)
    after = completed(manifest, Built(digest, size, builder.writers, joined))
    write_manifest(folder, after)
    _remove(folder, after, segments)
    return FinaliseReport(
        folder=str(folder),
        state=after.state.value,
        packets=sum(writer.packets for writer in builder.writers.values()),
        lost=sum(writer.lost for writer in builder.writers.values()),
        damages=sum(1 for _, damage in joined.damages if not damage.torn),
        seconds=time.monotonic() - began,
        bytes=size,
        notes=notes_of(after),
    )


def _already(
    folder: Path, manifest: Manifest, segments: Sequence[Path], told: _Told
) -> FinaliseReport:
    """A finished recording; the log is removed if the last run did not come so far."""
    facts = manifest.files.get(layout.RAW)
    raw = folder / layout.RAW
    if segments:
        told.stage(0.0, 1.0, "looking at the finished file")
        if facts is None or raw.stat().st_size != facts.bytes or sha256(raw, told) != facts.sha256:
            raise StorageError(
                f"{raw} is not the file that the manifest tells of.",
                try_this="The log is kept. Move the file elsewhere, set the manifest's state back"
                " to 'recorded', and run recover.",
            )
        _remove(folder, manifest, segments)
    (folder / layout.PARTIAL).unlink(missing_ok=True)
    return FinaliseReport(
        folder=str(folder),
        state=manifest.state.value,
        packets=sum(int(about.get("packets", 0)) for about in manifest.streams.values()),
        lost=sum(int(about.get("lost", 0)) for about in manifest.streams.values()),
        bytes=raw.stat().st_size,
        notes=notes_of(manifest),
        already=True,
    )


def _start_from(joined: Joined, manifest: Manifest) -> None:
    if manifest.start is not None:
        joined.start.host_ns = manifest.start.host_ns
        joined.start.utc_ns = manifest.start.utc_ns


def _room(folder: Path, segments: Sequence[Path]) -> None:
    needed = sum(path.stat().st_size for path in segments) * 21 // 20 + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"Finishing {folder.name} needs {needed / 1e6:.0f} MB of free space, and there are"
            f" {free / 1e6:.0f} MB.",
            try_this="The recording is safe in its log. Make room, and run recover.",
        )


def _remove(folder: Path, manifest: Manifest, segments: Sequence[Path]) -> None:
    for path in segments:
        path.unlink(missing_ok=True)
    for place in {path.parent for path in segments}:
        sync(place)
    write_manifest(folder, without_logs(manifest))


def sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BYTES):
            digest.update(block)
            if on_bytes is not None:
                on_bytes(len(block))
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Bring a file, or a folder's names, to the disk. Windows does that for folders by itself."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
