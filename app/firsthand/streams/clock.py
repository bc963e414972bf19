"""Clocks: measured pairs, epochs, and host times for what devices stamped."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from firsthand.api import Clock, ClockPair, RecordingError
from firsthand.streams.clock_steps import first_of
from firsthand.streams.clock_stretch import Floats, Stretch, Times, fit_stretch, sharp

_STEP_NS: Final = 10_000_000
_STEP_RATE: Final = 2e-3
"""A difference between pairs is a step when it is beyond both: slower than that is a slew."""
_SAME_CRYSTAL: Final = 20e-6
_WELL_KNOWN_PAIRS: Final = 5
_RESTART_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Epoch:
    """The beginning of a stretch in which ``clock`` runs steadily: when it was noticed, and why."""

    clock: Clock
    epoch: int
    host_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClockFit:
    """How a clock ran against the host's in one stretch.

    ``offset_ns`` is device less host time at ``host_start_ns``; ``rate_ppm`` how much faster the
    device's clock ran. Residuals are the pairs' distances from the curve. ``uncertainty_ns`` is
    the middle one of the bounds at the pairs: the true offset lies within it.
    """

    clock: Clock
    epoch: int
    pairs: int
    host_start_ns: int
    host_stop_ns: int
    offset_ns: int
    rate_ppm: float
    residual_p50_ns: float
    residual_p95_ns: float
    residual_max_ns: float
    uncertainty_ns: float
    slewed: bool
    """Whether the pairs contradict a straight line, so that the curve goes from pair to pair."""

    def to_json(self) -> dict[str, Any]:
        """The fit as JSON types."""
        return {**asdict(self), "clock": self.clock.value}


class ClockTable:
    """All that was measured of a recording's clocks, and host times made from it.

    Pairs of each clock are taken apart where an epoch begins, and where a step shows that nobody
    declared. A clock without pairs falls back: ``DEVICE_WALL`` to ``DEVICE``, which it equals until
    it is stepped, any other to the quickest arrivals.
    """

    def __init__(self, pairs: Iterable[ClockPair], epochs: Iterable[Epoch] = ()) -> None:
        by_clock: dict[Clock, list[ClockPair]] = {}
        for pair in pairs:
            by_clock.setdefault(pair.clock, []).append(pair)
        self._epochs = sorted(epochs, key=lambda epoch: epoch.host_ns)
        self._stretches: dict[Clock, list[Stretch]] = {}
        # The wall clock of a device runs by its monotonic one: that rate is known first.
        for clock in sorted(by_clock, key=lambda clock: clock is Clock.DEVICE_WALL):
            same = self._stretches.get(Clock.DEVICE, []) if clock is Clock.DEVICE_WALL else []
            self._stretches[clock] = _stretches(by_clock[clock], _best_known(same))

    def to_host_ns(self, clock: Clock, device_ns: Times, arrival_ns: Times) -> Times:
        """Host times of packets (or rows) of one stream, in the stream's order.

        ``arrival_ns``, the packets' host times of arrival, tells the epochs apart; the packet at
        which a step happened is found from the times themselves.
        """
        device = np.asarray(device_ns, dtype=np.int64)
        arrival = np.maximum.accumulate(np.asarray(arrival_ns, dtype=np.int64))
        if clock is Clock.HOST or not len(device):
            return device.copy()
        stretches = self._of(clock)
        if not stretches:
            return _by_arrival(device, arrival)
        host = np.empty_like(device)
        start = 0
        for old, new in pairwise(stretches):
            stop = first_of(old, new, device, arrival, start)
            host[start:stop] = old.to_host(device[start:stop])
            start = stop
        host[start:] = stretches[-1].to_host(device[start:])
        return host

    def fits(self, clock: Clock) -> Sequence[ClockFit]:
        """How the clock ran, stretch by stretch."""
        return [_fit(stretch) for stretch in self._stretches.get(clock, [])]

    def uncertainty_ns(self, clock: Clock, host_ns: Times) -> Times:
        """By how much times of ``clock`` may be wrong at host times. Raises ``RecordingError``
        for a clock that was never measured."""
        host = np.asarray(host_ns, dtype=np.int64)
        if clock is Clock.HOST:
            return np.zeros_like(host)
        stretches = self._measured(clock)
        which = self._which(stretches, host)
        doubt: Floats = np.zeros(host.shape)
        for at, stretch in enumerate(stretches):
            here = which == at
            doubt[here] = stretch.uncertainty(host[here])
        for old, new in pairwise(stretches):
            # The times themselves tell on which side of a step a packet lies; a host time does not.
            here = (host > old.sure_until_ns) & (host < new.sure_from_ns)
            doubt[here] = np.maximum(old.uncertainty(host[here]), new.uncertainty(host[here]))
        return np.ceil(doubt).astype(np.int64)

    def host_to_utc_ns(self, host_ns: Times) -> Times:
        """Wall-clock times of host times, as the recording computer's wall clock had it then.

        Where that clock was stepped, the times of day jump; durations are the host clock's.
        Raises ``RecordingError`` where the wall clock was never read.
        """
        host = np.asarray(host_ns, dtype=np.int64)
        stretches = self._measured(Clock.UTC)
        which = self._which(stretches, host)
        utc = np.empty_like(host)
        for at, stretch in enumerate(stretches):
            here = which == at
            utc[here] = stretch.to_device(host[here])
        return utc

    def _of(self, clock: Clock) -> list[Stretch]:
        stretches = self._stretches.get(clock, [])
        if not stretches and clock is Clock.DEVICE_WALL:
            return self._stretches.get(Clock.DEVICE, [])
        return stretches

    def _measured(self, clock: Clock) -> list[Stretch]:
        stretches = self._of(clock)
        if not stretches:
            raise RecordingError(f"The clock {clock.value!r} was never compared in this recording.")
        return stretches

    def _which(self, stretches: Sequence[Stretch], host_ns: Times) -> Times:
        """Which stretch host times fall into. Between two it is the declared beginning of the
        later one that parts them, or else the middle."""
        borders = [
            next(
                (
                    epoch.host_ns
                    for epoch in self._epochs
                    if epoch.clock is new.clock
                    and old.sure_until_ns <= epoch.host_ns <= new.sure_from_ns
                ),
                (old.sure_until_ns + new.sure_from_ns) // 2,
            )
            for old, new in pairwise(stretches)
        ]
        return np.searchsorted(np.array(borders, dtype=np.int64), host_ns, side="right")


def best_of(exchanges: Sequence[ClockPair]) -> ClockPair:
    """The exchange with the shortest round trip: the one that says most about the clock.

    Raises ``RecordingError`` where there is none.
    """
    if not exchanges:
        raise RecordingError("There is no clock exchange to choose from.")
    return min(exchanges, key=lambda pair: pair.host_after_ns - pair.host_before_ns)


def _stretches(pairs: Sequence[ClockPair], known: Stretch | None) -> list[Stretch]:
    """Fits part by part; ``known`` is a stretch of a clock on the same crystal."""
    parts = _parts(pairs)
    known = known or _best_known([fit_stretch(part) for part in parts])
    if known is None:
        return [fit_stretch(part) for part in parts]
    return [fit_stretch(part, known.rate, known.rate_doubt + _SAME_CRYSTAL) for part in parts]


def _best_known(stretches: Sequence[Stretch]) -> Stretch | None:
    """The longest stretch that says something of its clock's rate."""
    known = [s for s in stretches if s.pairs >= _WELL_KNOWN_PAIRS and not s.slewed]
    return max(known, key=lambda stretch: stretch.stop_ns - stretch.start_ns, default=None)


