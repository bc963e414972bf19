"""The little geometry that the scene is made with: poses, projection, smooth motion, rotations.

Row vectors: a point goes through a pose as ``p @ R + t``, the rows of R are the sensor's axes
(right, up, back) in the world.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand_hl2ss.simulator.source import F8

NEAR_M: Final = 0.05


def vector(*xyz: float) -> F8:
    return np.array(xyz, dtype=np.float64)


def unit(v: npt.ArrayLike) -> F8:
    array = np.asarray(v, dtype=np.float64)
    if array.ndim == 1:
        return array / math.sqrt(array.dot(array))
    out: F8 = array / np.linalg.norm(array, axis=-1, keepdims=True)
    return out


def cross(a: F8, b: F8) -> F8:
    """Of two vectors (3,): ten times as fast as numpy's, which is made for many at once."""
    ax, ay, az = a.tolist()
    bx, by, bz = b.tolist()
    return np.array((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


def ease(s: float) -> float:
    """Minimum-jerk course from 0 to 1: how a hand or an eye travels."""
    s = min(max(s, 0.0), 1.0)
    return s * s * s * (10 + s * (6 * s - 15))


def bend(a: F8, control: F8, b: F8, s: float) -> F8:
    """Point at ``s`` of a quadratic Bézier curve."""
    return (1 - s) ** 2 * a + 2 * s * (1 - s) * control + s**2 * b


def pose(axes: F8, position: npt.ArrayLike) -> F8:
    out = np.eye(4)
    out[:3, :3] = axes
    out[3, :3] = position
    return out


def turn(yaw: float, pitch: float, roll: float = 0.0) -> F8:
    """Axes of a head that turns left by ``yaw``, looks up by ``pitch`` and leans by ``roll``."""
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    right = vector(cy, 0.0, -sy)
    back = vector(sy * cp, -sp, cy * cp)
    up = cross(back, right)
    cr, sr = math.cos(roll), math.sin(roll)
    return np.array((cr * right + sr * up, cr * up - sr * right, back))


def facing(back: F8, up_hint: F8) -> F8:
    """Axes whose third is ``back`` and whose second is as near ``up_hint`` as can be."""
    z = unit(back)
    x = unit(cross(up_hint, z))
    return np.array((x, cross(z, x), z))


def quaternion(axes: F8) -> F8:
    """Rotations (..., 3, 3) from the frame of ``axes`` to the world as x, y, z, w (w >= 0)."""
    x, y, z = axes[..., 0, :], axes[..., 1, :], axes[..., 2, :]
    a, b, c = x[..., 0], y[..., 1], z[..., 2]
    squares = np.stack([1 + a - b - c, 1 - a + b - c, 1 - a - b + c, 1 + a + b + c], axis=-1)
    out: F8 = np.sqrt(np.maximum(squares, 0.0)) / 2
    signs = np.stack([y[..., 2] - z[..., 1], z[..., 0] - x[..., 2], x[..., 1] - y[..., 0]], axis=-1)
    out[..., :3] = np.copysign(out[..., :3], signs)
    return out


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera: pose to the world and intrinsics in pixels."""

    pose: F8
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int

    @property
    def position(self) -> F8:
        return self.pose[3, :3]

    def to_camera(self, points: npt.ArrayLike) -> F8:
        moved: F8 = (np.asarray(points, dtype=np.float64) - self.pose[3, :3]) @ self.pose[:3, :3].T
        return moved

    def pixels(self, in_camera: F8) -> F8:
        """Pixels of points in the camera's frame, all of which lie ahead (z < 0)."""
        out = np.empty((*in_camera.shape[:-1], 2))
        ahead = -in_camera[..., 2]
        out[..., 0] = self.cx + self.fx * in_camera[..., 0] / ahead
        out[..., 1] = self.cy - self.fy * in_camera[..., 1] / ahead
        return out

    def project(self, point: npt.ArrayLike) -> F8 | None:
        """Pixel of one world point, or None behind the camera or outside the picture."""
        c = self.to_camera(point)
        if c[2] > -NEAR_M:
            return None
        uv = self.pixels(c)
        if not (0 <= uv[0] < self.width and 0 <= uv[1] < self.height):
            return None
        return uv


def clip_near(polygon: F8) -> F8:
    """The part of a polygon (camera frame) that lies ahead of the near plane; may be empty."""
    ahead = polygon[:, 2] < -NEAR_M
    if ahead.all():
        return polygon
    out: list[F8] = []
    for i in range(len(polygon)):
        a, b = polygon[i - 1], polygon[i]
        if ahead[i - 1] != ahead[i]:
            s = (-NEAR_M - a[2]) / (b[2] - a[2])
            out.append(a + s * (b - a))
        if ahead[i]:
            out.append(b)
    return np.array(out).reshape(-1, 3)
