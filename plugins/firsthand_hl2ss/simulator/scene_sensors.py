"""The lesser sensors of the scene: depth cameras and motion sensors, plausible and cheap."""

import math
from functools import lru_cache
from typing import Final

import cv2
import numpy as np

from firsthand_hl2ss.simulator.scene_geometry import Camera, pose, turn, vector
from firsthand_hl2ss.simulator.scene_wearer import RIG_TO_CAMERA, TRACK_HZ, Wearer
from firsthand_hl2ss.simulator.scene_world import (
    BOARD,
    BY_ID,
    FLOOR_Y,
    SHELF_TOP,
    SHELF_X,
    SHELF_Y,
    SHELF_Z,
    TABLE_X,
    TABLE_Y,
    TABLE_Z,
    UPRIGHTS,
    WALL_Z,
    Shape,
)
from firsthand_hl2ss.simulator.source import (
    F8,
    U2,
    DepthSample,
    GreyCamera,
    Motion,
    MotionSamples,
)

GREY_SIZE: Final = (640, 480)
LONG_THROW_SIZE: Final = (320, 288)
AHAT_SIZE: Final = (512, 512)
AHAT_WRAP_MM: Final = 1055
MOTION_HZ: Final = {
    Motion.ACCELEROMETER: 93 / 0.085,
    Motion.GYROSCOPE: 315 / 0.048,
    Motion.MAGNETOMETER: 11 / 0.220,
}
_AHAT_HZ: Final = 9
"""The scene is looked at anew so often; pictures between differ in their noise."""
_RIG_POSITION: Final = (vector(0, 0, 0, 1) @ RIG_TO_CAMERA)[:3]
_GREY_YAW: Final = {
    GreyCamera.LEFT_FRONT: 0.20,
    GreyCamera.RIGHT_FRONT: -0.20,
    GreyCamera.LEFT_LEFT: 1.05,
    GreyCamera.RIGHT_RIGHT: -1.05,
}


def grey_camera(camera_pose: F8, which: GreyCamera) -> Camera:
    """A grey tracking camera beside the front camera, whose pose is given."""
    side = 1.0 if which in {GreyCamera.LEFT_FRONT, GreyCamera.LEFT_LEFT} else -1.0
    place = _RIG_POSITION * vector(side, 1.0, 1.0)
    place[0] += 0.0 if side > 0 else 0.01
    local = pose(turn(_GREY_YAW[which], -0.05), place)
    width, height = GREY_SIZE
    return Camera(local @ camera_pose, 366.0, 366.0, 320.0, 240.0, width, height)


def _fixed_boxes() -> F8:
    """Low and high corners (n, 2, 3) of all that does not move."""
    x, z = SHELF_X, SHELF_Z
    boxes = [
        ((-4.0, FLOOR_Y - 0.1, -2.0), (4.0, FLOOR_Y, 2.0)),
        ((-4.0, FLOOR_Y, WALL_Z - 0.1), (4.0, 1.4, WALL_Z)),
        ((-3.3, FLOOR_Y, -2.0), (-3.2, 1.4, 2.0)),
        ((3.4, FLOOR_Y, -2.0), (3.5, 1.4, 2.0)),
        ((TABLE_X[0], TABLE_Y - 0.035, TABLE_Z[0]), (TABLE_X[1], TABLE_Y, TABLE_Z[1])),
        ((x[0], FLOOR_Y, z[0]), (x[1], SHELF_Y[0] - BOARD, z[1])),
    ]
    boxes += [((x[0], y - BOARD, z[0]), (x[1], y, z[1])) for y in (*SHELF_Y, SHELF_TOP)]
    boxes += [
        ((u - BOARD / 2, SHELF_Y[0], z[0]), (u + BOARD / 2, SHELF_TOP, z[1]))
        for u in (x[0], *UPRIGHTS, x[1])
    ]
    return np.array(boxes)


_FIXED: Final = _fixed_boxes()


def _boxes(wearer: Wearer, t_s: float) -> F8:
    """Everything that a depth camera can hit, as boxes."""
    moving = []
    for thing in wearer.script.start:
        about, mark = BY_ID[thing], wearer.mark(thing, t_s)
        w, h, d = about.size
        low = mark - vector(w / 2, h / 2, d if about.shape is Shape.BOX else d / 2)
        if about.shape is Shape.ROUND:
            low[1] = mark[1] - 0.36 * h
        moving.append((low, low + vector(w, h, d)))
    body = wearer.body(t_s)
    for side in ("left", "right"):
        palm = wearer.hands(side, t_s, body).positions[0]
        moving.append((palm - 0.05, palm + 0.05))
    return np.concatenate([_FIXED, np.array(moving)])


@lru_cache(maxsize=4)
def _rays(size: tuple[int, int], focal: float, step: int) -> F8:
    """Unit directions (n, 3) in the sensor's frame of every ``step``-th pixel."""
    u, v = np.meshgrid(
        np.arange(step / 2, size[0], step) - size[0] / 2,
        np.arange(step / 2, size[1], step) - size[1] / 2,
    )
    rays = np.stack([u.ravel(), -v.ravel(), np.full(u.size, -focal)], axis=1)
    out: F8 = rays / np.linalg.norm(rays, axis=1, keepdims=True)
    return out


