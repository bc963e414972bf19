"""The room: what stands in it, what it is made of, and where things can be put down.

Origin at the wearer's eyes at the start; a table in front, a shelf unit behind it. Metres.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from firsthand_hl2ss.simulator.scene_geometry import vector
from firsthand_hl2ss.simulator.source import F8

FLOOR_Y: Final = -1.58
WALL_Z: Final = -1.46
TABLE_Y: Final = -0.58
TABLE_X: Final = (-0.70, 0.70)
TABLE_Z: Final = (-0.98, -0.42)
SHELF_X: Final = (-0.80, 0.80)
SHELF_Z: Final = (-1.44, -1.14)
SHELF_Y: Final = (-0.50, -0.12, 0.26)
"""Height of the three boards, their upper faces."""
SHELF_TOP: Final = 0.62
BOARD: Final = 0.026
"""Thickness of a board."""
UPRIGHTS: Final = (-0.27, 0.27)

Colour = tuple[int, int, int]
"""Red, green, blue."""


class Shape(StrEnum):
    BOX = "box"
    ROUND = "round"
    """Turned about a standing axis: bottles, jars, tubs."""
    BALL = "ball"


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: ``size`` is width, height, depth. Its position is that of its **mark**, a round
    sticker in the middle of its front, which is where people look and where truth is measured."""

    id: str
    name: str
    label: str
    family: str
    kind: str
    shape: Shape
    size: tuple[float, float, float]
    colour: Colour
    band: Colour
    profile: tuple[tuple[float, float], ...] = ()
    """Round things: (height as a fraction, radius as a fraction of half the width), upwards."""
    cap: Colour = (240, 240, 240)


_BOTTLE = (
    (0.0, 0.92),
    (0.03, 1.0),
    (0.58, 1.0),
    (0.70, 0.86),
    (0.80, 0.42),
    (0.88, 0.36),
    (0.881, 0.46),
    (1.0, 0.46),
)
_JAR = (
    (0.0, 0.94),
    (0.04, 1.0),
    (0.72, 1.0),
    (0.79, 0.86),
    (0.80, 0.96),
    (0.98, 0.96),
    (1.0, 0.93),
)
_TUB = ((0.0, 0.90), (0.05, 0.93), (0.82, 1.0), (0.84, 1.0), (0.85, 1.05), (1.0, 1.05))

THINGS: Final = (
    Thing(
        "blue_box",
        "blue box",
        "BLUE BOX",
        "organize_room",
        "box",
        Shape.BOX,
        (0.17, 0.14, 0.13),
        (44, 92, 178),
        (28, 58, 122),
    ),
    Thing(
        "red_book",
        "red book",
        "TALES",
        "organize_room",
        "book",
        Shape.BOX,
        (0.14, 0.20, 0.035),
        (186, 44, 48),
        (122, 24, 34),
    ),
    Thing(
        "green_book",
        "green book",
        "PLANTS",
        "organize_room",
        "book",
        Shape.BOX,
        (0.14, 0.20, 0.035),
        (52, 132, 84),
        (26, 84, 54),
    ),
    Thing(
        "yellow_ball",
        "yellow ball",
        "",
        "organize_room",
        "toy",
        Shape.BALL,
        (0.12, 0.12, 0.12),
        (232, 190, 40),
        (190, 134, 20),
    ),
    Thing(
        "nails",
        "pack of nails",
        "NAILS",
        "shopping",
        "birdhouse",
        Shape.BOX,
        (0.12, 0.09, 0.07),
        (148, 152, 160),
        (84, 90, 102),
    ),
    Thing(
        "wood_glue",
        "wood glue",
        "GLUE",
        "shopping",
        "birdhouse",
        Shape.ROUND,
        (0.07, 0.17, 0.07),
        (206, 120, 46),
        (140, 66, 26),
        _BOTTLE,
        (200, 40, 36),
    ),
    Thing(
        "balloons",
        "pack of balloons",
        "PARTY",
        "shopping",
        "birthday party",
        Shape.BOX,
        (0.13, 0.17, 0.04),
        (216, 92, 152),
        (150, 44, 108),
    ),
    Thing(
        "orange_juice",
        "orange juice",
        "ORANGE",
        "morning_routine",
        "juice",
        Shape.ROUND,
        (0.085, 0.22, 0.085),
        (232, 130, 30),
        (168, 76, 14),
        _BOTTLE,
        (60, 140, 60),
    ),
    Thing(
        "apple_juice",
        "apple juice",
        "APPLE",
        "morning_routine",
        "juice",
        Shape.ROUND,
        (0.085, 0.22, 0.085),
        (186, 178, 66),
        (92, 122, 40),
        _BOTTLE,
        (188, 46, 46),
    ),
    Thing(
        "protein_powder",
        "protein powder",
        "PROTEIN",
        "morning_routine",
        "supplement",
        Shape.ROUND,
        (0.13, 0.17, 0.13),
        (92, 66, 142),
        (54, 38, 96),
        _TUB,
        (36, 34, 44),
    ),
    Thing(
        "chia_seeds",
        "chia seeds",
        "CHIA",
        "morning_routine",
        "supplement",
        Shape.ROUND,
        (0.09, 0.13, 0.09),
        (88, 84, 82),
        (46, 92, 78),
        _JAR,
        (196, 170, 96),
    ),
    Thing(
        "pill_bottle",
        "pill bottle",
        "PILLS",
        "morning_routine",
        "supplement",
        Shape.ROUND,
        (0.07, 0.11, 0.07),
        (196, 110, 34),
        (44, 88, 138),
        _JAR,
        (236, 236, 232),
    ),
)
BY_ID: Final = {thing.id: thing for thing in THINGS}


