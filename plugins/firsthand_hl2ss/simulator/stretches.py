"""Stretches of video encoded ahead, one for each way in which a client asked for it."""

import logging
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from firsthand_hl2ss.simulator.ahead_of import read_ahead_of
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.source import SensorSource
from firsthand_hl2ss.simulator.video_settings import gop_of
from firsthand_hl2ss.wire import VideoProfile
from firsthand_hl2ss.wire_config import Format, Video

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.encode_ahead import PreEncoded

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
_LONGEST_S: Final = 600.0

_Key = tuple[VideoProfile, int, int, Fraction, int, int]


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
        """Encode what our client will ask for. Returns when that is done. Raises ``ValueError``
        as ``read_ahead_of``, and ``DeviceError``."""
        video, size = read_ahead_of(ahead_of)
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
