"""Measures the host's wall clock against its monotonic one, so that every time is known in UTC."""

import time
from collections.abc import Callable
from typing import Final

from firsthand.api import Clock, ClockPair
from firsthand.streams.clock import Epoch, best_of

_EXCHANGES: Final = 5
_STEP_NS: Final = 50_000_000
"""More than any slewing between two measurements: the wall clock was set."""


class UtcClock:
    """Pairs of host and UTC readings; a wall clock that was set begins a new epoch."""

    def __init__(
        self,
        host_ns: Callable[[], int] = time.perf_counter_ns,
        utc_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._host_ns = host_ns
        self._utc_ns = utc_ns
        self._offset_ns: int | None = None
        self._epoch = 0

    def measure(self) -> tuple[ClockPair, Epoch | None]:
        """A pair measured now, and the epoch it begins if the wall clock was set since the last."""
        pair = best_of([self._exchange() for _ in range(_EXCHANGES)])
        offset_ns = pair.device_ns - pair.host_ns
        before_ns, self._offset_ns = self._offset_ns, offset_ns
        if before_ns is None or abs(offset_ns - before_ns) <= _STEP_NS:
            return pair, None
        self._epoch += 1
        step_ms = (offset_ns - before_ns) / 1e6
        reason = f"The computer's wall clock was set by {step_ms:+.0f} ms."
        pair = ClockPair(
            pair.clock, pair.host_before_ns, pair.host_after_ns, pair.device_ns, self._epoch
        )
        return pair, Epoch(Clock.UTC, self._epoch, pair.host_before_ns, reason)

    def _exchange(self) -> ClockPair:
        before_ns, utc_ns, after_ns = self._host_ns(), self._utc_ns(), self._host_ns()
        return ClockPair(Clock.UTC, before_ns, after_ns, utc_ns, self._epoch)
