"""What a stream is: declared once, with units; recorder, file, reader and display read it."""

from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import Any, Final

import numpy as np

from firsthand.api.errors import SettingsError

POSE: Final = "pose"
"""Name of the column that carries a pose: ``<f4 (4, 4)``, row vectors, sensor to world, metres.

A point goes through as ``[x y z 1] @ pose``; all zeros means that the device was not located.
"""


class Clock(StrEnum):
    """The clocks that times are given in. Each has measured pairs against ``HOST`` in the file."""

    HOST = "host"
    """The recording computer's monotonic clock, ``time.perf_counter_ns()``."""
    DEVICE = "device"
    """The device's own monotonic clock (HoloLens: QPC), in nanoseconds."""
    DEVICE_WALL = "device_wall"
    """The device's wall clock less its offset at start-up: it *begins* equal to ``DEVICE`` and
    departs from it when the wall clock is stepped or slewed (HoloLens: extended eye tracker)."""
    UTC = "utc"
    """The recording computer's wall clock, nanoseconds since 1970-01-01 UTC."""


class PayloadKind(StrEnum):
    """What a stream's payload bytes are, as received; never re-encoded."""

    NONE = "none"
    H264 = "h264"
    HEVC = "hevc"
    NV12 = "nv12"
    GRAY8 = "gray8"
    PCM_S16 = "pcm_s16"
    PCM_F32 = "pcm_f32"
    AAC_ADTS = "aac_adts"
    DEPTH_PNG = "depth_png"
    BYTES = "bytes"

    @property
    def is_video(self) -> bool:
        return self in {PayloadKind.H264, PayloadKind.HEVC, PayloadKind.NV12, PayloadKind.GRAY8}

    @property
    def is_audio(self) -> bool:
        return self in {PayloadKind.PCM_S16, PayloadKind.PCM_F32, PayloadKind.AAC_ADTS}


class StreamRole(StrEnum):
    """What a stream is for, so that code finds it without knowing the device.

    Columns that a role promises (others may stand beside them):

    - ``VIDEO``: ``focal_length`` and ``principal_point`` ``<f4 (2,)`` in pixels, and ``pose``.
    - ``GAZE``: ``valid`` and ``calibrated`` ``?``, ``origin`` and ``direction`` ``<f4 (3,)`` in the
      sensor's frame, and ``pose``.
    - ``HANDS``: ``left_valid`` and ``right_valid`` ``?``, ``left_position`` and
      ``right_position`` ``<f4 (26, 3)`` in the world, metres.
    - ``MICROPHONE``: ``samples`` ``<u4``, samples per channel in the packet.
    """

    VIDEO = "video"
    GAZE = "gaze"
    HANDS = "hands"
    MICROPHONE = "microphone"
    CAMERA = "camera"
    DEPTH = "depth"
    MOTION = "motion"
    OTHER = "other"


class PacketFlags(IntFlag):
    """Marks on a stored packet."""

    NONE = 0
    KEY_FRAME = 1
    """Decoding can start here."""
    FIRST_AFTER_GAP = 2
    TIME_WENT_BACK = 4
    """``device_ns`` does not exceed its predecessor's in the same clock epoch."""
    NEW_CONNECTION = 8
    """First packet of a connection; a video decoder must be made afresh here."""


@dataclass(frozen=True, slots=True)
class Column:
    """One named value of a packet's record.

    ``dtype`` is a little-endian numpy scalar type such as ``"<f4"`` or ``"?"``. A float column of
    which the device said that it is not valid holds NaN, never an old value.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    unit: str = "1"
    description: str = ""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """Everything about a stream that is known before its first packet.

    A packet of the stream carries ``columns`` as one packed record (or several, where
    ``row_time`` names the column that gives each row its own time) and, unless ``payload`` is
    ``NONE``, bytes as received.
    """

    name: str
    title: str
    columns: tuple[Column, ...] = ()
    role: StreamRole = StreamRole.OTHER
    payload: PayloadKind = PayloadKind.NONE
    nominal_hz: float = 0.0
    """Packets per second while all is well; 0 where it is not regular."""
    regular: bool = True
    """Whether device times step by ``1 / nominal_hz``: a larger step then counts lost packets."""
    idle_periods: float = 0.0
    """A regular ``GAZE`` device without a reading sends an empty record (neither ``valid`` nor
    ``calibrated``) after so many periods of nothing: that is no loss. 0 where it does not."""
    stalls_after_s: float = 1.0
    """Longest silence while healthy; after it the stream is stalled."""
    clock: Clock = Clock.DEVICE
    frame: str = ""
    """Coordinate frame of the columns, in words."""
    row_time: str | None = None
    """Column (int64, nanoseconds of ``clock``) with each row's own time; one packet, many rows."""
    sample_hz: float = 0.0
    """Sound: samples per second and channel."""
    channels: int = 0
    width_px: int = 0
    height_px: int = 0
    description: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """What was asked of the device, JSON types only."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise SettingsError(f"stream {self.name!r} declares a column twice: {names}")
        if self.row_time is not None and self.row_time not in names:
            raise SettingsError(
                f"stream {self.name!r} has no column {self.row_time!r} for row times"
            )

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Packed record of the columns, in their order; what ``Packet.fields`` holds."""
        return np.dtype([(c.name, c.dtype, c.shape) for c in self.columns])

    @property
    def period_ns(self) -> int:
        """Nominal time between packets; 0 where there is none."""
        return round(1e9 / self.nominal_hz) if self.nominal_hz > 0 else 0

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON types; ``from_json`` gives an equal schema back."""
        return {
            "name": self.name,
            "title": self.title,
            "columns": [
                {
                    "name": c.name,
                    "dtype": c.dtype,
                    "shape": list(c.shape),
                    "unit": c.unit,
                    "description": c.description,
                }
                for c in self.columns
            ],
            "role": self.role.value,
            "payload": self.payload.value,
            "nominal_hz": self.nominal_hz,
            "regular": self.regular,
            "idle_periods": self.idle_periods,
            "stalls_after_s": self.stalls_after_s,
            "clock": self.clock.value,
            "frame": self.frame,
            "row_time": self.row_time,
            "sample_hz": self.sample_hz,
            "channels": self.channels,
            "width_px": self.width_px,
            "height_px": self.height_px,
            "description": self.description,
            "settings": self.settings,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "StreamSchema":
        """The schema that ``to_json`` wrote.

        Raises ``KeyError``, ``TypeError`` or ``ValueError`` on anything else: callers that read
        foreign files turn these into ``DamagedError``.
        """
        known = dict(data)
        columns = tuple(
            Column(c["name"], c["dtype"], tuple(c["shape"]), c["unit"], c["description"])
            for c in known.pop("columns")
        )
        return cls(
            columns=columns,
            role=StreamRole(known.pop("role")),
            payload=PayloadKind(known.pop("payload")),
            clock=Clock(known.pop("clock")),
            **known,
        )


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet of a stream, as the recorder stores it.

    ``seq`` counts the packets of a stream that its device handed over, from 0, without holes: a
    hole in what is stored is then a loss of ours. ``fields`` is one record (or several) of the
    schema's ``dtype`` as bytes; ``payload`` is as received.
    """

    stream: str
    seq: int
    device_ns: int
    arrival_ns: int
    fields: bytes = b""
    payload: bytes | memoryview = b""
    flags: PacketFlags = PacketFlags.NONE
