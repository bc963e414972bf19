"""Video encoded before it is wanted, for sizes and codecs that this computer is too slow for live.

A stretch of the source is encoded once, in a thread of its own, and shown again and again. Its
pictures carry the number *within* the stretch, and are of the moment ``scene_s`` of the source.
Whoever shows it asks the source for poses, gaze and sound of those moments as well; a source whose
length is the stretch's loops with it.
"""

import logging
import threading
from fractions import Fraction

import av

from firsthand.api import DeviceError, FirsthandError
from firsthand_hl2ss.simulator.encode import VideoEncoder
from firsthand_hl2ss.simulator.source import SensorSource
from firsthand_hl2ss.wire import VideoProfile

_log = logging.getLogger(__name__)


class PreEncoded:
    """A loop of encoded pictures. It begins with a key frame, so it joins up; wherever a group
    begins, a client can begin."""

    def __init__(
        self,
        source: SensorSource,
        profile: VideoProfile,
        width: int,
        height: int,
        fps: Fraction,
        *,
        bitrate: int,
        gop: int,
        pictures: int,
        phase_s: float = 0.0,
        threads: int = 2,
    ) -> None:
        """``phase_s`` is the source's time of the first picture."""
        self.gop = max(1, gop)
        self.count = max(1, pictures)
        self.fps = fps
        self._source = source
        self._size = (width, height)
        self._phase_s = phase_s
        self._encoder = VideoEncoder(
            profile, width, height, fps, bitrate=bitrate, gop=self.gop, threads=threads
        )
        self._units: list[bytes] = []
        self._news = threading.Condition()
        self._stopping = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="encode ahead", daemon=True)

    def start(self) -> None:
        """Begin to encode."""
        self._thread.start()

    def _run(self) -> None:
        width, height = self._size
        try:
            for number in range(self.count):
                if self._stopping:
                    return
                picture = self._source.frame(self.scene_s(number), number, width, height)
                unit = self._encoder.encode(picture)
                with self._news:
                    self._units.append(unit)
                    self._news.notify_all()
        except (FirsthandError, av.FFmpegError, OSError, ValueError) as error:
            _log.exception("encoding ahead ended after %d pictures", len(self._units))
            with self._news:
                self._error = error
                self._news.notify_all()
        finally:
            self._encoder.close()

    @property
    def done(self) -> int:
        """Pictures encoded so far, of ``count``."""
        return len(self._units)

    def wait(self, pictures: int, timeout_s: float) -> bool:
        """Whether so many pictures are there, after waiting for them at most so long.

        Raises ``DeviceError`` when encoding came to an end before.
        """
        wanted = min(pictures, self.count)
        with self._news:
            self._news.wait_for(
                lambda: len(self._units) >= wanted or self._error is not None, timeout_s
            )
            if self._error is not None and len(self._units) < wanted:
                raise DeviceError(f"Encoding ahead failed: {self._error}.") from self._error
            return len(self._units) >= wanted

    def number(self, slot: int) -> int:
        """Which picture of the stretch is shown in a slot of the camera's grid."""
        return slot % self.count

    def scene_s(self, slot: int) -> float:
        """The source's moment that is shown in a slot."""
        return self._phase_s + float(self.number(slot) / self.fps)

    def first_key(self, slot: int) -> int:
        """The first slot from ``slot`` on that begins a group: where a client can begin."""
        while not self.is_key(slot):
            slot += 1
        return slot

    def is_key(self, slot: int) -> bool:
        """Whether a group begins with a slot's picture."""
        return self.number(slot) % self.gop == 0

    def unit(self, slot: int) -> bytes | None:
        """The access unit for a slot, or None while it is not encoded yet."""
        number = self.number(slot)
        return self._units[number] if number < len(self._units) else None

    def close(self) -> None:
        """Stop encoding and forget it all. May be called twice."""
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join()
        self._units.clear()
