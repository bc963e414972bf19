"""Finds the very packet at which a clock was stepped, between two pairs that only bracket it.

Pairs are seconds apart; packets are milliseconds apart and carry the step themselves: device times
jump there by the step, and nowhere else by just that. Where several jumps would fit (a real hole
of at least that length lies near), the one counts that leaves whole periods between packets of a
steady stream. Where that does not tell, or no jump shows (the step is inside a hole), the packets'
ways decide: how long each packet would have been under way by the old curve and by the new one.
Packets may wait on their way, but never arrive before they were sent, so of every run of packets
between two candidates the quickest is compared with the quickest otherwise seen.

What stays open: packets that all waited, between a step of whole periods and a hole as long, may
go to the wrong side of it.
"""

from typing import Final

import numpy as np

from firsthand.streams.clock_stretch import Floats, Stretch, Times

_LONGEST_WAY_NS: Final = 30_000_000_000
_ALIKE: Final = 0.1
_ALIKE_NS: Final = 2_000_000.0
_AROUND: Final = 200
"""Packets on both sides that say how quick a packet is when nothing holds it."""
_STEADY: Final = 0.05
_ODD: Final = 0.1
"""In periods: what a steady stream's times are off the grid, and what is too much to be chance."""
_SLICES: Final = 32


def first_of(old: Stretch, new: Stretch, device_ns: Times, arrival_ns: Times, start: int) -> int:
    """Index of the first packet of the ``new`` stretch, not before ``start``; the length where all
    belong to the old one. Packets in stream order."""
    # What arrived before the last pair of the old stretch was asked for is old without doubt.
    low = max(start, int(np.searchsorted(arrival_ns, old.sure_until_ns)))
    latest = int(np.searchsorted(arrival_ns, new.sure_from_ns + _LONGEST_WAY_NS))
    window = device_ns[low:latest]
    # What was stamped after the first pair of the new one, by either curve, is new.
    earliest = np.minimum(old.to_host(window), new.to_host(window))
    surely = np.flatnonzero(earliest > new.sure_from_ns + new.bound_ns[0])
    high = low + int(surely[0]) if len(surely) else max(low, latest)
    if high <= low:
        return low
    middle = np.array([(old.stop_ns + new.start_ns) // 2])
    step = float(new.to_device(middle)[0] - old.to_device(middle)[0])
    return _between(old, new, device_ns, arrival_ns, low, high, step)


def _between(
    old: Stretch,
    new: Stretch,
    device_ns: Times,
    arrival_ns: Times,
    low: int,
    high: int,
    step: float,
) -> int:
    at = np.arange(max(low, 1), min(high, len(device_ns) - 1) + 1)
    jumps = (device_ns[at] - device_ns[at - 1]).astype(np.float64)
    around = np.diff(device_ns[max(0, low - _AROUND) : high + _AROUND])
    forward = around[around > 0]
    usual = float(np.median(forward)) if len(forward) else 0.0
    # How much smoother the times become by cutting here.
    gain = np.abs(jumps - usual) - np.abs(jumps - step - usual)
    best = float(gain.max()) if len(gain) else 0.0
    # How much more the times are off the grid by cutting here: less than nothing shows the step.
    odd = _off(jumps - step, usual) - _off(jumps, usual)
    steady = bool(len(forward)) and float(np.median(_off(forward, usual))) < _STEADY
    if best > 0.5 * abs(step):
        doubt = 2.0 * float(old.bound_ns[-1] + new.bound_ns[0])
        alike = gain >= best - max(_ALIKE_NS, _ALIKE * abs(step), doubt)
        candidates = at[alike & (odd <= odd[alike].min() + _ODD)] if steady else at[alike]
    else:
        hole = (jumps > 1.5 * usual) | (jumps <= 0)
        candidates = at[hole & (odd < -_ODD)] if steady else at[:0]
        if not len(candidates):
            slices = np.linspace(low, high, _SLICES, dtype=np.int64)
            candidates = np.unique(np.concatenate((at[hole], slices)))
    if len(candidates) == 1:
        return int(candidates[0])
    return _by_way(old, new, device_ns, arrival_ns, candidates.astype(np.int64))


def _off(times: Floats, period: float) -> Floats:
    """How far steps are from one period or more, in periods."""
    slots = times / max(period, 1.0)
    return np.asarray(np.abs(slots - np.maximum(np.rint(slots), 1.0)))


def _by_way(
    old: Stretch, new: Stretch, device_ns: Times, arrival_ns: Times, candidates: Times
) -> int:
    """The candidate that leaves no run of packets too early or too late."""
    low, high = int(candidates[0]), int(candidates[-1])

    def way(stretch: Stretch, part: slice) -> Floats:
        return np.asarray((arrival_ns[part] - stretch.to_host(device_ns[part])).astype(np.float64))

    before, after = (
        way(old, slice(max(0, low - _AROUND), low)),
        way(new, slice(high, high + _AROUND)),
    )
    known = np.concatenate((before, after))
    quickest = float(known.min()) if len(known) else 0.0
    runs = candidates[:-1] - low
    if_old, if_new = (
        np.abs(np.minimum.reduceat(way(stretch, slice(low, high)), runs) - quickest)
        for stretch in (old, new)
    )
    # Cutting at a candidate makes the runs before it old and those after it new.
    cost = np.concatenate(([0.0], np.cumsum(if_old))) + np.concatenate(
        (np.cumsum(if_new[::-1])[::-1], [0.0])
    )
    return int(candidates[int(cost.argmin())])
