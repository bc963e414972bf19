"""Gaze and hands on the picture: what belongs together in time, put through each one's own pose."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api import POSE
from firsthand.recording.reader.timeline import Moment, Timeline
from firsthand.streams.geometry import along, project, rays_to_world

if TYPE_CHECKING:
    from firsthand.recording.reader.stream import Stream
    from firsthand.recording.reader.video import Video

GAZE_DISTANCE_M: Final = 1.0
"""How far away the wearer is taken to look where nothing says: an arm's length and a half. The
error in pixels is about f · b · |1/true − 1/taken|, b being the distance from eye to camera."""
_APART_PERIODS: Final = 1.5
_APART_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class HandsOnPicture:
    """Joints of both hands in one picture: (26, 2) pixels, NaN where not seen or not in it."""

    frame: int
    left: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]


class OnPicture:
    """The part of a recording that puts other streams onto the picture."""

    timeline: Timeline

    if TYPE_CHECKING:

        @property
        def video(self) -> Video: ...
        @property
        def gaze(self) -> Stream: ...
        @property
        def hands(self) -> Stream: ...

    def gaze_on_video(
        self, moment: Moment, *, distance_m: float = GAZE_DISTANCE_M
    ) -> tuple[float, float] | None:
        """Where the wearer looked, in pixels (from the top left) of the picture at a moment.

        The picture is the one that ``video.frame_at`` gives, the gaze the one nearest to it in time
        after the clocks' correction. None while there is no valid and calibrated gaze, a pose is
        unknown, or the point is behind the camera or outside the picture.
        """
        video = self.video
        frame = video.index_at(moment)
        row = self._nearest(self.gaze, float(video.times_s[frame]))
        if row is None:
            return None
        pixel = self._gaze_pixels(np.array([row]), np.array([frame]), distance_m)[0]
        return None if np.isnan(pixel).any() else (float(pixel[0]), float(pixel[1]))

    def gaze_pixels(self, *, distance_m: float = GAZE_DISTANCE_M) -> npt.NDArray[np.float64]:
        """``gaze_on_video`` for every record of the gaze stream, each in the picture nearest to it:
        (n, 2) pixels, NaN where absent."""
        gaze_s, video_s = self.gaze.times_s, np.maximum.accumulate(self.video.times_s)
        if not len(video_s):
            return np.full((len(gaze_s), 2), np.nan)
        frames = _nearest(video_s, gaze_s)
        pixels = self._gaze_pixels(np.arange(len(gaze_s)), frames, distance_m)
        pixels[np.abs(video_s[frames] - gaze_s) > _apart_s(self.video.schema.nominal_hz)] = np.nan
        return pixels

    def hands_on_video(self, moment: Moment) -> HandsOnPicture:
        """Joints of both hands in the picture at a moment; NaN as in ``gaze_on_video``."""
        video = self.video
        frame = video.index_at(moment)
        row = self._nearest(self.hands, float(video.times_s[frame]))
        sides: Mapping[str, npt.NDArray[np.float64]] = {
            side: self._joints(row, frame, side) for side in ("left", "right")
        }
        return HandsOnPicture(frame, sides["left"], sides["right"])

    def _joints(self, row: int | None, frame: int, side: str) -> npt.NDArray[np.float64]:
        columns = {column.name: column for column in self.hands.schema.columns}
        count = columns[f"{side}_position"].shape[0]
        if row is None:
            return np.full((count, 2), np.nan)
        record = self.hands.row(row)
        if not record[f"{side}_valid"]:
            return np.full((count, 2), np.nan)
        return self._project(record[f"{side}_position"].astype(np.float64), np.full(count, frame))

    def _gaze_pixels(
        self, rows: npt.NDArray[np.int64], frames: npt.NDArray[np.int64], distance_m: float
    ) -> npt.NDArray[np.float64]:
        gaze = self.gaze
        records: Any = gaze.row(int(rows[0])).reshape(1) if len(rows) == 1 else gaze.records[rows]
        origins, directions = rays_to_world(
            records["origin"].astype(np.float64),
            records["direction"].astype(np.float64),
            records[POSE].astype(np.float64),
        )
        usable = records["valid"] & records["calibrated"]
        points = np.where(usable[:, None], along(origins, directions, distance_m), np.nan)
        return self._project(points, frames)

    def _project(
        self, points: npt.NDArray[np.float64], frames: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        records = self.video.records[frames]
        return project(
            points,
            records[POSE].astype(np.float64),
            records["focal_length"].astype(np.float64),
            records["principal_point"].astype(np.float64),
            (self.video.schema.width_px, self.video.schema.height_px),
        )

    def _nearest(self, stream: "Stream", time_s: float) -> int | None:
        times = np.maximum.accumulate(stream.times_s)
        if not len(times):
            return None
        row = int(_nearest(times, np.array([time_s]))[0])
        near = abs(float(times[row]) - time_s) <= _apart_s(stream.schema.nominal_hz)
        return row if near else None


def _apart_s(hz: float) -> float:
    """How far apart in time things may be that are shown together."""
    return _APART_PERIODS / hz if hz > 0 else _APART_S


def _nearest(
    times: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Indices of the ascending ``times`` nearest to ``wanted``."""
    after = np.clip(np.searchsorted(times, wanted), 0, len(times) - 1)
    before = np.maximum(after - 1, 0)
    nearer = wanted - times[before] <= times[after] - wanted
    found: npt.NDArray[np.int64] = np.where(nearer, before, after)
    return found
