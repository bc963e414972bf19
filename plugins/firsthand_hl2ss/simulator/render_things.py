"""The things on shelf and table: labelled boxes, bottles, jars and a ball."""

import math
from typing import Final

import cv2
import numpy as np

from firsthand_hl2ss.simulator.render_canvas import Canvas, Texture, shade, to_yuv
from firsthand_hl2ss.simulator.scene_geometry import Camera, cross, unit, vector
from firsthand_hl2ss.simulator.scene_world import THINGS, Colour, Shape, Thing
from firsthand_hl2ss.simulator.source import F8, U1

_PX_PER_M: Final = 2200.0
MARK_RADIUS_M: Final = 0.0125
_INK: Final = (30, 30, 36)
_PAPER: Final = (250, 250, 246)


def _plain(width: int, height: int, colour: Colour) -> U1:
    return np.full((height, width, 3), colour, np.uint8)


def _write(rgb: U1, text: str, middle: float, room: tuple[float, float], colour: Colour) -> None:
    """Centre a word at the height ``middle`` in a room of width and height, all in pixels."""
    if not text:
        return
    font = cv2.FONT_HERSHEY_DUPLEX
    (w, h), _ = cv2.getTextSize(text, font, 1.0, 2)
    size = min(room[0] / w, room[1] / h)
    thick = max(1, round(size * 2.2))
    (w, h), _ = cv2.getTextSize(text, font, size, thick)
    at = (round((rgb.shape[1] - w) / 2), round(middle + h / 2))
    cv2.putText(rgb, text, at, font, size, colour, thick, cv2.LINE_AA)


def _mark(rgb: U1, x: float, y: float) -> None:
    """The round sticker: paper, ring of ink, paper."""
    at = (round(x * 16), round(y * 16))
    for part, colour in ((1.0, _PAPER), (0.84, _INK), (0.60, _PAPER)):
        radius = round(MARK_RADIUS_M * part * _PX_PER_M * 16)
        cv2.circle(rgb, at, radius, colour, -1, cv2.LINE_AA, 4)


