"""A plain client of any TCP server, for tests that judge a protocol byte by byte."""

import socket
import struct
import time
from types import TracebackType
from typing import Self


class RawPeer:
    """One connection. Every wait has a limit and ends in an error, never in a hang."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float = 10.0,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect((host, port))
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, count: int) -> bytes:
        """Exactly ``count`` bytes. Raises ``EOFError`` or ``ConnectionError`` at the end."""
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise EOFError(f"the server closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def unpack(self, layout: str) -> tuple[int | float, ...]:
        """Values of a ``struct`` layout."""
        return struct.unpack(layout, self.read(struct.calcsize(layout)))

    def rest(self) -> bytes:
        """All that still comes until the server closes or resets."""
        data = bytearray()
        while True:
            try:
                piece = self._socket.recv(1 << 16)
            except ConnectionError:
                return bytes(data)
            if not piece:
                return bytes(data)
            data += piece

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing arrives for so long, neither bytes nor an end."""
        before = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except ConnectionError:
            return False
        finally:
            self._socket.settimeout(before)
        return False

    def ended_by(self) -> str:
        """How the server ends the connection: ``"closed"`` or ``"reset"``; waits for it."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except ConnectionError:
            return "reset"
        return "closed"

    def abort(self) -> None:
        """End with a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def refuses(host: str, port: int) -> bool:
    """Whether nobody listens there."""
    try:
        RawPeer(host, port, timeout_s=2.0).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # somebody did listen, and stopped at this very moment
    return False


def comes_to_listen(host: str, port: int, within_s: float) -> bool:
    """Whether somebody listens there before the time is over."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not refuses(host, port):
            return True
        time.sleep(0.02)
    return False
