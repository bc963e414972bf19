"""A hole in a stream's device times, and how its missing packets are shared out among causes."""

from dataclasses import dataclass, field, replace

from firsthand.api import GapCause, GapRow


@dataclass(slots=True)
class Skip:
    """Packets that arrived and could not be stored. Times where the device knew them."""

    cause: GapCause
    packets: int
    start_ns: int | None
    stop_ns: int | None

    def joins(self, other: "Skip") -> bool:
        """Whether two skips in a row make one row: same cause, and both know their time or not."""
        return self.cause is other.cause and (self.start_ns is None) == (other.start_ns is None)

    def join(self, other: "Skip") -> None:
        self.packets = -1 if -1 in (self.packets, other.packets) else self.packets + other.packets
        self.stop_ns = other.stop_ns


@dataclass(slots=True)
class Hole:
    """Between two stored packets. ``cause`` is None where nobody told of an interruption."""

    start_ns: int
    stop_ns: int
    arrival_before_ns: int
    arrival_after_ns: int
    cause: GapCause | None = None
    skips: list[Skip] = field(default_factory=list)
    resting: bool = False
    """Before it the device had no reading."""
    empty: bool = False
    """The packet after it carries no reading."""

    @property
    def step_ns(self) -> int:
        return self.stop_ns - self.start_ns

    @property
    def arrival_step_ns(self) -> int:
        return self.arrival_after_ns - self.arrival_before_ns

    def skip_rows(self, stream: str) -> list[GapRow]:
        """A row for each skip with the number that the device told."""
        return [
            GapRow(
                stream,
                self.start_ns if skip.start_ns is None else skip.start_ns,
                self.stop_ns if skip.stop_ns is None else skip.stop_ns,
                skip.cause.value,
                skip.packets,
            )
            for skip in self.skips
        ]

    def rows(self, stream: str, lost: int) -> list[GapRow]:
        """Rows that add up to exactly ``lost``; with −1 the skips stand for themselves.

        What was skipped is taken out of the hole, never added to it: device times are the truth.
        A skip of unknown number is all of a hole without other cause, and one packet of a hole
        that an interruption explains.
        """
        rows = self.skip_rows(stream)
        left = lost
        if lost >= 0:
            for at, row in enumerate(rows):
                share = row.packets_lost
                if share < 0:
                    share = left if self.cause is None else 1
                share = min(share, left)
                left -= share
                rows[at] = replace(row, packets_lost=share)
        if left != 0:
            cause = self.cause or GapCause.DEVICE_DROPPED
            rows.append(GapRow(stream, self.start_ns, self.stop_ns, cause.value, left))
        return rows
