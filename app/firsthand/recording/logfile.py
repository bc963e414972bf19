"""The file below a packet log: it grows, is synced, and tells when it is no longer there."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

_MANY: Final = 1024
"""Pieces in one call: what every system with ``writev`` takes."""
_FOLDER_CANNOT_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR}


class LogFile(Protocol):
    """A file that only grows. Every method raises ``OSError``."""

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append all pieces, whole."""

    def sync(self) -> None:
        """Return when everything written so far is on the disk, length and name included."""

    def close(self) -> None: ...


class OsLogFile:
    """A ``LogFile`` of the operating system's. The path must not exist: never two writers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        self._handle: int | None = os.open(path, flags, 0o600)
        about = os.fstat(self._handle)
        self._identity = (about.st_dev, about.st_ino)
        self._named = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        handle = self._open_handle()
        if not hasattr(os, "writev"):
            _write_all(handle, memoryview(b"".join(pieces)))
            return
        for at in range(0, len(pieces), _MANY):
            some = pieces[at : at + _MANY]
            size = sum(map(len, some))
            written = os.writev(handle, some)
            if written != size:  # short: the rest in one piece, which is rare enough to copy
                _write_all(handle, memoryview(b"".join(some))[written:])

    def sync(self) -> None:
        handle = self._open_handle()
        self._check_it_is_there()
        if self._named:
            _sync_data(handle)
            return
        os.fsync(handle)
        _sync_data(handle)
        sync_folder(self.path.parent)
        self._named = True

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            # What matters was synced; a late error of the system's can change nothing any more.
            with contextlib.suppress(OSError):
                os.close(handle)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise OSError(errno.EBADF, "the file is closed")
        return self._handle

    def _check_it_is_there(self) -> None:
        """A file whose folder was removed, or whose disk was taken away, takes bytes for ever."""
        about = self.path.stat()
        if about.st_ino and (about.st_dev, about.st_ino) != self._identity:
            raise FileNotFoundError(errno.ENOENT, "another file has taken its place")


def _write_all(handle: int, rest: memoryview) -> None:
    while rest:
        written = os.write(handle, rest)
        if written == 0:
            raise OSError(errno.EIO, "the disk took nothing")
        rest = rest[written:]


if sys.platform == "darwin":
    import fcntl

    def _sync_data(handle: int) -> None:
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync leaves it in the drive's own memory
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EINVAL}:
                raise
            os.fsync(handle)

else:
    _sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def sync_folder(folder: Path) -> None:
    """Bring the names in ``folder`` to the disk, where the system can do that."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _FOLDER_CANNOT_SYNC:
            raise
    finally:
        os.close(handle)


def open_log_file(path: Path) -> LogFile:
    """A new file at ``path``."""
    return OsLogFile(path)
