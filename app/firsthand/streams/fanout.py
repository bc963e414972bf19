"""Gives packets to whoever wants to see them, and never waits for anybody.

Each taker names what it may lose. ``EVERYTHING``: nothing, as long as it keeps within its bytes;
what it loses then is the oldest, and it is told how much of which stream. ``NEWEST``: all but the
newest packet of each stream. ``last(seconds)``: what is older than that. The recorder stores
before it shows, so nothing lost here is missing in the recording.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, Self

from firsthand.api import Packet, SettingsError

log = logging.getLogger(__name__)

_OVERHEAD_BYTES: Final = 200
"""What a packet costs beside its bytes."""
DEFAULT_LIMIT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class LossRule:
    """What a taker may lose, as a word: ``everything``, ``newest`` or ``last:2.5`` (seconds)."""

    kind: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"last:{self.seconds:g}" if self.kind == "last" else self.kind

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rule that ``str`` gave. Raises ``SettingsError`` on anything else."""
        kind, _, seconds = text.partition(":")
        try:
            if kind == "last" and 0 < float(seconds) < float("inf"):
                return cls("last", float(seconds))
        except ValueError:
            pass
        if text in {"everything", "newest"}:
            return cls(text)
        raise SettingsError(
            f"{text!r} does not say what may be lost.",
            try_this="Say everything, newest, or last:SECONDS.",
        )


EVERYTHING: Final = LossRule("everything")
NEWEST: Final = LossRule("newest")


def last(seconds: float) -> LossRule:
    """The rule of one who wants the last so many seconds."""
    return LossRule("last", seconds)


class Subscription:
    """One taker's queue. Taken from by one thread at a time; closing it ends the waiting."""

    def __init__(self, rule: LossRule, streams: frozenset[str] | None, limit_bytes: int) -> None:
        self.rule = rule
        self._streams = streams
        self._limit_bytes = limit_bytes
        self._waiting: deque[Packet] = deque()
        self._bytes = 0
        self._lost: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def lost(self) -> int:
        """Packets that this taker will never see."""
        with self._changed:
            return self._lost.total()

    def lost_by_stream(self) -> dict[str, int]:
        with self._changed:
            return dict(self._lost)

    def take_losses(self) -> dict[str, int]:
        """Packets lost per stream since this was last asked."""
        with self._changed:
            untold, self._untold = self._untold, Counter()
            return dict(untold)

    def get(self, timeout_s: float | None = None) -> Packet | None:
        """The next packet; None when the time is over or the subscription closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout_s)
            if not self._waiting:
                return None
            return self._pop()

    def drain(self) -> list[Packet]:
        """All packets that wait, oldest first, without waiting for any."""
        with self._changed:
            packets = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return packets

    def __iter__(self) -> Iterator[Packet]:
        """Packets until the subscription is closed."""
        while (packet := self.get()) is not None:
            yield packet

    def close(self) -> None:
        """Take nothing any more; what waits can still be taken. May be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def offer(self, packet: Packet) -> None:
        """Queue a packet, or lose one by the rule. Never waits for the taker."""
        if self._streams is not None and packet.stream not in self._streams:
            return
        with self._changed:
            if self._closed:
                return
            if self.rule.kind == "newest":
                self._replace(packet.stream)
            self._waiting.append(packet)
            self._bytes += _size(packet)
            if self.rule.kind == "last":
                oldest_ns = packet.arrival_ns - round(self.rule.seconds * 1e9)
                while self._waiting[0].arrival_ns < oldest_ns:
                    self._lose(self._pop())
            while self._bytes > self._limit_bytes and len(self._waiting) > 1:
                self._lose(self._pop())
            self._changed.notify()

    def _replace(self, stream: str) -> None:
        for at, waiting in enumerate(self._waiting):
            if waiting.stream == stream:
                del self._waiting[at]
                self._bytes -= _size(waiting)
                self._lose(waiting)
                return

    def _pop(self) -> Packet:
        packet = self._waiting.popleft()
        self._bytes -= _size(packet)
        return packet

    def _lose(self, packet: Packet) -> None:
        self._lost[packet.stream] += 1
        self._untold[packet.stream] += 1


class FanOut:
    """Hands every packet to every taker. ``put`` may be called from any thread."""

    def __init__(self) -> None:
        self._takers: tuple[Subscription, ...] = ()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def put(self, packet: Packet) -> None:
        """Give a packet to all takers: queued or lost by their rules, never waited for."""
        gone = False
        for taker in self._takers:
            taker.offer(packet)
            gone |= taker.closed
        if gone:
            with self._lock:
                self._takers = tuple(taker for taker in self._takers if not taker.closed)

    def subscribe(
        self,
        rule: LossRule,
        streams: Collection[str] | None = None,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> Subscription:
        """A queue of the packets from now on, of all streams or those named."""
        wanted = None if streams is None else frozenset(streams)
        taker = Subscription(rule, wanted, limit_bytes)
        with self._lock:
            if self._closed:
                taker.close()
            else:
                self._takers = (*self._takers, taker)
        return taker

    def call(
        self,
        callback: Callable[[Packet], None],
        rule: LossRule,
        streams: Collection[str] | None = None,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> Subscription:
        """Call ``callback`` for each packet, in a thread of its own, until it raises (that is
        logged, and it is forgotten) or the subscription is closed."""
        taker = self.subscribe(rule, streams, limit_bytes)

        def run() -> None:
            try:
                for packet in taker:
                    callback(packet)
            except Exception:
                log.exception("a taker of packets (%s) failed and is forgotten", rule)
            finally:
                taker.close()

        thread = threading.Thread(target=run, name=f"fanout-{rule}", daemon=True)
        with self._lock:
            self._threads = [known for known in self._threads if known.is_alive()]
            self._threads.append(thread)
        thread.start()
        return taker

    def close(self, timeout_s: float = 5.0) -> None:
        """End all subscriptions and wait for the threads of callbacks. May be called twice."""
        with self._lock:
            self._closed = True
            takers, self._takers = self._takers, ()
            threads, self._threads = self._threads, []
        for taker in takers:
            taker.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)


def _size(packet: Packet) -> int:
    return len(packet.payload) + len(packet.fields) + _OVERHEAD_BYTES
