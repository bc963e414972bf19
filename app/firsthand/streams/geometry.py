"""From sensors through the world into the picture.

Conventions (those of the headset, and of every ``pose`` column): row vectors, so a point goes
through a pose as ``[x y z 1] @ M``; rotation top left, translation in the last row; a pose maps a
sensor's frame to the world, metres, right-handed, +y up. All zeros: the device was not located.
A camera looks along its own −z, with +x right and +y up; pixels count from the top left corner,
u to the right and v down:

    c = (p - t) Rᵀ        visible only where c.z < 0
    u = cx + fx c.x / -c.z
    v = cy - fy c.y / -c.z

The video of the front camera comes undistorted, so there is no distortion here. What cannot be
said is NaN, in all coordinates: behind the camera, outside the picture, no pose. Nothing is ever
moved to an edge. Everything is float64 and takes any leading dimensions (frames, joints …) that
broadcast.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_NEAR_M: Final = 1e-6
"""Closer to the camera's plane than this, a direction means nothing."""
_ROUNDING_PX: Final = 1e-9
"""A point on the left or upper edge is inside, whatever the last bit says."""


def located(pose: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether poses (…, 4, 4) say where the device was: the bottom right element is not 0."""
    corner = np.asarray(pose, dtype=np.float64)[..., 3, 3]
    return np.asarray(np.isfinite(corner) & (corner != 0))


def rigid(pose: npt.ArrayLike) -> tuple[Array, Array]:
    """Rotation (…, 3, 3) and translation (…, 3) of poses; NaN where not located.

    Poses come as float32, which leaves rotations a little off; the nearest true rotation is taken,
    so that its transpose is its inverse (polar decomposition by singular values).
    """
    pose = np.asarray(pose, dtype=np.float64)
    good = located(pose)
    good &= np.isfinite(pose).all(axis=(-2, -1))
    rotation = np.where(good[..., None, None], pose[..., :3, :3], np.eye(3))
    u, _, vt = np.linalg.svd(rotation)
    nearest = u @ vt
    # A mirrored matrix is no rotation at all: give back the one without the mirror.
    mirrored = np.asarray(np.linalg.det(nearest) < 0)
    if mirrored.any():
        u = np.where(mirrored[..., None, None], u * np.array([1.0, 1.0, -1.0]), u)
        nearest = u @ vt
    rotation = np.where(good[..., None, None], nearest, np.nan)
    translation = np.where(good[..., None], pose[..., 3, :3], np.nan)
    return rotation, translation


def invert_pose(pose: npt.ArrayLike) -> Array:
    """Poses (…, 4, 4) from the world to the sensor; all zeros where not located."""
    rotation, translation = rigid(pose)
    inverse = np.zeros((*rotation.shape[:-2], 4, 4))
    back = np.swapaxes(rotation, -1, -2)
    inverse[..., :3, :3] = back
    inverse[..., 3, :3] = -_through(translation, back)
    inverse[..., 3, 3] = 1.0
    unknown = np.asarray(np.isnan(rotation).any(axis=(-2, -1)))
    return np.where(unknown[..., None, None], 0.0, inverse)


def points_to_world(points: npt.ArrayLike, pose: npt.ArrayLike) -> Array:
    """Points (…, 3) of a sensor's frame, in the world."""
    rotation, translation = rigid(pose)
    return _through(np.asarray(points, dtype=np.float64), rotation) + translation


def points_to_sensor(points: npt.ArrayLike, pose: npt.ArrayLike) -> Array:
    """Points (…, 3) of the world, in the sensor's frame."""
    rotation, translation = rigid(pose)
    away = np.asarray(points, dtype=np.float64) - translation
    return _through(away, np.swapaxes(rotation, -1, -2))


def rays_to_world(
    origins: npt.ArrayLike, directions: npt.ArrayLike, poses: npt.ArrayLike
) -> tuple[Array, Array]:
    """Rays of a sensor's frame (origins and directions (…, 3)) in the world, directions of length
    1; NaN where there is no pose or the direction has no length."""
    rotation, translation = rigid(poses)
    origins_w = _through(np.asarray(origins, dtype=np.float64), rotation) + translation
    turned = _through(np.asarray(directions, dtype=np.float64), rotation)
    length = np.linalg.norm(turned, axis=-1, keepdims=True)
    good = np.isfinite(length) & (length > 0)
    unit = np.divide(turned, length, out=np.full(turned.shape, np.nan), where=good)
    return np.where(good, origins_w, np.nan), unit


def along(origins: npt.ArrayLike, directions: npt.ArrayLike, distance_m: npt.ArrayLike) -> Array:
    """Points at a distance along rays: (…, 3). The headset does not say how far a gaze reaches;
    the distance is the caller's assumption."""
    distance = np.asarray(distance_m, dtype=np.float64)[..., None]
    return np.asarray(np.asarray(origins, dtype=np.float64) + distance * np.asarray(directions))


def project(
    points: npt.ArrayLike,
    poses: npt.ArrayLike,
    focal: npt.ArrayLike,
    principal: npt.ArrayLike,
    size: tuple[int, int],
) -> Array:
    """World points (…, 3) as pixels (…, 2), each through its own frame's pose (…, 4, 4), focal
    length (…, 2) and principal point (…, 2) in pixels; ``size`` is width and height.

    NaN behind the camera, outside ``0 <= u < width, 0 <= v < height``, or without a pose.
    """
    camera = points_to_sensor(points, poses)
    ahead = -camera[..., 2]
    with np.errstate(invalid="ignore"):
        seen = ahead > _NEAR_M
    depth = np.where(seen, ahead, np.nan)[..., None]
    down = camera[..., :2] * np.array([1.0, -1.0])
    pixels = np.asarray(principal, dtype=np.float64) + np.asarray(focal, np.float64) * down / depth
    with np.errstate(invalid="ignore"):
        inside = ((pixels >= -_ROUNDING_PX) & (pixels < np.asarray(size))).all(axis=-1)
    return np.where(inside[..., None], pixels, np.nan)


def project_points(
    points: npt.ArrayLike,
    pose: npt.ArrayLike,
    focal: npt.ArrayLike,
    principal: npt.ArrayLike,
    size: tuple[int, int],
) -> Array:
    """Many world points (n, 3), such as a hand's joints, into one picture: (n, 2), see
    ``project``."""
    return project(points, np.asarray(pose)[None], focal, principal, size)


def epipolar_segment(
    origin: npt.ArrayLike,
    direction: npt.ArrayLike,
    pose: npt.ArrayLike,
    focal: npt.ArrayLike,
    principal: npt.ArrayLike,
    size: tuple[int, int],
    *,
    near_m: float = 0.3,
    far_m: float = 10.0,
    steps: int = 64,
) -> Array:
    """Where a world ray of unknown length may lie in a picture: pixels (steps, 2) from near to far,
    spaced evenly on the picture (in 1 / distance); NaN where a point is not in it."""
    nearness = np.linspace(1.0 / near_m, 1.0 / far_m, steps)
    points = along(np.asarray(origin), np.asarray(direction), 1.0 / nearness)
    return project_points(points, pose, focal, principal, size)


def _through(vectors: Array, matrices: Array) -> Array:
    """Row vectors (…, 3) times matrices (…, 3, 3)."""
    return np.asarray(np.einsum("...i,...ij->...j", vectors, matrices))
