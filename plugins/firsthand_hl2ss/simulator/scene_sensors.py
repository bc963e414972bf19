"""The scene's depth cameras, as their calibration says: place on the rig, lens. Plausible and
cheap: the scene is boxes to them, and a ray is cast for each cell of several pixels."""

from itertools import product
from typing import Final

import cv2
import numpy as np

from firsthand_hl2ss.simulator.calibration import LENSES, Lens
from firsthand_hl2ss.simulator.scene_geometry import vector
from firsthand_hl2ss.simulator.scene_wearer import Wearer
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
from firsthand_hl2ss.simulator.source import F8, U2, DepthSample

LONG_THROW_SIZE: Final = (320, 288)
AHAT_SIZE: Final = (512, 512)
AHAT_WRAP_MM: Final = 1055
_NEAREST_M: Final = 0.02
_FARTHEST_M: Final = 7.5
_WIDEST: Final = 4.0
"""Edge of the unit plane's part that any of the lenses can see."""
_CORNERS: Final = np.array(tuple(product((0, 1), repeat=3)))
"""Which of a box's two corners gives x, y and z of each of its eight."""


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


class _View:
    """What a depth camera looks along: a ray for each cell of ``step`` by ``step`` pixels."""

    def __init__(self, lens: Lens, step: int) -> None:
        self._lens = lens
        self._step = step
        self._to_rig = np.linalg.inv(lens.from_rig)
        self._columns, self._rows = (n // step for n in lens.size)
        middles = np.arange(max(self._columns, self._rows)) * step + (step - 1) / 2
        pixels = np.stack(np.meshgrid(middles[: self._columns], middles[: self._rows]), axis=-1)
        plane = lens.to_plane(pixels)
        rays = np.concatenate([plane, np.ones_like(plane[..., :1])], axis=-1)
        self._rays: F8 = rays / np.linalg.norm(rays, axis=-1, keepdims=True)

    def depth(self, rig: F8, boxes: F8) -> U2:
        """Millimetres along the ray (height, width), each cell's spread over its pixels; 0 where
        there is nothing. ``boxes`` are low and high corners (n, 2, 3) in the world."""
        sensor = self._to_rig @ rig
        inverse = 1.0 / _never_zero(self._rays @ sensor[:3, :3])
        nearest = np.full(self._rays.shape[:2], np.inf)
        for (low, high), part in zip(boxes, self._windows(sensor, boxes), strict=True):
            if part is None:
                continue
            a, b = (low - sensor[3, :3]) * inverse[part], (high - sensor[3, :3]) * inverse[part]
            enters = np.minimum(a, b).max(axis=-1)
            leaves = np.maximum(a, b).min(axis=-1)
            hit = (enters <= leaves) & (enters > _NEAREST_M)
            np.minimum(nearest[part], enters, out=nearest[part], where=hit)
        metres = np.where(np.isfinite(nearest), np.minimum(nearest, _FARTHEST_M), 0)
        coarse = (metres * 1000).astype(np.uint16)
        full = cv2.resize(coarse, self._lens.size, interpolation=cv2.INTER_NEAREST)
        return np.asarray(full, np.uint16)

    def _windows(self, sensor: F8, boxes: F8) -> list[tuple[slice, slice] | None]:
        """The cells in which each box can be seen; None for those behind the camera."""
        corners = boxes[:, _CORNERS, (0, 1, 2)]
        inside = (corners - sensor[3, :3]) @ sensor[:3, :3].T
        far = inside[..., 2:]
        plane = (inside[..., :2] / np.maximum(far, _NEAREST_M)).clip(-_WIDEST, _WIDEST)
        cells = self._lens.to_image(plane) / self._step
        first = np.floor(cells.min(axis=1)).astype(int) - 1
        last = np.ceil(cells.max(axis=1)).astype(int) + 1
        most = (self._columns, self._rows)
        first, last = first.clip(0, most), last.clip(0, most)
        near = far.min(axis=(1, 2)) < _NEAREST_M
        first[near], last[near] = 0, most
        return [
            None if farthest < 0 else (slice(y0, y1), slice(x0, x1))
            for farthest, (x0, y0), (x1, y1) in zip(far.max(axis=(1, 2)), first, last, strict=True)
        ]


def _never_zero(directions: F8) -> F8:
    return np.where(directions == 0, 1e-12, directions)


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
        self._far_view = _View(LENSES["depth_long_throw"], 4)
        self._near_view = _View(LENSES["depth_ahat"], 8)

    def _speckle(self, size: tuple[int, int], t_s: float) -> U2:
        tick = round(t_s * 1000)
        x, y = tick * 37 % 128, tick * 53 % 128
        return self._noise[y : y + size[1], x : x + size[0]]

    def long_throw(self, t_s: float) -> DepthSample:
        depth = self._far_view.depth(self._wearer.rig_pose(t_s), _boxes(self._wearer, t_s))
        speckle = self._speckle(LONG_THROW_SIZE, t_s)
        bright = _brightness(depth, 900_000)
        return DepthSample(np.where(depth > 0, depth + speckle, 0).astype(np.uint16), bright)

    def ahat(self, t_s: float) -> DepthSample:
        depth = self._near_view.depth(self._wearer.rig_pose(t_s), _boxes(self._wearer, t_s))
        speckle = self._speckle(AHAT_SIZE, t_s)
        wrapped = np.where(depth > 0, (depth + speckle) % AHAT_WRAP_MM, 0).astype(np.uint16)
        return DepthSample(wrapped, _brightness(depth, 600_000) + speckle)
