"""Receives one stream for as long as the device is open: a thread, a connection after the other."""

import logging
import socket
import threading
import time
from typing import Final

from firsthand.api import StreamState
from firsthand_hl2ss import dial
from firsthand_hl2ss.calibration import CalibrationError, about, fetch
from firsthand_hl2ss.camera import Camera
from firsthand_hl2ss.connection import Connection, Headset
from firsthand_hl2ss.dial import Stopped
from firsthand_hl2ss.explain import Ending, Explanation, explain
from firsthand_hl2ss.plan import StreamPlan
from firsthand_hl2ss.remote import RemoteOutcome
from firsthand_hl2ss.report import StreamReport
from firsthand_hl2ss.watch import Look

log = logging.getLogger(__name__)

_BETWEEN_ATTEMPTS_S: Final = 0.25
_LONGEST_REST_S: Final = 2.0
_SOUND_PACKETS: Final = 20
"""So many good packets on a connection, and earlier trouble is forgiven."""
_CALIBRATION_TRIES: Final = 2
_DELIVERED: Final = {Ending.CLOSED, Ending.DAMAGED, Ending.STALLED, Ending.PATH_DEAD}


class StreamLink:
    """The thread of one stream."""

    def __init__(self, plan: StreamPlan, headset: Headset, camera: Camera | None = None) -> None:
        self._plan = plan
        self._headset = headset
        self._camera = camera
        self._stop = headset.stop
        self._report = StreamReport(plan.name, plan.schema.title, headset.sink)
        self._thread = threading.Thread(target=self._run, name=f"hl2ss-{plan.name}", daemon=True)
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._ending: Ending | None = None
        self._started_ns = 0
        """Of the present attempt."""
        self._connected_ns = 0
        self._refusals = 0
        self._damages = 0
        self._calibrations = _CALIBRATION_TRIES if plan.calibration else 0

    def start(self) -> None:
        self._thread.start()

    def interrupt(self) -> None:
        """Wake the thread out of its receive; the device is being closed."""
        with self._lock:
            if self._sock is not None:
                try:
                    self._sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    log.debug("%s: the connection had ended already", self._plan.name)

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
                    log.exception("%s: receiving failed", self._plan.name)
                    self._stop.wait(_LONGEST_REST_S)
        finally:
            if self._camera is not None:
                self._camera.turn_off()

    def _attempt(self) -> Ending:
        """Connect and receive until it ends; say how it ended. The connection is closed then."""
        if self._ending is None or self._ending in _DELIVERED:
            self._report.tell(StreamState.CONNECTING)
        self._started_ns = started_ns = time.perf_counter_ns()
        headset = self._headset
        try:
            if self._camera is not None:
                blindly = self._ending is Ending.CLOSED_AT_ONCE
                if not self._camera.turn_on(blindly=blindly):
                    return Ending.CAMERA_OFF
            self._calibrate()
            sock = dial.dial(
                headset.address.of(self._plan.port),
                headset.patience.connect_s,
                self._stop,
                overtaken=lambda: headset.path.overtook(started_ns),
            )
        except ConnectionRefusedError:
            return Ending.REFUSED
        except OSError as error:
            log.debug("%s: %s", self._plan.name, error)
            # From now on somebody listens for the path's return.
            headset.path.want(self._plan.name, self._plan.port)
            return Ending.NO_ANSWER
        with self._lock:
            self._sock = sock
        connection = Connection(sock, self._plan, headset, self._report)
        self._connected_ns = connection.connected_ns
        try:
            return connection.serve()
        finally:
            with self._lock:
                self._sock = None
            # The reset reaches the app wherever it is, and frees the stream for the next.
            dial.abort(sock)
            headset.path.leave(self._plan.name)
            if connection.delivered >= _SOUND_PACKETS:
                self._damages = self._refusals = 0

    def _afterwards(self, ending: Ending) -> None:
        """Tell why it ended, and wait for as long as is decent before the next attempt."""
        before = self._headset.watch.last
        why = self._explained(ending)
        if ending is Ending.REFUSED and self._answers() and not _answered(before):
            # The app has just come up: this refusal was of the time before.
            self._rest(_BETWEEN_ATTEMPTS_S)
            return
        if ending is not Ending.SILENT:
            self._report.tell(why.state, why.words)
            if self._report.packets or why.state is StreamState.REFUSED:
                self._report.interrupted(why.cause, why.words)
        match ending:
            case Ending.DAMAGED:
                self._damages += 1
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
                self._refusals += 1
                self._rest(_BETWEEN_ATTEMPTS_S * self._refusals)

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
        return explain(self._plan.port, self._report.title, ending, remote)

    def _answers(self) -> bool:
        return _answered(self._headset.watch.last)

    def _rest(self, seconds: float) -> None:
        if self._stop.wait(min(seconds, _LONGEST_REST_S)):
            raise Stopped

    def _calibrate(self) -> None:
        """Ask for the calibration, if that is still to be done; the port is free now if ever."""
        if not self._calibrations:
            return
        self._calibrations -= 1
        patience, sink = self._headset.patience, self._headset.sink
        try:
            values = fetch(
                self._plan,
                self._headset.address,
                patience.connect_s,
                patience.calibration_s,
                self._stop,
            )
        except CalibrationError as error:
            log.warning("%s: no calibration (%s)", self._plan.name, error)
            sink.note("no_calibration", {"stream": self._plan.name, "why": str(error)})
            return
        self._calibrations = 0
        sink.calibration(self._plan.name, values, about(self._plan))


def _answered(look: Look | None) -> bool:
    return look is not None and look.outcome is RemoteOutcome.ANSWERS
