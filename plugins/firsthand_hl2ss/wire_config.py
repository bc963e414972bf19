"""What a client of hl2ss sends on a port before anything comes back.

Each block packs itself, and reads itself from a peer with ``read``, which asks for the bytes in the
order in which the app does and raises ``WireError`` at the first value that the app refuses: the
rest is then left unread. Ports with a mode byte: read that first (``read_mode``).
"""

import struct
from dataclasses import dataclass
from typing import Final, Self

from firsthand_hl2ss import wire
from firsthand_hl2ss.wire import Mode, Read, WireError

_FORMAT: Final = struct.Struct("<HHB")
_VIDEO: Final = struct.Struct("<BBI")
_OPTION: Final = struct.Struct("<QQ")
_MIXED_REALITY: Final = struct.Struct("<7B3f2I")


def read_mode(read: Read) -> tuple[Mode, bool, bool]:
    """The mode byte: what is asked, start the camera first (PV), stop it afterwards (PV)."""
    (byte,) = read(1)
    start, stop = bool(byte & wire.CAMERA_START), bool(byte & wire.CAMERA_STOP)
    return Mode(byte & wire.MODE_MASK), start, stop


def pack_mode(mode: Mode, *, start: bool = False, stop: bool = False) -> bytes:
    return bytes([mode | (wire.CAMERA_START if start else 0) | (wire.CAMERA_STOP if stop else 0)])


@dataclass(frozen=True, slots=True)
class MixedReality:
    """The 27 bytes behind a start bit: how the camera is opened."""

    holograms: bool = False
    """Whether holograms are drawn into the picture."""
    hologram_composition: bool = True
    recording_indicator: bool = False
    video_stabilisation: bool = False
    blank_protected: bool = False
    show_mesh: bool = False
    shared: bool = False
    opacity: float = 0.9
    output_width: float = 0.0
    output_height: float = 0.0
    stabilisation_length: int = 0
    perspective: int = 1
    """0 as the display shows holograms, 1 as the camera would see them."""

    def pack(self) -> bytes:
        return _MIXED_REALITY.pack(
            self.holograms,
            self.hologram_composition,
            self.recording_indicator,
            self.video_stabilisation,
            self.blank_protected,
            self.show_mesh,
            self.shared,
            self.opacity,
            self.output_width,
            self.output_height,
            self.stabilisation_length,
            self.perspective,
        )

    @classmethod
    def read(cls, read: Read) -> Self:
        values = _MIXED_REALITY.unpack(read(_MIXED_REALITY.size))
        return cls(*map(bool, values[:7]), *values[7:])


CAMERA_STOP_REQUEST: Final = pack_mode(Mode.NOTHING, stop=True)


def pack_camera_start(opening: MixedReality) -> bytes:
    """The 28 bytes that open the front camera, on a connection of their own."""
    return pack_mode(Mode.NOTHING, start=True) + opening.pack()


@dataclass(frozen=True, slots=True)
class Format:
    """Size in pixels and frames per second of the front camera."""

    width: int
    height: int
    fps: int

    def pack(self) -> bytes:
        return _FORMAT.pack(self.width, self.height, self.fps)

    @classmethod
    def read(cls, read: Read) -> Self:
        found = cls(*_FORMAT.unpack(read(_FORMAT.size)))
        if (found.width, found.height, found.fps) not in wire.PV_FORMATS:
            raise WireError(f"the camera has no {found.width}×{found.height}@{found.fps}")
        return found


@dataclass(frozen=True, slots=True)
class Video:
    """Encoder, bits per second and options (key, value)."""

    profile: wire.VideoProfile
    level: int = wire.LEVEL_CHOSEN_BY_ENCODER
    bitrate: int = 1
    options: tuple[tuple[int, int], ...] = ()

    def pack(self) -> bytes:
        return b"".join(
            (
                _VIDEO.pack(self.profile, self.level, self.bitrate),
                bytes([len(self.options)]),
                *(_OPTION.pack(key, value) for key, value in self.options),
            )
        )

    @classmethod
    def read(cls, read: Read) -> Self:
        profile, level, bitrate = _VIDEO.unpack(read(_VIDEO.size))
        if profile not in set(wire.VideoProfile):
            raise WireError(f"there is no video profile {profile}")
        if bitrate == 0:
            raise WireError("the bitrate is 0")
        (count,) = read(1)
        options = tuple(_OPTION.unpack(read(_OPTION.size)) for _ in range(count))
        return cls(wire.VideoProfile(profile), level, bitrate, options)

    def option(self, key: wire.EncoderOption) -> int | None:
        """The last value given for a key."""
        return dict(self.options).get(int(key))


