"""From a stream's raw packet to the record and payload that are stored.

A parser takes payload and pose as views and gives bytes: the record in the schema's ``dtype``, the
payload as received less its metadata. It raises ``Damaged`` for what the app cannot have sent, and
gives None for a packet without content. What the device calls invalid becomes NaN, whatever old
numbers stand there.
"""

import math
import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from firsthand.api import PacketFlags
from firsthand_hl2ss import wire_data
from firsthand_hl2ss.annexb import is_key_frame
from firsthand_hl2ss.framing import Damaged, RawPacket
from firsthand_hl2ss.schemas import IMU_COLUMNS
from firsthand_hl2ss.wire import (
    AAC_SAMPLES,
    JOINTS,
    NS_PER_HNS,
    EetValidity,
    SiValidity,
    VideoProfile,
)


class Parsed(NamedTuple):
    """What is stored of a packet."""

    fields: bytes
    payload: bytes = b""
    flags: PacketFlags = PacketFlags.NONE


Parser: TypeAlias = Callable[[RawPacket], Parsed | None]

_KEY: Final = PacketFlags.KEY_FRAME
_NO_FLAGS: Final = PacketFlags.NONE
_POSE: Final = struct.Struct("<16f")
_FAR_M: Final = 1e6
_NAN: Final = struct.pack("<f", math.nan)
_NOT_LOCATED: Final = bytes(64)
_UNIT: Final = 1.01
_NEAR: Final = 1e-3


def checked_pose(view: memoryview) -> bytes:
    """A pose's bytes, if they are a pose: rigid, finite, last column 0 0 0 1, or all zero."""
    data = bytes(view)
    if data == _NOT_LOCATED:
        return data
    (a, b, c, x, d, e, f, y, g, h, i, z, tx, ty, tz, w) = _POSE.unpack(data)
    # Spelt out: this runs some hundred times a second, and a comparison with NaN is false.
    if not (-_NEAR < x < _NEAR and -_NEAR < y < _NEAR and -_NEAR < z < _NEAR):
        raise Damaged("a pose whose last column is not 0 0 0 1")
    if not 1 - _NEAR < w < 1 + _NEAR:
        raise Damaged("a pose whose last column is not 0 0 0 1")
    most, least = max(a, b, c, d, e, f, g, h, i), min(a, b, c, d, e, f, g, h, i)
    if not (-_UNIT < least <= most < _UNIT and a + b + c + d + e + f + g + h + i < _FAR_M):
        raise Damaged("a pose that is no rotation")
    if not (-_FAR_M < tx < _FAR_M and -_FAR_M < ty < _FAR_M and -_FAR_M < tz < _FAR_M):
        raise Damaged("a pose out of this world")
    return data


def _picture_flags(picture: bytes | memoryview, profile: VideoProfile) -> PacketFlags:
    if profile is VideoProfile.RAW:
        return PacketFlags.KEY_FRAME
    hevc = profile is VideoProfile.HEVC_MAIN
    key = is_key_frame(bytes(picture), hevc=hevc)
    return _KEY if key else _NO_FLAGS


_PV_TAIL: Final = wire_data.PV_METADATA.itemsize
_EXPOSURE: Final = struct.Struct("<Q")
_RESOLUTION: Final = struct.Struct("<2H")
_FOCAL: Final = struct.Struct("<4f")


def pv_parser(profile: VideoProfile, size: tuple[int, int] | None) -> Parser:
    """For the front camera; ``size`` is None where another app chooses it (shared camera)."""

    def parse(raw: RawPacket) -> Parsed | None:
        split = len(raw.payload) - _PV_TAIL
        tail = bytes(raw.payload[split:])
        if size is not None and _RESOLUTION.unpack_from(tail, 76) != size:
            raise Damaged("picture metadata of another size than was asked for")
        if not all(abs(value) < _FAR_M for value in _FOCAL.unpack_from(tail)):
            raise Damaged("picture metadata with an impossible lens")
        (exposure_hns,) = _EXPOSURE.unpack_from(tail, 16)
        if exposure_hns > 600_000_000:
            raise Damaged("picture metadata with an exposure of more than a minute")
        pose = checked_pose(raw.pose)
        if split == 0:
            return None
        picture = bytes(raw.payload[:split])
        exposure = _EXPOSURE.pack(exposure_hns * NS_PER_HNS)
        fields = b"".join((tail[:16], exposure, tail[24:], pose))
        return Parsed(fields, picture, _picture_flags(picture, profile))

    return parse


# Plain numbers: operators of flags cost more than everything else in a parser.
_EET_KNOWN: Final = int(sum(EetValidity))
_CALIBRATED: Final = int(EetValidity.CALIBRATION)
_COMBINED: Final = int(EetValidity.COMBINED)
_LEFT_EYE: Final = int(EetValidity.LEFT)
_RIGHT_EYE: Final = int(EetValidity.RIGHT)
_LEFT_OPEN: Final = int(EetValidity.LEFT_OPENNESS)
_RIGHT_OPEN: Final = int(EetValidity.RIGHT_OPENNESS)
_VERGENCE: Final = int(EetValidity.VERGENCE)
_RAY_NAN: Final = _NAN * 6


def parse_eet(raw: RawPacket) -> Parsed | None:
    payload = bytes(raw.payload)
    valid = int.from_bytes(payload[88:92], "little")
    if valid & ~_EET_KNOWN or payload[:4] != b"\0\0\0\0":
        raise Damaged("an eye tracker's reading with unknown bits")
    combined = bool(valid & _COMBINED)
    left, right = bool(valid & _LEFT_EYE), bool(valid & _RIGHT_EYE)
    fields = b"".join(
        (
            bytes((combined, bool(valid & _CALIBRATED), left, right)),
            payload[4:28] if combined else _RAY_NAN,
            payload[28:52] if left else _RAY_NAN,
            payload[52:76] if right else _RAY_NAN,
            payload[76:80] if valid & _LEFT_OPEN else _NAN,
            payload[80:84] if valid & _RIGHT_OPEN else _NAN,
            payload[84:88] if valid & _VERGENCE else _NAN,
            payload[88:92],
            checked_pose(raw.pose),
        )
    )
    return Parsed(fields)


_SI_KNOWN: Final = int(sum(SiValidity))
_HEAD: Final = int(SiValidity.HEAD)
_EYE: Final = int(SiValidity.EYE)
_LEFT_HAND: Final = int(SiValidity.LEFT)
_RIGHT_HAND: Final = int(SiValidity.RIGHT)
_HEAD_NAN: Final = _NAN * 9
_JOINT_WORDS: Final = wire_data.JOINT.itemsize // 4
_HAND_BYTES: Final = JOINTS * wire_data.JOINT.itemsize
_HANDS_AT: Final = wire_data.SI.itemsize - 2 * _HAND_BYTES
_HAND_NAN: Final = _NAN * (JOINTS * 8) + struct.pack("<i", -1) * JOINTS
_HAND_ORDER: Final = np.concatenate(
    [
        (np.arange(JOINTS)[:, None] * _JOINT_WORDS + np.asarray(words)).ravel()
        for words in ([0, 1, 2, 3], [4, 5, 6], [7], [8])
    ]
)
"""Words of a hand on the wire, joint after joint, in the order of our columns: all orientations,
all positions, all radii, all accuracies."""


def _hand(payload: bytes, at: int) -> bytes:
    words = np.frombuffer(payload, "<u4", _HAND_BYTES // 4, at)
    ordered: bytes = words[_HAND_ORDER].tobytes()
    return ordered


def parse_si(raw: RawPacket) -> Parsed | None:
    payload = bytes(raw.payload)
    valid = int.from_bytes(payload[:4], "little")
    if valid & ~_SI_KNOWN:
        raise Damaged("spatial input with unknown bits")
    head, eye = bool(valid & _HEAD), bool(valid & _EYE)
    left, right = bool(valid & _LEFT_HAND), bool(valid & _RIGHT_HAND)
    fields = b"".join(
        (
            payload[:4],
            bytes((head, eye, left, right)),
            payload[4:40] if head else _HEAD_NAN,
            payload[40:64] if eye else _RAY_NAN,
            _hand(payload, _HANDS_AT) if left else _HAND_NAN,
            _hand(payload, _HANDS_AT + _HAND_BYTES) if right else _HAND_NAN,
        )
    )
    return Parsed(fields)


def pcm_parser(bytes_per_sample: int) -> Parser:
    """For sound as it is; ``bytes_per_sample`` counts all channels."""

    def parse(raw: RawPacket) -> Parsed | None:
        sound = bytes(raw.payload)
        return Parsed(struct.pack("<I", len(sound) // bytes_per_sample), sound)

    return parse


def parse_aac(raw: RawPacket) -> Parsed | None:
    """For AAC: one frame with its ADTS header, whose own length must agree."""
    sound = bytes(raw.payload)
    if sound[0] != 0xFF or sound[1] & 0xF6 != 0xF0:
        raise Damaged("sound that does not begin with an ADTS header")
    if ((sound[3] & 3) << 11 | sound[4] << 3 | sound[5] >> 5) != len(sound):
        raise Damaged("sound whose ADTS header has another length")
    return Parsed(struct.pack("<I", AAC_SAMPLES), sound)


def vlc_parser(profile: VideoProfile) -> Parser:
    """For a grey camera."""
    tail_bytes = wire_data.VLC_METADATA.itemsize

    def parse(raw: RawPacket) -> Parsed | None:
        pose = checked_pose(raw.pose)
        split = len(raw.payload) - tail_bytes
        if split == 0:
            return None
        picture = bytes(raw.payload[:split])
        fields = b"".join((raw.payload[split : split + 20], pose))
        return Parsed(fields, picture, _picture_flags(picture, profile))

    return parse


_PNG: Final = b"\x89PNG\r\n\x1a\n"


def parse_long_throw(raw: RawPacket) -> Parsed | None:
    pose = checked_pose(raw.pose)
    picture = bytes(raw.payload[:-8])
    if not picture.startswith(_PNG):
        raise Damaged("a depth picture that is no PNG")
    return Parsed(b"".join((raw.payload[-8:], pose)), picture, PacketFlags.KEY_FRAME)


_SIZES: Final = struct.Struct("<2I")


def ahat_parser(profile: VideoProfile) -> Parser:
    """For the near depth camera: sizes and both parts stay together as received."""

    def parse(raw: RawPacket) -> Parsed | None:
        zdepth, rest = _SIZES.unpack_from(raw.payload)
        if _SIZES.size + zdepth + rest + 8 != len(raw.payload):
            raise Damaged("a depth picture whose parts do not add up")
        pose = checked_pose(raw.pose)
        if rest == 0:
            return None
        stored = bytes(raw.payload[:-8])
        flags = _picture_flags(raw.payload[_SIZES.size + zdepth : -8], profile)
        return Parsed(b"".join((raw.payload[-8:], pose)), stored, flags)

    return parse


_IMU_RECORD: Final = np.dtype([(c.name, c.dtype, c.shape) for c in IMU_COLUMNS])


def parse_imu(raw: RawPacket) -> Parsed | None:
    """For a batch of a motion sensor: a row for each reading.

    A driver's habit is to give one host time to a whole batch: the first is then carried on by the
    sensor's own clock.
    """
    readings = np.frombuffer(raw.payload, wire_data.IMU_READING)
    host_hns = readings["host_hns"].astype(np.int64)
    sensor_ns = readings["sensor_ns"].astype(np.int64)
    rows = np.empty(len(readings), _IMU_RECORD)
    if len(readings) > 1 and (host_hns == host_hns[0]).all():
        rows["time_ns"] = host_hns[0] * NS_PER_HNS + (sensor_ns - sensor_ns[0])
    else:
        rows["time_ns"] = host_hns * NS_PER_HNS
    for name in ("sensor_ns", "host_hns", "value", "temperature_c"):
        rows[name] = readings[name]
    return Parsed(rows.tobytes())
