"""Receives over one connection of a stream, from the request to whatever ends it.

The app serves one client a stream, one after the other, and hangs in its send while the path is
dead. So on silence the connection is kept, for its data may still come; meanwhile short connections
find out when the path is alive again. Then what still waits in the headset has a moment to arrive,
and only if nothing comes is the connection given up.
"""

import logging
import socket
import threading
import time
from dataclasses import dataclass
from typing import Final

from firsthand.api import DeviceSink, GapCause, PacketFlags, StreamState
from firsthand_hl2ss.config import PatienceConfig
from firsthand_hl2ss.dial import Address, Stopped
from firsthand_hl2ss.explain import Ending, explain
from firsthand_hl2ss.framing import Damaged, Framer, RawPacket
from firsthand_hl2ss.path_probe import PathProbe
from firsthand_hl2ss.plan import StreamPlan
from firsthand_hl2ss.remote import RemoteOutcome
from firsthand_hl2ss.report import StreamReport
from firsthand_hl2ss.time_judge import TimeJudge
from firsthand_hl2ss.watch import RemoteWatch
from firsthand_hl2ss.wire import HEADER, NS_PER_HNS

log = logging.getLogger(__name__)

_NO_FLAGS: Final = PacketFlags.NONE
_TICK_S: Final = 0.05
_WAITING_AFTER_S: Final = 0.25
_LOST_AFTER_NS: Final = 1_000_000_000
_ALIVE_AT_ONCE_NS: Final = 500_000_000
_AT_ONCE_NS: Final = 1_000_000_000
"""An end that comes later is no answer to what was asked for: the next attempt will tell."""
_FRESH_LOOK_S: Final = 0.5
_CATCHING_UP_NS: Final = 3_000_000_000
_OLD_LOOK_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Headset:
    """What the streams of a headset share."""

    address: Address
    patience: PatienceConfig
    sink: DeviceSink
    watch: RemoteWatch
    path: PathProbe
    stop: threading.Event


