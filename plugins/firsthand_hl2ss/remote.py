"""Remote configuration over short connections.

The app never notices a client that vanished while it waits for a command, and then answers nobody
until it is started again. So a connection lives for one piece of work, has a time limit for every
reply, and is closed properly.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

from firsthand_hl2ss import dial, wire_rc
from firsthand_hl2ss.dial import Address, Stopped
from firsthand_hl2ss.wire import Port, WireError
from firsthand_hl2ss.wire_rc import Op, TimeSource

_HIGHEST_VERSION: Final = 1000


class RemoteOutcome(StrEnum):
    """How remote configuration met us: the touchstone of what ails a stream."""

    ANSWERS = "answers"
    REFUSES = "refuses"
    """Nobody listens there: the app is not running."""
    SILENT = "silent"
    """It takes connections and does not reply."""
    CLOSES = "closes"
    NO_ANSWER = "no answer"
    """Nothing at all comes back from that address."""
    STRANGE = "strange"
    """Something else than the app answers."""


class RemoteError(Exception):
    """Remote configuration that cannot be had; ``outcome`` says how it failed."""

    def __init__(self, outcome: RemoteOutcome, words: str) -> None:
        super().__init__(words)
        self.outcome = outcome


class RemoteSession:
    """One connection. Every method raises ``RemoteError``, or ``Stopped``."""

    def __init__(self, sock: socket.socket, reply_s: float, stop: threading.Event) -> None:
        self._sock = sock
        self._reply_s = reply_s
        self._stop = stop
        self._answered = False

    def send(self, op: Op, *arguments: Any) -> None:
        """Send a command that has no reply."""
        try:
            self._sock.settimeout(self._reply_s)
            self._sock.sendall(wire_rc.pack(op, *arguments))
        except OSError as error:
            raise RemoteError(RemoteOutcome.CLOSES, f"{op.name} cannot be sent") from error

    def ask(self, op: Op, *arguments: Any) -> tuple[Any, ...]:
        """Send a command and give its reply."""
        self.send(op, *arguments)
        size = wire_rc.REPLIES[op].size
        try:
            data = dial.receive_exactly(self._sock, size, self._reply_s, self._stop)
        except TimeoutError as error:
            raise RemoteError(RemoteOutcome.SILENT, f"{op.name} got no reply") from error
        except (EOFError, OSError) as error:
            raise RemoteError(RemoteOutcome.CLOSES, f"{op.name} was answered by an end") from error
        try:
            return wire_rc.parse_reply(op, data)
        except WireError as error:
            raise RemoteError(RemoteOutcome.STRANGE, str(error)) from error

    def version(self) -> tuple[int, int, int, int]:
        """The app's version. Raises ``RemoteError`` (strange) for one that cannot be."""
        major, minor, build, revision = self.ask(Op.VERSION)
        if max(major, minor, build) > _HIGHEST_VERSION:
            raise RemoteError(RemoteOutcome.STRANGE, "a version that no app has")
        return major, minor, build, revision

    def utc_offset_hns(self) -> int:
        (offset,) = self.ask(Op.UTC_OFFSET)
        return int(offset)

    def camera_is_on(self) -> bool:
        (on,) = self.ask(Op.PV_IS_ON)
        if on not in (0, 1):
            raise RemoteError(RemoteOutcome.STRANGE, f"{on} for whether the camera is on")
        return bool(on)

    def time(self, source: TimeSource) -> tuple[int, int, int]:
        """Our clock before, the headset's in hns, our clock after."""
        before_ns = time.perf_counter_ns()
        (hns,) = self.ask(Op.PRESENT_TIME, source)
        return before_ns, int(hns), time.perf_counter_ns()


class Remote:
    """Opens connections to remote configuration, one at a time within this program."""

    def __init__(
        self,
        address: Address,
        connect_s: float,
        reply_s: float,
        stop: threading.Event,
        overtook: Callable[[int], bool] | None = None,
    ) -> None:
        """``overtook`` says whether a connection begun after a moment has been answered: what was
        begun earlier was then lost on the way, and is not waited for."""
        self._overtook = overtook
        self._address = address
        self._connect_s = connect_s
        self._reply_s = reply_s
        self._stop = stop
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def session(self) -> Iterator[RemoteSession]:
        """A connection, closed properly at the end. Raises ``RemoteError`` or ``Stopped``."""
        with self._one_at_a_time:
            sock = self._connect()
            try:
                yield RemoteSession(sock, self._reply_s, self._stop)
            finally:
                sock.close()

    def apply(self, commands: Iterable[tuple[Op, tuple[Any, ...]]]) -> list[tuple[Op, str]]:
        """Send setters, each followed by a query that shows it was read.

        Gives those that the app did not take, with why: an older app closes on what it does not
        know. Raises ``RemoteError`` where no connection can be had at all.
        """
        refused: list[tuple[Op, str]] = []
        for op, arguments in commands:
            with self.session() as session:
                try:
                    session.send(op, *arguments)
                    session.camera_is_on()
                except RemoteError as error:
                    refused.append((op, str(error)))
        return refused

    def _connect(self) -> socket.socket:
        if self._stop.is_set():
            raise Stopped
        address = self._address.of(Port.REMOTE_CONFIGURATION)
        began_ns, overtook = time.perf_counter_ns(), self._overtook
        overtaken = None if overtook is None else (lambda: overtook(began_ns))
        try:
            return dial.dial(address, self._connect_s, self._stop, overtaken=overtaken)
        except ConnectionRefusedError as error:
            raise RemoteError(RemoteOutcome.REFUSES, "nobody listens") from error
        except OSError as error:
            raise RemoteError(RemoteOutcome.NO_ANSWER, str(error)) from error
