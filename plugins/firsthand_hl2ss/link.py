"""Receives one stream for as long as the device is open: a thread, a connection after the other.

The app serves one client a stream, one after the other, and hangs in its send while the path is
dead. So on silence the old connection is kept, for its data may still come; meanwhile short
connections find out when the path is alive again. Then what still waits in the headset has a
moment to arrive, and if nothing comes the old connection is aborted: its reset frees the app now.
"""

import base64
import logging
import socket
import threading
import time
from dataclasses import dataclass
from typing import Final

from firsthand.api import DeviceSink, GapCause, Packet, PacketFlags, StreamState
from firsthand_hl2ss import dial
from firsthand_hl2ss.calibration import CalibrationError, about, fetch
from firsthand_hl2ss.camera import Camera
from firsthand_hl2ss.config import PatienceConfig
from firsthand_hl2ss.dial import Address, Stopped
from firsthand_hl2ss.explain import Ending, Explanation, explain
from firsthand_hl2ss.framing import Damaged, Framer, RawPacket
from firsthand_hl2ss.path_probe import PathProbe
from firsthand_hl2ss.plan import StreamPlan
from firsthand_hl2ss.remote import RemoteOutcome
from firsthand_hl2ss.time_judge import TimeJudge
from firsthand_hl2ss.watch import Look, RemoteWatch
from firsthand_hl2ss.wire import HEADER, NS_PER_HNS

log = logging.getLogger(__name__)

_TICK_S: Final = 0.05
_WAITING_AFTER_S: Final = 0.25
_BETWEEN_ATTEMPTS_S: Final = 0.25
_LONGEST_REST_S: Final = 2.0
_LOST_AFTER_S: Final = 1.0
_ALIVE_AT_ONCE_NS: Final = 500_000_000
_AT_ONCE_NS: Final = 1_000_000_000
"""An end that comes later is no answer to what was asked for: the next attempt will tell."""
_FRESH_LOOK_S: Final = 0.5
_CATCHING_UP_NS: Final = 3_000_000_000
_OLD_LOOK_NS: Final = 2_000_000_000
_SOUND_PACKETS: Final = 20
"""So many good packets on a connection, and earlier damage is forgiven."""
_QUARANTINED: Final = 100
_CALIBRATION_TRIES: Final = 2
_DELIVERED: Final = {Ending.CLOSED, Ending.DAMAGED, Ending.STALLED, Ending.PATH_DEAD}


@dataclass(frozen=True, slots=True)
class Headset:
    """What the streams of a headset share."""

    address: Address
    patience: PatienceConfig
    sink: DeviceSink
    watch: RemoteWatch
    path: PathProbe
    stop: threading.Event