class Connection:
    """One connection. ``serve`` blocks until it ends; closing the socket is the caller's."""

    def __init__(
        self, sock: socket.socket, plan: StreamPlan, headset: Headset, report: StreamReport
    ) -> None:
        schema = plan.schema
        self.delivered = 0
        """Good packets so far, empty ones included."""
        self.connected_ns = time.perf_counter_ns()
        self._sock = sock
        self._plan = plan
        self._headset = headset
        self._report = report
        self._period_ns = schema.period_ns
        self._stalls_after_s = schema.stalls_after_s
        self._judge = TimeJudge(schema.clock, schema.period_ns, headset.watch, self.connected_ns)
        self._framer = Framer(plan.limits, self._judge.refuse)
        self._heard_ns = self.connected_ns
        self._patient = False
        """Whether receiving waits for as long as the stream may be silent."""
        self._fresh = True
        self._stalled_ns: int | None = None
        self._hole: tuple[int, GapCause, str] | None = None
        self._last_device_ns = 0

    def serve(self) -> Ending:
        """Ask for the stream and receive it. Raises ``Stopped`` when the device is closed."""
        stop = self._headset.stop
        try:
            self._sock.settimeout(self._headset.patience.connect_s)
            self._sock.sendall(self._plan.request)
            self._sock.settimeout(_TICK_S)
            while not stop.is_set():
                try:
                    count = self._sock.recv_into(self._framer.space())
                except TimeoutError:
                    ending = self._silence()
                    if ending is not None:
                        return ending
                    continue
                if count == 0:
                    break
                self._received(count)
        except Damaged as damage:
            # In step again on a new connection only: the stream has no marks to look for.
            self._report.quarantine(damage)
            self._report.damaged()
            return Ending.DAMAGED if self._report.packets else Ending.STRANGE
        except OSError as error:
            log.debug("%s: %s", self._plan.name, error)
        if stop.is_set():
            raise Stopped
        if self._framer.pending:
            self._report.damaged()
        waited_ns = time.perf_counter_ns() - self.connected_ns
        at_once = not self.delivered and waited_ns < _AT_ONCE_NS
        return Ending.CLOSED_AT_ONCE if at_once else Ending.CLOSED

    def _received(self, count: int) -> None:
        arrival_ns = self._heard_ns = time.perf_counter_ns()
        framer = self._framer
        framer.received(count)
        while (raw := framer.next()) is not None:
            self._take(raw, arrival_ns)
            self._judge.accepted(raw.timestamp_hns, arrival_ns)
        if self._stalled_ns is not None:
            self._woke()
        if not self._patient and self.delivered:
            self._patient = True
            self._sock.settimeout(self._stalls_after_s)

    def _take(self, raw: RawPacket, arrival_ns: int) -> None:
        """Hand one packet over."""
        try:
            parsed = self._plan.parse(raw)
        except Damaged as damage:
            whole = HEADER.size + len(raw.payload) + len(raw.pose)
            raise Damaged(damage.reason, self._framer.context(whole)) from damage
        device_ns = raw.timestamp_hns * NS_PER_HNS
        self.delivered += 1
        if parsed is None:
            self._report.empty(device_ns)
            return
        flags = _NO_FLAGS
        if self._fresh:
            self._fresh = False
            flags = PacketFlags.NEW_CONNECTION
            if self._report.packets:
                # Headset or app may have been started again: clocks first, then packets.
                self._headset.watch.look_since(self.connected_ns, _FRESH_LOOK_S)
        if self._hole is not None:
            self._name_the_hole(device_ns, arrival_ns)
        self._last_device_ns = device_ns
        self._report.packet(device_ns, arrival_ns, parsed, flags)

    # -- silence --------------------------------------------------------------------------------

    def _silence(self) -> Ending | None:
        """Nothing came for a while: say what is known, and whether to give the connection up."""
        now_ns = time.perf_counter_ns()
        silent_s = (now_ns - self._heard_ns) / 1e9
        if not self.delivered:
            return self._unserved(now_ns, silent_s)
        if self._stalled_ns is None:
            if silent_s >= self._stalls_after_s * 0.98:
                self._stall(now_ns, silent_s)
            return None
        alive_ns = self._headset.path.alive_since(self._stalled_ns)
        if alive_ns is None:
            if now_ns - self._stalled_ns > _LOST_AFTER_NS:
                why = explain(self._plan.port, self._report.title, Ending.PATH_DEAD, None)
                if self._report.tell(why.state, why.words):
                    self._report.interrupted(why.cause, why.words, again=True)
            return None
        if now_ns - alive_ns < self._headset.patience.grace_s * 1e9:
            return None
        at_once = alive_ns - self._stalled_ns < _ALIVE_AT_ONCE_NS
        return Ending.STALLED if at_once else Ending.PATH_DEAD

    def _stall(self, now_ns: int, silent_s: float) -> None:
        self._stalled_ns = now_ns
        self._patient = False
        self._sock.settimeout(_TICK_S)
        self._headset.path.want(self._plan.name, self._plan.port)
        words = f"{self._report.title}: nothing has come for {silent_s:.1f} s."
        self._report.tell(StreamState.STALLED, words)
        self._report.interrupted(GapCause.STALLED, words)

    def _woke(self) -> None:
        """Data came on a connection that had fallen silent: the path returned by itself."""
        # What waited in the headset comes first, and only then the hole, if it kept too little.
        self._hole = (self._heard_ns, *self._report.interruption) if self.delivered else None
        self._stalled_ns = None
        self._headset.path.leave(self._plan.name)
        log.info("%s: goes on after a silence", self._plan.name)

    def _name_the_hole(self, device_ns: int, arrival_ns: int) -> None:
        """Say once more why packets are missing, at the place in the stream where they are."""
        if self._hole is None:
            return
        woke_ns, cause, words = self._hole
        missing = device_ns - self._last_device_ns > 1.5 * self._period_ns
        if missing:
            self._report.interrupted(cause, words, again=True)
        if missing or arrival_ns - woke_ns > _CATCHING_UP_NS:
            self._hole = None

    def _unserved(self, now_ns: int, silent_s: float) -> Ending | None:
        """The connection stands and has not delivered a packet."""
        if silent_s < _WAITING_AFTER_S:
            return None
        watch, path, report = self._headset.watch, self._headset.path, self._report
        if silent_s < self._headset.patience.explain_s:
            if report.state in (StreamState.CONNECTING, StreamState.LOST):
                report.tell(StreamState.WAITING, f"{report.title}: connected, waiting.")
            return None
        look = watch.last
        if look is None or now_ns - look.ended_ns > _OLD_LOOK_NS:
            watch.poke()
        if look is None or look.ended_ns < self.connected_ns:
            return None
        why = explain(self._plan.port, report.title, Ending.SILENT, look.outcome)
        report.tell(why.state, why.words)
        # If the path died since we connected, our request waits for TCP's next try: do not.
        if watch.came_back_since(self.connected_ns):
            return Ending.SILENT
        if self._stalled_ns is not None:
            return Ending.SILENT if path.alive_since(self._stalled_ns) is not None else None
        if look.outcome is RemoteOutcome.NO_ANSWER:
            self._stalled_ns = now_ns
            path.want(self._plan.name, self._plan.port)
        return None
