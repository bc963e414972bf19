"""What the simulated sensors tell about themselves: intrinsics, maps and places on the rig.

The numbers are those of a plausible headset. The front camera's place on the rig is a real sample;
grey and depth cameras follow a lens with one term of radial distortion.
"""

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np

from firsthand_hl2ss import wire_data
from firsthand_hl2ss.simulator.source import F8, PvMetadata
from firsthand_hl2ss.wire import DEPTH_AHAT_SIZE, DEPTH_LONG_THROW_SIZE, VLC_SIZE

PV_TRANSLATION: Final = (0.00363, -0.04999, 0.01336)
PV_ROTATION: Final = (0.71564, -0.69836, 0.00190, -0.01244)
"""The front camera in the rig's frame: metres, and a quaternion x y z w."""

_FACTORY: Final = (1448.9, 1450.6, 953.1, 541.7)
"""The front camera's raw intrinsics at 1920×1080; they do not follow the focus."""
_FACTORY_WIDTH: Final = 1920
_ROUNDS: Final = 12

DEPTH_SCALE: Final = 1000.0
AHAT_ALIAS: Final = 1055.0


def rotation(xyzw: tuple[float, float, float, float]) -> F8:
    """(3, 3) that turns row vectors by a quaternion: ``p @ rotation(q)``."""
    x, y, z, w = np.array(xyzw) / np.linalg.norm(xyzw)
    columns = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(columns).T


def rig_to_sensor(
    translation: tuple[float, float, float], xyzw: tuple[float, float, float, float]
) -> F8:
    """(4, 4) ``T(-t) · R(q*)`` for row vectors: the sensor's own place ``t`` goes to the origin."""
    x, y, z, w = xyzw
    shift, turn = np.eye(4), np.eye(4)
    shift[3, :3] = -np.array(translation)
    turn[:3, :3] = rotation((-x, -y, -z, w))
    return shift @ turn


@dataclass(frozen=True)
class Lens:
    """A camera of the rig: size and intrinsics in pixels, one radial term, place on the rig."""

    size: tuple[int, int]
    focal: tuple[float, float]
    middle: tuple[float, float]
    k1: float
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    xyzw: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    @property
    def from_rig(self) -> F8:
        """(4, 4) rig to sensor, row vectors. The sensor looks along +z, its picture's y is down."""
        return rig_to_sensor(self.translation, self.xyzw)

    def to_image(self, plane: F8) -> F8:
        """(n, 2) points of the unit plane to pixels."""
        bent = plane * (1 + self.k1 * (plane**2).sum(axis=-1, keepdims=True))
        pixels: F8 = bent * self.focal + self.middle
        return pixels

    def to_plane(self, pixels: F8) -> F8:
        """(n, 2) pixels to the unit plane."""
        bent: F8 = (pixels - np.array(self.middle)) / self.focal
        plane = bent
        for _ in range(_ROUNDS):
            plane = bent / (1 + self.k1 * (plane**2).sum(axis=-1, keepdims=True))
        return plane


# Written as on the wire, so y of the unit plane points down the picture.
LENSES: Final[dict[str, Lens]] = {
    "vlc_left_front": Lens(VLC_SIZE, (364.7, 365.1), (316.2, 236.9), -0.008),
    "vlc_left_left": Lens(
        VLC_SIZE,
        (365.9, 366.3),
        (321.5, 240.8),
        -0.007,
        (-0.0119, 0.0045, -0.0181),
        (-0.3802, 0.0194, 0.0073, 0.9247),
    ),
    "vlc_right_front": Lens(
        VLC_SIZE,
        (365.2, 365.4),
        (318.9, 243.3),
        -0.008,
        (0.0004, -0.0994, -0.0005),
        (0.0031, -0.0052, 0.9999, 0.0113),
    ),
    "vlc_right_right": Lens(
        VLC_SIZE,
        (366.4, 366.0),
        (319.7, 238.2),
        -0.007,
        (-0.0125, -0.1037, -0.0178),
        (-0.0089, -0.3795, 0.9251, 0.0061),
    ),
    "depth_long_throw": Lens(
        DEPTH_LONG_THROW_SIZE,
        (186.4, 186.9),
        (159.3, 145.1),
        -0.006,
        (0.0051, -0.0488, 0.0042),
        (-0.0248, 0.0315, -0.6998, 0.7132),
    ),
    "depth_ahat": Lens(
        DEPTH_AHAT_SIZE,
        (201.7, 202.2),
        (257.8, 255.2),
        -0.006,
        (0.0053, -0.0487, 0.0046),
        (-0.1117, 0.1204, -0.6899, 0.7050),
    ),
}
"""Cameras that remote configuration can map points for."""