class StreamLink:
    """The thread of one stream."""

    def __init__(self, plan: StreamPlan, headset: Headset, camera: Camera | None = None) -> None:
        self._plan = plan
        self._headset = headset
        self._camera = camera
        self._sink = headset.sink
        self._stop = headset.stop
        self._name = plan.name
        self._thread = threading.Thread(target=self._run, name=f"hl2ss-{plan.name}", daemon=True)
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._seq = 0
        self._told: tuple[StreamState, str] | None = None
        self._ending: Ending | None = None
        self._failures = 0
        self._damages = 0
        self._quarantined = 0
        self._calibrations = _CALIBRATION_TRIES if plan.calibration else 0
        self._gap_told = False
        self._interruption = (GapCause.STALLED, "")
        self._last_device_ns = 0
        # Of the present connection:
        self._started_ns = 0
        self._connected_ns = 0
        self._heard_ns = 0
        self._delivered = 0
        self._fresh = True
        self._stalled_ns: int | None = None
        self._hole: tuple[int, GapCause, str] | None = None

    def start(self) -> None:
        self._thread.start()

    def interrupt(self) -> None:
        """Wake the thread out of its receive; the device is being closed."""
        with self._lock:
            if self._sock is not None:
                try:
                    self._sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    log.debug("%s: the connection had ended already", self._name)

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._ending = self._attempt()
                    self._afterwards(self._ending)
                except Stopped:
                    break
                except Exception:
                    # A defect of ours must not end a stream: it is logged, and tried again.
                    log.exception("%s: receiving failed", self._name)
                    self._rest(_LONGEST_REST_S)
        finally:
            if self._camera is not None:
                self._camera.turn_off()

    # -- one connection -------------------------------------------------------------------------

    def _attempt(self) -> Ending:
        """Connect and receive until it ends; say how it ended. The connection is closed then."""
        if self._ending is None or self._ending in _DELIVERED:
            self._tell(StreamState.CONNECTING)
        self._started_ns = started_ns = time.perf_counter_ns()
        self._delivered = 0
        self._stalled_ns = None
        self._hole = None
        self._fresh = True
        patience = self._headset.patience
        try:
            if self._camera is not None:
                blindly = self._ending is Ending.CLOSED_AT_ONCE
                if not self._camera.turn_on(blindly=blindly):
                    return Ending.CAMERA_OFF
            self._calibrate()
            sock = dial.dial(
                self._headset.address.of(self._plan.port),
                patience.connect_s,
                self._stop,
                overtaken=lambda: self._headset.path.overtook(started_ns),
            )
        except ConnectionRefusedError:
            return Ending.REFUSED
        except OSError as error:
            log.debug("%s: %s", self._name, error)
            # From now on somebody listens for the path's return.
            self._headset.path.want(self._name, self._plan.port)
            return Ending.NO_ANSWER
        with self._lock:
            self._sock = sock
        try:
            return self._serve(sock)
        finally:
            with self._lock:
                self._sock = None
            dial.abort(sock)
            self._headset.path.leave(self._name)

    def _serve(self, sock: socket.socket) -> Ending:
        self._connected_ns = self._heard_ns = time.perf_counter_ns()
        schema = self._plan.schema
        judge = TimeJudge(schema.clock, schema.period_ns, self._headset.watch, self._connected_ns)
        framer = Framer(self._plan.limits, judge.refuse)
        try:
            sock.settimeout(self._headset.patience.connect_s)
            sock.sendall(self._plan.request)
            sock.settimeout(_TICK_S)
            while not self._stop.is_set():
                try:
                    count = sock.recv_into(framer.space())
                except TimeoutError:
                    ending = self._silence(sock)
                    if ending is not None:
                        return ending
                    continue
                if count == 0:
                    break
                arrival_ns = self._heard_ns = time.perf_counter_ns()
                framer.received(count)
                while (raw := framer.next()) is not None:
                    self._take(raw, arrival_ns, framer)
                    judge.accepted(raw.timestamp_hns, arrival_ns)
                if self._stalled_ns is not None:
                    self._woke(sock)
                elif self._delivered == 1:
                    sock.settimeout(schema.stalls_after_s)
        except Damaged as damage:
            return self._damage(damage)
        except OSError as error:
            log.debug("%s: %s", self._name, error)
        if self._stop.is_set():
            raise Stopped
        if framer.pending and self._seq:
            self._sink.skipped(self._name, GapCause.DAMAGED_PACKET, None, 1)
        waited_ns = time.perf_counter_ns() - self._connected_ns
        if self._delivered or waited_ns > _AT_ONCE_NS:
            return Ending.CLOSED
        return Ending.CLOSED_AT_ONCE

    def _take(self, raw: RawPacket, arrival_ns: int, framer: Framer) -> None:
        """Store a packet."""
        try:
            parsed = self._plan.parse(raw)
        except Damaged as damage:
            whole = HEADER.size + len(raw.payload) + len(raw.pose)
            raise Damaged(damage.reason, framer.context(whole)) from damage
        device_ns = raw.timestamp_hns * NS_PER_HNS
        self._delivered += 1
        if self._delivered == _SOUND_PACKETS:
            self._damages = self._failures = 0
        if parsed is None:
            self._sink.skipped(self._name, GapCause.EMPTY_PACKET, device_ns, 1)
            return
        flags = parsed.flags
        if self._fresh:
            self._fresh = False
            flags |= PacketFlags.NEW_CONNECTION
            if self._seq:
                # Headset or app may have been started again: clocks first, then packets.
                self._headset.watch.look_since(self._connected_ns, _FRESH_LOOK_S)
        if self._told is None or self._told[0] is not StreamState.LIVE:
            self._tell(StreamState.LIVE)
            self._gap_told = False
        if self._hole is not None:
            self._name_the_hole(device_ns, arrival_ns)
        self._last_device_ns = device_ns
        seq, self._seq = self._seq, self._seq + 1
        self._sink.packet(
            Packet(self._name, seq, device_ns, arrival_ns, parsed.fields, parsed.payload, flags)
        )

    # -- silence --------------------------------------------------------------------------------

    def _silence(self, sock: socket.socket) -> Ending | None:
        """Nothing came for a while: say what is known, and whether to give the connection up."""
        now_ns = time.perf_counter_ns()
        silent_s = (now_ns - self._heard_ns) / 1e9
        if not self._delivered:
            return self._unserved(now_ns, silent_s)
        path = self._headset.path
        if self._stalled_ns is None:
            if silent_s < self._plan.schema.stalls_after_s * 0.98:
                return None
            self._stalled_ns = now_ns
            path.want(self._name, self._plan.port)
            sock.settimeout(_TICK_S)
            words = f"{self._plan.schema.title}: nothing has come for {silent_s:.1f} s."
            self._tell(StreamState.STALLED, words)
            self._interrupted(GapCause.STALLED, words)
            return None
        alive_ns = path.alive_since(self._stalled_ns)
        if alive_ns is None:
            if now_ns - self._stalled_ns > _LOST_AFTER_S * 1e9:
                why = explain(self._plan.port, self._plan.schema.title, Ending.PATH_DEAD, None)
                if self._tell(why.state, why.words):
                    self._interrupted(why.cause, why.words, again=True)
            return None
        if now_ns - alive_ns < self._headset.patience.grace_s * 1e9:
            return None
        at_once = alive_ns - self._stalled_ns < _ALIVE_AT_ONCE_NS
        return Ending.STALLED if at_once else Ending.PATH_DEAD

    def _unserved(self, now_ns: int, silent_s: float) -> Ending | None:
        """The connection stands and has not delivered a packet."""
        if silent_s < _WAITING_AFTER_S:
            return None
        watch, path = self._headset.watch, self._headset.path
        if silent_s < self._headset.patience.explain_s:
            if self._told is None or self._told[0] in (StreamState.CONNECTING, StreamState.LOST):
                self._tell(StreamState.WAITING, f"{self._plan.schema.title}: connected, waiting.")
            return None
        look = watch.last
        if look is None or now_ns - look.ended_ns > _OLD_LOOK_NS:
            watch.poke()
        if look is None or look.ended_ns < self._connected_ns:
            return None
        why = explain(self._plan.port, self._plan.schema.title, Ending.SILENT, look.outcome)
        self._tell(why.state, why.words)
        # The path may have died since we connected: what we sent then waits for TCP's next try.
        if watch.came_back_since(self._connected_ns):
            return Ending.SILENT
        if path.alive_since(self._connected_ns) is not None and self._stalled_ns is not None:
            return Ending.SILENT
        if why.state is StreamState.WAITING and look.outcome is RemoteOutcome.NO_ANSWER:
            self._stalled_ns = self._stalled_ns or now_ns
            path.want(self._name, self._plan.port)
        return None

    def _woke(self, sock: socket.socket) -> None:
        """Data came on a connection that had fallen silent: the path returned by itself."""
        # What waited in the headset comes first, and only then the hole, if it kept too little.
        self._hole = (self._heard_ns, *self._interruption)
        self._stalled_ns = None
        self._headset.path.leave(self._name)
        sock.settimeout(self._plan.schema.stalls_after_s)
        log.info("%s: goes on after a silence", self._name)

    def _name_the_hole(self, device_ns: int, arrival_ns: int) -> None:
        """Say once more why packets are missing, at the place in the stream where they are."""
        if self._hole is None:
            return
        woke_ns, cause, words = self._hole
        missing = device_ns - self._last_device_ns > 1.5 * self._plan.schema.period_ns
        if missing:
            self._sink.interrupted(self._name, cause, words)
        if missing or arrival_ns - woke_ns > _CATCHING_UP_NS:
            self._hole = None

    # -- what went wrong ------------------------------------------------------------------------

    def _damage(self, damage: Damaged) -> Ending:
        """Put damaged input aside; the stream is in step again on a new connection."""
        log.warning("%s: %s", self._name, damage.reason)
        self._damages += 1
        if self._quarantined < _QUARANTINED:
            self._quarantined += 1
            self._sink.note(
                "quarantine",
                {
                    "stream": self._name,
                    "reason": damage.reason,
                    "host_ns": time.perf_counter_ns(),
                    "after_seq": self._seq - 1,
                    "bytes_base64": base64.b64encode(damage.context).decode("ascii"),
                },
            )
        if not self._seq:
            return Ending.STRANGE
        self._sink.skipped(self._name, GapCause.DAMAGED_PACKET, None, 1)
        return Ending.DAMAGED

    def _afterwards(self, ending: Ending) -> None:
        """Tell why it ended, and wait for as long as is decent before the next attempt."""
        before = self._headset.watch.last
        why = self._explained(ending)
        if ending is Ending.REFUSED and self._answers() and not self._answered(before):
            # The app has just come up: this refusal was of the time before.
            self._rest(_BETWEEN_ATTEMPTS_S)
            return
        if ending is not Ending.SILENT:
            self._tell(why.state, why.words)
            if self._seq or why.state is StreamState.REFUSED:
                self._interrupted(why.cause, why.words)
        match ending:
            case Ending.DAMAGED:
                self._rest(_BETWEEN_ATTEMPTS_S * (self._damages - 1))
            case Ending.STALLED | Ending.PATH_DEAD | Ending.SILENT:
                pass
            case Ending.NO_ANSWER | Ending.CLOSED:
                # After a connection that lasted, at once; never more than four a second.
                since_s = (time.perf_counter_ns() - self._started_ns) / 1e9
                self._rest(max(0.0, _BETWEEN_ATTEMPTS_S - since_s))
            case Ending.CAMERA_OFF | Ending.STRANGE:
                self._rest(_LONGEST_REST_S)
            case Ending.REFUSED | Ending.CLOSED_AT_ONCE if not self._answers():
                self._headset.watch.wait_for_answer(_LONGEST_REST_S)
            case Ending.REFUSED | Ending.CLOSED_AT_ONCE:
                self._failures += 1
                self._rest(_BETWEEN_ATTEMPTS_S * self._failures)

    def _explained(self, ending: Ending) -> Explanation:
        watch, patience = self._headset.watch, self._headset.patience
        if ending in (Ending.REFUSED, Ending.CLOSED_AT_ONCE):
            limit_s = patience.connect_s + patience.reply_s
            look = watch.look_since(time.perf_counter_ns(), limit_s) or watch.last
        else:
            look = watch.last
        if look is not None and look.ended_ns < self._connected_ns:
            look = None
        remote = None if look is None else look.outcome
        return explain(self._plan.port, self._plan.schema.title, ending, remote)

    def _answers(self) -> bool:
        return self._answered(self._headset.watch.last)

    @staticmethod
    def _answered(look: Look | None) -> bool:
        return look is not None and look.outcome is RemoteOutcome.ANSWERS

    def _interrupted(self, cause: GapCause, words: str, *, again: bool = False) -> None:
        """Tell why packets will be missing: the first cause of a hole is its cause."""
        if again or not self._gap_told:
            self._gap_told = True
            self._interruption = (cause, words)
            self._sink.interrupted(self._name, cause, words)

    def _tell(self, state: StreamState, words: str = "") -> bool:
        """Tell the sink where the stream stands; whether that was news."""
        if self._told == (state, words):
            return False
        self._told = (state, words)
        log.info("%s is %s", self._name, state)
        self._sink.state(self._name, state, words)
        return True

    def _rest(self, seconds: float) -> None:
        if self._stop.wait(min(seconds, _LONGEST_REST_S)):
            raise Stopped

    # -- calibration ----------------------------------------------------------------------------

    def _calibrate(self) -> None:
        """Ask for the calibration, if that is still to be done; the port is free now if ever."""
        if not self._calibrations:
            return
        self._calibrations -= 1
        patience = self._headset.patience
        try:
            values = fetch(
                self._plan,
                self._headset.address,
                patience.connect_s,
                patience.calibration_s,
                self._stop,
            )
        except CalibrationError as error:
            log.warning("%s: no calibration (%s)", self._name, error)
            self._sink.note("no_calibration", {"stream": self._name, "why": str(error)})
            return
        self._calibrations = 0
        self._sink.calibration(self._name, values, about(self._plan))
