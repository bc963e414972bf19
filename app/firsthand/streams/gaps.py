"""Exact accounting: every packet that a stream did not deliver stands in a gap row, once.

Numbers come from device times alone, as integers. What the device tells (empty and damaged
packets, interruptions) says why packets are missing; how many is measured between the stored
packets on both sides. For each stream and clock epoch therefore

    slots between the first and the last stored packet = stored packets + packets lost in rows

with these agreements:

- ``NOT_STARTED`` reaches from the recording's start to the first packet, and has 0 packets: the
  device was not sending. Its start is the first device time less the wait on the host's clock.
- Skipped packets before the first and after the last stored one are rows as told.
- ``NO_READING`` has 0 packets: the device itself says that there was nothing to send.
- A gap still open at the end has −1 packets and reaches to the last known moment.
- Across a restart of the device's clock packets cannot be counted: −1, and the row's stop is a
  time of the new epoch.
- A stream that is not regular has rows of −1 where an interruption or a silence was, and rows of
  skipped packets as told.
- A skip whose time leaves no room in the device times gets a row of 0: noted, not counted.
- A row appears once its number is known: skipped packets with the next stored one, jumps of a
  ``DEVICE_WALL`` stream with the next pair of clock readings.
"""

import logging
from dataclasses import replace
from typing import Final

from firsthand.api import Clock, ClockPair, GapCause, GapRow, Packet, PacketFlags, StreamSchema
from firsthand.streams.grid import SlotGrid
from firsthand.streams.holes import Hole, Skip
from firsthand.streams.idle import IdleRule
from firsthand.streams.shape import shape_of
from firsthand.streams.walljumps import ClockStep, Decision, WallJumps

log = logging.getLogger(__name__)

_RESTART_NS: Final = 1_000_000_000
"""A monotonic clock that goes back by more than this began anew."""
_BELIEVED_BACK: Final = 3
"""Packets in a row behind the latest time before that time is held to have been wrong."""


