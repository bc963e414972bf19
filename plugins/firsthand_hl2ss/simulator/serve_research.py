"""Research Mode's cameras, ports 3800-3805: four grey ones, near and far depth.

The pose of these streams is the rig's, not the sensor's; what leads from one to the other is in the
calibration.
"""

import math
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import cv2
import numpy as np

from firsthand_hl2ss import wire, wire_config, wire_data
from firsthand_hl2ss.simulator.calibration import camera_calibration
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pump import Beat, Pump, Ready
from firsthand_hl2ss.simulator.source import U1, DepthSample, GreyCamera
from firsthand_hl2ss.simulator.video_settings import encoder_for
from firsthand_hl2ss.wire import DepthProfile, EncoderOption, Mode, VideoProfile, WireError
from firsthand_hl2ss.wire_config import AhatRequest, LongThrowRequest, Video, VlcRequest

GREY_CAMERAS: Final = {
    "vlc_left_front": GreyCamera.LEFT_FRONT,
    "vlc_left_left": GreyCamera.LEFT_LEFT,
    "vlc_right_front": GreyCamera.RIGHT_FRONT,
    "vlc_right_right": GreyCamera.RIGHT_RIGHT,
}
_VLC_LATE_HNS: Final = 125_000
"""Grey pictures are stamped so much later than they were taken."""
_EXPOSURE_NS: Final = 3_000_000
_GAIN: Final = 384
_GREY_CHROMA: Final = 0x80
_DEPTH_PER_LUMA: Final = 4


@dataclass(frozen=True, slots=True)
class _Picture:
    data: bytes
    crc32: int


class _Album:
    """Makes each picture, or a few once and shows them in turn: see ``rotating_pictures``."""

    def __init__(self, headset: Headset, make: Callable[[float], bytes], rate_hz: int) -> None:
        self._count = headset.config.rotating_pictures
        self._make = make
        self._rate_hz = rate_hz
        self._pages: list[_Picture] = []

    def show(self, beat: Beat, scene_s: float) -> _Picture:
        if self._count == 0:
            data = self._make(scene_s)
            return _Picture(data, zlib.crc32(data))
        while len(self._pages) < self._count:
            data = self._make(len(self._pages) / self._rate_hz)
            self._pages.append(_Picture(data, zlib.crc32(data)))
        return self._pages[beat.slot % self._count]


class ResearchCamera(ABC):
    """One camera's port: mode byte, calibration or packets, a rig pose where asked."""

    def __init__(self, headset: Headset, stream: str, rate_hz: int, phase_hns: int) -> None:
        self.headset = headset
        self.stream = stream
        self.rate_hz = rate_hz
        self.pump = Pump(headset, stream, phase_hns=phase_hns)

    def serve(self, connection: Connection) -> None:
        mode, _, _ = wire_config.read_mode(connection.receive)
        match mode:
            case Mode.CALIBRATION:
                connection.reply(camera_calibration(self.stream))
            case Mode.DATA | Mode.DATA_AND_POSE:
                self.stream_to(connection, with_pose=mode is Mode.DATA_AND_POSE)
            case Mode.NOTHING:
                return

    @abstractmethod
    def stream_to(self, connection: Connection, *, with_pose: bool) -> None:
        """Read the rest of the request and send until the connection ends."""

    def rig_pose(self, scene_s: float, *, with_pose: bool) -> bytes:
        if not with_pose:
            return b""
        return self.headset.pose(self.stream, self.headset.source.rig_pose(scene_s))


