"""Cuts what a stream's socket delivers into packets, and believes no length without reason."""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from firsthand_hl2ss.wire import HEADER

_FIRST_BYTES: Final = 16 * 1024
_READ_AHEAD: Final = 64 * 1024
CONTEXT_BYTES: Final = 4096
"""How much of damaged input is kept for whoever looks into it."""


class Damaged(Exception):  # noqa: N818  (said of input; raised and caught within this plugin)
    """Input that cannot be what the app sends. ``context`` has its first bytes."""

    def __init__(self, reason: str, context: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.context = context


@dataclass(frozen=True, slots=True)
class Limits:
    """What a stream's packets may measure: payload bytes from ``least`` to ``most`` in steps of
    ``step`` above the least, and bytes of pose behind it."""

    least: int
    most: int
    pose: int = 0
    step: int = 1

    def refuse(self, length: int) -> str | None:
        """Why a payload cannot have ``length`` bytes; None where it can."""
        if not self.least <= length <= self.most:
            span = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
            return f"a packet of {length} bytes, where {span} are possible"
        if (length - self.least) % self.step:
            return f"a packet of {length} bytes, which is no whole number of parts"
        return None


class HeaderJudge(Protocol):
    """Says what speaks against a header's time."""

    def __call__(self, timestamp_hns: int) -> str | None: ...


class RawPacket(NamedTuple):
    """One packet. The views are good until the framer is asked for space again."""

    timestamp_hns: int
    payload: memoryview
    pose: memoryview


class Framer:
    """A buffer that a socket receives into and that packets are taken out of.

    It grows only with bytes that have really arrived, and never beyond one largest packet and some
    reading ahead, whatever a header says.
    """

    def __init__(self, limits: Limits, judge: HeaderJudge | None = None) -> None:
        self._limits = limits
        self._judge = judge
        self._largest = HEADER.size + limits.most + limits.pose + _READ_AHEAD
        self._buffer = bytearray(min(_FIRST_BYTES, self._largest))
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._timestamp_hns = 0
        self._total = 0
        """Bytes of the packet that begins at ``_start``; 0 while its header is not complete."""

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    @property
    def pending(self) -> int:
        """Bytes of a packet that is not complete yet."""
        return self._end - self._start

    def space(self) -> memoryview:
        """Where to receive into: never empty. Views of earlier packets end here."""
        if self._start == self._end:
            self._start = self._end = 0
        capacity = len(self._buffer)
        if self._end == capacity or self._start + self._total > capacity:
            if self._start:
                pending = self._end - self._start
                self._view[:pending] = self._view[self._start : self._end]
                self._start, self._end = 0, pending
            if self._end == capacity:
                self._grow()
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next(self) -> RawPacket | None:
        """The next whole packet, or None until more has arrived.

        Raises ``Damaged`` as soon as a header is complete that cannot be right.
        """
        start = self._start
        if not self._total:
            if self._end - start < HEADER.size:
                return None
            self._timestamp_hns, length = HEADER.unpack_from(self._buffer, start)
            reason = self._limits.refuse(length)
            if reason is None and self._judge is not None:
                reason = self._judge(self._timestamp_hns)
            if reason is not None:
                raise Damaged(reason, self.context())
            self._total = HEADER.size + length + self._limits.pose
        stop = start + self._total
        if stop > self._end:
            return None
        self._total = 0
        self._start = stop
        middle = stop - self._limits.pose
        return RawPacket(
            self._timestamp_hns,
            self._view[start + HEADER.size : middle],
            self._view[middle:stop],
        )

    def context(self, before: int = 0) -> bytes:
        """The first bytes of what has not been taken, ``before`` bytes further back."""
        start = max(0, self._start - before)
        return bytes(self._view[start : min(self._end, start + CONTEXT_BYTES)])

    def _grow(self) -> None:
        larger = bytearray(min(2 * len(self._buffer), self._largest))
        larger[: self._end] = self._view[: self._end]
        self._buffer = larger
        self._view = memoryview(larger)
