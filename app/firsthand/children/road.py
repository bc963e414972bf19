"""The raw connection under a channel: a Unix socket in a private folder, or a named pipe."""

import os
import secrets
import socket
import struct
import sys
import tempfile
from multiprocessing import connection
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

Road: TypeAlias = "connection.Connection[Any, Any]"

SILENCE_S: Final = 30.0
"""How long the other side may leave half a message standing, in either direction."""
_ADDRESS_BYTES = 100  # macOS takes 104 bytes of socket path, Linux 108


def place(parent: Path | None) -> tuple[str, Path | None]:
    """A fresh address to listen at, and the private folder to remove afterwards, if any."""
    if sys.platform == "win32":
        return rf"\\.\pipe\firsthand-{secrets.token_hex(16)}", None
    home = private_folder(parent)
    return str(home / "s"), home


def private_folder(parent: Path | None) -> Path:
    """A new folder that only this user can enter, with a name short enough for a socket."""
    home = Path(tempfile.mkdtemp(prefix="fh-", dir=parent))
    if len(os.fsencode(home)) + 2 > _ADDRESS_BYTES:
        home.rmdir()
        home = Path(tempfile.mkdtemp(prefix="fh-", dir="/tmp"))
    return home


def call(address: str, timeout_s: float) -> Road:
    """A raw connection to ``address``. Raises ``OSError``."""
    if sys.platform == "win32":
        return cast(Road, connection.Client(address, family="AF_PIPE"))
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.settimeout(timeout_s)
        caller.connect(address)
        caller.setblocking(True)
    except OSError:
        caller.close()
        raise
    return connection.Connection(caller.detach())


def limit_waits(road: Road) -> None:
    """Let reads and writes that have begun fail after ``SILENCE_S`` without progress."""
    if sys.platform != "win32":
        whole = int(SILENCE_S)
        wait = struct.pack("ll", whole, int((SILENCE_S - whole) * 1e6))
        with socket.socket(fileno=os.dup(road.fileno())) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)


def wake(road: Road) -> None:
    """Let whoever waits on the connection find its end."""
    if sys.platform != "win32":
        try:
            with socket.socket(fileno=os.dup(road.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster
