"""Encoded pictures that bear their number, as a headset's camera would send them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import av
import numpy as np
import numpy.typing as npt
from av.video.codeccontext import VideoCodecContext

from firsthand.api import Packet, PacketFlags, PayloadKind, StreamSchema

DELAY_NS: Final = 4_000_000
_BITS: Final = 16
_OPTIONS: Final = {
    PayloadKind.H264: ("libx264", {"preset": "ultrafast", "tune": "zerolatency", "aud": "1"}),
    PayloadKind.HEVC: ("libx265", {"preset": "ultrafast", "tune": "zerolatency"}),
}


def picture(number: int, size_px: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """A picture whose upper quarter shows ``number`` as 16 black and white fields."""
    width, height = size_px
    across = np.arange(width, dtype=np.int64)[None, :]
    down = np.arange(height, dtype=np.int64)[:, None]
    shade = ((across + down * 2 + number * 3) % 128 + 64).astype(np.uint8)
    image = np.repeat(shade[:, :, None], 3, axis=2)
    for bit in range(_BITS):
        left, right = bit * width // _BITS, (bit + 1) * width // _BITS
        image[: height // 4, left:right] = 235 if number >> bit & 1 else 16
    return image


def read_number(rgb: npt.NDArray[np.uint8]) -> int:
    """The number that a picture bears."""
    height, width = rgb.shape[:2]
    row = rgb[height // 16 : height // 6].mean(axis=(0, 2))
    number = 0
    for bit in range(_BITS):
        middle = (2 * bit + 1) * width // (2 * _BITS)
        number |= int(row[middle] > 128) << bit
    return number


def encode(
    schema: StreamSchema,
    seconds: float,
    gop: int,
    bit_rate: int,
    first_ns: int,
    device: Callable[[int], int],
) -> list[Packet]:
    """Packets of ``schema``'s stream, pictures numbered from 0, one complete picture each."""
    packets = []
    count = round(seconds * schema.nominal_hz)
    record = np.zeros(1, schema.dtype)
    width, height = schema.width_px, schema.height_px
    record["focal_length"] = (0.9 * width, 0.9 * width)
    record["principal_point"] = (width / 2, height / 2)
    record["resolution"] = (width, height)
    record["pose"] = np.eye(4)
    for number, (data, key) in enumerate(_encoded(schema, count, gop, bit_rate)):
        host_ns = first_ns + round(number * 1e9 / schema.nominal_hz)
        record["exposure_ns"] = number
        flags = PacketFlags.KEY_FRAME if key else PacketFlags.NONE
        if number == 0:
            flags |= PacketFlags.NEW_CONNECTION
        fields = record.tobytes()
        device_ns = device(host_ns) // 100 * 100
        packets.append(
            Packet(schema.name, number, device_ns, host_ns + DELAY_NS, fields, data, flags)
        )
    return packets


def _encoded(
    schema: StreamSchema, count: int, gop: int, bit_rate: int
) -> Iterator[tuple[bytes, bool]]:
    name, options = _OPTIONS[schema.payload]
    context: Any = VideoCodecContext.create(name, "w")
    context.width, context.height = schema.width_px, schema.height_px
    context.pix_fmt = "yuv420p"
    context.time_base = Fraction(1, round(schema.nominal_hz))
    context.framerate = Fraction(round(schema.nominal_hz))
    context.bit_rate = bit_rate
    context.gop_size = gop
    context.max_b_frames = 0
    context.thread_count = 1
    if schema.payload is PayloadKind.HEVC:
        options = options | {"x265-params": f"log-level=none:pools=1:keyint={gop}:scenecut=0"}
    else:
        options = options | {"x264-params": f"scenecut=0:keyint={gop}:min-keyint={gop}"}
    context.options = options
    size = schema.width_px, schema.height_px
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(picture(number, size), format="rgb24")
        frame.pts = number
        for packet in context.encode(frame):
            yield bytes(packet), bool(packet.is_keyframe)
    for packet in context.encode(None):
        yield bytes(packet), bool(packet.is_keyframe)


def encode_b_pictures(
    like: Sequence[Packet], schema: StreamSchema
) -> tuple[list[Packet], list[int]]:
    """Packets of pictures coded out of their order, and the number that each one's picture
    bears. No headset does this by itself; an encoder can be asked to."""
    name, _ = _OPTIONS[schema.payload]
    context: Any = VideoCodecContext.create(name, "w")
    context.width, context.height = schema.width_px, schema.height_px
    context.pix_fmt = "yuv420p"
    context.time_base = Fraction(1, 30)
    context.gop_size = 15
    context.max_b_frames = 2
    context.thread_count = 1
    context.options = {"x264-params": "bframes=2:b-adapt=0:scenecut=0:keyint=15:open-gop=0"}
    coded = []
    for number in range(len(like)):
        image = picture(number, (schema.width_px, schema.height_px))
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        frame.pts = number
        coded += context.encode(frame)
    coded += context.encode(None)
    packets = []
    for was, packet in zip(like, coded, strict=True):
        flags = was.flags & PacketFlags.NEW_CONNECTION
        flags |= PacketFlags.KEY_FRAME if packet.is_keyframe else PacketFlags.NONE
        packets.append(replace(was, payload=bytes(packet), flags=flags))
    return packets, [int(packet.pts) for packet in coded]