class GapTracker:
    """The accounts of one stream. Fed by the recorder in the order of storing; never blocks."""

    def __init__(self, schema: StreamSchema, started_host_ns: int) -> None:
        self.lost = 0
        """Packets in all rows given so far, as far as they could be counted."""
        self.unknown = 0
        """Rows whose packets could not be counted."""
        self._schema = schema
        self._started_ns = started_host_ns
        self._shape = shape_of(schema)
        self._grid = SlotGrid()
        self._period_ns = 1e9 / schema.nominal_hz if schema.nominal_hz > 0 else 0.0
        self._wall = WallJumps(self._period_ns) if schema.clock is Clock.DEVICE_WALL else None
        self._idle = IdleRule(schema.name, self._period_ns, schema.idle_periods)
        self._skips: list[Skip] = []
        self._cause: GapCause | None = None
        self._previous_ns: int | None = None
        self._arrival_ns = started_host_ns
        self._behind = 0
        self._new_life = False
        self._restart_seen = False

    @property
    def jumps(self) -> list[ClockStep]:
        """Steps of the device's wall clock found so far, oldest first: times to begin epochs at."""
        return self._wall.steps if self._wall else []

    @property
    def undecided(self) -> int:
        """Jumps that wait for a pair of clock readings."""
        return len(self._wall.open) if self._wall else 0

    def packet(self, packet: Packet) -> tuple[Packet, list[GapRow]]:
        """Account for a packet: give it with its flags set, and the rows that are known now."""
        if self._follows(packet):
            return packet, []
        previous_ns = self._previous_ns
        if previous_ns is None:
            rows, flags = self._first(packet), PacketFlags.NONE
        elif self._new_life:
            rows, flags = self._across_restart(packet), PacketFlags.FIRST_AFTER_GAP
            self._new_life = False
        else:
            rows, flags = self._next(packet)
            if packet.device_ns <= previous_ns:
                flags |= PacketFlags.TIME_WENT_BACK
        self._previous_ns = packet.device_ns
        self._arrival_ns = packet.arrival_ns
        if self._wall is not None:
            rows += self._settled(self._wall.seen(packet.device_ns, packet.arrival_ns))
        if flags & ~packet.flags:
            packet = replace(packet, flags=packet.flags | flags)
        return packet, self._told(rows)

    def skipped(self, cause: GapCause, device_ns: int | None, packets: int) -> list[GapRow]:
        """Account for packets that arrived and are not stored.

        Their rows come with the next stored packet (or at the end), when the hole is measured.
        """
        if cause is GapCause.DAMAGED_PACKET:
            device_ns = None  # a time out of damaged bytes is not to be believed
        skip = Skip(cause, packets, device_ns, device_ns)
        if self._skips and self._skips[-1].joins(skip):
            self._skips[-1].join(skip)
        else:
            self._skips.append(skip)
        return []

    def interrupted(self, cause: GapCause, reason: str) -> None:
        """Remember why the next hole will be there; the last one told counts."""
        log.debug("%s interrupted (%s): %s", self._schema.name, cause, reason)
        self._cause = cause

    def epoch(self, clock: Clock, epoch: int) -> list[GapRow]:
        """A clock began anew.

        For the device's monotonic clock that is a restart: nothing can be counted across it. Steps
        of the wall clock are found from the pairs, so this says nothing new of them.
        """
        if clock is not Clock.DEVICE or self._schema.clock not in (Clock.DEVICE, Clock.DEVICE_WALL):
            return []
        log.debug("%s: device clock epoch %d", self._schema.name, epoch)
        rows: list[GapRow] = []
        if self._wall is not None:
            rows = self._settled(self._wall.give_up())
            self._wall.forget()
        if self._restart_seen:
            self._restart_seen = False  # the packets of the new life came before the news of it
        elif self._previous_ns is not None:
            self._new_life = True
        return self._told(rows)

    def clock(self, pair: ClockPair) -> list[GapRow]:
        """Take a pair of clock readings; it may decide whether jumps were steps or losses."""
        if self._wall is None:
            return []
        return self._told(self._settled(self._wall.pair(pair)))

    def close(self, now_host_ns: int | None = None) -> list[GapRow]:
        """Give what is still undecided or open. With ``now_host_ns`` an open gap reaches until
        then, otherwise it ends where it began: at the last packet."""
        rows = self._settled(self._wall.give_up()) if self._wall else []
        rows += self._idle.wake(None)
        last_ns = self._previous_ns
        if last_ns is None:
            self._skips = [skip for skip in self._skips if skip.start_ns is not None]
            rows += Hole(0, 0, 0, 0, skips=self._skips).skip_rows(self._schema.name)
        else:
            waited_ns = max(0, now_host_ns - self._arrival_ns) if now_host_ns is not None else 0
            hole = Hole(last_ns, last_ns + waited_ns, 0, 0, self._cause, self._skips)
            if self._cause is None:
                rows += hole.skip_rows(self._schema.name)
            else:
                rows += hole.rows(self._schema.name, -1)
        self._skips, self._cause = [], None
        return self._told(rows)

    def _follows(self, packet: Packet) -> bool:
        """Whether a packet comes next in step and nothing else is to be said; it is accounted for
        then. The short way of nearly all packets, since this runs hundreds of times a second."""
        previous_ns, device_ns, wall = self._previous_ns, packet.device_ns, self._wall
        if (
            previous_ns is None
            or device_ns <= previous_ns
            or device_ns <= self._grid.last_ns
            or self._new_life
            or self._skips
            or self._cause is not None
            or self._idle.resting
            or (wall is not None and wall.open)
        ):
            return False
        shape = self._shape
        if not shape.counts or shape.is_empty(packet):
            return False
        length_ns = shape.length_ns(packet)
        if length_ns <= 0 or not self._grid.follow(device_ns, length_ns):
            return False
        self._behind = 0
        self._previous_ns = device_ns
        self._arrival_ns = packet.arrival_ns
        if wall is not None:
            wall.seen(device_ns, packet.arrival_ns)  # decides nothing: no jump is open
        return True

    # -- the cases of ``packet`` ----------------------------------------------------------------

    def _first(self, packet: Packet) -> list[GapRow]:
        self._restart(packet)
        self._idle.first(packet.device_ns, self._shape.is_empty(packet))
        wait_ns = max(0, packet.arrival_ns - self._started_ns)
        start_ns = packet.device_ns - wait_ns
        known = [s.start_ns for s in self._skips if s.start_ns is not None]
        stop_ns = max(start_ns, min([packet.device_ns, *known]))
        name, cause = self._schema.name, GapCause.NOT_STARTED.value
        rows = [GapRow(name, start_ns, stop_ns, cause, 0)] if stop_ns > start_ns else []
        hole = self._hole(packet)
        hole.start_ns = stop_ns
        return rows + hole.skip_rows(name)

    def _across_restart(self, packet: Packet) -> list[GapRow]:
        hole = self._hole(packet)
        rows = self._idle.wake(None) + hole.rows(self._schema.name, -1)
        self._restart(packet)
        self._idle.first(packet.device_ns, self._shape.is_empty(packet))
        return rows

    def _next(self, packet: Packet) -> tuple[list[GapRow], PacketFlags]:
        if packet.device_ns <= self._grid.last_ns and self._wall is None:
            return self._back(packet)
        self._behind = 0
        if not self._shape.counts:
            return self._uncounted(packet)
        length_ns = self._shape.length_ns(packet)
        if length_ns <= 0:
            return self._uncounted(packet)
        hole = self._hole(packet)
        hole.resting, hole.empty = self._idle.resting, self._shape.is_empty(packet)
        if hole.step_ns > 0 and not (hole.resting or hole.empty):
            lost = self._grid.advance(packet.device_ns, length_ns, rephase=hole.cause is not None)
        else:
            lost = self._idle.lost(hole, hole.step_ns)
            self._grid.restart(packet.device_ns, length_ns)
        rows = self._idle.follow(hole)
        if self._wall is not None and (lost != 0 or hole.step_ns <= 0):
            rows += self._settled(self._wall.jumped(hole))
            agrees = 2 * hole.arrival_step_ns > hole.step_ns > 0
            return rows, PacketFlags.FIRST_AFTER_GAP if agrees else PacketFlags.NONE
        if lost == 0 and not hole.skips:
            return rows, PacketFlags.NONE
        return rows + hole.rows(self._schema.name, lost), PacketFlags.FIRST_AFTER_GAP

    def _back(self, packet: Packet) -> tuple[list[GapRow], PacketFlags]:
        """A monotonic clock that does not go on: a restart, or a stamp that is wrong.

        The latest time is kept as the place to count from, so that a single stamp behind it does
        not make a hole; several in a row show that it was the latest time that was wrong.
        """
        if self._grid.last_ns - packet.device_ns > _RESTART_NS:
            rows = self._across_restart(packet)
            self._restart_seen = True
            return rows, PacketFlags.FIRST_AFTER_GAP
        self._behind += 1
        if self._behind >= _BELIEVED_BACK:
            self._behind = 0
            self._restart(packet)
        return [], PacketFlags.NONE

    def _uncounted(self, packet: Packet) -> tuple[list[GapRow], PacketFlags]:
        """Streams without a grid: only an interruption or a silence makes a hole."""
        hole = self._hole(packet)
        silence_ns = self._schema.stalls_after_s * 1e9
        noticed_ns = 1.5 * self._period_ns if hole.cause is not None else silence_ns
        self._restart(packet)
        if hole.step_ns > noticed_ns:
            return hole.rows(self._schema.name, -1), PacketFlags.FIRST_AFTER_GAP
        if not hole.skips:
            return [], PacketFlags.NONE
        return hole.skip_rows(self._schema.name), PacketFlags.FIRST_AFTER_GAP

    # -- small parts ----------------------------------------------------------------------------

    def _hole(self, packet: Packet) -> Hole:
        """The hole before this packet, with what was told about it; that is forgotten here."""
        hole = Hole(
            self._grid.last_ns,
            packet.device_ns,
            self._arrival_ns,
            packet.arrival_ns,
            self._cause,
            self._skips,
        )
        self._skips, self._cause = [], None
        return hole

    def _restart(self, packet: Packet) -> None:
        self._grid.restart(packet.device_ns, self._shape.length_ns(packet))

    def _settled(self, decisions: list[Decision]) -> list[GapRow]:
        rows: list[GapRow] = []
        for decision in decisions:
            lost = decision.lost
            if decision.elapsed_ns is not None:
                lost = self._idle.lost(decision.hole, decision.elapsed_ns)
            rows += decision.hole.rows(self._schema.name, lost)
        return rows

    def _told(self, rows: list[GapRow]) -> list[GapRow]:
        for row in rows:
            if row.packets_lost >= 0:
                self.lost += row.packets_lost
            else:
                self.unknown += 1
        return rows
