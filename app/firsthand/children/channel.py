"""Typed messages between our processes: one JSON header and binary attachments, never pickle.

The road is ``multiprocessing.connection`` (a Unix socket in a private folder, or a named pipe on
Windows). Both sides prove that they know the key before the first message. What the other side
sends is not trusted: every length is checked against a cap before anything is allocated, and
whatever does not parse closes the channel.
"""

import logging
import queue
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from multiprocessing import connection
from pathlib import Path
from typing import Any, Final, Self

from firsthand.children.frames import (
    ChannelClosed,
    ChannelError,
    Message,
    MessageTooLarge,
    pack,
    unpack,
)
from firsthand.children.handshake import HANDSHAKE_S, greet, introduce
from firsthand.children.road import Road, call, limit_waits, place, wake

__all__ = [
    "LIMIT_BYTES",
    "Channel",
    "ChannelClosed",
    "ChannelError",
    "Listener",
    "Message",
    "MessageTooLarge",
    "connect",
]

LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Header and attachments of one message together."""

_log = logging.getLogger(__name__)


class Channel:
    """One end of a connection. Any thread may send; one thread at a time receives.

    ``send`` blocks while the other side does not read, ``SILENCE_S`` at the longest: whoever must
    not wait sends from a thread of its own.
    """

    def __init__(self, road: Road, limit_bytes: int = LIMIT_BYTES) -> None:
        self._road = road
        self._limit = limit_bytes
        self._sending = threading.RLock()
        self._receiving = threading.RLock()
        self._closing = threading.Lock()
        self._closed = threading.Event()
        limit_waits(road)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def send(self, message: Mapping[str, Any], *blobs: bytes | memoryview) -> None:
        """Send one message.

        Raises ``ChannelError`` where it is no JSON or too large (nothing is sent then and the
        channel stays good), ``ChannelClosed`` where the other side is gone or does not read.
        """
        frame = pack(message, *blobs)
        if len(frame) > self._limit:
            raise ChannelError(
                f"A message of {len(frame)} bytes is larger than the {self._limit} allowed."
            )
        with self._sending:
            if self.closed:
                raise ChannelClosed("The connection between the processes is closed.")
            try:
                self._road.send_bytes(frame)
            except (OSError, ValueError, TypeError) as error:  # closed under us: a handle of None
                self.close()
                raise ChannelClosed("The other process does not take messages any more.") from error

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or None when none has come within ``timeout_s`` (None: wait for ever).

        Raises ``ChannelClosed`` at the end, ``ChannelError`` for a message that is not one of ours
        or too large; the channel is closed then, since what follows cannot be trusted.
        """
        with self._receiving:
            if self.closed:
                raise ChannelClosed("The connection between the processes is closed.")
            try:
                if not self._wait(timeout_s):
                    return None
                frame = self._road.recv_bytes(self._limit)
            except EOFError as error:
                self.close()
                raise ChannelClosed("The other process has closed the connection.") from error
            except (OSError, ValueError, TypeError) as error:
                self.close()
                if str(error) == "bad message length":
                    raise MessageTooLarge(
                        f"Another process sent a message larger than {self._limit} bytes."
                    ) from error
                raise ChannelClosed("The connection to the other process broke.") from error
            try:
                return unpack(frame)
            except ChannelError:
                self.close()
                raise

    def _wait(self, timeout_s: float | None) -> bool:
        """Wait in slices: a named pipe cannot be woken, so look up now and then."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.closed:
            left = 0.5 if deadline is None else min(deadline - time.monotonic(), 0.5)
            if self._road.poll(max(left, 0.0)):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
        raise OSError("closed while waiting")

    def close(self) -> None:
        """End the connection; wakes a thread that waits in ``send`` or ``receive``."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
        wake(self._road)
        # A waiting thread leaves now. The handle is given back after that, since its number may
        # be another file's a moment later. The limit is for a named pipe, which cannot be woken.
        held = [lock for lock in (self._sending, self._receiving) if lock.acquire(timeout=2.0)]
        try:
            self._road.close()
        finally:
            for lock in held:
                lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Listener:
    """Waits for connections under an address that only this user can reach, and with a key.

    ``folder`` is where the private folder for the socket is made (default: the system's folder for
    temporary files). Handshakes are made by a thread, so a caller who stays silent keeps nobody
    who uses ``accept`` waiting.
    """

    def __init__(self, folder: Path | None = None, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.key: Final = secrets.token_bytes(32)
        self._limit = limit_bytes
        self.address, self._home = place(folder)
        self._listener = connection.Listener(self.address, backlog=16)
        self._ready: queue.SimpleQueue[Channel] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="channel-listener", daemon=True)
        self._thread.start()

    def accept(self, timeout_s: float | None) -> Channel | None:
        """The next connection that knew the key, or None when none came within ``timeout_s``."""
        try:
            return self._ready.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop listening, drop connections nobody accepted, remove the socket. Accepted channels
        stay open. May be called twice."""
        if not self._closing.is_set():
            self._closing.set()
            try:
                call(self.address, 1.0).close()  # wakes the thread out of its wait
            except OSError:
                _log.warning("the address of a listener was gone before the listener")
            self._thread.join(HANDSHAKE_S + 2.0)
            self._listener.close()
            while (channel := self.accept(0)) is not None:
                channel.close()
            if self._home is not None:
                shutil.rmtree(self._home, ignore_errors=True)

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                road: Any = self._listener.accept()
            except OSError as error:
                if not self._closing.is_set():
                    _log.warning("a connection could not be accepted: %s", error)
                    time.sleep(0.05)  # out of file handles: do not spin
                continue
            if self._closing.is_set():
                road.close()
            elif greet(road, self.key):
                self._ready.put(Channel(road, self._limit))
            else:
                _log.warning("a connection without the right key was refused")
                road.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    address: str, key: bytes, timeout_s: float, *, limit_bytes: int = LIMIT_BYTES
) -> Channel:
    """A channel to the listener at ``address``.

    Raises ``ChannelClosed`` where nobody listens there, ``ChannelError`` where the keys differ or
    no answer comes within ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    try:
        road = call(address, timeout_s)
    except TimeoutError as error:
        raise ChannelError("The other process did not answer in time.") from error
    except OSError as error:
        raise ChannelClosed("The other process is not there any more.") from error
    if not introduce(road, key, max(deadline - time.monotonic(), 0.01)):
        road.close()
        raise ChannelError("The other process did not answer in time, or has another key.")
    return Channel(road, limit_bytes)