@dataclass(frozen=True, slots=True)
class Place:
    """A spot where one thing can stand: ``floor`` is the point of support under its front."""

    id: str
    words: str
    surface: str
    floor: tuple[float, float, float]

    def mark_of(self, thing: Thing) -> F8:
        """Where the mark of ``thing`` is when it stands here."""
        x, y, z = self.floor
        height = thing.size[1]
        if thing.shape is Shape.BOX:
            return vector(x, y + height / 2, z)
        if thing.shape is Shape.BALL:
            return vector(x, y + height / 2, z - thing.size[2] / 2)
        return vector(x, y + 0.36 * height, z - thing.size[2] / 2)


def _places() -> dict[str, Place]:
    rows = ("bottom shelf", "middle shelf", "top shelf")
    columns = (("on the left", -0.53), ("in the middle", 0.0), ("on the right", 0.53))
    places = {}
    for row, (level, y) in enumerate(zip(rows, SHELF_Y, strict=True)):
        for column, (side, x) in enumerate(columns):
            for half, dx in (("a", -0.115), ("b", 0.115)):
                name = f"shelf_{row}{column}{half}"
                places[name] = Place(
                    name, f"{level}, {side}", level, (x + dx, y, SHELF_Z[1] - 0.05)
                )
    spots = ((-0.52, -0.72), (-0.30, -0.82), (-0.10, -0.68), (0.12, -0.82), (0.33, -0.70))
    for i, (x, z) in enumerate((*spots, (0.54, -0.80))):
        places[f"table_{i}"] = Place(f"table_{i}", "the table", "table", (x, TABLE_Y, z))
    return places


PLACES: Final = _places()

START: Final[dict[str, dict[str, str]]] = {
    "demonstration": {
        "blue_box": "table_0",
        "red_book": "table_1",
        "yellow_ball": "table_2",
        "orange_juice": "table_3",
        "chia_seeds": "table_4",
        "pill_bottle": "table_5",
        "green_book": "shelf_11a",
        "apple_juice": "shelf_12b",
        "protein_powder": "shelf_02b",
        "nails": "shelf_00a",
        "wood_glue": "shelf_00b",
        "balloons": "shelf_22b",
    },
    "replication": {
        "orange_juice": "table_0",
        "pill_bottle": "table_1",
        "blue_box": "table_2",
        "chia_seeds": "table_3",
        "red_book": "table_5",
        "green_book": "shelf_11a",
        "apple_juice": "shelf_12b",
        "protein_powder": "shelf_02b",
        "nails": "shelf_00a",
        "wood_glue": "shelf_00b",
        "balloons": "shelf_22b",
        "yellow_ball": "shelf_21a",
    },
}
