"""Tells steps of the device's wall clock from packets that were lost.

A stream stamped by the wall clock shows both the same way: its device times jump. What decides is
the error of the wall clock (wall less monotonic clock at one moment) measured before and after the
jump: the difference is the step, the rest of the jump is time in which packets are missing. Both
may happen in one jump. Until a pair of readings from after the jump is there, it stays undecided.
"""

import logging
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from firsthand.api import Clock, ClockPair
from firsthand.streams.holes import Hole

log = logging.getLogger(__name__)

_OPEN_AT_MOST: Final = 512
_READINGS_KEPT: Final = 32
_RECENT_NS: Final = 60_000_000_000
_BETTER_PAIRS: Final = 5
"""Pairs to wait for when those at hand are too blurred to count packets by."""
_ON_ITS_WAY_NS: Final = 10_000_000_000
"""Longest time that a packet is on its way: a connection that holds it longer is given up."""
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

    def step_since(self, then: "_Reading") -> int:
        """By how much the wall clock was stepped between the two."""
        if self.error_ns is None or then.error_ns is None:
            return self.offset_ns - then.offset_ns
        return self.error_ns - then.error_ns

    def reaches_ns(self, then: "_Reading") -> int:
        """Device time that only packets from after this reading bear, whichever side of the step
        they were stamped on."""
        return self.after_ns + self.offset_ns + max(0, -self.step_since(then))

    def moved(self, step_ns: int) -> "_Reading":
        """What it would have been after a step."""
        error_ns = None if self.error_ns is None else self.error_ns + step_ns
        return replace(self, offset_ns=self.offset_ns + step_ns, error_ns=error_ns)


