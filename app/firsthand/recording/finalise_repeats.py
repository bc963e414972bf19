"""What a segment repeats of the one before it, because that may not have reached the disk."""

from collections import deque
from collections.abc import Hashable
from pathlib import Path
from typing import Final

from firsthand.api import FirsthandError
from firsthand.recording.packetlog import (
    ClockEntry,
    EndEntry,
    EpochEntry,
    GapEntry,
    HealthEntry,
    LogEntry,
    NoteEntry,
    PacketEntry,
    SessionEntry,
    StateEntry,
    read_log,
)

_REPEATED_BYTES: Final = 160 * 1024 * 1024
"""More than any writer keeps for the next segment."""
_REMEMBER: Final = 4096


class Repeats:
    """Finds packets in the next segment that are damaged in this one, and entries seen before."""

    LIMIT: Final = 100_000
    """A hole longer than this is not a torn page."""

    def __init__(self, following: Path | None) -> None:
        self._following = following
        self._packets: dict[tuple[str, int], PacketEntry] | None = None
        self.continues = False
        self._recent: deque[Hashable] = deque(maxlen=_REMEMBER)
        self._earlier: frozenset[Hashable] = frozenset()

    def next_segment(self, following: Path | None) -> None:
        """Another segment begins; ``following`` comes after it."""
        self._following = following
        self._packets = None
        self.continues = False
        self._earlier = frozenset(self._recent)
        self._recent.clear()

    def find(self, stream: str, seq: int) -> PacketEntry | None:
        """The packet as it stands in the next segment, if that continues this one."""
        if self._packets is None:
            self._packets = _beginning(self._following) if self._following else {}
        return self._packets.get((stream, seq))

    def seen(self, entry: LogEntry) -> bool:
        """Whether this entry stood in the segment that the present one continues."""
        key = _key(entry)
        if key is None:
            return False
        self._recent.append(key)
        return self.continues and key in self._earlier


def _key(entry: LogEntry) -> Hashable:
    match entry:
        case GapEntry():
            return entry.gap
        case ClockEntry():
            return entry.pair
        case EpochEntry():
            return entry.epoch
        case NoteEntry():
            return ("note", entry.kind, entry.host_ns)
        case StateEntry():
            return ("state", entry.stream, entry.state, entry.host_ns)
        case HealthEntry():
            return ("health", entry.host_ns)
        case EndEntry():
            return ("end", entry.host_ns)
        case _:
            return None


def _beginning(path: Path) -> dict[tuple[str, int], PacketEntry]:
    """Packets at the beginning of a segment that continues another one."""
    packets: dict[tuple[str, int], PacketEntry] = {}
    taken = 0
    try:
        for entry in read_log(path):
            if isinstance(entry, SessionEntry) and not entry.about.get("continues"):
                return {}
            if isinstance(entry, PacketEntry):
                packets[entry.packet.stream, entry.packet.seq] = entry
                taken += len(entry.packet.payload) + len(entry.packet.fields) + 200
                if taken > _REPEATED_BYTES:
                    break
    except FirsthandError:
        return packets  # its turn comes, and whatever is wrong is told then
    return packets
