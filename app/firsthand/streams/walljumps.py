"""Tells steps of the device's wall clock from packets that were lost.

A stream stamped by the wall clock shows both the same way: its device times jump. What decides is
the error of the wall clock (wall less monotonic clock at one moment) measured before and after the
jump: the difference is the step, the rest of the jump is time in which packets are missing. Both
may happen in one jump. Until a pair of readings from after the jump is there, it stays undecided.
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from firsthand.api import Clock, ClockPair
from firsthand.streams.holes import Hole

log = logging.getLogger(__name__)

_OPEN_AT_MOST: Final = 512
_READINGS_KEPT: Final = 32
_RECENT_NS: Final = 60_000_000_000
_BETTER_PAIRS: Final = 5
"""Pairs to wait for when those at hand are too blurred to count packets by."""
_ON_GRID: Final = 0.3
"""Distance from a whole number of periods that still names that number."""


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A step of the wall clock between two stored packets of a stream.

    ``arrival_ns`` is the host time at which the first packet stamped after the step arrived.
    """

    arrival_ns: int
    before_ns: int
    after_ns: int
    step_ns: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What a jump was: ``elapsed_ns`` of true time between its packets; None: not to be known."""

    hole: Hole
    elapsed_ns: float | None
    lost: int = -1


@dataclass(frozen=True, slots=True)
class _Reading:
    """The wall clock's offsets when a pair was measured. ``error_ns`` is None without a pair of
    the monotonic clock."""

    before_ns: int
    after_ns: int
    offset_ns: int
    error_ns: int | None
    blur_ns: int


class WallJumps:
    """The undecided jumps of one stream and the clock readings that decide them."""

    def __init__(self, period_ns: float) -> None:
        self.steps: list[ClockStep] = []
        self.open: list[Hole] = []
        self._period_ns = period_ns
        self._device: ClockPair | None = None
        self._readings: deque[_Reading] = deque(maxlen=_READINGS_KEPT)
        self._waited = 0

    def jumped(self, hole: Hole) -> list[Decision]:
        """Keep a jump until it can be decided."""
        self.open.append(hole)
        return self.give_up() if len(self.open) > _OPEN_AT_MOST else []

    def forget(self) -> None:
        """Drop all readings: the device began anew."""
        self._device = None
        self._readings.clear()

    def pair(self, pair: ClockPair) -> list[Decision]:
        """Take a pair; decide the jumps that lie before it."""
        if pair.clock is Clock.DEVICE:
            self._device = pair
        if pair.clock is not Clock.DEVICE_WALL:
            return []
        now = self._read(pair)
        ready = [hole for hole in self.open if hole.arrival_after_ns <= now.before_ns]
        decisions: list[Decision] = []
        if ready:
            then = self._before(ready[0])
            if then is None:
                decisions = [self._by_arrival(hole) for hole in ready]
            elif now.blur_ns + then.blur_ns > self._period_ns and self._waited < _BETTER_PAIRS:
                self._waited += 1
                self._readings.append(now)
                return []
            else:
                decisions = self._by_step(ready, then, now)
            self.open = self.open[len(ready) :]
            self._waited = 0
        self._readings.append(now)
        return decisions

    def give_up(self) -> list[Decision]:
        """Decide everything still open by when the packets arrived, which is all there is."""
        decisions = [self._by_arrival(hole) for hole in self.open]
        self.open = []
        return decisions

    def _read(self, pair: ClockPair) -> _Reading:
        offset_ns = pair.device_ns - pair.host_ns
        device = self._device
        if device is None or abs(device.host_ns - pair.host_ns) > _RECENT_NS:
            return _Reading(
                pair.host_before_ns, pair.host_after_ns, offset_ns, None, pair.uncertainty_ns
            )
        return _Reading(
            pair.host_before_ns,
            pair.host_after_ns,
            offset_ns,
            offset_ns - (device.device_ns - device.host_ns),
            pair.uncertainty_ns + device.uncertainty_ns,
        )

    def _before(self, hole: Hole) -> _Reading | None:
        """The sharpest recent reading that is surely from before the jump.

        It ended before the last packet of the old side arrived, and by its own offset that packet
        was stamped after it: a reading taken after the step fails the second while packets
        that were stamped before the step are still on their way.
        """
        fitting = [
            reading
            for reading in self._readings
            if reading.after_ns <= hole.arrival_before_ns
            and reading.before_ns <= hole.start_ns - reading.offset_ns + reading.blur_ns
        ]
        if not fitting:
            return None
        recent = [r for r in fitting if fitting[-1].after_ns - r.after_ns < _RECENT_NS]
        sharp = 2 * min(reading.blur_ns for reading in recent)
        return [reading for reading in recent if reading.blur_ns <= sharp][-1]

    def _by_step(self, holes: list[Hole], then: _Reading, now: _Reading) -> list[Decision]:
        if then.error_ns is not None and now.error_ns is not None:
            step_ns = now.error_ns - then.error_ns
        else:
            step_ns = now.offset_ns - then.offset_ns
        blur_ns = then.blur_ns + now.blur_ns
        if abs(step_ns) < self._period_ns / 2:
            return [Decision(hole, self._snap(hole, 0, blur_ns)) for hole in holes]
        if abs(step_ns) <= blur_ns:
            return [self._by_arrival(hole) for hole in holes]

        def disagreement(stepped: Hole) -> float:
            """How ill the arrivals fit if the step was in this hole."""
            return abs(stepped.step_ns - step_ns - stepped.arrival_step_ns) - abs(
                stepped.step_ns - stepped.arrival_step_ns
            )

        stepped = min(holes, key=disagreement)
        log.info("the device's wall clock was stepped by %.1f ms", step_ns / 1e6)
        self.steps.append(
            ClockStep(stepped.arrival_after_ns, stepped.start_ns, stepped.stop_ns, step_ns)
        )
        self._readings.clear()
        return [
            Decision(hole, self._snap(hole, step_ns if hole is stepped else 0, blur_ns))
            for hole in holes
        ]

    def _snap(self, hole: Hole, step_ns: int, blur_ns: int) -> float:
        """True time of the hole; whole periods where readings were given on both sides."""
        elapsed_ns = float(hole.step_ns - step_ns)
        if hole.resting or hole.empty or self._period_ns <= 0:
            return elapsed_ns
        slots = elapsed_ns / self._period_ns
        if abs(slots - round(slots)) <= _ON_GRID and blur_ns <= self._period_ns:
            return round(slots) * self._period_ns
        spread = max(0.5, blur_ns / self._period_ns)
        by_arrival = hole.arrival_step_ns / self._period_ns
        return round(min(max(by_arrival, slots - spread), slots + spread)) * self._period_ns

    def _by_arrival(self, hole: Hole) -> Decision:
        jump_ns, arrived_ns = hole.step_ns, hole.arrival_step_ns
        if abs(jump_ns - arrived_ns) <= max(0.3 * abs(jump_ns), 2 * self._period_ns):
            return Decision(hole, float(jump_ns))
        return Decision(hole, float(arrived_ns))
