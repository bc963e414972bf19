"""A picture that is drawn straight in NV12, which is what video encoders take.

Positions are in pixels of the luma plane, the middle of the first pixel being (0, 0). A chroma
sample lies in the middle of its four luma pixels.
"""

from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from firsthand_hl2ss.simulator.scene_world import Colour
from firsthand_hl2ss.simulator.source import F8, I4, U1

_SHIFT: Final = 4
_UNIT: Final = 1 << _SHIFT
_LIMIT_PX: Final = 60_000.0
_HALF: Final = np.array([[0.5, 0.0, -0.25], [0.0, 0.5, -0.25], [0.0, 0.0, 1.0]])
_DOUBLE: Final = np.linalg.inv(_HALF)


def to_yuv(colour: Colour) -> tuple[int, int, int]:
    """BT.601, full range."""
    r, g, b = colour
    y = 0.299 * r + 0.587 * g + 0.114 * b
    u, v = 128 + 0.564 * (b - y), 128 + 0.713 * (r - y)
    return round(y), min(255, max(0, round(u))), min(255, max(0, round(v)))


def shade(colour: Colour, by: float) -> Colour:
    """A lighter (``by`` > 1) or darker colour."""
    r, g, b = (min(255, max(0, round(c * by))) for c in colour)
    return r, g, b


