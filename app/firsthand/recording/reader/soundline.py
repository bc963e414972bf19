"""Where a microphone's samples lie in time: unbroken stretches, and the crystal's drift in each."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand.api import PacketFlags

_SHORTEST_HOLE_S: Final = 0.005
_MARKED_HOLE_S: Final = 0.001
_KNOT_S: Final = 3.0
"""Stamps jitter; over so long their mean lateness is taken as the truth."""
STEADY_S: Final = 0.00025
"""A stretch whose drift stays below this is copied sample by sample."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Packets ``first`` to ``stop`` without a hole between them.

    ``sample`` counts within the stretch. It lies at ``sample / rate + offset(sample)``, in seconds
    of the session; the offset is given at ``knots`` and linear between and beyond them.
    """

    first: int
    stop: int
    samples: int
    rate_hz: float
    knots: npt.NDArray[np.float64]
    offsets_s: npt.NDArray[np.float64]

    @property
    def steady(self) -> bool:
        """Whether one offset is good enough for the whole stretch."""
        return bool(np.abs(self.offsets_s - self.offsets_s.mean()).max() <= STEADY_S)

    @property
    def start_s(self) -> float:
        return float(self.time_of(np.zeros(1))[0])

    @property
    def stop_s(self) -> float:
        return float(self.time_of(np.full(1, float(self.samples)))[0])

    def time_of(self, sample: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """When samples were heard."""
        return np.asarray(sample / self.rate_hz + self._offset(sample))

    def sample_at(self, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The (fractional) sample at given times; the inverse of ``time_of``."""
        guess = (time_s - self.offsets_s[0]) * self.rate_hz
        for _ in range(3):  # the offset changes by millionths: this converges at once
            guess = (time_s - self._offset(guess)) * self.rate_hz
        return np.asarray(guess)

    def _offset(self, sample: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        knots, offsets = self.knots, self.offsets_s
        if self.steady:
            return np.full(sample.shape, offsets.mean())
        found = np.interp(sample, knots, offsets)
        for side, inner, outside in ((0, 1, sample < knots[0]), (-1, -2, sample > knots[-1])):
            slope = (offsets[side] - offsets[inner]) / (knots[side] - knots[inner])
            found = np.where(outside, offsets[side] + slope * (sample - knots[side]), found)
        return np.asarray(found)


def stretches(
    times_s: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    flags: npt.NDArray[np.uint32],
    rate_hz: float,
) -> list[Stretch]:
    """Split packets at holes: ``times_s`` of their first samples, ``counts`` samples each.

    A hole is a step in time of more than half a packet beyond the samples sent (5 ms at least), or
    of more than 1 ms where the recorder marked one. So jitter of stamps makes no holes.
    """
    if not len(times_s):
        return []
    lengths = counts / rate_hz
    late = times_s[1:] - (times_s[:-1] + lengths[:-1])
    limit = np.maximum(_SHORTEST_HOLE_S, lengths[:-1] / 2)
    marks = PacketFlags.FIRST_AFTER_GAP | PacketFlags.NEW_CONNECTION | PacketFlags.TIME_WENT_BACK
    marked = (flags[1:] & int(marks)) != 0
    holes = (np.abs(late) > limit) | (marked & (np.abs(late) > _MARKED_HOLE_S))
    edges = np.concatenate(([0], np.flatnonzero(holes) + 1, [len(times_s)]))
    return [
        _stretch(int(first), int(stop), times_s, counts, rate_hz) for first, stop in pairwise(edges)
    ]


def _stretch(
    first: int,
    stop: int,
    times_s: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    rate_hz: float,
) -> Stretch:
    begins = np.concatenate(([0], np.cumsum(counts[first:stop])))
    total = int(begins[-1])
    late = times_s[first:stop] - begins[:-1] / rate_hz
    parts = max(1, int(total / rate_hz / _KNOT_S))
    pieces = [piece for piece in np.array_split(np.arange(stop - first), parts) if len(piece)]
    knots = np.array([begins[piece].mean() for piece in pieces])
    offsets = np.array([late[piece].mean() for piece in pieces])
    return Stretch(first, stop, total, rate_hz, knots, offsets)
