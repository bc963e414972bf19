"""Clocks: measured pairs, epochs, and host times for what devices stamped."""

from collections.abc import Sequence
from dataclasses import dataclass

from firsthand.api import Clock, ClockPair, RecordingError


@dataclass(frozen=True, slots=True)
class Epoch:
    """The beginning of a stretch in which ``clock`` runs steadily: when it was noticed, and why."""

    clock: Clock
    epoch: int
    host_ns: int
    reason: str


def best_of(exchanges: Sequence[ClockPair]) -> ClockPair:
    """The exchange with the shortest round trip: the one that says most about the clock.

    Raises ``RecordingError`` where there is none.
    """
    if not exchanges:
        raise RecordingError("There is no clock exchange to choose from.")
    return min(exchanges, key=lambda pair: pair.host_after_ns - pair.host_before_ns)
