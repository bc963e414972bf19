"""The hl2ss protocol's numbers: ports, modes, profiles, packets, poses and times.

Shared by the client and the simulator. Everything on the wire is little-endian; times are counted
in "hns", 100 ns. What follows a port's configuration is in ``wire_config``, what is in a payload in
``wire_data``, and what port 3809 understands in ``wire_rc``.
"""

import struct
from collections.abc import Callable
from enum import IntEnum, IntFlag
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Read: TypeAlias = Callable[[int], bytes]
"""Gives exactly that many bytes of what a peer sends, or raises (``EOFError`` at the end)."""

BASE_PORT: Final = 3800
NS_PER_HNS: Final = 100
HNS_PER_S: Final = 10_000_000
FILETIME_OF_UNIX_EPOCH: Final = 116_444_736_000_000_000
"""1970-01-01 in Windows FILETIME: hns since 1601-01-01 UTC."""

HEADER: Final = struct.Struct("<QI")
"""Timestamp in hns of QPC, and length of the payload, which does not count the pose."""
POSE_BYTES: Final = 64

SINCE_PV_SIZE_IN_METADATA: Final = (1, 0, 34)
"""Oldest version of the app that tells the picture's size in its metadata, as we expect it."""


class WireError(Exception):
    """Bytes that the protocol does not allow. A server closes the connection without a word."""


class Port(IntEnum):
    """Offsets of the services from the base port (3800 on a headset)."""

    VLC_LEFT_FRONT = 0
    VLC_LEFT_LEFT = 1
    VLC_RIGHT_FRONT = 2
    VLC_RIGHT_RIGHT = 3
    DEPTH_AHAT = 4
    DEPTH_LONG_THROW = 5
    IMU_ACCELEROMETER = 6
    IMU_GYROSCOPE = 7
    IMU_MAGNETOMETER = 8
    REMOTE_CONFIGURATION = 9
    PERSONAL_VIDEO = 10
    MICROPHONE = 11
    SPATIAL_INPUT = 12
    SPATIAL_MAPPING = 13
    SCENE_UNDERSTANDING = 14
    VOICE_INPUT = 15
    MESSAGE_QUEUE = 16
    EXTENDED_EYE_TRACKER = 17
    EXTENDED_AUDIO = 18
    EXTENDED_VIDEO = 19
    GUEST_MESSAGE_QUEUE = 20
    EXTENDED_DEPTH = 21

    def on(self, base_port: int = BASE_PORT) -> int:
        """The TCP port of this service."""
        return base_port + self.value

    @property
    def needs_research_mode(self) -> bool:
        return self.value <= Port.IMU_MAGNETOMETER.value


STREAM_PORTS: Final[dict[str, Port]] = {
    "vlc_left_front": Port.VLC_LEFT_FRONT,
    "vlc_left_left": Port.VLC_LEFT_LEFT,
    "vlc_right_front": Port.VLC_RIGHT_FRONT,
    "vlc_right_right": Port.VLC_RIGHT_RIGHT,
    "depth_ahat": Port.DEPTH_AHAT,
    "depth_long_throw": Port.DEPTH_LONG_THROW,
    "imu_accelerometer": Port.IMU_ACCELEROMETER,
    "imu_gyroscope": Port.IMU_GYROSCOPE,
    "imu_magnetometer": Port.IMU_MAGNETOMETER,
    "pv": Port.PERSONAL_VIDEO,
    "mic": Port.MICROPHONE,
    "si": Port.SPATIAL_INPUT,
    "eet": Port.EXTENDED_EYE_TRACKER,
}
"""Our streams by name, and the service that delivers each."""


class Mode(IntEnum):
    """Bits 0 and 1 of a mode byte."""

    DATA = 0
    DATA_AND_POSE = 1
    CALIBRATION = 2
    NOTHING = 3


MODE_MASK: Final = 0x03
CAMERA_START: Final = 0x04
"""Bit of PV's mode byte: open the camera first."""
CAMERA_STOP: Final = 0x08
"""Bit of PV's mode byte: close the camera when the connection ends."""


class VideoProfile(IntEnum):
    H264_BASELINE = 0
    H264_MAIN = 1
    H264_HIGH = 2
    HEVC_MAIN = 3
    RAW = 255

    @property
    def is_h264(self) -> bool:
        return self.value <= VideoProfile.H264_HIGH.value


LEVEL_CHOSEN_BY_ENCODER: Final = 255


class AudioProfile(IntEnum):
    """AAC profiles count bytes per second; ``wire.AAC_BYTES_PER_S`` has them."""

    AAC_12000 = 0
    AAC_16000 = 1
    AAC_20000 = 2
    AAC_24000 = 3
    RAW = 255


AAC_BYTES_PER_S: Final = {
    AudioProfile.AAC_12000: 12_000,
    AudioProfile.AAC_16000: 16_000,
    AudioProfile.AAC_20000: 20_000,
    AudioProfile.AAC_24000: 24_000,
}
AAC_LEVEL_DEFAULT: Final = 0x29
AAC_LEVELS: Final = frozenset(
    {0x29, 0x2A, 0x2B, 0x2C, 0x2E, 0x2F, 0x30, 0x31, 0x32, 0x33},
)
AUDIO_LEVEL_ARRAY: Final = 0x2B
"""With the raw profile: the five microphones, unprocessed, as float32."""
SOUND_HZ: Final = 48_000
STEREO_CHANNELS: Final = 2
ARRAY_CHANNELS: Final = 5
AAC_SAMPLES: Final = 1024
"""Samples per channel in an AAC packet."""
PCM_SAMPLES: Final = 768
"""Samples per channel that a raw packet is said to have; take the true number from its length."""


