"""Finds the gap rows that a killed recorder had not yet come to write.

A jump of a wall clock's times waits for a pair of readings before it is called a loss. Who is
killed while it waits has stored the packets on both sides, but no row. Replaying the log finds it.
"""

from firsthand.api import Clock, ClockPair, GapCause, GapRow, Packet, StreamSchema
from firsthand.streams.gaps import GapTracker

_NO_LOSS = frozenset({GapCause.NOT_STARTED.value, GapCause.NO_READING.value})


class Recount:
    """Counts one stream of one log segment again. Fed with its entries in the order of storing."""

    def __init__(self, schema: StreamSchema) -> None:
        self._tracker = GapTracker(schema, 0)
        self._found: list[GapRow] = []
        self._told: list[GapRow] = []

    def packet(self, packet: Packet) -> None:
        self._found += self._tracker.packet(packet)[1]

    def clock(self, pair: ClockPair) -> None:
        self._found += self._tracker.clock(pair)

    def epoch(self, clock: Clock, epoch: int) -> None:
        self._found += self._tracker.epoch(clock, epoch)

    def told(self, row: GapRow) -> None:
        """Take note of a row that the recorder wrote."""
        self._told.append(row)

    def missing(self) -> list[GapRow]:
        """Losses between stored packets that no written row tells of. Ends the counting."""
        self._found += self._tracker.close()
        return [
            row
            for row in self._found
            if row.packets_lost != 0 and row.cause not in _NO_LOSS and not self._is_told(row)
        ]

    def _is_told(self, row: GapRow) -> bool:
        return any(
            told.start_ns < row.stop_ns and row.start_ns < told.stop_ns
            for told in self._told
            if told.cause not in _NO_LOSS
        )
