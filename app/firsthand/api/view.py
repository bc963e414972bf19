"""What plugins see of a finished recording: read only, and the same whether live or from a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from firsthand.api.streams import Packet, StreamSchema


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded picture and what was known when it was taken.

    ``rgb`` is (height, width, 3) uint8. ``fields`` is the stream's record for that very packet
    (pose, intrinsics, exposure …). ``time_s`` is seconds from the start of the session.
    """

    index: int
    time_s: float
    device_ns: int
    is_key: bool
    rgb: npt.NDArray[np.uint8]
    fields: np.void


@dataclass(frozen=True, slots=True)
class GapRow:
    """An interval in which a stream delivered nothing.

    ``start_ns`` and ``stop_ns`` are times of the stream's own clock: of the last packet before and
    the first one after (for a gap of skipped packets, their own times). ``packets_lost`` is −1
    where it cannot be known.
    """

    stream: str
    start_ns: int
    stop_ns: int
    cause: str
    packets_lost: int


@dataclass(frozen=True, slots=True)
class Sound:
    """Sound from one moment on: ``samples`` (n, channels) float32 from −1 to 1.

    Sample k lies ``k / rate_hz`` seconds after ``start_s`` by the session's time. Where nothing was
    recorded samples are zero and ``present`` (n,) is False.
    """

    start_s: float
    rate_hz: float
    samples: npt.NDArray[np.float32]
    present: npt.NDArray[np.bool_]


class RecordingView(Protocol):
    """A recording as plugins see it. Times are seconds from the start of the session."""

    @property
    def folder(self) -> Path: ...

    @property
    def manifest(self) -> Mapping[str, Any]: ...

    @property
    def schemas(self) -> Mapping[str, StreamSchema]: ...

    @property
    def duration_s(self) -> float: ...

    @property
    def start_utc_ns(self) -> int:
        """The start of the session, nanoseconds since 1970-01-01 UTC."""

    def times_s(self, stream: str) -> npt.NDArray[np.float64]:
        """Time of every packet (or row) of a stream, by the clock fit."""

    def records(self, stream: str) -> npt.NDArray[np.void]:
        """The stream's records, one per packet (or row), in the schema's ``dtype``."""

    def flags(self, stream: str) -> npt.NDArray[np.uint32]:
        """The marks of every packet (``PacketFlags``)."""

    def packets(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Packet]:
        """Stored packets by index, payload included."""

    def gaps(self, stream: str) -> Sequence[GapRow]: ...

    def gaps_s(self, stream: str) -> npt.NDArray[np.float64]:
        """Start and stop of each of ``gaps`` in the session's time: (n, 2) seconds."""

    def sound(self, stream: str, start_s: float, stop_s: float) -> Sound:
        """Sound of a microphone by the session's time, drift of its crystal taken out."""

    def gaze_pixels(self) -> npt.NDArray[np.float64]:
        """Where each record of the gaze stream falls in the video picture nearest in time:
        (n, 2) pixels from the top left, NaN where there is no such place."""


class Progress(Protocol):
    """Told how far a long piece of work has come; raises ``Cancelled`` when it should end."""

    def __call__(self, done: float, words: str = "") -> None:
        """``done`` goes from 0 to 1."""
