"""Video packets as they go into an MP4: whole, in order, and none that cannot be decoded."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from firsthand.api import (
    DamagedError,
    Packet,
    PacketFlags,
    PayloadKind,
    RecordingError,
    RecordingView,
    StreamSchema,
)

if TYPE_CHECKING:
    import av
    from av.container import OutputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

TIME_BASE: Final = Fraction(1, 1_000_000)
"""Microseconds: frame times as exact as anybody can show them."""
CODED: Final = {PayloadKind.H264: "h264", PayloadKind.HEVC: "hevc"}


@dataclass(frozen=True, slots=True)
class Picture:
    """One coded picture and when it is shown, in units of ``TIME_BASE``."""

    at: int
    data: bytes
    is_key: bool


def pictures(recording: RecordingView, schema: StreamSchema) -> Iterator[Picture]:
    """Coded pictures in the session's time.

    What builds on a packet that is lost or damaged is left out up to the next key frame: the last
    good picture then stands, as it would have in a live view.
    """
    times = recording.times_s(schema.name)
    before = -1
    broken = True
    expected = -1
    for index, packet in _undamaged(recording, schema.name, len(times)):
        key = bool(packet.flags & PacketFlags.KEY_FRAME)
        new = bool(packet.flags & PacketFlags.NEW_CONNECTION)
        broken = not key and (broken or new or packet.seq != expected)
        expected = packet.seq + 1
        if broken:
            continue
        # Two pictures cannot stand at one time: one that goes back follows at once.
        at = max(before + 1, round(float(times[index]) / TIME_BASE), 0)
        before = at
        yield Picture(at, bytes(packet.payload), key)


def _undamaged(recording: RecordingView, stream: str, count: int) -> Iterator[tuple[int, Packet]]:
    start = 0
    while start < count:
        try:
            for packet in recording.packets(stream, start):
                yield start, packet
                start += 1
        except DamagedError:
            start += 1
        else:
            return


def add_video_stream(
    output: "OutputContainer", schema: StreamSchema, first: Picture, *, one_encoder: bool
) -> "VideoStream":
    """A stream of ``output`` for coded pictures; what decoders need is taken from ``first``.

    Raises ``RecordingError`` where the picture does not bear its parameter sets.
    """
    import av

    with av.open(io.BytesIO(first.data), format=CODED[schema.payload]) as source:
        template = source.streams.video[0]
        if not template.codec_context.extradata:
            raise RecordingError(
                f"The first key frame of {schema.name} does not say how it is to be decoded."
            )
        stream = output.add_stream_from_template(template)
    stream.time_base = TIME_BASE
    if schema.payload is PayloadKind.HEVC and one_encoder:
        # Apple's players take HEVC under this tag only; it allows no later parameter sets.
        stream.codec_context.codec_tag = "hvc1"
    return stream


def to_packet(picture: Picture, stream: "VideoStream", duration: int) -> "av.Packet[Stream]":
    """The picture as PyAV muxes it."""
    import av

    packet = av.Packet(picture.data)
    packet.stream = stream
    packet.time_base = TIME_BASE
    packet.pts = packet.dts = picture.at
    packet.duration = duration
    packet.is_keyframe = picture.is_key
    return packet
