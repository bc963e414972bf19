"""What a packet log holds: one small class per kind of entry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firsthand.api import ClockPair, GapRow, Packet, StreamSchema, StreamState
from firsthand.streams.clock import Epoch


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """Whose recording this is; the first entry of every segment.

    Besides what the session gave, ``about`` says ``segment`` (its number), and ``continues``: true
    where the recorder process went on from an earlier segment (packets may then stand in both and
    ``seq`` goes on), false where a recorder began anew (``seq`` restarts at 0).
    """

    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """A stream, given before its first packet."""

    schema: StreamSchema


@dataclass(frozen=True, slots=True)
class PacketEntry:
    """A packet, and the checksum that goes with it into the file and every export."""

    packet: Packet
    crc32: int


@dataclass(frozen=True, slots=True)
class GapEntry:
    gap: GapRow


@dataclass(frozen=True, slots=True)
class ClockEntry:
    pair: ClockPair


@dataclass(frozen=True, slots=True)
class EpochEntry:
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class CalibrationEntry:
    name: str
    values: dict[str, npt.NDArray[np.generic]]
    about: dict[str, Any]
    host_ns: int


@dataclass(frozen=True, slots=True)
class NoteEntry:
    kind: str
    about: dict[str, Any]
    host_ns: int


@dataclass(frozen=True, slots=True)
class StateEntry:
    stream: str
    state: StreamState
    reason: str
    host_ns: int


@dataclass(frozen=True, slots=True)
class HealthEntry:
    """One row per stream, each what ``HealthSnapshot.to_json`` gave."""

    rows: tuple[Mapping[str, Any], ...]
    host_ns: int


@dataclass(frozen=True, slots=True)
class EndEntry:
    """The recorder closed the log itself. A log without it ended by a crash or a full disk."""

    reason: str
    host_ns: int


LogEntry = (
    SessionEntry
    | StreamEntry
    | PacketEntry
    | GapEntry
    | ClockEntry
    | EpochEntry
    | CalibrationEntry
    | NoteEntry
    | StateEntry
    | HealthEntry
    | EndEntry
)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that no frame with a right checksum covers.

    ``frames`` is how many entries are missing there, −1 where nothing after it tells. ``torn`` is
    set at the very end of a file: what a killed writer or a power cut leaves behind, and normal.
    """

    offset: int
    length: int
    reason: str
    frames: int = -1
    torn: bool = False