def cast(origin: F8, directions: F8, boxes: F8) -> F8:
    """Distance (n,) along each ray to the nearest box; infinite where there is none."""
    nearest = np.full(len(directions), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / directions
        for low, high in boxes:
            a, b = (low - origin) * inverse, (high - origin) * inverse
            enters = np.minimum(a, b).max(axis=1)
            leaves = np.maximum(a, b).min(axis=1)
            hit = (enters <= leaves) & (enters > 0.02)
            np.minimum(nearest, np.where(hit, enters, np.inf), out=nearest)
    return nearest


def _look(
    wearer: Wearer, t_s: float, size: tuple[int, int], focal: float, step: int, pitch: float
) -> U2:
    """Depth in millimetres along the ray, coarse, then spread over all pixels."""
    sensor = pose(turn(0.0, pitch), _RIG_POSITION) @ wearer.camera_pose(t_s)
    directions = _rays(size, focal, step) @ sensor[:3, :3]
    metres = cast(sensor[3, :3], directions, _boxes(wearer, t_s))
    coarse = np.where(np.isfinite(metres), np.minimum(metres, 7.5) * 1000, 0).astype(np.uint16)
    grid = coarse.reshape(size[1] // step, size[0] // step)
    full = cv2.resize(grid, size, interpolation=cv2.INTER_NEAREST)
    return np.asarray(full, np.uint16)


def _brightness(depth: U2, strength: int) -> U2:
    """How brightly the sensor's own light comes back: less from far away."""
    back = strength // np.maximum(depth.astype(np.int32), 150)
    return np.where(depth > 0, back, 0).astype(np.uint16)


class DepthEyes:
    """Both depth cameras of a wearer."""

    def __init__(self, wearer: Wearer, seed: int) -> None:
        self._wearer = wearer
        rng = np.random.default_rng([seed, 41])
        self._noise = rng.integers(0, 7, (640, 640)).astype(np.uint16)
        self._near = lru_cache(maxsize=2)(self._look_near)

    def _speckle(self, size: tuple[int, int], t_s: float) -> U2:
        tick = round(t_s * 1000)
        x, y = tick * 37 % 128, tick * 53 % 128
        return self._noise[y : y + size[1], x : x + size[0]]

    def _look_near(self, tick: int) -> tuple[U2, U2]:
        depth = _look(self._wearer, tick / _AHAT_HZ, AHAT_SIZE, 205.0, 8, -0.35)
        bright = _brightness(depth, 600_000)
        return depth, bright

    def long_throw(self, t_s: float) -> DepthSample:
        depth = _look(self._wearer, t_s, LONG_THROW_SIZE, 210.0, 4, -0.10)
        speckle = self._speckle(LONG_THROW_SIZE, t_s)
        bright = _brightness(depth, 900_000)
        return DepthSample(np.where(depth > 0, depth + speckle, 0).astype(np.uint16), bright)

    def ahat(self, t_s: float) -> DepthSample:
        depth, bright = self._near(math.floor(t_s * _AHAT_HZ))
        speckle = self._speckle(AHAT_SIZE, t_s)
        wrapped = np.where(depth > 0, (depth + speckle) % AHAT_WRAP_MM, 0).astype(np.uint16)
        return DepthSample(wrapped, bright + speckle)


class MotionSense:
    """Accelerometer, gyroscope and magnetometer of a wearer's head."""

    def __init__(self, body: F8, angles: F8) -> None:
        """``body`` (n, 3) and ``angles`` (n, 2) are the tracks of position, yaw and pitch."""
        self._times = np.arange(len(body)) / TRACK_HZ
        self._angles = angles
        self._turning = np.gradient(angles, 1 / TRACK_HZ, axis=0)
        self._pushed = np.gradient(np.gradient(body, 1 / TRACK_HZ, axis=0), 1 / TRACK_HZ, axis=0)

    def _at(self, track: F8, times: F8) -> F8:
        return np.stack([np.interp(times, self._times, column) for column in track.T], axis=1)

    def samples(self, kind: Motion, start_s: float, stop_s: float) -> MotionSamples:
        rate = MOTION_HZ[kind]
        numbers = np.arange(math.ceil(start_s * rate - 1e-6), math.ceil(stop_s * rate - 1e-6))
        times = numbers / rate
        yaw, pitch = self._at(self._angles, times).T
        zero = np.zeros_like(yaw)
        right = np.stack([np.cos(yaw), zero, -np.sin(yaw)], axis=1)
        back = np.stack(
            [np.sin(yaw) * np.cos(pitch), -np.sin(pitch), np.cos(yaw) * np.cos(pitch)], axis=1
        )
        axes = np.stack([right, np.cross(back, right), back], axis=1)
        if kind is Motion.GYROSCOPE:
            turning = np.degrees(self._at(self._turning, times))
            world = turning[:, :1] * vector(0, 1, 0) + turning[:, 1:] * right
            noise = 0.05
        elif kind is Motion.ACCELEROMETER:
            world = self._at(self._pushed, times) + vector(0, 9.81, 0)
            noise = 0.02
        else:
            world = np.tile(vector(19.0, -44.0, -3.0), (len(times), 1))
            noise = 0.3
        values = np.einsum("nij,nj->ni", axes, world)
        values += noise * np.sin(numbers[:, None] * vector(12.9898, 78.233, 37.719))
        return MotionSamples(times, values.astype(np.float32), 38.0 + math.sin(start_s / 60))
