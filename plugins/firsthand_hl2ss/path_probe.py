"""Finds out when a lost path to the headset has come back.

The server takes one client a stream and hangs in its send while the path is dead, so neither
waiting on the old connection nor a new one tells anything soon. Short connections do: an answer of
any kind, a refusal included, shows that packets travel again.
"""

import errno
import logging
import select
import socket
import threading
import time
from collections import deque
from typing import Final

from firsthand_hl2ss import dial
from firsthand_hl2ss.dial import Address
from firsthand_hl2ss.wire import Port

log = logging.getLogger(__name__)

EVERY_S: Final = 0.25
"""At most four connections a second, for all streams together."""
_PATIENCE_S: Final = 1.0
_FRESH_NS: Final = 800_000_000
_RC_TRIES: Final = 3
_ALIVE: Final = {0, errno.ECONNREFUSED, errno.ECONNRESET, 10061, 10054}


class PathProbe:
    """A thread that sleeps until a stream wants to know whether the path is alive.

    It knocks on remote configuration, which takes and ends connections at any time; where that
    does not answer it knocks in turn on the ports of the streams that ask.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._changed = threading.Condition()
        self._wanted: dict[str, Port] = {}
        self._answers: deque[tuple[int, int]] = deque(maxlen=64)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="hl2ss-path", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def want(self, stream: str, port: Port) -> None:
        """Begin to knock, for this stream."""
        with self._changed:
            self._wanted[stream] = port
            self._changed.notify_all()

    def leave(self, stream: str) -> None:
        """This stream knows enough."""
        with self._changed:
            self._wanted.pop(stream, None)

    def alive_since(self, start_ns: int) -> int | None:
        """When the path answered first to a knock of after ``start_ns``, if it still answers."""
        with self._changed:
            answers = [answered for started, answered in self._answers if started >= start_ns]
        if not answers or time.perf_counter_ns() - answers[-1] > _FRESH_NS:
            return None
        return answers[0]

    def overtook(self, start_ns: int) -> bool:
        """Whether a knock of after ``start_ns`` has been answered."""
        with self._changed:
            return any(started > start_ns for started, _ in self._answers)

    def _run(self) -> None:
        open_probes: list[tuple[int, socket.socket]] = []
        count = 0
        try:
            while True:
                with self._changed:
                    while not self._wanted and not self._stopping:
                        for _, sock in open_probes:
                            sock.close()
                        open_probes.clear()
                        count = 0
                        self._changed.wait()
                    if self._stopping:
                        return
                    ports = [Port.REMOTE_CONFIGURATION]
                    if count >= _RC_TRIES:
                        ports += self._wanted.values()
                started = time.perf_counter_ns()
                port = ports[count % len(ports)]
                count += 1
                try:
                    open_probes.append((started, dial.begin(self._address.of(port))))
                except OSError as error:
                    if error.errno in _ALIVE:
                        self._answered(started)
                self._wait(open_probes, started + round(EVERY_S * 1e9))
        finally:
            for _, sock in open_probes:
                sock.close()

    def _wait(self, open_probes: list[tuple[int, socket.socket]], until_ns: int) -> None:
        """Look at the open connections until it is time for the next."""
        while not self._stopping and (left := until_ns - time.perf_counter_ns()) > 0:
            pause_s = min(left / 1e9, 0.05)
            socks = [sock for _, sock in open_probes]
            if not socks:
                time.sleep(pause_s)
                continue
            _, done, failed = select.select([], socks, socks, pause_s)
            for entry in list(open_probes):
                started, sock = entry
                if sock in done or sock in failed:
                    if dial.outcome(sock) in _ALIVE:
                        self._answered(started)
                elif time.perf_counter_ns() - started < _PATIENCE_S * 1e9:
                    continue
                open_probes.remove(entry)
                sock.close()

    def _answered(self, started_ns: int) -> None:
        with self._changed:
            self._answers.append((started_ns, time.perf_counter_ns()))
