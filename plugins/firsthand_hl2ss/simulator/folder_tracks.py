"""Gaze and hands from files of other eye trackers and glasses.

Known are: Pupil Labs Neon's native ``gaze ps1.raw`` and ``.time``, Project Aria's ``eyegaze.csv``
and ``wrist_and_palm_poses.csv``, and our own plain ``gaze.csv`` with the columns ``time_s``,
``x_px``, ``y_px`` (pixels of the video, empty where nothing was measured).
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand.api import SettingsError
from firsthand_hl2ss.simulator.source import F8

ARIA: Final = "Project Aria"
PLAIN: Final = "gaze.csv"
NEON_SCENE: Final = (1600, 1200)
"""Size of the scene camera's picture that Neon's gaze pixels are of."""
_LONGEST_HOLE_S: Final = 0.06
_ARIA_GAZE: Final = ("eyegaze.csv", "general_eye_gaze.csv", "generalized_eye_gaze.csv")
_ARIA_HANDS: Final = ("wrist_and_palm_poses.csv", "wrist_and_palm_poses_v2.csv")
# Aria's frame between the pupils has x left, y up, z ahead; ours has x right, y up, z back.
_FROM_PUPILS: Final = np.array([-1.0, 1.0, -1.0])
# Its device frame is that of the left tracking camera: x down, z ahead but turned outwards. The
# files do not carry the calibration; these are nominal values, good to a few centimetres.
_TURNED_OUT: Final = math.radians(38)
_FROM_DEVICE: Final = np.array(
    [
        [0.0, -1.0, 0.0],
        [-math.cos(_TURNED_OUT), 0.0, math.sin(_TURNED_OUT)],
        [-math.sin(_TURNED_OUT), 0.0, -math.cos(_TURNED_OUT)],
    ]
)
_DEVICE_AT: Final = np.array([-0.07, 0.01, 0.0])


@dataclass(frozen=True, slots=True)
class Gaze:
    """Where the eyes looked: either pixels of a picture of ``size``, or directions.

    ``values`` are (n, 2) pixels or (n, 3) unit directions in the camera's frame, NaN where
    nothing was measured. Times are seconds, of the file's own clock.
    """

    times_s: F8
    values: F8
    size: tuple[int, int] | None
    worn: npt.NDArray[np.bool_]
    kind: str

    def at(self, t_s: float) -> int | None:
        """Index of the reading nearest to a time, or None in a hole of the readings."""
        i = int(np.searchsorted(self.times_s, t_s))
        near = [k for k in (i - 1, i) if 0 <= k < len(self.times_s)]
        best = min(near, key=lambda k: abs(float(self.times_s[k]) - t_s))
        period = float(np.median(np.diff(self.times_s))) if len(self.times_s) > 1 else 0.1
        away = abs(float(self.times_s[best]) - t_s)
        return best if away <= max(_LONGEST_HOLE_S, 0.75 * period) else None


@dataclass(frozen=True, slots=True)
class HandTrack:
    """One hand: times (n,), wrist and palm (n, 3) in the head's frame, metres; NaN if not seen."""

    times_s: F8
    wrist: F8
    palm: F8

    def at(self, t_s: float) -> tuple[F8, F8] | None:
        i = int(np.searchsorted(self.times_s, t_s))
        near = [k for k in (i - 1, i) if 0 <= k < len(self.times_s)]
        best = min(near, key=lambda k: abs(float(self.times_s[k]) - t_s))
        if abs(float(self.times_s[best]) - t_s) > 0.12 or not np.isfinite(self.palm[best]).all():
            return None
        return self.wrist[best], self.palm[best]


def _cannot(path: Path, what: str) -> SettingsError:
    return SettingsError(
        f"{path.name} could not be used: {what}.",
        try_this="See the simulator's guide for the files it reads, or take this file away.",
    )