def _box_front(thing: Thing) -> Texture:
    width, height = (round(s * _PX_PER_M) for s in thing.size[:2])
    rgb = _plain(width, height, thing.colour)
    for y in range(height):  # light from above
        rgb[y] = shade(thing.colour, 1.12 - 0.26 * y / height)
    if thing.kind == "book":
        rgb[:, : width // 10] = shade(thing.colour, 0.72)
        cv2.rectangle(
            rgb,
            (width // 7, height // 22),
            (width - width // 18, height - height // 22),
            shade(thing.colour, 1.5),
            max(2, width // 70),
        )
    elif thing.kind == "box":
        rgb[: height // 5] = shade(thing.colour, 0.82)
        rgb[height // 5 : height // 5 + 4] = shade(thing.colour, 0.6)
        for x in range(0, width, width // 8):
            rgb[height // 5 + 4 :, x : x + 3] = shade(thing.colour, 0.93)
    else:
        for i in range(7):
            x = round(width * (0.08 + 0.14 * i))
            y = round(height * (0.86 + 0.05 * (-1) ** i))
            cv2.circle(
                rgb, (x, y), width // 16, shade(thing.band, 1.2 + 0.25 * (i % 3)), -1, cv2.LINE_AA
            )
    band = (round(height * 0.10), round(height * 0.34))
    rgb[band[0] : band[1], width // 10 :] = thing.band
    room = (width * 0.72, (band[1] - band[0]) * 0.5)
    _write(rgb, thing.label, (band[0] + band[1]) / 2, room, _PAPER)
    _mark(rgb, (width - 1) / 2, (height - 1) / 2)
    cv2.rectangle(rgb, (0, 0), (width - 1, height - 1), shade(thing.colour, 0.45), 3)
    return Texture(rgb)


def _profile_width(thing: Thing, fraction: float) -> float:
    """Radius, as a fraction of the largest, at a height from 0 (foot) to 1."""
    heights = [h for h, _ in thing.profile]
    return float(np.interp(fraction, heights, [r for _, r in thing.profile]))


def _widest(thing: Thing) -> float:
    return max((r for _, r in thing.profile), default=1.0)


def _round_front(thing: Thing) -> Texture:
    """A bottle or jar as it looks from the front, on a transparent ground."""
    widest = _widest(thing)
    width, height = (
        round(thing.size[0] * widest * _PX_PER_M),
        round(thing.size[1] * _PX_PER_M),
    )
    rgb = _plain(width, height, thing.colour)
    alpha = np.zeros((height, width), np.uint8)
    cap_from = next((h for h, r in reversed(thing.profile) if h < 0.95), 0.85)
    label = (0.08, 0.70) if thing.kind != "juice" else (0.12, 0.58)
    across = (np.arange(width) - (width - 1) / 2) / (width / 2)
    for y in range(height):
        up = 1.0 - (y + 0.5) / height
        radius = _profile_width(thing, up) / widest
        inside = np.abs(across) <= radius
        turned = np.clip(across / radius, -1, 1)
        light = (
            0.55 + 0.5 * np.sqrt(1 - turned**2) + 0.16 * np.exp(-(((turned + 0.45) / 0.16) ** 2))
        )
        base = thing.cap if up >= cap_from else thing.colour
        if label[0] <= up <= label[1]:
            base = thing.band
        elif up < cap_from and thing.kind == "juice" and up > 0.72:
            base = shade(thing.colour, 1.15)
        rgb[y] = np.clip(np.array(base) * light[:, None], 0, 255)
        edge = np.clip((radius - np.abs(across)) * width / 2 + 0.5, 0, 1)
        alpha[y] = np.round(255 * edge)
        rim = inside & (radius - np.abs(across) < 5 / width)
        rgb[y, rim] = shade(base, 0.42)
    middle = height * (1 - label[1] + 0.085)
    room = (width * 0.62 / widest, height * 0.075)
    _write(rgb, thing.label, middle, room, _PAPER)
    _mark(rgb, (width - 1) / 2, height * (1 - 0.36) - 0.5)
    return Texture(rgb, alpha)


def _ball(thing: Thing) -> Texture:
    size = round(thing.size[0] * _PX_PER_M)
    y, x = np.mgrid[:size, :size]
    dx, dy = (x - (size - 1) / 2) / (size / 2), (y - (size - 1) / 2) / (size / 2)
    r = np.sqrt(dx**2 + dy**2)
    height = np.sqrt(np.clip(1 - r**2, 0, 1))
    light = np.clip(0.45 + 0.65 * (0.75 * height - 0.35 * dx - 0.55 * dy), 0.35, 1.25)
    stripe = np.abs(dy + 0.15 * dx) < 0.34
    base = np.where(stripe[..., None], np.array((214, 70, 58)), np.array(thing.colour))
    rgb = np.clip(base * light[..., None], 0, 255).astype(np.uint8)
    rgb[r > 1 - 4 / size] = shade(thing.band, 0.6)
    alpha = np.round(255 * np.clip((1 - r) * size / 2 + 0.5, 0, 1)).astype(np.uint8)
    _mark(rgb, (size - 1) / 2, (size - 1) / 2)
    return Texture(rgb, alpha)


class ThingPainter:
    """Draws each thing where its mark is."""

    def __init__(self) -> None:
        make = {Shape.BOX: _box_front, Shape.ROUND: _round_front, Shape.BALL: _ball}
        self._textures = {thing.id: make[thing.shape](thing) for thing in THINGS}

    def draw(self, canvas: Canvas, camera: Camera, thing: Thing, mark: F8, *, stands: bool) -> None:
        """``stands``: it throws a shadow on what it stands on."""
        seen = camera.to_camera(mark)
        if seen[2] > -0.12:
            return
        reach = 0.8 * max(thing.size) * camera.fx / -seen[2]
        u, v = camera.pixels(seen)
        if not (-reach < u < camera.width + reach and -reach < v < camera.height + reach):
            return
        if thing.shape is Shape.BOX:
            self._box(canvas, camera, thing, mark, stands=stands)
        elif thing.shape is Shape.BALL:
            self._ball(canvas, camera, thing, mark, stands=stands)
        else:
            self._round(canvas, camera, thing, mark, stands=stands)

    def _polygon(self, canvas: Canvas, camera: Camera, points: F8, colour: Colour) -> None:
        seen = camera.to_camera(points)
        if (seen[:, 2] < -0.05).all():
            canvas.fill(camera.pixels(seen), to_yuv(colour))

    def _shadow(self, canvas: Canvas, camera: Camera, foot: F8, radius: float) -> None:
        for grow, dark in ((1.22, (126, 98, 66)), (1.06, (92, 70, 46))):
            self._polygon(canvas, camera, _ring(foot, radius * grow), dark)

    def _box(self, canvas: Canvas, camera: Camera, thing: Thing, mark: F8, *, stands: bool) -> None:
        w, h, d = thing.size
        x, y = (-w / 2, w / 2), (-h / 2, h / 2)
        if stands:
            e = 0.012
            foot = [(x[0] - e, y[0], e), (x[1] + 2 * e, y[0], e)]
            foot += [(x[1] + 2 * e, y[0], -d), (x[0] - e, y[0], -d)]
            self._polygon(canvas, camera, mark + np.array(foot), (108, 82, 54))
        eye = camera.position - mark
        if eye[1] > y[1]:
            top = [(x[0], y[1], 0), (x[1], y[1], 0), (x[1], y[1], -d), (x[0], y[1], -d)]
            colour = (236, 230, 214) if thing.kind == "book" else shade(thing.colour, 1.25)
            self._polygon(canvas, camera, mark + np.array(top), colour)
        elif eye[1] < y[0]:
            low = [(x[0], y[0], 0), (x[1], y[0], 0), (x[1], y[0], -d), (x[0], y[0], -d)]
            self._polygon(canvas, camera, mark + np.array(low), shade(thing.colour, 0.4))
        for edge, seen in ((x[0], eye[0] < x[0]), (x[1], eye[0] > x[1])):
            if seen:
                side = [(edge, y[1], 0), (edge, y[1], -d), (edge, y[0], -d), (edge, y[0], 0)]
                self._polygon(canvas, camera, mark + np.array(side), shade(thing.colour, 0.66))
        front = mark + np.array(
            [(x[0], y[1], 0), (x[1], y[1], 0), (x[1], y[0], 0), (x[0], y[0], 0)]
        )
        seen_front = camera.to_camera(front)
        if (seen_front[:, 2] < -0.05).all():
            corners = camera.pixels(seen_front)
            canvas.lay(self._textures[thing.id], corners)
            canvas.line(corners, to_yuv(shade(thing.colour, 0.42)), camera.width / 900, closed=True)

    def _round(
        self, canvas: Canvas, camera: Camera, thing: Thing, mark: F8, *, stands: bool
    ) -> None:
        w, h, _ = thing.size
        foot = mark - vector(0.0, 0.36 * h, 0.0)
        widest = _widest(thing)
        eye = camera.position - mark
        flat = unit(vector(eye[2], 0.0, -eye[0]))  # level, across the line of sight
        if stands:
            self._shadow(canvas, camera, foot, w / 2 * 1.05)
        below = foot + vector(0.0, 0.002, 0.0)
        self._polygon(
            canvas,
            camera,
            _ring(below, w / 2 * thing.profile[0][1]),
            shade(thing.colour, 0.55),
        )
        half = flat * (w / 2 * widest)
        top = foot + vector(0.0, h, 0.0)
        seen = camera.to_camera(np.stack([top - half, top + half, foot + half, foot - half]))
        if (seen[:, 2] < -0.05).all():
            canvas.lay(self._textures[thing.id], camera.pixels(seen))
        if camera.position[1] > top[1]:
            lid = w / 2 * thing.profile[-1][1]
            self._polygon(canvas, camera, _ring(top, lid), shade(thing.cap, 0.55))
            self._polygon(canvas, camera, _ring(top, lid * 0.94), shade(thing.cap, 1.12))

    def _ball(
        self, canvas: Canvas, camera: Camera, thing: Thing, mark: F8, *, stands: bool
    ) -> None:
        radius = thing.size[0] / 2
        if stands:
            self._shadow(canvas, camera, mark - vector(0.0, radius, 0.0), radius * 0.8)
        back = unit(camera.position - mark)
        right = unit(cross(camera.pose[1, :3], back))
        up = cross(back, right)
        corners = [-right + up, right + up, right - up, -right - up]
        # A sphere shows itself a little larger than its great circle.
        grow = radius / math.sqrt(1 - (radius / np.linalg.norm(camera.position - mark)) ** 2)
        seen = camera.to_camera(mark + grow * np.array(corners))
        canvas.lay(self._textures[thing.id], camera.pixels(seen))


_CIRCLE: Final = np.array(
    [(math.cos(a), 0.0, math.sin(a)) for a in np.linspace(0, 2 * math.pi, 22, endpoint=False)]
)


def _ring(centre: F8, radius: float) -> F8:
    ring: F8 = centre + radius * _CIRCLE
    return ring
