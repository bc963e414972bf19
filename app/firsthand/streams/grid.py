"""Counts the slots that are missing between two device times of a steady stream.

Packets of a steady stream follow each other by their own length (a frame's period, the sound in a
packet). Device times say so only nearly: they are rounded to 100 ns, jitter, and come from a
crystal that is not the clock's. So a phase is kept that follows the packets slowly, and a rate
that is believed once it has shown itself; every hole is counted against these, and an error in one
hole never reaches the next.
"""

from typing import Final

_FOLLOW: Final = 1 / 16
"""How much of a packet's lateness moves the phase: 16 packets' worth of memory."""
_DRIFTED: Final = 0.5
"""Lengths of drift from the nominal rate before the measured rate is believed. Less could be two
jittered ends."""
_LONG_HOLE: Final = 64
"""Slots after which the old phase means nothing any more."""


class SlotGrid:
    """The running phase of one stream. Integer device times in, whole slots out."""

    def __init__(self) -> None:
        self.last_ns = 0
        self._length_ns = 0.0
        self._late_ns = 0.0
        self._drift_ns = 0.0
        self._measured_ns = 0.0

    @property
    def rate(self) -> float:
        """Length of a slot in device time, as a multiple of the nominal one."""
        if abs(self._drift_ns) <= _DRIFTED * self._length_ns or self._measured_ns <= 0:
            return 1.0
        return 1.0 + self._drift_ns / self._measured_ns

    def restart(self, device_ns: int, length_ns: float) -> None:
        """Take the phase from this packet alone; the measured rate stays."""
        self.last_ns = device_ns
        self._length_ns = length_ns
        self._late_ns = 0.0

    def follow(self, device_ns: int, length_ns: float) -> bool:
        """Go to a packet that comes next in step, as nearly all do. False, and nothing is done,
        where it comes half a slot or more early or late."""
        before_ns, drift_ns = self._length_ns, self._drift_ns
        rate = 1.0 if -_DRIFTED * before_ns <= drift_ns <= _DRIFTED * before_ns else self.rate
        ahead = device_ns - self.last_ns + self._late_ns - before_ns * rate
        half = length_ns * rate / 2
        if not -half <= ahead <= half:
            return False
        self._drift_ns = drift_ns + before_ns * (rate - 1.0) + ahead * _FOLLOW
        self._measured_ns += before_ns
        self.last_ns = device_ns
        self._length_ns = length_ns
        self._late_ns = ahead * (1.0 - _FOLLOW)
        return True

    def advance(self, device_ns: int, length_ns: float, *, rephase: bool = False) -> int:
        """Go to a later packet of nominal ``length_ns``; give the number of slots missed before it.

        ``rephase`` after an interruption: the device may have begun with another phase.
        """
        if not rephase and self.follow(device_ns, length_ns):
            return 0
        rate = self.rate
        unit = length_ns * rate
        ahead = (device_ns - self.last_ns) + self._late_ns - self._length_ns * rate
        lost = 0
        if ahead > unit / 2:
            lost = round(ahead / unit)
            ahead -= lost * unit
        elif ahead < -unit / 2:
            # Two packets within one slot: the second neither fills a slot nor moves the phase.
            self._late_ns += device_ns - self.last_ns
            self.last_ns = device_ns
            if self._late_ns > unit / 2:
                self._late_ns = 0.0
            return 0
        if rephase or lost > _LONG_HOLE:
            self.restart(device_ns, length_ns)
            return lost
        self.last_ns = device_ns
        self._length_ns = length_ns
        self._late_ns = ahead * (1.0 - _FOLLOW)
        return lost