class WallJumps:
    """The undecided jumps of one stream and the clock readings that decide them."""

    def __init__(self, period_ns: float) -> None:
        self.steps: list[ClockStep] = []
        self.open: list[Hole] = []
        self._period_ns = period_ns
        self._device: ClockPair | None = None
        self._readings: deque[_Reading] = deque(maxlen=_READINGS_KEPT)
        self._latest_ns = 0
        self._latest_arrival_ns = 0

    def jumped(self, hole: Hole) -> list[Decision]:
        """Keep a jump until it can be decided."""
        self.open.append(hole)
        return self.give_up() if len(self.open) > _OPEN_AT_MOST else []

    def seen(self, device_ns: int, arrival_ns: int) -> list[Decision]:
        """Told of every packet: jumps are decided once packets from after the reading are there."""
        self._latest_ns = device_ns
        self._latest_arrival_ns = arrival_ns
        return self._decide() if self.open else []

    def pair(self, pair: ClockPair) -> list[Decision]:
        """Take a pair; decide the jumps that it shows to be over."""
        if pair.clock is Clock.DEVICE:
            self._device = pair
        if pair.clock is not Clock.DEVICE_WALL:
            return []
        self._readings.append(self._read(pair))
        return self._decide() if self.open else []

    def give_up(self) -> list[Decision]:
        """Decide everything still open with the pairs there are, or else by the arrivals."""
        decisions: list[Decision] = []
        while self.open:
            then = self._before(self.open[0])
            now = self._after(self.open[0])
            if then is None or not now:
                decisions.append(self._by_arrival(self.open.pop(0)))
            else:
                decisions += self._by_step(self._taken(now[0], then), then, now[0])
        return decisions

    def forget(self) -> None:
        """Drop all readings: the device began anew."""
        self._device = None
        self._readings.clear()

    def _decide(self) -> list[Decision]:
        decisions: list[Decision] = []
        while self.open:
            now = self._after(self.open[0])
            if not now:
                break
            then = self._before(self.open[0])
            if then is None:
                decisions.append(self._by_arrival(self.open.pop(0)))
                continue
            allowed_ns = self._period_ns - then.blur_ns
            best = next((reading for reading in now if reading.blur_ns <= allowed_ns), None)
            if best is None:
                if len(now) <= _BETTER_PAIRS:
                    break
                best = min(now, key=lambda reading: reading.blur_ns)
            # The step may still be on its way, in a jump that has not arrived.
            if (
                self._latest_ns < best.reaches_ns(then)
                and self._latest_arrival_ns < best.after_ns + _ON_ITS_WAY_NS
            ):
                break
            decisions += self._by_step(self._taken(best, then), then, best)
        return decisions

    def _taken(self, now: _Reading, then: _Reading) -> list[Hole]:
        """Take the jumps out that a reading decides: the first, and all that were over by then.

        The one that most likely held a step belongs to them too, though its later packet may be
        stamped after the reading. After a step back, times of the old side look later than they
        are.
        """
        step_ns = now.step_since(then)
        until_ns = now.after_ns + now.offset_ns
        count = 1
        while count < len(self.open) and self.open[count].stop_ns <= until_ns:
            count += 1
        if abs(step_ns) < self._period_ns / 2:
            back = (n for n, hole in enumerate(self.open[1:count], 1) if hole.step_ns <= 0)
            count = next(back, count)  # it is of a step back that this reading does not know yet
        else:
            begun_ns = until_ns + max(0, -step_ns)
            held = [self.open[0], *(h for h in self.open[1:] if h.start_ns <= begun_ns)]
            count = max(count, 1 + held.index(self._most_likely(held, step_ns)))
        taken, self.open = self.open[:count], self.open[count:]
        return taken

    def _after(self, hole: Hole) -> list[_Reading]:
        """The readings that were begun when the packet after the jump had arrived."""
        return [r for r in self._readings if r.before_ns >= hole.arrival_after_ns]

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
        step_ns = now.step_since(then)
        blur_ns = then.blur_ns + now.blur_ns
        if abs(step_ns) < self._period_ns / 2:
            return [Decision(hole, self._snap(hole, 0, blur_ns)) for hole in holes]
        if abs(step_ns) <= blur_ns:
            return [self._by_arrival(hole) for hole in holes]

        stepped = self._most_likely(holes, step_ns)
        log.info("the device's wall clock was stepped by %.1f ms", step_ns / 1e6)
        self.steps.append(
            ClockStep(stepped.arrival_after_ns, stepped.start_ns, stepped.stop_ns, step_ns)
        )
        # What was read before the step still serves the jumps after it, once moved by the step.
        # A reading near the present one was taken after the step, before its packets arrived.
        self._readings = deque(
            (
                reading
                if abs(now.offset_ns - reading.offset_ns) < abs(step_ns) / 2
                else reading.moved(step_ns)
                for reading in self._readings
            ),
            _READINGS_KEPT,
        )
        return [
            Decision(hole, self._snap(hole, step_ns if hole is stepped else 0, blur_ns))
            for hole in holes
        ]

    def _most_likely(self, holes: list[Hole], step_ns: int) -> Hole:
        """Which of several jumps held the step: the one that leaves whole periods everywhere, and
        of those that fit alike the one that leaves the packets' arrivals most in step."""
        if len(holes) == 1:
            return holes[0]
        off_grid = [self._off_grid(hole, step_ns) - self._off_grid(hole, 0) for hole in holes]
        by_arrival = [
            abs(hole.step_ns - step_ns - hole.arrival_step_ns)
            - abs(hole.step_ns - hole.arrival_step_ns)
            for hole in holes
        ]
        best = min(off_grid) + _ON_GRID
        at = min((n for n, off in enumerate(off_grid) if off <= best), key=by_arrival.__getitem__)
        return holes[at]

    def _off_grid(self, hole: Hole, step_ns: int) -> float:
        """How far a hole less the step is from one period or more, in periods."""
        slots = (hole.step_ns - step_ns) / self._period_ns
        whole = slots if hole.resting or hole.empty else round(slots)
        return abs(slots - max(1, whole))

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
