"""Stretches of video encoded ahead, one for each way in which a client asked for it."""

import logging
import re
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from firsthand.api import SettingsError
from firsthand_hl2ss import wire
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.source import SensorSource
from firsthand_hl2ss.simulator.video_settings import gop_of
from firsthand_hl2ss.wire import EncoderOption, VideoProfile
from firsthand_hl2ss.wire_config import Format, Video

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.encode_ahead import PreEncoded

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
_LONGEST_S: Final = 600.0
_GOP: Final = 15
"""What our client asks for by default."""
_PROFILES: Final = {"h264": VideoProfile.H264_MAIN, "hevc": VideoProfile.HEVC_MAIN}
_ASKED: Final = re.compile(r"(h264|hevc):(\d{3,4})x(\d{3,4})@(\d{1,2})")

_Key = tuple[VideoProfile, int, int, Fraction, int, int]


def read_ahead_of(text: str) -> tuple[Video, Format]:
    """What ``hevc:1920x1080@30`` asks for, as our client does by default. Raises ``ValueError``."""
    found = _ASKED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} does not say what to encode; write it as hevc:1920x1080@30")
    profile = _PROFILES[found[1]]
    width, height, fps = (int(found[i]) for i in (2, 3, 4))
    if (width, height, fps) not in wire.PV_FORMATS:
        raise ValueError(f"the camera has no {width}x{height}@{fps}")
    bitrate = wire.default_bitrate(width, height, fps, profile)
    options = ((int(EncoderOption.GOP_SIZE), _GOP),)
    video = Video(profile, wire.LEVEL_CHOSEN_BY_ENCODER, bitrate, options)
    return video, Format(width, height, fps)


class Stretches:
    """Keeps each stretch once it was encoded. Any thread."""

    def __init__(self, source: SensorSource, length_s: int, threads: int) -> None:
        """``source`` begins anew every ``length_s``, and so does every stretch."""
        self._source = source
        self._length_s = length_s
        self._threads = max(2, threads)
        self._made: dict[_Key, PreEncoded] = {}
        self._lock = threading.Lock()

    def prepare(self, ahead_of: str) -> None:
        """Encode what our client will ask for. Returns when that is done."""
        try:
            video, size = read_ahead_of(ahead_of)
        except ValueError as error:
            raise SettingsError(f"{error}.") from error
        stretch = self._stretch(video, size, 1)
        if stretch is not None:
            stretch.wait(stretch.count, _LONGEST_S)

    def get(
        self, connection: Connection, video: Video, size: Format, divisor: int
    ) -> "PreEncoded | None":
        """The stretch that suits a request, waited for while it is encoded; None where none can
        join up, or nothing is encoded ahead. Raises ``ConnectionEnded``, ``DeviceError``."""
        stretch = self._stretch(video, size, divisor)
        while stretch is not None and not stretch.wait(stretch.count, _LOOK_S):
            connection.check()
        return stretch

    def _stretch(self, video: Video, size: Format, divisor: int) -> "PreEncoded | None":
        if self._length_s == 0:
            return None
        from firsthand_hl2ss.simulator.encode_ahead import PreEncoded

        fps = Fraction(size.fps, divisor)
        pictures = self._length_s * fps
        if pictures.denominator != 1:
            _log.warning("%s pictures do not join up: encoding live", pictures)
            return None
        gop = gop_of(video, fps)
        key = (video.profile, size.width, size.height, fps, video.bitrate, gop)
        with self._lock:
            stretch = self._made.get(key)
            if stretch is None:
                stretch = self._made[key] = PreEncoded(
                    self._source,
                    video.profile,
                    size.width,
                    size.height,
                    fps,
                    bitrate=video.bitrate,
                    gop=gop,
                    pictures=int(pictures),
                    threads=self._threads,
                )
                stretch.start()
                _log.info("encoding %d pictures ahead", stretch.count)
            return stretch

    def close(self) -> None:
        """Stop encoding and forget everything. May be called twice."""
        with self._lock:
            for stretch in self._made.values():
                stretch.close()
            self._made.clear()
