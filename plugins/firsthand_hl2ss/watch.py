"""Compares clocks with the headset, and knows at any time how the app answers."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from firsthand.api import Clock, ClockPair, DeviceSink
from firsthand_hl2ss.camera_config import Command, describe
from firsthand_hl2ss.clock_judge import Burst, ClockJudge, Exchange, Verdict
from firsthand_hl2ss.dial import Stopped
from firsthand_hl2ss.remote import Remote, RemoteError, RemoteOutcome
from firsthand_hl2ss.wire_rc import Op, TimeSource

log = logging.getLogger(__name__)

_EXCHANGES: Final = 8
_LATEST_HNS: Final = 2**63 // 1000
"""Far beyond a headset's running time (29 years), and safe as nanoseconds in 64 bits."""
_PAUSE_S: Final = 0.1
_PAUSE_AFTER_FAILURE_S: Final = 0.5
_EAGER_VISITS: Final = 6
_EAGER_S: Final = 1.0
_SHARP_NS: Final = 1_000_000
"""At the beginning, and when a clock began anew, one visit over a bad link says little: others
follow soon, until one was that sharp."""


@dataclass(frozen=True, slots=True)
class Look:
    """One visit to remote configuration: when it began and ended, and how it went."""

    began_ns: int
    ended_ns: int
    outcome: RemoteOutcome