def read_divisor(read: Read) -> int:
    """How many frames lie between two that are sent; 0 is refused."""
    divisor = read(1)[0]
    if divisor == 0:
        raise WireError("the divisor is 0")
    return divisor


@dataclass(frozen=True, slots=True)
class PvRequest:
    """What follows PV's mode byte (and its 27 bytes of a start bit) in modes 0 and 1."""

    format: Format
    video: Video
    divisor: int = 1

    def pack(self, mode: Mode = Mode.DATA_AND_POSE) -> bytes:
        """With the mode byte in front."""
        return pack_mode(mode) + self.format.pack() + bytes([self.divisor]) + self.video.pack()

    @classmethod
    def read(cls, read: Read) -> Self:
        size = Format.read(read)
        divisor = read_divisor(read)
        return cls(size, Video.read(read), divisor)


def pack_pv_calibration(size: Format) -> bytes:
    """The 6 bytes that ask for PV's calibration; the camera must be on and nobody streaming."""
    return pack_mode(Mode.CALIBRATION) + size.pack()


def pack_calibration() -> bytes:
    """The byte that asks a Research Mode port for its calibration."""
    return pack_mode(Mode.CALIBRATION)


@dataclass(frozen=True, slots=True)
class AudioRequest:
    """The microphone's 2 bytes."""

    profile: wire.AudioProfile = wire.AudioProfile.RAW
    level: int = 0

    def pack(self) -> bytes:
        return bytes([self.profile, self.level])

    @classmethod
    def read(cls, read: Read) -> Self:
        profile, level = read(2)
        if profile not in set(wire.AudioProfile):
            raise WireError(f"there is no audio profile {profile}")
        if profile != wire.AudioProfile.RAW and level not in wire.AAC_LEVELS:
            raise WireError(f"there is no AAC level {level:#x}")
        return cls(wire.AudioProfile(profile), level)

    @property
    def is_array(self) -> bool:
        return self.profile is wire.AudioProfile.RAW and self.level == wire.AUDIO_LEVEL_ARRAY


def pack_eet(fps: int) -> bytes:
    return bytes([fps])


def read_eet(read: Read) -> int:
    """Readings per second that are asked of the eye tracker."""
    fps = read(1)[0]
    if fps not in wire.EET_RATES_HZ:
        raise WireError(f"the eye tracker has no {fps} readings a second")
    return fps


@dataclass(frozen=True, slots=True)
class VlcRequest:
    """What follows a grey camera's mode byte in modes 0 and 1."""

    video: Video
    divisor: int = 1

    def pack(self, mode: Mode = Mode.DATA_AND_POSE) -> bytes:
        return pack_mode(mode) + bytes([self.divisor]) + self.video.pack()

    @classmethod
    def read(cls, read: Read) -> Self:
        divisor = read_divisor(read)
        return cls(Video.read(read), divisor)


@dataclass(frozen=True, slots=True)
class LongThrowRequest:
    """What follows the far depth camera's mode byte in modes 0 and 1."""

    divisor: int = 1
    png_filter: wire.PngFilter = wire.PngFilter.AUTOMATIC

    def pack(self, mode: Mode = Mode.DATA_AND_POSE) -> bytes:
        return pack_mode(mode) + struct.pack("<BI", self.divisor, self.png_filter)

    @classmethod
    def read(cls, read: Read) -> Self:
        divisor = read_divisor(read)
        (png_filter,) = struct.unpack("<I", read(4))
        if png_filter not in set(wire.PngFilter):
            raise WireError(f"there is no PNG filter {png_filter}")
        return cls(divisor, wire.PngFilter(png_filter))


@dataclass(frozen=True, slots=True)
class AhatRequest:
    """What follows the near depth camera's mode byte in modes 0 and 1."""

    video: Video
    divisor: int = 1
    depth: wire.DepthProfile = wire.DepthProfile.SAME

    def pack(self, mode: Mode = Mode.DATA_AND_POSE) -> bytes:
        return pack_mode(mode) + bytes([self.divisor, self.depth]) + self.video.pack()

    @classmethod
    def read(cls, read: Read) -> Self:
        divisor = read_divisor(read)
        (depth,) = read(1)
        if depth not in set(wire.DepthProfile):
            raise WireError(f"there is no depth profile {depth}")
        return cls(Video.read(read), divisor, wire.DepthProfile(depth))


def pack_imu() -> bytes:
    """The motion sensors' whole request: data, no pose."""
    return pack_mode(Mode.DATA)
