"""The beat of a stream: a packet for each slot of its sensor's grid, and an account of every slot.

A packet leaves when the headset's clock reaches its slot. What is late (a slow encoder, a link that
did not take more) is made up for in order, as by the headset's queue, until more than
``queue_s`` lie back: the oldest slots are then dropped, and the ledger says so.
"""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from firsthand_hl2ss.simulator.clock import Grid
from firsthand_hl2ss.simulator.connection import Connection, ConnectionEnded
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.ledger import SentRow, UnsentRow
from firsthand_hl2ss.wire import HNS_PER_S

NO_CLIENT: Final = "no client"
LATE: Final = "not sent: late"
BLOCKED: Final = "not sent: blocked"
_BLOCKED_LATELY_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Beat:
    """A moment at which a sensor delivers."""

    slot: int
    hns: int
    """QPC."""
    scene_s: float
    next_scene_s: float
    """The moment of the slot after it, for what is better begun early."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A packet to send. ``parts`` make up the payload; the first is the encoded picture if
    ``picture`` says so, the last ``metadata_bytes`` describe it."""

    timestamp_hns: int
    parts: Sequence[bytes | memoryview]
    pose: bytes = b""
    picture: bool = False
    empty: bool = False
    metadata_bytes: int = 0
    first_crc32: int | None = None
    """Of the first part, where it is known already."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No packet for this slot, and why."""

    reason: str


Make = Callable[[Beat], Ready | Nothing]


class Pump:
    """The slots of one stream; lives as long as the simulator, over all connections."""

    def __init__(self, headset: Headset, stream: str, phase_hns: int = 0) -> None:
        self._headset = headset
        self._stream = stream
        self._phase_hns = phase_hns
        self._grid_name = ""
        self._grid: Grid | None = None
        self._boot = -1
        self._next = 0
        """First slot of the grid that no row tells of yet."""
        self._absent = NO_CLIENT

    def run(
        self,
        connection: Connection,
        period_s: Fraction,
        make: Make,
        *,
        every: int = 1,
        queue_s: float | None = None,
        stamp: Callable[[int], int] | None = None,
    ) -> None:
        """Send until the connection ends, by raising ``ConnectionEnded``.

        Of the sensor's slots, ``period_s`` apart, one in ``every`` is used. ``stamp`` is how the
        stream writes a QPC time, for the rows of what was not sent.
        """
        grid = self._enter(period_s, every)
        stamp = stamp or (lambda hns: hns)
        clock = self._headset.clock
        slot = grid.last_until(clock.qpc_hns()) + 1
        self._skip_to(slot, self._absent, stamp)
        self._absent = NO_CLIENT
        keep = max(1, int((queue_s or self._headset.config.queue_s) / float(period_s * every)))
        number = 0
        try:
            while True:
                due_ns = clock.host_ns_at(grid.hns(slot))
                connection.wait_until(due_ns)
                newest = grid.last_until(clock.qpc_hns())
                if held := connection.pause():
                    slot = grid.last_until(clock.qpc_hns()) + 1
                    self._skip_to(slot, held, stamp)
                    continue
                if newest - slot >= keep:
                    slot = newest - keep + 1
                    self._skip_to(slot, self._why_behind(connection), stamp)
                hns = grid.hns(slot)
                following_s = clock.scene_s(grid.hns(slot + 1))
                made = make(Beat(slot, hns, clock.scene_s(hns), following_s))
                if isinstance(made, Ready):
                    connection.delay(due_ns)
                    self._send(connection, slot, number, made)
                    number += 1
                else:
                    self._skip_to(slot + 1, made.reason, stamp)
                slot += 1
        except ConnectionEnded as end:
            self._absent = NO_CLIENT if end.reason == "client gone" else end.reason
            raise

    def finish(self) -> None:
        """Account for the slots up to now; the simulator is about to end or to reboot."""
        if self._grid is not None and self._boot == self._headset.clock.boot:
            newest = self._grid.last_until(self._headset.clock.qpc_hns())
            self._skip_to(newest + 1, self._absent, lambda hns: hns)

    def _enter(self, period_s: Fraction, every: int) -> Grid:
        """The grid for a rate: the one in use if it is the same, so that slots go on."""
        clock = self._headset.clock
        period = period_s * HNS_PER_S * every
        name = f"{float(period_s):.6f}s/{every}"
        if self._grid is None or name != self._grid_name or clock.boot != self._boot:
            self.finish()
            # Sensors do not deliver at the same moments: each stream has a phase of its own.
            self._grid = Grid(clock.boot_qpc_hns + self._phase_hns, period)
            self._grid_name, self._boot = name, clock.boot
            self._next = self._grid.last_until(clock.qpc_hns()) + 1
        return self._grid

    def _skip_to(self, slot: int, reason: str, stamp: Callable[[int], int]) -> None:
        if self._grid is None or slot <= self._next:
            return
        hns = stamp(self._grid.hns(self._next))
        count = slot - self._next
        self._headset.ledger.unsent(
            UnsentRow(self._stream, self._boot, self._grid_name, self._next, count, reason, hns)
        )
        self._next = slot

    @staticmethod
    def _why_behind(connection: Connection) -> str:
        since = time.perf_counter_ns() - connection.blocked_ns
        return BLOCKED if connection.blocked_ns and since < _BLOCKED_LATELY_NS else LATE

    def _send(self, connection: Connection, slot: int, number: int, made: Ready) -> None:
        crc = made.first_crc32
        first = zlib.crc32(made.parts[0]) if crc is None else crc
        whole = first
        for part in made.parts[1:]:
            whole = zlib.crc32(part, whole)
        outcome = connection.send_packet(
            made.timestamp_hns, made.parts, made.pose, made.metadata_bytes, whole
        )
        self._headset.ledger.sent(
            SentRow(
                stream=self._stream,
                boot=self._boot,
                grid=self._grid_name,
                slot=slot,
                connection=connection.number,
                number=number,
                timestamp_hns=made.timestamp_hns,
                length=sum(map(len, made.parts)),
                crc32=outcome.crc32,
                picture_crc32=first if made.picture else None,
                complete=outcome.complete,
                empty=made.empty,
                damage=outcome.damage,
                host_ns=time.perf_counter_ns(),
            )
        )
        self._next = slot + 1
        if outcome.ended:
            raise ConnectionEnded(outcome.ended)
