"""The room as flat coloured faces, drawn from far to near."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand_hl2ss.simulator.render_canvas import Canvas, shade, to_yuv
from firsthand_hl2ss.simulator.scene_geometry import NEAR_M, Camera, clip_near
from firsthand_hl2ss.simulator.scene_world import (
    BOARD,
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
    Colour,
)
from firsthand_hl2ss.simulator.source import F8

WALL: Final = (206, 212, 206)
_WAINSCOT: Final = (168, 182, 178)
_OAK: Final = (190, 150, 104)
_WALNUT: Final = (132, 92, 62)
_PINE: Final = (216, 184, 138)


@dataclass(slots=True)
class Faces:
    """Polygons of a room in drawing order, projected together."""

    corners: list[list[tuple[float, float, float]]] = field(default_factory=list)
    colours: list[tuple[int, int, int]] = field(default_factory=list)
    _all: F8 | None = None
    _starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def add(self, corners: list[tuple[float, float, float]], colour: Colour) -> None:
        self.corners.append(corners)
        self.colours.append(to_yuv(colour))

    def front(
        self, x: tuple[float, float], y: tuple[float, float], z: float, colour: Colour
    ) -> None:
        """A face that looks at the wearer."""
        self.add([(x[0], y[1], z), (x[1], y[1], z), (x[1], y[0], z), (x[0], y[0], z)], colour)

    def level(
        self, x: tuple[float, float], y: float, z: tuple[float, float], colour: Colour
    ) -> None:
        """A face that looks up (or down)."""
        self.add([(x[0], y, z[0]), (x[1], y, z[0]), (x[1], y, z[1]), (x[0], y, z[1])], colour)

    def side(
        self, x: float, y: tuple[float, float], z: tuple[float, float], colour: Colour
    ) -> None:
        """A face that looks left or right."""
        self.add([(x, y[1], z[0]), (x, y[1], z[1]), (x, y[0], z[1]), (x, y[0], z[0])], colour)

    def draw(self, canvas: Canvas, camera: Camera) -> None:
        if self._all is None:
            ends = np.cumsum([len(c) for c in self.corners])
            self._starts = np.concatenate([[0], ends])
            self._all = np.array([p for corners in self.corners for p in corners])
        starts = self._starts[:-1]
        seen = camera.to_camera(self._all)
        ahead = seen[:, 2] < -NEAR_M
        flat = camera.pixels(np.where(ahead[:, None], seen, (0.0, 0.0, -1.0)))
        whole = np.logical_and.reduceat(ahead, starts)
        low = np.minimum.reduceat(flat, starts)
        high = np.maximum.reduceat(flat, starts)
        outside = (low > (camera.width, camera.height)).any(axis=1) | (high < 0).any(axis=1)
        exact, half = canvas.exact(flat)
        draw = np.flatnonzero(np.logical_or.reduceat(ahead, starts) & ~(whole & outside))
        for i in draw.tolist():
            a, b = self._starts[i], self._starts[i + 1]
            if whole[i]:
                canvas.fill_exact(exact[a:b], half[a:b], self.colours[i])
            else:
                canvas.fill(camera.pixels(clip_near(seen[a:b])), self.colours[i])


def _grain(i: int, spread: float = 0.06) -> float:
    """A plank's own brightness, the same every time."""
    return 1.0 + spread * (((i * 7919) % 13) / 6.0 - 1.0)