_MOTION: Final = {
    "imu_accelerometer": ((0.0071, -0.0203, 0.0129), (0.7069, -0.7073, 0.0009, -0.0021)),
    "imu_gyroscope": ((0.0069, -0.0205, 0.0131), (0.7071, -0.7071, 0.0012, -0.0018)),
}
_UNTOLD: Final = _MOTION["imu_gyroscope"]
"""The magnetometer sits beside the gyroscope; nobody is told."""


def pv_calibration(metadata: PvMetadata, width: int) -> bytes:
    """208 bytes: the front camera at a size and present focus.

    Its pictures come undistorted, so the distortion is zero.
    """
    fx, fy = metadata.focal_length
    cx, cy = metadata.principal_point
    record = np.zeros((), wire_data.PV_CALIBRATION)
    record["focal_length"] = fx, fy
    record["principal_point"] = cx, cy
    record["projection"] = [[fx, 0, 0, 0], [0, fy, 0, 0], [cx, cy, 1, 0], [0, 0, 0, 1]]
    record["extrinsics"] = rig_to_sensor(PV_TRANSLATION, PV_ROTATION)
    record["raw_intrinsics"] = np.array(_FACTORY) * width / _FACTORY_WIDTH
    record["raw_translation"] = PV_TRANSLATION
    record["raw_rotation"] = PV_ROTATION
    return record.tobytes()


@functools.cache
def camera_calibration(stream: str) -> bytes:
    """A grey or depth camera's maps from pixels to the unit plane, and how to undistort it."""
    lens = LENSES[stream]
    width, height = lens.size
    record = np.zeros((), _record(stream))
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2)
    plane = lens.to_plane(pixels.astype(np.float64)).reshape(height, width, 2)
    record["uv2x"], record["uv2y"] = plane[..., 0], plane[..., 1]
    record["extrinsics"] = lens.from_rig
    # The undistorted picture keeps focal length and middle: where would its pixels be found?
    ideal = (pixels - np.array(lens.middle)) / lens.focal
    found = lens.to_image(ideal).reshape(height, width, 2)
    record["mapx"], record["mapy"] = found[..., 0], found[..., 1]
    record["undistorted"] = *lens.focal, *lens.middle
    if "scale" in (record.dtype.names or ()):
        record["scale"] = DEPTH_SCALE
    if "alias" in (record.dtype.names or ()):
        record["alias"] = AHAT_ALIAS
    return record.tobytes()


def motion_calibration(stream: str) -> bytes | None:
    """A motion sensor's place on the rig; the magnetometer tells none."""
    if stream not in _MOTION:
        return None
    record = np.zeros((), wire_data.IMU_CALIBRATION)
    record["extrinsics"] = motion_from_rig(stream)
    return record.tobytes()


def motion_from_rig(stream: str) -> F8:
    """(4, 4) rig to motion sensor, row vectors."""
    return rig_to_sensor(*_MOTION.get(stream, _UNTOLD))


def _record(stream: str) -> np.dtype[np.void]:
    return {
        "depth_long_throw": wire_data.DEPTH_LONG_THROW_CALIBRATION,
        "depth_ahat": wire_data.DEPTH_AHAT_CALIBRATION,
    }.get(stream, wire_data.VLC_CALIBRATION)
