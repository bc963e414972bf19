"""Personal video, port 3810: opening and closing the camera, pictures, calibration.

One mode byte may ask for all of it: start bit, then what to deliver, then stop bit. Each streaming
connection gets an encoder of its own, so its first picture is a key frame with its headers.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from typing import Final

import numpy as np

from firsthand_hl2ss import wire_config, wire_data
from firsthand_hl2ss.simulator.calibration import pv_calibration
from firsthand_hl2ss.simulator.camera import SHARED_FORMAT
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pictures import NO_KEY, LivePictures, Pictures, ShownAgain
from firsthand_hl2ss.simulator.pump import Beat, Nothing, Pump, Ready
from firsthand_hl2ss.simulator.source import U1, PvMetadata
from firsthand_hl2ss.simulator.video_settings import encoder_for
from firsthand_hl2ss.wire import (
    NS_PER_HNS,
    EncoderOption,
    Mode,
    VideoProfile,
    WireError,
    nv12_stride,
)
from firsthand_hl2ss.wire_config import Format, MixedReality, Video

STREAM: Final = "pv"
_FIRST_FRAME_S: Final = 0.15
_REAL_TIME_QUEUE_S: Final = 0.001
_EMPTY: Final = frozenset({"empty_pv"})


class PersonalVideo:
    """Serves port 3810."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self.pump = Pump(headset, STREAM)

    def serve(self, connection: Connection) -> None:
        mode, start, stop = wire_config.read_mode(connection.receive)
        try:
            if start:
                self._open(connection, MixedReality.read(connection.receive))
            if mode is Mode.NOTHING:
                return
            if not self._headset.camera.is_on:
                raise WireError("the camera is off")
            if mode is Mode.CALIBRATION:
                self._calibrate(connection)
            else:
                self._stream(connection, with_pose=mode is Mode.DATA_AND_POSE)
        finally:
            if stop:
                self._headset.camera.close()

    def _open(self, connection: Connection, opening: MixedReality) -> None:
        """Takes its time; a camera that is on is closed first. Without permission it stays off."""
        camera = self._headset.camera
        camera.close()
        self._headset.wait(connection, self._headset.config.camera_opens_s)
        if not self._headset.denied(STREAM):
            camera.opened(opening)

    def _calibrate(self, connection: Connection) -> None:
        size = self._format(connection)
        self._headset.wait(connection, _FIRST_FRAME_S)
        metadata = self._metadata(self._headset.clock.qpc_hns(), size)
        connection.reply(pv_calibration(metadata, size.width))

    def _format(self, connection: Connection) -> Format:
        if self._headset.camera.shared:
            connection.receive(len(SHARED_FORMAT.pack()))
            return SHARED_FORMAT
        return Format.read(connection.receive)

    def _metadata(self, hns: int, size: Format) -> PvMetadata:
        scene_s = self._headset.clock.scene_s(hns)
        told = self._headset.source.pv_metadata(scene_s, size.width, size.height)
        return self._headset.camera.applied(told)

    def _stream(self, connection: Connection, *, with_pose: bool) -> None:
        size = self._format(connection)
        divisor = wire_config.read_divisor(connection.receive)
        video = Video.read(connection.receive)
        acquisition = video.option(EncoderOption.FRAME_ACQUISITION)
        buffered = acquisition is None or bool(acquisition & 1)
        with self._pictures(connection, size, divisor, video) as pictures:
            frames = _Frames(self._headset, connection, size, pictures, with_pose=with_pose)
            self.pump.run(
                connection,
                Fraction(1, size.fps),
                frames.make,
                every=divisor,
                queue_s=None if buffered else _REAL_TIME_QUEUE_S,
            )

    @contextmanager
    def _pictures(
        self, connection: Connection, size: Format, divisor: int, video: Video
    ) -> Iterator[Pictures]:
        """Encoded ahead where that was asked for; else drawn and encoded (or padded) live."""
        headset = self._headset

        def draw(scene_s: float, number: int) -> U1:
            return headset.source.frame(scene_s, number, size.width, size.height)

        with ExitStack() as stack:
            if video.profile is VideoProfile.RAW:
                pictures: Pictures = LivePictures(
                    draw, lambda nv12: padded(nv12).tobytes(), divisor
                )
            elif stretch := headset.stretches.get(connection, video, size, divisor):
                pictures = ShownAgain(stretch)
            else:
                fps = Fraction(size.fps, divisor)
                encoder = encoder_for(video, size.width, size.height, fps, headset.config)
                stack.callback(encoder.close)
                pictures = LivePictures(draw, encoder.encode, divisor)
            stack.callback(pictures.close)
            yield pictures


class _Frames:
    """The packets of one connection."""

    def __init__(
        self,
        headset: Headset,
        connection: Connection,
        size: Format,
        pictures: Pictures,
        *,
        with_pose: bool,
    ) -> None:
        self._headset = headset
        self._connection = connection
        self._size = size
        self._pictures = pictures
        self._with_pose = with_pose
        self._first = True

    def make(self, beat: Beat) -> Ready | Nothing:
        headset, size = self._headset, self._size
        moment_s = self._pictures.moment_s(beat)
        told = headset.source.pv_metadata(moment_s, size.width, size.height)
        metadata = packed_metadata(headset.camera.applied(told), size)
        pose = headset.pose(STREAM, headset.source.pv_pose(moment_s))
        empty = self._pictures.may_be_empty(beat) and self._is_empty(beat)
        picture = b"" if empty else self._pictures.take(beat)
        if picture is None:
            return Nothing(NO_KEY)
        self._first = False
        return Ready(
            beat.hns,
            [picture, metadata],
            pose if self._with_pose else b"",
            picture=True,
            empty=not picture,
            metadata_bytes=len(metadata),
        )

    def _is_empty(self, beat: Beat) -> bool:
        """Now and then the encoder yields nothing; often enough for the very first picture."""
        config = self._headset.config
        if self._connection.packet_fault(_EMPTY):
            return True
        if self._first:
            chance = self._headset.chance("empty first", self._connection.number)
            return chance.random() < config.empty_first_probability
        return self._headset.chance("empty", beat.slot).random() < config.empty_pv_probability


def packed_metadata(metadata: PvMetadata, size: Format) -> bytes:
    """The 80 bytes behind a picture. The upper half of the compensation's value is rubbish."""
    record = np.zeros((), wire_data.PV_METADATA)
    record["focal_length"] = metadata.focal_length
    record["principal_point"] = metadata.principal_point
    record["exposure_hns"] = metadata.exposure_ns // NS_PER_HNS
    flags, value = metadata.exposure_compensation
    record["exposure_compensation"] = flags, (110 << 32) | (value & 0xFFFF_FFFF)
    record["lens_position"] = metadata.lens_position
    record["focus_state"] = metadata.focus_state
    record["iso"] = metadata.iso
    record["white_balance_k"] = metadata.white_balance_k
    record["iso_gains"] = metadata.iso_gains
    record["white_balance_gains"] = metadata.white_balance_gains
    record["resolution"] = size.width, size.height
    return record.tobytes()


def padded(nv12: U1) -> U1:
    """A raw picture as it is sent: rows padded to a multiple of 64 bytes."""
    width = nv12.shape[1]
    stride = nv12_stride(width)
    if stride == width:
        return nv12
    out = np.zeros((nv12.shape[0], stride), np.uint8)
    out[:, :width] = nv12
    return out
