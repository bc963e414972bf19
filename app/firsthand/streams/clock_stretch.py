"""One stretch of a clock: measured pairs in, a curve from its time to the host's and back out.

A clock that runs steadily is a straight line through the pairs, weighted by how short each round
trip was. Where the pairs contradict a line (a wall clock that is being slewed) the curve goes from
sharp pair to sharp pair instead. Each measured interval contains the truth: the uncertainty told is
half the round trip plus whatever the curve departs from the pair's middle, so that a path that is
slower in one direction is admitted, not averaged away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, ClockPair

Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_READING_NS: Final = 20_000.0
"""What a reading of a clock may be wrong by, however short the round trip."""
_WANDER: Final = 20e-6
"""How much a crystal's rate departs from a straight line, with temperature."""
_LIKELY_RATE: Final = 100e-6
"""How far two clocks' rates are likely apart before anything is measured."""
_ROUNDS: Final = 4
_SHARP: Final = 4.0
_SHARP_NS: Final = 2_000_000
_NEIGHBOURS: Final = 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of one clock. Knots are relative to ``base_host_ns`` and ``base_device_ns``."""

    clock: Clock
    epoch: int
    pairs: int
    base_host_ns: int
    base_device_ns: int
    start_ns: int
    stop_ns: int
    """Host times of the first and the last pair."""
    sure_from_ns: int
    sure_until_ns: int
    """Between these host times the clock was surely in this stretch: the first pair had been read,
    the last one not yet asked for."""
    knot_host: Floats
    knot_device: Floats
    rate: float
    """Device nanoseconds per host nanosecond, less 1."""
    rate_doubt: float
    residuals: Floats
    bound_host: Floats
    bound_ns: Floats
    slewed: bool

    def to_host(self, device_ns: Times) -> Times:
        """Host times of device times."""
        away = (device_ns - self.base_device_ns).astype(np.float64)
        host = _curve(away, self.knot_device, self.knot_host, 1.0 / (1.0 + self.rate))
        return np.asarray(np.rint(host).astype(np.int64) + self.base_host_ns)

    def to_device(self, host_ns: Times) -> Times:
        """Device times of host times."""
        away = (host_ns - self.base_host_ns).astype(np.float64)
        device = _curve(away, self.knot_host, self.knot_device, 1.0 + self.rate)
        return np.asarray(np.rint(device).astype(np.int64) + self.base_device_ns)

    def uncertainty(self, host_ns: Times) -> Floats:
        """Nanoseconds by which the curve may be wrong at host times: the best that any pair says,
        loosened by the distance from it."""
        at = (host_ns - self.base_host_ns).astype(np.float64)
        after = np.clip(np.searchsorted(self.bound_host, at), 0, len(self.bound_host) - 1)
        before = np.maximum(after - 1, 0)
        return np.minimum(
            *(
                self.bound_ns[side] + self.rate_doubt * np.abs(at - self.bound_host[side])
                for side in (before, after)
            )
        )


def fit_stretch(
    pairs: Sequence[ClockPair], likely_rate: float = 0.0, likely: float = _LIKELY_RATE
) -> Stretch:
    """The curve through pairs of one stretch, in host order; ``likely_rate`` (± ``likely``) is what
    is known of the rate from elsewhere, and decides where a few pairs cannot."""
    first = pairs[0]
    host = np.array([pair.host_ns - first.host_ns for pair in pairs], dtype=np.float64)
    device = np.array([pair.device_ns - first.device_ns for pair in pairs], dtype=np.float64)
    half = np.array([pair.uncertainty_ns for pair in pairs], dtype=np.float64)
    offset = device - host
    level, rate, rate_doubt = _line(host, offset, half, likely_rate, likely)
    residuals = offset - (level + rate * host)
    slewed = len(pairs) > 2 and bool((np.abs(residuals) > half + _READING_NS).any())
    if slewed:
        knots = _sharp_ones(half)
        knot_host, knot_device = host[knots], device[knots]
        steps = np.diff(knot_device) / np.diff(knot_host) - 1.0 if len(knots) > 1 else np.zeros(1)
        rate_doubt = float(np.abs(steps - rate).max()) + _WANDER
        residuals = device - np.interp(host, knot_host, knot_device)
    else:
        knot_host = host[[0, -1]] if len(pairs) > 1 else host
        knot_device = level + (1.0 + rate) * knot_host
    bound = _loosened(host, half + np.abs(residuals), rate_doubt)
    return Stretch(
        clock=first.clock,
        epoch=first.epoch,
        pairs=len(pairs),
        base_host_ns=first.host_ns,
        base_device_ns=first.device_ns,
        start_ns=first.host_ns,
        stop_ns=pairs[-1].host_ns,
        sure_from_ns=first.host_after_ns,
        sure_until_ns=pairs[-1].host_before_ns,
        knot_host=knot_host,
        knot_device=knot_device,
        rate=rate,
        rate_doubt=rate_doubt,
        residuals=residuals,
        bound_host=host,
        bound_ns=bound,
        slewed=slewed,
    )


def sharp(pairs: Sequence[ClockPair]) -> list[ClockPair]:
    """The pairs worth using, by host time: a round trip far longer than usual says nothing. Of
    pairs measured at the same moment the sharper one."""
    limit = max(_SHARP * float(np.median([p.uncertainty_ns for p in pairs])), _SHARP_NS)
    kept: dict[int, ClockPair] = {}
    for pair in sorted(pairs, key=lambda pair: (pair.host_ns, -pair.uncertainty_ns)):
        if pair.uncertainty_ns <= limit:
            kept[pair.host_ns] = pair
    return list(kept.values())


def _line(
    host: Floats, offset: Floats, half: Floats, likely_rate: float, likely: float
) -> tuple[float, float, float]:
    """Level at 0, rate, and doubt of the rate: least squares, outliers held down (Huber), with the
    likely rate as one more observation."""
    sigma = half + _READING_NS
    weight = 1.0 / sigma**2
    level, rate, spread = float(offset[0]), likely_rate, 0.0
    for _ in range(_ROUNDS):
        middle = float(np.average(host, weights=weight))
        mean = float(np.average(offset, weights=weight))
        away = host - middle
        spread = float((weight * away**2).sum()) + 1.0 / likely**2
        excess = float((weight * away * (offset - mean - likely_rate * away)).sum())
        rate = likely_rate + excess / spread
        level = mean - rate * middle
        distance = np.abs(offset - level - rate * host) / sigma
        weight = np.minimum(1.0, 2.0 / np.maximum(distance, 2.0)) / sigma**2
    return level, rate, _WANDER + 2.0 * spread**-0.5


def _sharp_ones(half: Floats) -> npt.NDArray[np.int64]:
    """Indices of pairs that are sharp for their surroundings, and of both ends."""
    padded = np.pad(half, _NEIGHBOURS, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1)
    good = half <= 3.0 * windows.min(axis=1) + _READING_NS
    return np.flatnonzero(good)


def _loosened(host: Floats, bound: Floats, doubt: float) -> Floats:
    """Each pair's bound, or a neighbour's loosened by the distance where that is tighter."""
    forward = np.minimum.accumulate(bound - doubt * host) + doubt * host
    backward = np.minimum.accumulate((bound + doubt * host)[::-1])[::-1] - doubt * host
    return np.minimum(forward, backward)


def _curve(at: Floats, knots: Floats, values: Floats, slope: float) -> Floats:
    """Linear between knots, going on with ``slope`` outside."""
    inside = np.interp(at, knots, values)
    below = np.minimum(at - knots[0], 0.0)
    above = np.maximum(at - knots[-1], 0.0)
    return np.asarray(inside + (below + above) * slope)
