"""Pictures of a video file by time, fitted into the size that a client asks for."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import av
import numpy as np

from firsthand.api import SettingsError
from firsthand_hl2ss.simulator.source import F8, U1

SUFFIXES: Final = {".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".ts", ".mpg"}
_BLACK: Final = (0, 128)
_KEPT_BYTES: Final = 192 << 20
"""Fitted pictures that are kept: a short clip is decoded once, however often it is shown."""
_AHEAD: Final = 90
"""Pictures that are rather decoded on the way than sought past."""


class Letterbox:
    """How a picture of one size lies in another: scaled evenly, with bars at its sides."""

    def __init__(self, inner: tuple[int, int], outer: tuple[int, int]) -> None:
        scale = min(outer[0] / inner[0], outer[1] / inner[1])
        self.width = min(outer[0], round(inner[0] * scale / 2) * 2)
        self.height = min(outer[1], round(inner[1] * scale / 2) * 2)
        self.left = (outer[0] - self.width) // 4 * 2
        self.top = (outer[1] - self.height) // 4 * 2
        self.scale = (self.width / inner[0], self.height / inner[1])

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where a pixel of the inner picture comes to lie; pixel middles are whole numbers."""
        return (
            (x + 0.5) * self.scale[0] - 0.5 + self.left,
            (y + 0.5) * self.scale[1] - 0.5 + self.top,
        )


def unreadable(path: Path, error: Exception) -> SettingsError:
    return SettingsError(
        f"{path.name} could not be read: {error}.",
        try_this="Use a file that a video player opens, or another format such as MP4.",
    )


class FolderVideo:
    """A video file. ``picture`` may be called from several threads, one at a time inside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._decoded: Iterator[Any] | None = None
        self._at = -1
        self._frame: Any = None
        self._fitted: dict[tuple[int, int, int], U1] = {}
        self._kept_bytes = 0
        try:
            self._container = av.open(str(path))
        except (av.FFmpegError, OSError, ValueError) as error:
            raise unreadable(path, error) from error
        try:
            self._index()
        except (av.FFmpegError, OSError, ValueError) as error:
            self._container.close()
            raise unreadable(path, error) from error
        except SettingsError:
            self._container.close()
            raise

    def _index(self) -> None:
        if not self._container.streams.video:
            raise SettingsError(
                f"{self.path.name} holds no picture.",
                try_this="Use a video file, and lay sound beside it in the same folder.",
            )
        stream = self._container.streams.video[0]
        stream.thread_type = "SLICE"
        self._stream = stream
        base = stream.time_base
        pts = sorted(p.pts for p in self._container.demux(stream) if p.pts is not None and p.size)
        if not pts or base is None:
            raise SettingsError(f"{self.path.name} holds no picture that could be found.")
        self._pts = np.array(pts, np.int64)
        self.times_s: F8 = (self._pts - self._pts[0]) * float(base)
        self.start_s = pts[0] * float(base)
        """Time of the first picture in the file's own time, which its sound shares."""
        period = float(np.median(np.diff(self.times_s))) if len(pts) > 1 else 1 / 30
        self.duration_s = float(self.times_s[-1]) + period
        self.rate_hz = 1 / period if period > 0 else 30.0
        first = self._decode_to(0)
        self.size: tuple[int, int] = (first.width, first.height)

    def _decode_to(self, number: int) -> Any:
        """The decoded picture with an index of ``times_s``."""
        if self._frame is not None and self._at == number:
            return self._frame
        if self._decoded is None or not self._at < number <= self._at + _AHEAD:
            self._container.seek(int(self._pts[number]), stream=self._stream, backward=True)
            self._decoded = iter(self._container.decode(self._stream))
        wanted = int(self._pts[number])
        for frame in self._decoded:
            if frame.pts is not None and frame.pts >= wanted:
                self._frame, self._at = frame, number
                return frame
        if self._frame is None:
            raise SettingsError(f"No picture of {self.path.name} could be decoded.")
        self._decoded, self._at = None, number  # the last ones are damaged: hold what there is
        return self._frame

    def number_at(self, t_s: float) -> int:
        """Index of the picture that is shown at a time."""
        return max(0, int(np.searchsorted(self.times_s, t_s + 1e-6, side="right")) - 1)

    def picture(self, t_s: float, width: int, height: int) -> U1:
        """NV12 (height * 3 / 2, width), BT.601 full range, with black bars; the caller's own."""
        number = self.number_at(t_s)
        with self._lock:
            known = self._fitted.pop((number, width, height), None)
            if known is None:
                known = self._fit(number, width, height)
                self._kept_bytes += known.nbytes
            self._fitted[number, width, height] = known  # the last one shown is the last to go
            while self._kept_bytes > _KEPT_BYTES and len(self._fitted) > 1:
                self._kept_bytes -= self._fitted.pop(next(iter(self._fitted))).nbytes
            return known.copy()

    def _fit(self, number: int, width: int, height: int) -> U1:
        try:
            frame = self._decode_to(number)
        except (av.FFmpegError, OSError) as error:
            raise unreadable(self.path, error) from error
        box = Letterbox(self.size, (width, height))
        inner = frame.reformat(
            box.width,
            box.height,
            "yuv420p",
            dst_colorspace="ITU601",
            dst_color_range="JPEG",
            interpolation="AREA",  # three times faster than the default, and good when shrinking
        )
        planes = [
            np.frombuffer(p, np.uint8).reshape(-1, p.line_size)[: p.height, : p.width]
            for p in inner.planes
        ]
        out = np.empty((height * 3 // 2, width), np.uint8)
        out[:height] = _BLACK[0]
        out[height:] = _BLACK[1]
        out[box.top : box.top + box.height, box.left : box.left + box.width] = planes[0]
        chroma = out[height:].reshape(height // 2, width // 2, 2)
        rows = slice(box.top // 2, (box.top + box.height) // 2)
        columns = slice(box.left // 2, (box.left + box.width) // 2)
        chroma[rows, columns, 0] = planes[1]
        chroma[rows, columns, 1] = planes[2]
        return out

    def close(self) -> None:
        with self._lock:
            self._decoded = None
            self._frame = None
            self._fitted.clear()
            self._container.close()