def _table(path: Path, columns: tuple[str, ...]) -> dict[str, F8]:
    """The named columns of a CSV file; empty cells become NaN."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if not rows:
            raise _cannot(path, "it holds no rows")
        lacking = [name for name in columns if name not in rows[0]]
        if lacking:
            raise _cannot(path, f"it has no column {lacking[0]!r}")
        return {
            name: np.array([float(row[name]) if row[name] else np.nan for row in rows])
            for name in columns
        }
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _cannot(path, str(error)) from error
    except (TypeError, ValueError) as error:
        raise _cannot(path, f"not every cell is a number ({error})") from error


def _sorted(times: F8, path: Path) -> F8:
    if not len(times) or not np.isfinite(times).all() or (np.diff(times) < 0).any():
        raise _cannot(path, "its times are missing or do not go forward")
    return times


def read_neon(raw: Path) -> Gaze:
    """Neon's native gaze: float32 x, y beside a file of int64 nanoseconds, perhaps ``worn``."""
    stamps = raw.with_suffix(".time")
    worn_file = raw.with_name(raw.name.replace("gaze", "worn"))
    try:
        pixels = np.fromfile(raw, "<f4")
        times = np.fromfile(stamps, "<i8")
        worn = np.fromfile(worn_file, np.uint8) if worn_file.exists() else np.zeros(0, np.uint8)
    except OSError as error:
        raise _cannot(raw, str(error.strerror or error)) from error
    if len(pixels) != 2 * len(times) or not len(times):
        raise _cannot(raw, f"it does not go with {stamps.name}")
    known = len(worn) == len(times)
    return Gaze(
        _sorted(times / 1e9, stamps),
        pixels.reshape(-1, 2).astype(np.float64),
        NEON_SCENE,
        worn > 0 if known else np.ones(len(times), np.bool_),
        "Pupil Labs Neon",
    )


def read_aria(path: Path) -> Gaze:
    """Aria's yaw and pitch in the frame between the pupils, radians.

    As in Aria's own tools the direction is (tan yaw, tan pitch, 1), x to the left, y up, z ahead.
    """
    table = _table(path, ("tracking_timestamp_us", "yaw_rads_cpf", "pitch_rads_cpf"))
    times = _sorted(table["tracking_timestamp_us"] / 1e6, path)
    yaw, pitch = np.tan(table["yaw_rads_cpf"]), np.tan(table["pitch_rads_cpf"])
    directions = np.stack([yaw, pitch, np.ones_like(yaw)], axis=1) * _FROM_PUPILS
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Gaze(times, directions, None, np.ones(len(times), np.bool_), ARIA)


def read_plain(path: Path, size: tuple[int, int]) -> Gaze:
    """Our own ``gaze.csv``: seconds and pixels of the video, whose ``size`` is given."""
    table = _table(path, ("time_s", "x_px", "y_px"))
    times = _sorted(table["time_s"], path)
    pixels = np.stack([table["x_px"], table["y_px"]], axis=1)
    return Gaze(times, pixels, size, np.ones(len(times), np.bool_), PLAIN)


def read_gaze(path: Path, size: tuple[int, int]) -> Gaze:
    """Gaze from a file of any known kind; ``size`` is that of the video."""
    if path.suffix == ".raw":
        return read_neon(path)
    if path.name in _ARIA_GAZE or "yaw_rads_cpf" in _heading(path):
        return read_aria(path)
    return read_plain(path, size)


def _heading(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(4096)
    except (OSError, UnicodeDecodeError) as error:
        raise _cannot(path, str(error)) from error


def read_hands(path: Path) -> dict[str, HandTrack]:
    """Aria's wrists and palms, by side."""
    sides = ("left", "right")
    names = {
        (side, part): tuple(f"t{axis}_{side}_{part}_device" for axis in "xyz")
        for side in sides
        for part in ("wrist", "palm")
    }
    columns = [name for three in names.values() for name in three]
    sure = tuple(f"{side}_tracking_confidence" for side in sides)
    table = _table(path, ("tracking_timestamp_us", *sure, *columns))
    times = _sorted(table["tracking_timestamp_us"] / 1e6, path)
    tracks = {}
    for side in sides:
        seen = table[f"{side}_tracking_confidence"] > 0
        wrist, palm = (
            np.stack([table[name] for name in names[side, part]], axis=1) @ _FROM_DEVICE
            + _DEVICE_AT
            for part in ("wrist", "palm")
        )
        wrist[~seen] = palm[~seen] = np.nan
        tracks[side] = HandTrack(times, wrist, palm)
    return tracks


def find_gaze(folder: Path) -> Path | None:
    """The gaze file in a folder (or one folder below), if there is one."""
    return _find(folder, ("gaze.csv", "gaze ps1.raw", *_ARIA_GAZE))


def find_hands(folder: Path) -> Path | None:
    return _find(folder, _ARIA_HANDS)


def _find(folder: Path, names: tuple[str, ...]) -> Path | None:
    for place in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        for name in names:
            if (place / name).is_file():
                return place / name
    return None