class Texture:
    """A picture to be laid on a flat face, at several sizes, with or without transparency."""

    def __init__(self, rgb: U1, alpha: U1 | None = None) -> None:
        self.height, self.width = rgb.shape[:2]
        self.levels: list[tuple[U1, U1, U1 | None, F8]] = []
        scale: F8 = np.eye(3)
        while min(rgb.shape[:2]) >= 8 and len(self.levels) < 5:
            ycc = cv2.cvtColor(rgb, cv2.COLOR_RGB2YCrCb)
            luma = np.ascontiguousarray(ycc[..., 0])
            half = cv2.resize(ycc[..., :0:-1], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
            self.levels.append(
                (np.asarray(luma, np.uint8), np.asarray(half, np.uint8), alpha, scale)
            )
            rgb = np.asarray(
                cv2.resize(rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8
            )
            if alpha is not None:
                alpha = np.asarray(
                    cv2.resize(alpha, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8
                )
            scale = _HALF @ scale

    def level(self, pixels: float) -> tuple[U1, U1, U1 | None, F8]:
        """The size that comes nearest to ``pixels`` across without being much too large."""
        i = 0
        while i + 1 < len(self.levels) and self.levels[i + 1][0].shape[1] >= 0.9 * pixels:
            i += 1
        return self.levels[i]


class Canvas:
    """One picture being drawn. ``chroma`` is left out for grey cameras."""

    def __init__(self, width: int, height: int, *, grey: bool = False) -> None:
        self.width, self.height = width, height
        self.nv12 = np.empty((height if grey else height * 3 // 2, width), np.uint8)
        self.luma: U1 = self.nv12[:height]
        self.chroma: U1 | None = (
            None if grey else self.nv12[height:].reshape(height // 2, width // 2, 2)
        )

    def clear(self, colour: Colour) -> None:
        y, u, v = to_yuv(colour)
        self.luma.fill(y)
        if self.chroma is not None:
            self.chroma.view("<u2").fill(u | v << 8)  # both at once: many times faster

    @staticmethod
    def exact(points: F8) -> tuple[I4, I4]:
        """Points (n, 2) in the fractions that OpenCV draws with, for luma and for chroma."""
        points = points.clip(-_LIMIT_PX, _LIMIT_PX)
        luma: I4 = np.rint(points * _UNIT).astype(np.int32)
        return luma, np.rint((points - 0.5) * (_UNIT / 2)).astype(np.int32)

    def fill(self, points: F8, colour: tuple[int, int, int]) -> None:
        """Fill a convex polygon (n, 2); ``colour`` is Y, U, V."""
        self.fill_exact(*self.exact(points), colour)

    def fill_exact(self, luma: I4, chroma: I4, colour: tuple[int, int, int]) -> None:
        """Fill a polygon that ``exact`` was applied to, perhaps with many others."""
        cv2.fillConvexPoly(self.luma, luma, colour[0], cv2.LINE_AA, _SHIFT)
        if self.chroma is not None:
            cv2.fillConvexPoly(self.chroma, chroma, colour[1:], cv2.LINE_AA, _SHIFT)

    def line(
        self, points: F8, colour: tuple[int, int, int], thick: float, *, closed: bool = False
    ) -> None:
        """A line ``thick`` pixels wide along points (n, 2)."""
        exact, half = self.exact(points)
        width = max(1, round(thick))
        cv2.polylines(self.luma, [exact], closed, colour[0], width, cv2.LINE_AA, _SHIFT)
        if self.chroma is not None and width > 2:
            width = max(1, width // 2)
            cv2.polylines(self.chroma, [half], closed, colour[1:], width, cv2.LINE_AA, _SHIFT)

    def dot(self, centre: F8, radius: float, colour: tuple[int, int, int]) -> None:
        x, y = (round(float(c) * _UNIT) for c in np.clip(centre, -_LIMIT_PX, _LIMIT_PX))
        r = max(_UNIT // 2, round(radius * _UNIT))
        cv2.circle(self.luma, (x, y), r, colour[0], -1, cv2.LINE_AA, _SHIFT)
        if self.chroma is not None:
            at = ((x - _UNIT // 2) // 2, (y - _UNIT // 2) // 2)
            cv2.circle(self.chroma, at, r // 2, colour[1:], -1, cv2.LINE_AA, _SHIFT)

    def lay(self, texture: Texture, corners: F8) -> None:
        """Lay a texture on a face given by the pixels (4, 2) of its corners: top left, top right,
        bottom right, bottom left."""
        low = np.floor(corners.min(axis=0)).astype(int) - 1
        high = np.ceil(corners.max(axis=0)).astype(int) + 2
        left, top = max(0, int(low[0]) & ~1), max(0, int(low[1]) & ~1)
        right = min(self.width, (int(high[0]) + 1) & ~1)
        bottom = min(self.height, (int(high[1]) + 1) & ~1)
        if right - left < 2 or bottom - top < 2:
            return
        luma, chroma, alpha, scale = texture.level(
            float(np.linalg.norm(corners[1] - corners[0]) + np.linalg.norm(corners[2] - corners[3]))
            / 2
        )
        w, h = texture.width, texture.height
        edges = np.array(
            [[-0.5, -0.5], [w - 0.5, -0.5], [w - 0.5, h - 0.5], [-0.5, h - 0.5]], np.float32
        )
        local = (corners - (left, top)).astype(np.float32)
        across = cv2.getPerspectiveTransform(edges, local) @ np.linalg.inv(scale)
        size = (right - left, bottom - top)
        coarse = _HALF @ across @ _DOUBLE
        half = (size[0] // 2, size[1] // 2)
        y_roi = self.luma[top:bottom, left:right]
        if alpha is None:
            _lay_on(y_roi, luma, across, size)
            if self.chroma is not None:
                uv_roi = self.chroma[top // 2 : bottom // 2, left // 2 : right // 2]
                _lay_on(uv_roi, chroma, coarse, half)
            return
        mask = cv2.warpPerspective(alpha, across, size)
        _blend(y_roi, luma, across, size, mask)
        if self.chroma is not None:
            uv_roi = self.chroma[top // 2 : bottom // 2, left // 2 : right // 2]
            small = cv2.resize(mask, half, interpolation=cv2.INTER_AREA)
            _blend(uv_roi, chroma, coarse, half, small)


def _lay_on(roi: U1, texture: U1, across: F8, size: tuple[int, int]) -> None:
    cv2.warpPerspective(
        texture,
        across,
        size,
        dst=roi,
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_TRANSPARENT,
    )


def _blend(
    roi: U1, texture: U1, across: F8, size: tuple[int, int], mask: npt.NDArray[np.generic]
) -> None:
    warped = cv2.warpPerspective(texture, across, size, borderMode=cv2.BORDER_REPLICATE)
    opaque = mask.astype(np.int16)
    if roi.ndim == 3:
        opaque = opaque[..., None]
    below = roi.astype(np.int16)
    # (difference * alpha) / 256 in 16 bits: halve the difference's range first
    difference = (warped.astype(np.int16) - below) * (opaque >> 1)
    below += difference >> 7
    np.clip(below, 0, 255, out=below)
    roi[:] = below
