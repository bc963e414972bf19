"""Devices that say when they have nothing to say.

An eye tracker that nobody wears sends an empty record now and then, stamped with the present time
instead of a reading's. The time between is not lost packets; it becomes one ``NO_READING`` row,
from the last reading before to the first one after.
"""

from typing import Final

from firsthand.api import GapCause, GapRow
from firsthand.streams.holes import Hole

_SOONEST: Final = 0.9
_LATEST: Final = 1.35
"""How late an empty record may come, in its own interval, before one is held to be missing."""


class IdleRule:
    """Counts slots where empty records may stand in for readings. One per stream."""

    def __init__(self, stream: str, period_ns: float, idle_periods: float) -> None:
        self._stream = stream
        self._period_ns = period_ns
        self._idle_ns = idle_periods * period_ns
        self._since_ns: int | None = None
        self._until_ns = 0

    @property
    def resting(self) -> bool:
        """Whether the last packet said that there is no reading."""
        return self._since_ns is not None

    def first(self, device_ns: int, empty: bool) -> None:
        """Begin with this packet."""
        self._since_ns = device_ns if empty else None
        self._until_ns = device_ns

    def lost(self, hole: Hole, elapsed_ns: float) -> int:
        """Slots lost in a hole of ``elapsed_ns``; −1 where readings and rest cannot be told apart.

        Between two empty records the missing ones are counted in their own, longer interval.
        """
        if not (hole.resting or hole.empty) or (
            not hole.resting and elapsed_ns < _SOONEST * self._idle_ns
        ):
            return max(0, round(elapsed_ns / self._period_ns) - 1) if self._period_ns else -1
        if elapsed_ns <= _LATEST * self._idle_ns:
            return 0
        if hole.resting and hole.empty:
            return round(elapsed_ns / self._idle_ns) - 1
        return -1

    def follow(self, hole: Hole) -> list[GapRow]:
        """Go on to the packet after the hole; give the row of a rest that has ended."""
        if not hole.empty or (hole.resting and 0 < hole.step_ns < _SOONEST * self._idle_ns):
            return self.wake(hole.stop_ns)  # also by a blink: it comes in a reading's own time
        if self._since_ns is None and hole.step_ns >= _SOONEST * self._idle_ns:
            self._since_ns = hole.start_ns
        self._until_ns = hole.stop_ns
        return []

    def wake(self, device_ns: int | None) -> list[GapRow]:
        """End a rest at ``device_ns``, or where it was last heard of."""
        since_ns, self._since_ns = self._since_ns, None
        stop_ns = self._until_ns if device_ns is None else device_ns
        if since_ns is None or stop_ns - since_ns < _SOONEST * self._idle_ns:
            return []
        return [GapRow(self._stream, since_ns, stop_ns, GapCause.NO_READING.value, 0)]