def _walls() -> Faces:
    faces = Faces()
    left, right, back, top = -3.2, 3.4, 0.6, 1.35
    faces.front((left, right), (FLOOR_Y, top), WALL_Z, WALL)
    for i in range(22):  # a quiet stripe in the paper
        at = left + 0.3 * i
        faces.front((at, at + 0.02), (-0.78, top), WALL_Z, shade(WALL, 0.965))
    faces.front((left, right), (FLOOR_Y, -0.80), WALL_Z, _WAINSCOT)
    faces.front((left, right), (-0.81, -0.77), WALL_Z, shade(_WAINSCOT, 1.22))
    faces.side(left, (FLOOR_Y, top), (WALL_Z, back), shade(WALL, 0.90))
    faces.side(right, (FLOOR_Y, top), (WALL_Z, back), shade(WALL, 0.94))
    faces.level((left, right), top, (WALL_Z, back), (236, 236, 232))
    for i in range(14):  # floor boards
        z = WALL_Z + 0.15 * i
        faces.level(
            (left, right), FLOOR_Y, (z, z + 0.145), shade((154, 116, 82), _grain(i + 3, 0.08))
        )
    # a window on the right: frame, sky, hills, bars
    glass_x, glass_y = (1.30, 2.50), (-0.42, 0.82)
    faces.front(
        (glass_x[0] - 0.07, glass_x[1] + 0.07),
        (glass_y[0] - 0.07, glass_y[1] + 0.07),
        WALL_Z,
        (244, 244, 240),
    )
    for i in range(6):
        step = (glass_y[1] - glass_y[0]) / 6
        faces.front(
            glass_x,
            (glass_y[0] + i * step, glass_y[0] + (i + 1) * step + 0.005),
            WALL_Z,
            (216 - 14 * i, 232 - 6 * i, 246),
        )
    z = WALL_Z
    faces.add(
        [
            (1.30, -0.18, z),
            (1.62, 0.04, z),
            (2.05, -0.10, z),
            (2.50, -0.22, z),
            (2.50, -0.42, z),
            (1.30, -0.42, z),
        ],
        (122, 158, 112),
    )
    faces.add(
        [(1.30, -0.30, z), (1.9, -0.24, z), (2.50, -0.12, z), (2.50, -0.42, z), (1.30, -0.42, z)],
        (90, 132, 88),
    )
    faces.front((1.885, 1.915), glass_y, WALL_Z, (244, 244, 240))
    faces.front(glass_x, (0.19, 0.22), WALL_Z, (244, 244, 240))
    faces.front(
        (glass_x[0] - 0.12, glass_x[1] + 0.12),
        (glass_y[0] - 0.11, glass_y[0] - 0.06),
        WALL_Z,
        (228, 226, 218),
    )
    # a picture on the left: dunes and a sun
    faces.front((-2.06, -1.22), (-0.20, 0.48), WALL_Z, (70, 56, 46))
    faces.front((-2.02, -1.26), (-0.16, 0.44), WALL_Z, (240, 228, 204))
    angle = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    faces.add(
        [(-1.48 + 0.09 * np.cos(a), 0.25 + 0.09 * np.sin(a), z) for a in angle], (232, 142, 74)
    )
    faces.add(
        [
            (-2.02, -0.16, z),
            (-2.02, 0.06, z),
            (-1.74, 0.16, z),
            (-1.40, -0.02, z),
            (-1.26, -0.16, z),
        ],
        (206, 132, 84),
    )
    faces.add(
        [
            (-2.02, -0.16, z),
            (-1.80, -0.06, z),
            (-1.48, 0.05, z),
            (-1.26, 0.0, z),
            (-1.26, -0.16, z),
        ],
        (158, 86, 70),
    )
    # a clock above the shelf
    for radius, colour in ((0.13, (64, 68, 74)), (0.112, (246, 246, 240))):
        faces.add([(radius * np.cos(a), 0.86 + radius * np.sin(a), z) for a in angle], colour)
    faces.add([(-0.008, 0.86, z), (0.0, 0.95, z), (0.008, 0.86, z)], (40, 44, 50))
    faces.add([(0.0, 0.868, z), (0.065, 0.84, z), (0.0, 0.852, z)], (40, 44, 50))
    return faces


def _shelf() -> Faces:
    """The outside of the shelf unit and its back."""
    faces = Faces()
    x, z = SHELF_X, SHELF_Z
    faces.front(x, (SHELF_Y[0] - 0.05, SHELF_TOP), z[0], shade(_PINE, 0.70))
    faces.side(x[0] - BOARD, (FLOOR_Y, SHELF_TOP), z, shade(_PINE, 0.88))
    faces.side(x[1] + BOARD, (FLOOR_Y, SHELF_TOP), z, shade(_PINE, 0.80))
    faces.level((x[0] - BOARD, x[1] + BOARD), SHELF_TOP, z, shade(_PINE, 1.05))
    return faces


def _row(low: float, high: float) -> Faces:
    """The inside of one row of the shelf: back, ceiling, board, sides."""
    faces = Faces()
    x, z = SHELF_X, SHELF_Z
    for i in range(16):
        a = x[0] + 0.1 * i
        faces.front((a, a + 0.096), (low, high), z[0], shade(_PINE, 0.72 * _grain(i, 0.04)))
    for k, dark in enumerate((0.58, 0.62, 0.67)):  # the shadow under the board above
        faces.front(x, (high - BOARD - 0.05 + 0.016 * k, high), z[0], shade(_PINE, dark))
    faces.level(x, high - BOARD, z, shade(_PINE, 0.52))
    for i in range(5):
        a = z[0] + 0.06 * i
        faces.level(x, low, (a, a + 0.06), shade(_PINE, (0.78 + 0.05 * i) * _grain(i, 0.02)))
    for upright in UPRIGHTS:
        for edge in (-BOARD / 2, BOARD / 2):
            faces.side(upright + edge, (low, high - BOARD), z, shade(_PINE, 0.80))
    faces.side(x[0], (low, high), z, shade(_PINE, 0.84))
    faces.side(x[1], (low, high), z, shade(_PINE, 0.76))
    return faces