class DepthProfile(IntEnum):
    SAME = 0
    """Depth travels with active brightness."""
    ZDEPTH = 1


class PngFilter(IntEnum):
    AUTOMATIC = 0
    NONE = 1
    SUB = 2
    UP = 3
    AVERAGE = 4
    PAETH = 5
    ADAPTIVE = 6


class EncoderOption(IntEnum):
    """Keys of encoder options; unknown ones are ignored by the app."""

    RATE_CONTROL_MODE = 0
    QUALITY = 1
    ADAPTIVE_MODE = 2
    BUFFER_SIZE = 3
    MAX_BITRATE = 4
    MEAN_BITRATE = 5
    QUALITY_VS_SPEED = 6
    CABAC = 7
    SPS_ID = 8
    B_FRAMES = 9
    GOP_SIZE = 10
    WORKER_THREADS = 11
    CONTENT_TYPE = 12
    QP = 13
    FORCE_KEY_FRAME = 14
    MIN_QP = 15
    LOW_LATENCY = 16
    MAX_QP = 17
    DISPLAY_CONTENT_TYPE = 18
    MEDIA_INDEX = 0xFFFF_FFFF_FFFF_FFFB
    STRIDE_MASK = 0xFFFF_FFFF_FFFF_FFFC
    FRAME_ACQUISITION = 0xFFFF_FFFF_FFFF_FFFD
    """PV; bit 0: 1 buffered, 0 real time, which drops frames to stay current."""
    VLC_TIME_SHIFT = 0xFFFF_FFFF_FFFF_FFFE
    """int64 hns in the value's bits."""
    VLC_TIME_SHIFT_EXPOSURES = 0xFFFF_FFFF_FFFF_FFFF
    """float64 in the value's bits: a multiple of the exposure time."""


VLC_TIME_SHIFT_HNS: Final = -125_000
"""VLC pictures are stamped about 12.5 ms late."""

EET_RATES_HZ: Final = (30, 60, 90)
EET_EMPTY_AFTER_PERIODS: Final = 9
"""Without a reading for so long the app sends an empty packet, stamped with the present."""
SI_HZ: Final = 60.0
"""What the app's loop waits for; the documentation of the app says 30."""

_PV_SIZES: Final = (
    (1952, 1100),
    (1920, 1080),
    (1504, 846),
    (1280, 720),
    (1128, 636),
    (960, 540),
    (760, 428),
    (640, 360),
    (500, 282),
    (424, 240),
)
PV_FORMATS: Final = frozenset(
    {(w, h, fps) for w, h in _PV_SIZES for fps in (30, 15)}
    | {(1504, 846, 60), (1504, 846, 5), (1952, 1100, 60)}
)
"""(width, height, frames/s) that the camera offers; anything else is closed without a byte."""

VLC_SIZE: Final = (640, 480)
VLC_HZ: Final = 30
DEPTH_LONG_THROW_SIZE: Final = (320, 288)
DEPTH_LONG_THROW_HZ: Final = 5
DEPTH_AHAT_SIZE: Final = (512, 512)
DEPTH_AHAT_HZ: Final = 45
IMU_BATCH: Final = {"accelerometer": 93, "gyroscope": 315, "magnetometer": 11}
"""Usual number of readings in a packet."""
IMU_PERIOD_MS: Final = {"accelerometer": 85, "gyroscope": 48, "magnetometer": 220}
"""Usual time between packets."""

JOINTS: Final = 26


class SiValidity(IntFlag):
    NONE = 0
    HEAD = 1
    EYE = 2
    LEFT = 4
    RIGHT = 8


class EetValidity(IntFlag):
    NONE = 0
    CALIBRATION = 1
    COMBINED = 2
    LEFT = 4
    RIGHT = 8
    LEFT_OPENNESS = 16
    RIGHT_OPENNESS = 32
    VERGENCE = 64


def pack_pose(pose: npt.ArrayLike | None) -> bytes:
    """A pose's 64 bytes: 16 float32 row by row; all zero for None, "not located"."""
    if pose is None:
        return bytes(POSE_BYTES)
    return np.asarray(pose, "<f4").reshape(4, 4).tobytes()


def parse_pose(data: bytes | memoryview) -> npt.NDArray[np.float32]:
    """A pose as (4, 4): ``[x y z 1] @ pose`` leads to the world. All zero: not located."""
    if len(data) != POSE_BYTES:
        raise WireError(f"a pose has {POSE_BYTES} bytes, not {len(data)}")
    return np.frombuffer(data, "<f4").reshape(4, 4)


def pack_packet(
    timestamp_hns: int, payload: bytes | memoryview, pose: bytes | None = None
) -> bytes:
    """A stream packet: header, payload, and the pose where the stream carries one."""
    return b"".join((HEADER.pack(timestamp_hns, len(payload)), payload, pose or b""))


def default_bitrate(width: int, height: int, fps: int, profile: VideoProfile) -> int:
    """Bits per second that suit a picture: 12 bits a pixel, by 75 for H.264 and 150 for HEVC.

    Raw video ignores it, but the app wants a number above 0.
    """
    by = 150 if profile is VideoProfile.HEVC_MAIN else 75
    return max(1, width * height * fps * 12 // by)


def nv12_stride(width: int) -> int:
    """Bytes in a row of a raw picture: padded to 64."""
    return (width + 63) & ~63


def nv12_bytes(width: int, height: int) -> int:
    return nv12_stride(width) * height * 3 // 2


def utc_ns(qpc_hns: int, offset_hns: int) -> int:
    """Nanoseconds since 1970-01-01 UTC at a QPC time, by the offset that RC 01 tells."""
    return (qpc_hns + offset_hns - FILETIME_OF_UNIX_EPOCH) * NS_PER_HNS
