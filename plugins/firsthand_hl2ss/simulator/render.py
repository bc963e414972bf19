"""The scene as a camera sees it."""

from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.counter import draw_counter
from firsthand_hl2ss.simulator.render_canvas import Canvas
from firsthand_hl2ss.simulator.render_hands import draw_hand
from firsthand_hl2ss.simulator.render_room import WALL, Room
from firsthand_hl2ss.simulator.render_things import ThingPainter
from firsthand_hl2ss.simulator.scene_geometry import Camera
from firsthand_hl2ss.simulator.scene_wearer import Wearer
from firsthand_hl2ss.simulator.scene_world import BY_ID, SHELF_Y, SHELF_Z, Colour
from firsthand_hl2ss.simulator.source import F8, U1

# Skin and sleeve of the two wearers.
LOOKS: Final[dict[str, tuple[Colour, Colour]]] = {
    "demonstration": ((224, 172, 138), (66, 92, 128)),
    "replication": ((150, 104, 76), (150, 70, 62)),
}


_TABLE: Final = -1


def _row_of(mark: F8) -> int:
    """Which row of the shelf a thing stands in; ``_TABLE`` if none."""
    if mark[2] > SHELF_Z[1]:
        return _TABLE
    return max(i for i, y in enumerate(SHELF_Y) if i == 0 or mark[1] >= y)


class Renderer:
    """Draws the wearer's world. Safe to use from several threads at once."""

    def __init__(self, wearer: Wearer) -> None:
        self._wearer = wearer
        self._room = Room()
        self._things = ThingPainter()
        self._skin, self._sleeve = LOOKS[wearer.script.scene.value]

    def picture(self, camera: Camera, t_s: float, index: int) -> U1:
        """NV12 (height * 3 / 2, width) with the counter in it."""
        canvas = Canvas(camera.width, camera.height)
        self._draw(canvas, camera, t_s)
        draw_counter(canvas.luma, canvas.chroma, index)
        return canvas.nv12

    def grey(self, camera: Camera, t_s: float) -> U1:
        """Luma alone, (height, width)."""
        canvas = Canvas(camera.width, camera.height, grey=True)
        self._draw(canvas, camera, t_s)
        return canvas.luma

    def _draw(self, canvas: Canvas, camera: Camera, t_s: float) -> None:
        wearer, room = self._wearer, self._room
        body = wearer.body(t_s)
        hands = [wearer.hands(side, t_s, body) for side in ("left", "right")]
        held = {hand.holding for hand in hands}
        marks = {thing: wearer.mark(thing, t_s) for thing in wearer.script.start}
        far_first = sorted(
            (thing for thing in marks if thing not in held),
            key=lambda thing: -float(np.linalg.norm(marks[thing] - camera.position)),
        )
        canvas.clear(WALL)
        room.walls.draw(canvas, camera)
        room.shelf.draw(canvas, camera)
        rows: dict[int, list[str]] = {}
        for thing in far_first:
            rows.setdefault(_row_of(marks[thing]), []).append(thing)
        for row, inside in room.rows(float(camera.position[1])):
            inside.draw(canvas, camera)
            for thing in rows.get(row, ()):
                self._things.draw(canvas, camera, BY_ID[thing], marks[thing], stands=True)
        room.edges.draw(canvas, camera)
        room.table.draw(canvas, camera)
        for thing in rows.get(_TABLE, ()):
            self._things.draw(canvas, camera, BY_ID[thing], marks[thing], stands=True)
        for thing in sorted(held - {""}):
            self._things.draw(canvas, camera, BY_ID[thing], marks[thing], stands=False)
        for hand in hands:
            draw_hand(canvas, camera, hand, self._skin, self._sleeve)
