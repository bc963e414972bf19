"""Making and ending TCP connections without ever waiting where nobody can interrupt."""

import contextlib
import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

from firsthand_hl2ss.wire import BASE_PORT, Port

_SLICE_S: Final = 0.05
_PENDING: Final = {0, errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", 10035)}
_ABORT: Final = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)


class Stopped(Exception):  # noqa: N818  (an end that was asked for, not an error)
    """The device is being closed."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a headset is."""

    host: str
    base_port: int = BASE_PORT

    def of(self, port: Port) -> tuple[str, int]:
        return self.host, port.on(self.base_port)


def begin(address: tuple[str, int]) -> socket.socket:
    """A socket that is connecting. Raises ``OSError`` where that fails at once (no route)."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address)
        if code not in _PENDING:
            raise OSError(code, f"cannot connect to {address[0]} port {address[1]}")
    except BaseException:
        sock.close()
        raise
    return sock


def outcome(sock: socket.socket) -> int:
    """The error number of a connection that select says is decided; 0: it stands."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def dial(
    address: tuple[str, int],
    timeout_s: float,
    stop: Event,
    *,
    overtaken: Callable[[], bool] | None = None,
) -> socket.socket:
    """A connected socket, not blocking.

    Raises ``TimeoutError`` when nobody answers (or when ``overtaken`` says that a later attempt
    got through, so that ours was lost on the way), ``ConnectionRefusedError``, another ``OSError``,
    or ``Stopped``.
    """
    limit = time.monotonic() + timeout_s
    sock = begin(address)
    try:
        while True:
            if stop.is_set():
                raise Stopped
            # Windows tells of a refusal in the third list.
            _, done, failed = select.select([], [sock], [sock], _SLICE_S)
            if done or failed:
                code = outcome(sock)
                if code:
                    raise OSError(code, f"cannot connect to {address[0]} port {address[1]}")
                return sock
            if time.monotonic() > limit or (overtaken is not None and overtaken()):
                raise TimeoutError(f"{address[0]} port {address[1]} does not answer")
    except BaseException:
        sock.close()
        raise


def abort(sock: socket.socket) -> None:
    """Close at once, with a reset: a peer that hangs in its send learns of it now."""
    with contextlib.suppress(OSError):  # the peer was faster: there is nothing left to reset
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    sock.close()


def receive_exactly(sock: socket.socket, count: int, timeout_s: float, stop: Event) -> bytes:
    """``count`` bytes. Raises ``TimeoutError``, ``EOFError``, ``OSError`` or ``Stopped``.

    A forged count is no danger: counts are ours, from the protocol.
    """
    data = bytearray(count)
    view, have = memoryview(data), 0
    limit = time.monotonic() + timeout_s
    while have < count:
        left = limit - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"only {have} of {count} bytes came")
        if stop.is_set():
            raise Stopped
        sock.settimeout(min(left, 0.25))
        try:
            got = sock.recv_into(view[have:])
        except TimeoutError:
            continue
        if got == 0:
            raise EOFError(f"closed after {have} of {count} bytes")
        have += got
    return bytes(data)
