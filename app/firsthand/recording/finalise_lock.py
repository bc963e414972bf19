"""One finaliser at a time per folder: a lock that the system takes back when a process dies."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from firsthand.api import RecordingError, StorageError

LOCK: Final = ".finalise.lock"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock.

    Raises ``RecordingError`` while another process holds it, ``StorageError`` where the folder
    takes no files.
    """
    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StorageError(
            f"Nothing can be written into {folder}: {error.strerror or error}.",
            try_this="The recording is as it was. Make the folder writable and try again.",
        ) from error
    try:
        if not _take(handle):
            raise RecordingError(
                f"{folder.name} is being finished by another process.",
                try_this="Wait until that is done; nothing is lost.",
            )
        try:
            yield
        finally:
            with suppress(OSError):  # Windows keeps a file that is open
                path.unlink()
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
