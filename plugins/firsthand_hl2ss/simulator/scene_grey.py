"""The scene's grey tracking cameras, as their calibration says: place, lens, turned on their side.

The left ones lie with the room's up to the left of their picture, the right ones with it to the
right. Each picture is drawn upright without a lens's bending, turned, and bent.
"""

from functools import cache
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from firsthand_hl2ss.simulator.calibration import LENSES, Lens
from firsthand_hl2ss.simulator.scene_geometry import Camera, pose
from firsthand_hl2ss.simulator.source import F8, U1, GreyCamera
from firsthand_hl2ss.wire import VLC_SIZE

_LEFT: Final = frozenset({GreyCamera.LEFT_FRONT, GreyCamera.LEFT_LEFT})


def _lens(which: GreyCamera) -> Lens:
    return LENSES[f"vlc_{which.value}"]


def upright_camera(rig: F8, which: GreyCamera) -> Camera:
    """The pinhole camera, upright, of a grey camera on a rig whose pose is given."""
    lens = _lens(which)
    sensor = np.linalg.inv(lens.from_rig) @ rig
    x, y, ahead = sensor[:3, :3]  # to the right in its picture, down in its picture
    (fx, fy), (cx, cy) = lens.focal, lens.middle
    width, height = VLC_SIZE
    if which in _LEFT:
        axes, middle = np.array((-y, -x, -ahead)), (height - 1 - cy, cx)
    else:
        axes, middle = np.array((y, x, -ahead)), (cy, width - 1 - cx)
    return Camera(pose(axes, sensor[3, :3]), fy, fx, *middle, height, width)


def as_the_sensor_sees(upright: U1, which: GreyCamera) -> U1:
    """The picture (480, 640) of what ``upright_camera`` saw (640, 480)."""
    turned = np.ascontiguousarray(np.rot90(upright, 1 if which in _LEFT else -1))
    bent = cv2.remap(turned, *_bending(which), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(bent, np.uint8)


@cache
def _bending(which: GreyCamera) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.uint16]]:
    """For each pixel of the sensor, where an unbent picture shows the same ray."""
    lens, (width, height) = _lens(which), VLC_SIZE
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1)
    straight = lens.to_plane(pixels.astype(np.float64)) * lens.focal + lens.middle
    x, y = np.moveaxis(straight.astype(np.float32), -1, 0)
    whole, parts = cv2.convertMaps(x, y, cv2.CV_16SC2)
    return np.asarray(whole, np.int16), np.asarray(parts, np.uint16)
