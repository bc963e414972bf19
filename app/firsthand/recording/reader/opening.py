"""Opens a recording: ``firsthand.open``."""

import os
from pathlib import Path

import h5py

from firsthand.api import DamagedError, RecordingError, StorageError
from firsthand.recording.gate import inspect_file
from firsthand.recording.layout import MANIFEST, RAW
from firsthand.recording.manifest import Manifest, read_manifest
from firsthand.recording.reader.recording import Recording
from firsthand.recording.session_folder import segments


def open_recording(path: str | os.PathLike[str], *, trusted: bool = False) -> Recording:
    """Open a session's folder, or its ``raw.h5``, for reading.

    The file's structure is looked over in a limited process first (about a quarter of a second);
    ``trusted`` leaves that out for files that this computer made and nobody else touched.

    Raises ``RecordingError`` where there is no finished recording, ``DamagedError`` where it is not
    to be read, ``StorageError`` where the disk does not give it.
    """
    raw = find_raw(Path(path))
    if not trusted:
        inspect_file(raw)
    try:
        file = _plain(raw)
    except OSError as error:
        raise StorageError(f"{raw} could not be opened: {error}") from error
    try:
        return Recording(raw.parent, file, manifest_beside(raw))
    except BaseException:
        file.close()
        raise


def _plain(raw: Path) -> h5py.File:
    try:
        return h5py.File(raw, "r", locking=False)
    except OSError as error:
        if "locking" not in str(error):
            raise
        # Already open in this process with HDF5's own way of locking, and only that goes twice.
        return h5py.File(raw, "r")


def find_raw(path: Path) -> Path:
    """The file of a recording given by its folder or itself. Raises ``RecordingError``."""
    if path.is_file():
        return path.resolve()
    raw = (path / RAW).resolve()
    if raw.is_file():
        return raw
    if path.is_dir() and segments(path):
        raise RecordingError(
            f"The recording {path.name} is not finished yet.",
            try_this=f"When nobody records into it any more, run `firsthand recover {path}`.",
        )
    raise RecordingError(
        f"There is no recording at {path}.",
        try_this=f"Give a session's folder: the one with {RAW} in it.",
    )


def manifest_beside(raw: Path) -> Manifest:
    """The manifest beside the file; an empty one where there is none or it is damaged."""
    if raw.name != RAW or not (raw.parent / MANIFEST).is_file():
        return Manifest()
    try:
        return read_manifest(raw.parent)
    except DamagedError:
        return Manifest()
