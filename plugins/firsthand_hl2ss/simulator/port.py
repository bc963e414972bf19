"""One TCP port of the simulated headset: a listening socket and a thread that serves serially.

As on the headset: a client is accepted, served to its end and closed, and only then the next one is
accepted; the others wait in the backlog, connected and unanswered.
"""

import contextlib
import itertools
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from firsthand.api import DeviceError
from firsthand_hl2ss.simulator.connection import Connection, ConnectionEnded
from firsthand_hl2ss.simulator.faults import FaultBoard
from firsthand_hl2ss.wire import WireError

log = logging.getLogger(__name__)

BACKLOG: Final = 16
_LOOK_S: Final = 0.2
_STEP_S: Final = 0.02


class Port:
    """Listens for one service and serves its clients one after the other."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        serve: Callable[[Connection], None],
        board: FaultBoard,
        *,
        seed: int,
        send_buffer_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._serve = serve
        self._board = board
        self._seed = seed
        self._send_buffer_bytes = send_buffer_bytes
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._current: Connection | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count()

    def listen(self) -> None:
        """Open the listening socket, if it is closed. Raises ``DeviceError``."""
        with self._lock:
            if self._listener is not None or self._stopping.is_set():
                return
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                if os.name == "posix":
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if self._send_buffer_bytes is not None:
                    # Set before accepting: accepted sockets inherit it, and their window with it.
                    listener.setsockopt(
                        socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes
                    )
                listener.bind(self.address)
                listener.listen(BACKLOG)
                listener.setblocking(False)
            except OSError as error:
                listener.close()
                host, port = self.address
                raise DeviceError(
                    f"The simulated headset cannot listen on {host}:{port} ({error.strerror}).",
                    try_this="Is another simulator running, or is the address not of this "
                    "computer? Use another --host, such as 127.0.0.2.",
                ) from error
            self._listener = listener

    def deafen(self) -> None:
        """Close the listening socket: waiting clients are reset, new ones refused."""
        with self._lock:
            if self._listener is not None:
                # A thread that waits on the socket would keep it listening for a moment longer;
                # elsewhere than on Linux the shutdown is refused, and closing does the same.
                with contextlib.suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                self._listener = None

    def end_connection(self, reason: str, *, hard: bool = False) -> None:
        """End what is being served now, if anything."""
        with self._lock:
            if self._current is not None:
                self._current.end(reason, hard=hard)

    def await_end(self, most_s: float = 5.0) -> None:
        """Wait until no client is being served, so that nothing of its life is left over."""
        until = time.perf_counter() + most_s
        while self._current is not None and time.perf_counter() < until:
            self._stopping.wait(_STEP_S)

    def start(self) -> None:
        """Begin to serve; ``listen`` first."""
        self._thread = threading.Thread(target=self._run, name=f"hl2ss-sim {self.name}")
        self._thread.start()

    def stop(self) -> None:
        """Tell the thread to come to its end; ``join`` waits for it."""
        self._stopping.set()
        self.deafen()
        self.end_connection("simulator stopped")

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            connection = self._accept()
            if connection is None:
                continue
            try:
                self._serve(connection)
            except ConnectionEnded as end:
                log.debug("%s: connection %d ended: %s", self.name, connection.number, end.reason)
            except (WireError, DeviceError) as error:
                # The headset closes without a word, whatever is wrong.
                log.info("%s: connection %d refused: %s", self.name, connection.number, error)
            except Exception:
                log.exception("%s: serving a client failed", self.name)
            finally:
                with self._lock:
                    self._current = None
                connection.close()

    def _accept(self) -> Connection | None:
        listener = self._listener
        now = time.perf_counter_ns()
        if listener is None or self._board.holding(self.name, "ghost_client", now) is not None:
            self._stopping.wait(_STEP_S)
            return None
        try:
            if not select.select([listener], [], [], _LOOK_S)[0]:
                return None
            # The ghost may have come while nobody called.
            if self._board.holding(self.name, "ghost_client", time.perf_counter_ns()) is not None:
                return None
            accepted, _ = listener.accept()
        except (OSError, ValueError):
            return None  # closed meanwhile, or the client has gone again
        connection = Connection(accepted, self.name, next(self._numbers), self._board, self._seed)
        with self._lock:
            self._current = connection
            if self._stopping.is_set():
                connection.end("simulator stopped")
        return connection