class RemoteWatch:
    """A thread that visits remote configuration at a steady pace, and at once when asked.

    Tells the sink of clock pairs, epochs, version and restarts; sends the app's settings at the
    first contact and whenever the app was started again.
    """

    def __init__(
        self,
        remote: Remote,
        sink: DeviceSink,
        every_s: float,
        settings: Sequence[Command],
        stop: threading.Event,
    ) -> None:
        self._remote = remote
        self._sink = sink
        self._every_s = every_s
        self._settings = settings
        self._stop = stop
        self._judge = ClockJudge()
        self._changed = threading.Condition()
        self._asked = True
        self._looks: list[Look] = []
        self._pairs: dict[Clock, ClockPair] = {}
        self._version: tuple[int, ...] | None = None
        self._settled = not settings
        self._eager = _EAGER_VISITS
        self._thread = threading.Thread(target=self._run, name="hl2ss-remote", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Let everybody who waits see that the device is being closed."""
        with self._changed:
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def last(self) -> Look | None:
        with self._changed:
            return self._looks[-1] if self._looks else None

    @property
    def version(self) -> tuple[int, ...] | None:
        """The app's version, once it has told it."""
        return self._version

    def poke(self) -> None:
        """Look now instead of at the next turn."""
        with self._changed:
            self._asked = True
            self._changed.notify_all()

    def look_since(self, start_ns: int, timeout_s: float) -> Look | None:
        """A look that began after ``start_ns``, made now if need be; None if it takes too long."""
        limit = time.monotonic() + timeout_s
        with self._changed:
            while not self._stop.is_set():
                if self._looks and self._looks[-1].began_ns >= start_ns:
                    return self._looks[-1]
                left = limit - time.monotonic()
                if left <= 0:
                    return None
                self._asked = True
                self._changed.notify_all()
                self._changed.wait(min(left, 0.25))
        return None

    def came_back_since(self, start_ns: int) -> bool:
        """Whether the app did not answer for a while after ``start_ns``, and now does again."""
        with self._changed:
            looks = [look for look in self._looks if look.began_ns >= start_ns]
        if not looks or looks[-1].outcome is not RemoteOutcome.ANSWERS:
            return False
        return any(look.outcome is RemoteOutcome.NO_ANSWER for look in looks)

    def wait_for_answer(self, timeout_s: float) -> None:
        """Until the app answers (again), at most for so long; it is looked for meanwhile."""
        start_ns = time.perf_counter_ns()
        limit = time.monotonic() + timeout_s
        with self._changed:
            while not self._stop.is_set():
                last = self._looks[-1] if self._looks else None
                if last and last.began_ns >= start_ns and last.outcome is RemoteOutcome.ANSWERS:
                    return
                left = limit - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, 0.25))

    def estimate_ns(self, clock: Clock, host_ns: int, since_ns: int) -> int | None:
        """What a clock of the headset shows at ``host_ns``, by a pair measured after ``since_ns``;
        None without one."""
        pair = self._pairs.get(clock)
        if pair is None or pair.host_before_ns < since_ns:
            return None
        return pair.device_ns + host_ns - pair.host_ns

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._asked = False
            began_ns = time.perf_counter_ns()
            try:
                self._visit()
                outcome = RemoteOutcome.ANSWERS
            except RemoteError as error:
                outcome = error.outcome
                log.debug("remote configuration: %s (%s)", outcome, error)
            except Stopped:
                return
            with self._changed:
                self._looks.append(Look(began_ns, time.perf_counter_ns(), outcome))
                del self._looks[:-200]
                self._changed.notify_all()
            answered = outcome is RemoteOutcome.ANSWERS
            self._stop.wait(_PAUSE_S if answered else _PAUSE_AFTER_FAILURE_S)
            every_s = min(_EAGER_S, self._every_s) if self._eager else self._every_s
            limit = time.monotonic() + (every_s if answered else 0.0)
            with self._changed:
                while not (self._asked or self._stop.is_set()):
                    left = limit - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)

    def _visit(self) -> None:
        with self._remote.session() as session:
            version = session.version()
            offset_hns = session.utc_offset_hns()
            qpc: list[Exchange] = []
            utc: list[Exchange] = []
            for _ in range(_EXCHANGES):
                qpc.append(Exchange(*session.time(TimeSource.QPC)))
                utc.append(Exchange(*session.time(TimeSource.UTC)))
        if max(e.hns for e in qpc) > _LATEST_HNS or any(
            abs(e.hns - offset_hns) > _LATEST_HNS for e in utc
        ):
            raise RemoteError(RemoteOutcome.STRANGE, "times that no headset has")
        verdict = self._judge.judge(Burst(offset_hns, qpc, utc))
        self._tell(verdict, offset_hns, version)
        if not self._settled:
            self._settled = True
            self._send_settings()

    def _tell(self, verdict: Verdict, offset_hns: int, version: tuple[int, ...]) -> None:
        for news in verdict.epochs:
            self._sink.epoch(news.clock, news.epoch, news.reason)
        for pair in verdict.pairs:
            self._pairs[pair.clock] = pair
            self._sink.clock(pair)
        self._eager = _EAGER_VISITS if verdict.epochs else max(0, self._eager - 1)
        if all(pair.uncertainty_ns <= _SHARP_NS for pair in verdict.pairs):
            self._eager = 0
        again = verdict.app_restarted or verdict.headset_restarted
        if version != self._version or again:
            self._version = version
            self._sink.note(
                "hl2ss_app",
                {
                    "version": ".".join(map(str, version)),
                    "utc_offset_hns": offset_hns,
                    "app_restarted": verdict.app_restarted,
                    "headset_restarted": verdict.headset_restarted,
                    "new_world_frame": again,
                },
            )
            log.info("hl2ss %s answers%s", ".".join(map(str, version)), ", anew" if again else "")
        if again:
            self._settled = not self._settings

    def _send_settings(self) -> None:
        refused = self._remote.apply(self._settings)
        tell_settings(self._sink, "app_settings", self._settings, refused)


def tell_settings(
    sink: DeviceSink, kind: str, sent: Sequence[Command], refused: Sequence[tuple[Op, str]]
) -> None:
    """Note in the recording which settings were sent, and which the app did not take."""
    sink.note(
        kind,
        {
            "sent": [describe(command) for command in sent],
            "refused": [{"command": op.name.lower(), "why": why} for op, why in refused],
        },
    )