def _parts(pairs: Sequence[ClockPair]) -> list[list[ClockPair]]:
    """Pairs taken apart at epochs and undeclared steps, each part in host order."""
    by_epoch: dict[int, list[ClockPair]] = {}
    for pair in pairs:
        by_epoch.setdefault(pair.epoch, []).append(pair)
    parts: list[list[ClockPair]] = []
    for epoch in sorted(by_epoch):
        usable = sharp(by_epoch[epoch])
        part = [usable[0]]
        for before, after in pairwise(usable):
            if _is_step(before, after):
                parts.append(part)
                part = []
            part.append(after)
        parts.append(part)
    return sorted(parts, key=lambda part: part[0].host_ns)


def _is_step(before: ClockPair, after: ClockPair) -> bool:
    passed_ns = after.host_ns - before.host_ns
    change_ns = abs(after.device_ns - before.device_ns - passed_ns)
    blur_ns = before.uncertainty_ns + after.uncertainty_ns
    return change_ns > blur_ns + max(_STEP_NS, _STEP_RATE * passed_ns)


def _by_arrival(device_ns: Times, arrival_ns: Times) -> Times:
    """Host times without any measurement: the quickest packet is taken to have come at once."""
    host = np.empty_like(device_ns)
    restarts = np.flatnonzero(np.diff(device_ns) < -_RESTART_NS) + 1
    for part in np.split(np.arange(len(device_ns)), restarts):
        host[part] = device_ns[part] + (arrival_ns[part] - device_ns[part]).min()
    return host


def _fit(stretch: Stretch) -> ClockFit:
    apart = np.abs(stretch.residuals)
    start = np.array([stretch.start_ns])
    return ClockFit(
        clock=stretch.clock,
        epoch=stretch.epoch,
        pairs=stretch.pairs,
        host_start_ns=stretch.start_ns,
        host_stop_ns=stretch.stop_ns,
        offset_ns=int(stretch.to_device(start)[0]) - stretch.start_ns,
        rate_ppm=stretch.rate * 1e6,
        residual_p50_ns=float(np.percentile(apart, 50)),
        residual_p95_ns=float(np.percentile(apart, 95)),
        residual_max_ns=float(apart.max()),
        uncertainty_ns=float(np.median(stretch.bound_ns)),
        slewed=stretch.slewed,
    )