def _shelf_edges() -> Faces:
    """What of the shelf lies before the things in it: the edges of its boards, its doors."""
    faces = Faces()
    x, z = (SHELF_X[0] - BOARD, SHELF_X[1] + BOARD), SHELF_Z[1]
    for y in (*SHELF_Y, SHELF_TOP):
        faces.front(x, (y - BOARD, y), z, shade(_PINE, 1.04))
        faces.front(x, (y - BOARD, y - BOARD + 0.004), z, shade(_PINE, 0.70))
    for upright in (SHELF_X[0] - BOARD / 2, *UPRIGHTS, SHELF_X[1] + BOARD / 2):
        a, b = upright - BOARD / 2, upright + BOARD / 2
        faces.front((a, b), (SHELF_Y[0] - BOARD, SHELF_TOP), z, shade(_PINE, 1.08))
        faces.front((b - 0.003, b), (SHELF_Y[0] - BOARD, SHELF_TOP), z, shade(_PINE, 0.78))
    low, high = FLOOR_Y + 0.06, SHELF_Y[0] - BOARD
    faces.front(x, (FLOOR_Y, high), z, shade(_PINE, 0.62))
    for i in range(3):
        a = x[0] + 0.03 + i * 0.538
        faces.front((a, a + 0.51), (low, high - 0.012), z, shade(_PINE, 0.96))
        faces.front((a + 0.05, a + 0.46), (low + 0.05, high - 0.062), z, shade(_PINE, 0.88))
        faces.front((a + 0.055, a + 0.455), (low + 0.055, high - 0.067), z, shade(_PINE, 0.93))
        faces.front((a + 0.235, a + 0.275), (high - 0.048, high - 0.034), z, (70, 72, 76))
    return faces


def _table() -> Faces:
    faces = Faces()
    x, z = TABLE_X, TABLE_Z
    for leg in (x[0] + 0.04, x[1] - 0.09):
        faces.front((leg, leg + 0.05), (FLOOR_Y, TABLE_Y), z[0] + 0.04, shade(_WALNUT, 0.6))
        faces.front((leg, leg + 0.05), (FLOOR_Y, TABLE_Y), z[1] - 0.04, shade(_WALNUT, 0.8))
    planks = 7
    deep = (z[1] - z[0]) / planks
    for i in range(planks):
        a = z[0] + i * deep
        faces.level(x, TABLE_Y, (a, a + deep - 0.002), shade(_OAK, _grain(i + 1, 0.045)))
        for k in range(5):  # grain
            at = x[0] + 0.07 + ((i * 5 + k) * 0.6180339) % 1.0 * (x[1] - x[0] - 0.34)
            line = a + deep * (0.15 + 0.17 * k)
            faces.level(
                (at, at + 0.16 + 0.03 * k), TABLE_Y, (line, line + 0.003), shade(_OAK, 0.90)
            )
    # a sheet of paper with a list on it
    sheet, rest = (0.42, 0.60), (-0.66, -0.46)
    faces.level(
        (sheet[0] + 0.006, sheet[1] + 0.006), TABLE_Y, (rest[0], rest[1] + 0.006), (150, 118, 84)
    )
    faces.level(sheet, TABLE_Y, rest, (246, 244, 236))
    for i in range(6):
        a = rest[0] + 0.03 + 0.026 * i
        faces.level(
            (sheet[0] + 0.02, sheet[1] - 0.03 - 0.013 * (i % 3)),
            TABLE_Y,
            (a, a + 0.005),
            (112, 118, 138),
        )
    faces.front(x, (TABLE_Y - 0.035, TABLE_Y), z[1], shade(_OAK, 0.80))
    faces.front(x, (TABLE_Y - 0.004, TABLE_Y), z[1], shade(_OAK, 1.12))
    return faces


class Room:
    """The room in layers; things stand between them."""

    def __init__(self) -> None:
        self.walls, self.shelf, self.edges, self.table = (
            _walls(),
            _shelf(),
            _shelf_edges(),
            _table(),
        )
        levels = (*SHELF_Y, SHELF_TOP)
        self._rows = [_row(a, b) for a, b in pairwise(levels)]

    def rows(self, eye_y: float) -> list[tuple[int, Faces]]:
        """The shelf's rows in drawing order for an eye at a height: towards it from both ends, so
        that each board hides what it should."""
        order = sorted(
            range(len(self._rows)),
            key=lambda i: -abs(SHELF_Y[i] + 0.5 * (SHELF_Y[1] - SHELF_Y[0]) - eye_y),
        )
        return [(i, self._rows[i]) for i in order]