class GreyPort(ResearchCamera):
    """Ports 3800-3803."""

    def __init__(self, headset: Headset, stream: str, phase_hns: int) -> None:
        super().__init__(headset, stream, wire.VLC_HZ, phase_hns)
        camera = GREY_CAMERAS[stream]
        self._album = _Album(
            headset, lambda t: headset.source.grey(camera, t).tobytes(), wire.VLC_HZ
        )

    def stream_to(self, connection: Connection, *, with_pose: bool) -> None:
        request = VlcRequest.read(connection.receive)
        width, height = wire.VLC_SIZE
        shift = _time_shift_hns(request.video)
        encoder = None
        if request.video.profile is not VideoProfile.RAW:
            fps = Fraction(wire.VLC_HZ, request.divisor)
            encoder = encoder_for(request.video, width, height, fps, self.headset.config)
        nv12 = np.full((height * 3 // 2, width), _GREY_CHROMA, np.uint8)

        def make(beat: Beat) -> Ready:
            scene_s = beat.scene_s - _VLC_LATE_HNS / wire.HNS_PER_S
            picture = self._album.show(beat, scene_s)
            data, crc = picture.data, picture.crc32
            if encoder is not None:
                nv12[:height] = np.frombuffer(data, np.uint8).reshape(height, width)
                data = encoder.encode(nv12)
                crc = zlib.crc32(data)
            record = np.zeros((), wire_data.VLC_METADATA)
            record["sensor_ticks"] = beat.hns
            record["exposure_ns"] = _EXPOSURE_NS
            record["gain"] = _GAIN
            pose = self.rig_pose(scene_s, with_pose=with_pose)
            return Ready(
                beat.hns + shift,
                [data, record.tobytes()],
                pose,
                picture=True,
                metadata_bytes=record.nbytes,
                first_crc32=crc,
            )

        try:
            self.pump.run(
                connection,
                Fraction(1, wire.VLC_HZ),
                make,
                every=request.divisor,
                stamp=lambda hns: hns + shift,
            )
        finally:
            if encoder is not None:
                encoder.close()


class LongThrowPort(ResearchCamera):
    """Port 3805."""

    def __init__(self, headset: Headset, phase_hns: int) -> None:
        super().__init__(headset, "depth_long_throw", wire.DEPTH_LONG_THROW_HZ, phase_hns)

    def stream_to(self, connection: Connection, *, with_pose: bool) -> None:
        request = LongThrowRequest.read(connection.receive)
        source = self.headset.source

        def make(beat: Beat) -> Ready:
            ticks = struct.pack("<Q", beat.hns)
            return Ready(
                beat.hns,
                [depth_png(source.depth_long_throw(beat.scene_s)), ticks],
                self.rig_pose(beat.scene_s, with_pose=with_pose),
                picture=True,
                metadata_bytes=len(ticks),
            )

        period_s = Fraction(1, wire.DEPTH_LONG_THROW_HZ)
        self.pump.run(connection, period_s, make, every=request.divisor)


class AhatPort(ResearchCamera):
    """Port 3804. Zdepth is not simulated: a client that asks for it is closed."""

    def __init__(self, headset: Headset, phase_hns: int) -> None:
        super().__init__(headset, "depth_ahat", wire.DEPTH_AHAT_HZ, phase_hns)
        self._album = _Album(
            headset, lambda t: _two_planes(headset.source.depth_ahat(t)), wire.DEPTH_AHAT_HZ
        )

    def stream_to(self, connection: Connection, *, with_pose: bool) -> None:
        request = AhatRequest.read(connection.receive)
        if request.depth is not DepthProfile.SAME:
            raise WireError("Zdepth is not simulated")
        width, height = wire.DEPTH_AHAT_SIZE
        encoder = None
        if request.video.profile is not VideoProfile.RAW:
            fps = Fraction(wire.DEPTH_AHAT_HZ, request.divisor)
            encoder = encoder_for(request.video, width, height, fps, self.headset.config)

        def make(beat: Beat) -> Ready:
            picture = self._album.show(beat, beat.scene_s)
            data = picture.data if encoder is None else encoder.encode(_as_nv12(picture.data))
            head, ticks = struct.pack("<II", 0, len(data)), struct.pack("<Q", beat.hns)
            return Ready(
                beat.hns,
                [head, data, ticks],
                self.rig_pose(beat.scene_s, with_pose=with_pose),
                metadata_bytes=len(ticks),
            )

        try:
            period_s = Fraction(1, wire.DEPTH_AHAT_HZ)
            self.pump.run(connection, period_s, make, every=request.divisor)
        finally:
            if encoder is not None:
                encoder.close()


def depth_png(sample: DepthSample) -> bytes:
    """Depth and brightness planes, one after the other, as the B, G, R, A bytes of a PNG."""
    width, height = wire.DEPTH_LONG_THROW_SIZE
    planes = np.frombuffer(_two_planes(sample), np.uint8).reshape(height, width, 4)
    done, png = cv2.imencode(".png", planes, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not done:
        raise RuntimeError("OpenCV could not make a PNG")
    return png.tobytes()


def _two_planes(sample: DepthSample) -> bytes:
    return sample.depth.astype("<u2").tobytes() + sample.brightness.astype("<u2").tobytes()


def _as_nv12(planes: bytes) -> U1:
    """Near depth as a video encoder gets it: Y is depth / 4, UV the root of brightness."""
    width, height = wire.DEPTH_AHAT_SIZE
    depth, brightness = np.frombuffer(planes, "<u2").reshape(2, height, width)
    root = np.sqrt(brightness[::2].astype(np.float32))
    both = np.concatenate([depth.astype(np.float32) / _DEPTH_PER_LUMA, root])
    nv12: U1 = np.minimum(both, 255).astype(np.uint8)
    return nv12


def _time_shift_hns(video: Video) -> int:
    """What a client adds to the stamps: ticks, and a multiple of the exposure."""
    ticks = video.option(EncoderOption.VLC_TIME_SHIFT) or 0
    exposures = video.option(EncoderOption.VLC_TIME_SHIFT_EXPOSURES) or 0
    shift_hns: int = struct.unpack("<q", struct.pack("<Q", ticks))[0]
    share: float = struct.unpack("<d", struct.pack("<Q", exposures))[0]
    if not math.isfinite(share):
        return shift_hns
    return shift_hns + round(share * _EXPOSURE_NS / wire.NS_PER_HNS)
