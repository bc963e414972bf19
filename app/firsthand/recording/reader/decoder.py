"""Decodes one video stream packet by packet, so that each picture keeps its packet's data.

No parser (it holds a picture back until the next packet) and no frame threads (they delay by their
number): slice threads only.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final, Protocol

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.codec.context import ThreadType
from av.video.reformatter import ColorRange, VideoReformatter

from firsthand.api import PayloadKind, RecordingError, StreamSchema

_log = logging.getLogger(__name__)
_START: Final = b"\0\0\1"
_STRIDE: Final = 64


class Decoder(Protocol):
    """Turns payloads into pictures."""

    def restart(self, *, fresh: bool) -> None:
        """What comes next does not go on from what came before; ``fresh``: nor is it of the same
        encoder."""

    def feed(self, index: int, payload: bytes | memoryview) -> Iterator[tuple[int, Any]]:
        """Decode a payload: (index, picture) of every picture that is now there.

        Raises ``ValueError`` where it cannot be decoded.
        """

    def drain(self) -> Iterator[tuple[int, Any]]:
        """What the decoder still holds back; ``restart`` must come next."""

    def rgb(self, picture: Any) -> npt.NDArray[np.uint8]:
        """A picture as (height, width, 3) uint8."""


def make_decoder(schema: StreamSchema) -> Decoder:
    """The decoder for a stream. Raises ``RecordingError`` where the stream is no video."""
    match schema.payload:
        case PayloadKind.H264 | PayloadKind.HEVC:
            return CodedDecoder(schema)
        case PayloadKind.NV12 | PayloadKind.GRAY8:
            return RawDecoder(schema)
        case _:
            raise RecordingError(f"The stream {schema.name!r} holds no pictures.")


class CodedDecoder:
    """H.264 or HEVC, one complete access unit per payload."""

    def __init__(self, schema: StreamSchema) -> None:
        self._name = schema.payload.value
        # Cameras of the headset deliver the full range and may not say so in the stream.
        self._full_range = schema.settings.get("colour_range") == "full"
        self._context: Any = None
        self._reformatter = VideoReformatter()

    def restart(self, *, fresh: bool) -> None:
        if self._context is None or fresh:
            self._context = av.CodecContext.create(self._name, "r")
            self._context.thread_type = ThreadType.SLICE
        else:
            self._context.flush_buffers()

    def feed(self, index: int, payload: bytes | memoryview) -> Iterator[tuple[int, Any]]:
        packet = av.Packet(bytes(payload))
        packet.pts = packet.dts = index
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            raise ValueError(str(error)) from error
        for frame in frames:
            if frame.is_corrupt:
                raise ValueError("the picture is damaged")
            yield frame.pts, frame

    def drain(self) -> Iterator[tuple[int, Any]]:
        for frame in self._context.decode(None):
            yield frame.pts, frame

    def rgb(self, picture: Any) -> npt.NDArray[np.uint8]:
        options = {}
        if self._full_range and picture.color_range == ColorRange.UNSPECIFIED:
            options = {"src_color_range": ColorRange.JPEG, "dst_color_range": ColorRange.JPEG}
        converted = self._reformatter.reformat(picture, format="rgb24", **options)
        return np.asarray(converted.to_ndarray(), np.uint8)


class RawDecoder:
    """NV12 or grey pictures as they are; rows of NV12 are padded to 64 bytes."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema

    def restart(self, *, fresh: bool) -> None:
        pass

    def feed(self, index: int, payload: bytes | memoryview) -> Iterator[tuple[int, Any]]:
        width, height = self._schema.width_px, self._schema.height_px
        data = np.frombuffer(payload, np.uint8)
        if self._schema.payload is PayloadKind.GRAY8:
            if data.size < width * height:
                raise ValueError("the picture is too short")
            yield index, data[: width * height].reshape(height, width)
            return
        stride = (width + _STRIDE - 1) // _STRIDE * _STRIDE
        rows = height * 3 // 2
        if data.size < stride * rows:
            raise ValueError("the picture is too short")
        yield index, data[: stride * rows].reshape(rows, stride)[:, :width]

    def drain(self) -> Iterator[tuple[int, Any]]:
        return iter(())

    def rgb(self, picture: Any) -> npt.NDArray[np.uint8]:
        if self._schema.payload is PayloadKind.GRAY8:
            return np.repeat(picture[:, :, None], 3, axis=2)
        return np.asarray(
            cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_YUV2RGB_NV12), np.uint8
        )


def parameter_sets(payload: bytes | memoryview, kind: PayloadKind) -> bytes:
    """The parameter sets (SPS, PPS; VPS too for HEVC) in front of a key frame, start codes
    included; empty where it carries none."""
    found = b""
    for nal, about in _units(bytes(payload), kind):
        if about == "picture":
            break
        if about == "parameters":
            found += b"\0" + _START + nal
    return found


def _units(data: bytes, kind: PayloadKind) -> Iterator[tuple[bytes, str]]:
    at = data.find(_START)
    while at >= 0:
        begin = at + len(_START)
        at = data.find(_START, begin)
        if begin >= len(data):
            return
        if kind is PayloadKind.H264:
            number = data[begin] & 31
            about = {7: "parameters", 8: "parameters"}.get(number, "other")
            about = "picture" if 1 <= number <= 5 else about
        else:
            number = data[begin] >> 1 & 63
            about = "parameters" if number in {32, 33, 34} else "other"
            about = "picture" if number <= 31 else about
        yield data[begin : at if at >= 0 else len(data)].rstrip(b"\0"), about
