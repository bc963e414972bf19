"""Tells times that a headset may well send from forged and damaged ones."""

import time
from typing import Final, Protocol

from firsthand.api import Clock
from firsthand_hl2ss.wire import NS_PER_HNS

_LATEST_HNS: Final = 2**63 // 1000
_BACK_NS: Final = 1_000_000_000
_AHEAD_NS: Final = {Clock.DEVICE: 2_000_000_000, Clock.DEVICE_WALL: 86_400_000_000_000}
_BEHIND_NS: Final = {Clock.DEVICE: 900_000_000_000, Clock.DEVICE_WALL: 86_400_000_000_000}
"""Data may have waited in the headset for as long as TCP has patience, and a wall clock may be set
by hours; a monotonic clock cannot be ahead."""
_LEAP_NS: Final = {Clock.DEVICE: 60_000_000_000, Clock.DEVICE_WALL: 86_400_000_000_000}
_JUMP_PERIODS: Final = 1.5
_POKE_EVERY_NS: Final = 500_000_000


class KnowsClocks(Protocol):
    """What is known of the headset's clocks; ``RemoteWatch`` is one."""

    def poke(self) -> None: ...

    def estimate_ns(self, clock: Clock, host_ns: int, since_ns: int) -> int | None: ...


class TimeJudge:
    """Judges the times of one connection of a stream: by their predecessor, and by the headset's
    clock as measured since the connection began."""

    def __init__(self, clock: Clock, period_ns: int, watch: KnowsClocks, since_ns: int) -> None:
        self._clock = clock
        self._is_wall = clock is Clock.DEVICE_WALL
        self._ahead_ns, self._behind_ns = _AHEAD_NS[clock], _BEHIND_NS[clock]
        self._leap_ns = _LEAP_NS[clock]
        self._period_ns = period_ns
        self._watch = watch
        self._since_ns = since_ns
        self._last_hns: int | None = None
        self._last_arrival_ns = 0
        self._poked_ns = 0

    def refuse(self, timestamp_hns: int) -> str | None:
        """What speaks against a header's time; None if nothing does."""
        if not 0 < timestamp_hns < _LATEST_HNS:
            return "a time that no headset has"
        now_ns = time.perf_counter_ns()
        if self._last_hns is not None:
            step_ns = (timestamp_hns - self._last_hns) * NS_PER_HNS
            if not self._is_wall and step_ns < -_BACK_NS:
                return f"a time {-step_ns / 1e9:.1f} s before the one before it"
            if step_ns > now_ns - self._last_arrival_ns + self._leap_ns:
                return f"a time {step_ns / 1e9:.1f} s after the one before it"
        expected_ns = self._watch.estimate_ns(self._clock, now_ns, self._since_ns)
        if expected_ns is not None:
            ahead_ns = timestamp_hns * NS_PER_HNS - expected_ns
            if not -self._behind_ns < ahead_ns < self._ahead_ns:
                return f"a time {ahead_ns / 1e9:+.1f} s from the headset's clock"
        return None

    def accepted(self, timestamp_hns: int, arrival_ns: int) -> None:
        """Take note of a good packet. Asks for a comparison of clocks when the eye tracker's wall
        clock seems to have been set."""
        if self._is_wall and self._last_hns is not None:
            step_ns = (timestamp_hns - self._last_hns) * NS_PER_HNS
            late_ns = step_ns - (arrival_ns - self._last_arrival_ns)
            # A step of one period is no jump, however unevenly the Wi-Fi delivers.
            odd = step_ns > (1 + _JUMP_PERIODS) * self._period_ns
            jumped = step_ns <= 0 or (odd and abs(late_ns) > _JUMP_PERIODS * self._period_ns)
            if jumped and arrival_ns - self._poked_ns > _POKE_EVERY_NS:
                self._poked_ns = arrival_ns
                self._watch.poke()
        self._last_hns = timestamp_hns
        self._last_arrival_ns = arrival_ns
