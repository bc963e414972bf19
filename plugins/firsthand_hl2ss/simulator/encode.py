"""Encoders as a headset has them: one picture in, one access unit out; AAC with its headers."""

import re
from fractions import Fraction
from typing import Any, Final

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.video.codeccontext import VideoCodecContext

from firsthand.api import DeviceError
from firsthand_hl2ss.simulator.source import F4, SOUND_HZ, U1
from firsthand_hl2ss.wire import VideoProfile

AAC_SAMPLES: Final = 1024
_H264_TOOLS: Final = {
    VideoProfile.H264_BASELINE: "cabac=0:8x8dct=0",
    VideoProfile.H264_MAIN: "cabac=1:8x8dct=0",
    VideoProfile.H264_HIGH: "cabac=1:8x8dct=1",
}
_SHORT_START: Final = re.compile(rb"(?<!\x00)\x00\x00\x01")
_FULL_RANGE: Final = 2
_SMPTE_170M: Final = 6
_BT_709: Final = 1
_LEAST_BIT_PER_S: Final = 10_000
_MOST_PICTURES: Final = 1 << 24
"""A client may ask for any number; encoders take these."""


class VideoEncoder:
    """H.264 or HEVC of one connection.

    ``encode`` gives the access unit of the picture handed in: Annex B with four-byte start codes,
    no reordering, nothing held back. The first picture and every ``gop``-th after it is a key frame
    with its parameter sets before it; H.264 begins with a six-byte access unit delimiter. Raises
    ``DeviceError`` for what the encoder does not take.
    """

    def __init__(
        self,
        profile: VideoProfile,
        width: int,
        height: int,
        fps: Fraction,
        *,
        bitrate: int,
        gop: int,
        threads: int = 1,
    ) -> None:
        hevc = profile is VideoProfile.HEVC_MAIN
        bitrate = max(bitrate, _LEAST_BIT_PER_S)
        gop = min(max(1, gop), _MOST_PICTURES)
        if not hevc and profile not in _H264_TOOLS:
            raise DeviceError(f"There is no video encoder for profile {profile!r}.")
        self._size = (width, height)
        self._planar = hevc
        self._number = 0
        context = av.CodecContext.create("libx265" if hevc else "libx264", "w")
        if not isinstance(context, VideoCodecContext):
            raise DeviceError("The video encoder on this computer is not of the kind expected.")
        context.width, context.height = width, height
        context.pix_fmt = "yuv420p" if hevc else "nv12"
        context.framerate, context.time_base = fps, 1 / fps
        context.bit_rate = bitrate
        context.gop_size = gop
        context.max_b_frames = 0
        context.thread_count = threads
        context.color_range = _FULL_RANGE
        context.colorspace = context.color_primaries = _SMPTE_170M
        context.color_trc = _BT_709
        context.options = (
            _hevc_options(gop, bitrate, threads) if hevc else _h264_options(profile, gop, bitrate)
        )
        try:
            context.open()
        except (av.FFmpegError, ValueError) as error:
            raise DeviceError(
                f"The video encoder does not take {width}×{height} at {bitrate} bit/s: {error}."
            ) from error
        self._context: VideoCodecContext | None = context

    def encode(self, nv12: U1) -> bytes:
        """The access unit of a picture (height * 3 / 2, width); empty if none was made."""
        if self._context is None:
            raise DeviceError("The video encoder was closed before the picture came.")
        width, height = self._size
        if self._planar:
            frame = av.VideoFrame(width, height, "yuv420p")
            chroma = nv12[height:].reshape(height // 2, width // 2, 2)
            for plane, values in zip(
                frame.planes, (nv12[:height], chroma[..., 0], chroma[..., 1]), strict=True
            ):
                _fill(plane, values)
        else:
            frame = av.VideoFrame(width, height, "nv12")
            for plane, values in zip(frame.planes, (nv12[:height], nv12[height:]), strict=True):
                _fill(plane, values)
        frame.pts = self._number
        frame.time_base = self._context.time_base
        frame.color_range = _FULL_RANGE
        frame.colorspace = _SMPTE_170M
        self._number += 1
        unit = b"".join(bytes(packet) for packet in self._context.encode(frame))
        return _SHORT_START.sub(b"\x00\x00\x00\x01", unit)

    def close(self) -> None:
        """Give the encoder's threads and memory back. May be called twice."""
        if self._context is not None:
            self._context.encode(None)
        self._context = None


def _h264_options(profile: VideoProfile, gop: int, bitrate: int) -> dict[str, str]:
    rate = max(1, bitrate // 1000)
    tools = [
        "aud=1",
        "scenecut=0",
        f"keyint={gop}",
        f"min-keyint={gop}",
        f"vbv-maxrate={rate}",
        f"vbv-bufsize={rate}",
        "repeat-headers=1",
        "force-cfr=1",
        _H264_TOOLS[profile],
    ]
    return {
        "preset": "ultrafast",
        "tune": "zerolatency",
        "forced-idr": "1",
        "x264-params": ":".join(tools),
    }


def _hevc_options(gop: int, bitrate: int, threads: int) -> dict[str, str]:
    rate = max(1, bitrate // 1000)
    tools = [
        "log-level=none",
        "info=0",
        f"pools={threads if threads > 1 else 'none'}",
        "frame-threads=1",
        "bframes=0",
        "rc-lookahead=0",
        "scenecut=0",
        f"keyint={gop}",
        f"min-keyint={gop}",
        "open-gop=0",
        "repeat-headers=1",
        f"vbv-maxrate={rate}",
        f"vbv-bufsize={rate}",
    ]
    return {"preset": "ultrafast", "tune": "zerolatency", "x265-params": ":".join(tools)}


def _fill(plane: Any, values: U1) -> None:
    """Copy rows into a plane, whose rows may be longer."""
    view = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    row = values.reshape(values.shape[0], -1)
    view[: row.shape[0], : row.shape[1]] = row


class AacEncoder:
    """Stereo AAC-LC at 48 kHz, one ADTS frame for each 1024 samples.

    What a frame decodes to was handed in ``delay_samples`` earlier: the codec overlaps its blocks,
    and this one looks a block ahead. The first frames decode to silence.
    """

    delay_samples: Final = 2 * AAC_SAMPLES

    def __init__(self, bytes_per_s: int) -> None:
        context = av.CodecContext.create("aac", "w")
        if not isinstance(context, AudioCodecContext):
            raise DeviceError("The sound encoder on this computer is not of the kind expected.")
        context.sample_rate = SOUND_HZ
        context.layout = "stereo"
        context.format = "fltp"
        context.bit_rate = bytes_per_s * 8
        context.time_base = Fraction(1, SOUND_HZ)
        self._context: AudioCodecContext | None = context
        self._at = 0
        self._feed(np.zeros((AAC_SAMPLES, 2), np.float32))  # makes it look ahead into silence

    def encode(self, sound: F4) -> bytes:
        """The next frame, for sound (1024, 2) from -1 to 1."""
        if sound.shape != (AAC_SAMPLES, 2):
            raise ValueError(f"a frame of sound is ({AAC_SAMPLES}, 2), not {sound.shape}")
        return b"".join(adts(packet) for packet in self._feed(sound))

    def _feed(self, sound: F4) -> list[bytes]:
        if self._context is None:
            raise DeviceError("The sound encoder was closed before the sound came.")
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(sound.T, np.float32), format="fltp", layout="stereo"
        )
        frame.sample_rate = SOUND_HZ
        frame.pts = self._at
        frame.time_base = Fraction(1, SOUND_HZ)
        self._at += AAC_SAMPLES
        return [bytes(packet) for packet in self._context.encode(frame)]

    def close(self) -> None:
        """Give the encoder back. May be called twice."""
        if self._context is not None:
            self._context.encode(None)
        self._context = None


def adts(frame: bytes) -> bytes:
    """A frame of AAC-LC, 48 kHz, stereo, with the seven bytes before it that say so
    (ISO/IEC 13818-7, 6.2)."""
    length = len(frame) + 7
    profile, rate, channels, fullness = 1, 3, 2, 0x7FF
    bits = (
        0xFFF << 44
        | 1 << 40  # no checksum; MPEG-4, layer 0
        | profile << 38
        | rate << 34
        | channels << 30
        | length << 13
        | fullness << 2
    )
    return bits.to_bytes(7, "big") + frame
