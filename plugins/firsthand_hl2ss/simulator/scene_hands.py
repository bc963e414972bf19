"""Two hands of 26 joints each: at rest, reaching, holding and letting go."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from firsthand_hl2ss.simulator.scene_geometry import (
    bend,
    ease,
    facing,
    quaternion,
    unit,
    vector,
)
from firsthand_hl2ss.simulator.scene_script import Move
from firsthand_hl2ss.simulator.scene_world import BY_ID
from firsthand_hl2ss.simulator.source import F8, JOINTS

# A right hand, palm down, fingers ahead (-z), in metres from the palm's middle: for each finger
# the metacarpal joint, the knuckle, and the lengths of the bones beyond it.
_WRIST: Final = (0.0, 0.0, 0.072)
_THUMB: Final = ((-0.030, -0.012, 0.046), (-0.056, -0.018, 0.006), (0.034, 0.028))
_FINGERS: Final = (
    ((-0.022, 0.0, 0.048), (-0.029, 0.002, -0.034), (0.043, 0.026, 0.020)),
    ((-0.008, 0.0, 0.050), (-0.009, 0.004, -0.040), (0.047, 0.029, 0.021)),
    ((0.006, 0.0, 0.050), (0.012, 0.002, -0.036), (0.043, 0.028, 0.021)),
    ((0.018, -0.002, 0.048), (0.031, -0.003, -0.026), (0.034, 0.021, 0.019)),
)
JOINT_RADII: Final = np.array(
    [0.022, 0.020, 0.016, 0.013, 0.011, 0.010] + [0.015, 0.012, 0.010, 0.009, 0.008] * 4
)
_SHOULDER: Final = {"left": vector(-0.19, -0.26, 0.06), "right": vector(0.19, -0.26, 0.06)}
_REST: Final = {"left": vector(-0.20, -0.52, -0.30), "right": vector(0.20, -0.52, -0.30)}
_CARRY_ARC: Final = vector(0.0, 0.16, 0.16)


class Skeleton(NamedTuple):
    """Joint positions and orientations of a right hand in the palm's frame."""

    positions: F8
    axes: F8


@lru_cache(maxsize=512)
def skeleton(grip: float) -> Skeleton:
    """The hand from stretched (``grip`` 0) to closed around something (1)."""
    positions = np.zeros((JOINTS, 3))
    axes = np.tile(np.eye(3), (JOINTS, 1, 1))
    positions[1] = _WRIST
    positions[2], positions[3], bones_of_thumb = _THUMB
    point = positions[3].copy()
    for i, bone in enumerate(bones_of_thumb):
        yaw = 0.35 - 0.75 * grip
        down = 0.1 + 0.35 * grip * (i + 1)
        ahead = vector(
            -math.sin(yaw) * math.cos(down), -math.sin(down), -math.cos(yaw) * math.cos(down)
        )
        point = point + bone * ahead
        positions[4 + i] = point
        axes[4 + i] = facing(-ahead, vector(0, 1, 0))
    for finger, (meta, knuckle, bones) in enumerate(_FINGERS):
        first = 6 + 5 * finger
        positions[first], positions[first + 1] = meta, knuckle
        point, down = vector(*knuckle), 0.08
        for i, bone in enumerate(bones):
            down += grip * (0.45, 0.55, 0.35)[i] + 0.05
            point = point + bone * vector(0.0, -math.sin(down), -math.cos(down))
            positions[first + 2 + i] = point
            axes[first + 2 + i] = facing(
                vector(0.0, math.sin(down), math.cos(down)),
                vector(0, math.cos(down), -math.sin(down)),
            )
    return Skeleton(positions, axes)


@dataclass(frozen=True, slots=True)
class Hand:
    """One hand at one moment, in the world."""

    side: str
    positions: F8
    orientations: F8
    radii: F8
    elbow: F8
    holding: str = ""


def carried(start: F8, stop: F8, s: float) -> F8:
    """Where a thing's mark is on its way: up, towards the wearer, and in from the front."""
    control = 0.35 * start + 0.65 * stop + _CARRY_ARC
    return bend(start, control, stop, ease(s))


def _grip_offset(move: Move) -> F8:
    """From a thing's mark to the palm that holds it at its side."""
    width, _, depth = BY_ID[move.thing].size
    side = 1.0 if move.hand == "right" else -1.0
    inside = 0.0 if BY_ID[move.thing].profile else -depth / 2
    return vector(side * (width / 2 + 0.020), -0.012, inside + 0.055)


class Hands:
    """Where both hands are at any time."""

    def __init__(self, moves: list[Move], marks: list[tuple[F8, F8]]) -> None:
        """``marks`` are the positions of each move's thing before and after it."""
        self._moves = {
            side: [
                (move, *mark) for move, mark in zip(moves, marks, strict=True) if move.hand == side
            ]
            for side in ("left", "right")
        }
        self._starts = {side: [m.reach_s for m, _, _ in of] for side, of in self._moves.items()}

    def at(self, side: str, t_s: float, body: F8) -> Hand:
        """The hand at ``t_s``; ``body`` is where the wearer's eyes are without their turning."""
        sign = 1.0 if side == "right" else -1.0
        sway = vector(
            0.012 * math.sin(1.7 * t_s + sign),
            0.010 * math.sin(1.1 * t_s + 2 * sign),
            0.012 * math.sin(0.8 * t_s),
        )
        rest = _REST[side] + body + sway
        palm, grip, engaged, holding = rest, 0.25, 0.0, ""
        i = bisect_right(self._starts[side], t_s) - 1
        if i >= 0:
            move, start, stop = self._moves[side][i]
            offset = _grip_offset(move)
            if t_s < move.grasp_s:
                s = ease((t_s - move.reach_s) / (move.grasp_s - move.reach_s))
                goal = start + offset
                palm = bend(rest, (rest + goal) / 2 + vector(sign * 0.08, 0.08, 0.05), goal, s)
                grip, engaged = 0.25 - 0.2 * math.sin(math.pi * s) + 0.25 * s, s
            elif t_s < move.release_s:
                s = (t_s - move.grasp_s) / (move.release_s - move.grasp_s)
                palm, grip, engaged = carried(start, stop, s) + offset, 0.5, 1.0
                holding = move.thing
            elif t_s < move.rest_s:
                s = ease((t_s - move.release_s) / (move.rest_s - move.release_s))
                begin = stop + offset
                palm = bend(begin, begin + vector(sign * 0.06, 0.02, 0.22), rest, s)
                grip, engaged = 0.5 - 0.25 * s, 1.0 - s
        return self._shape(side, palm, grip, engaged, body, holding)

    def _shape(
        self, side: str, palm: F8, grip: float, engaged: float, body: F8, holding: str
    ) -> Hand:
        sign = 1.0 if side == "right" else -1.0
        shoulder = _SHOULDER[side] + body
        arm = unit(shoulder - palm)
        back = unit(arm * 0.6 + vector(sign * 0.10, -0.10, 0.55))
        normal = vector(sign * (0.25 + 0.60 * engaged), 1.0 - 0.55 * engaged, 0.15)
        axes = facing(back, normal)
        bones = skeleton(round(grip * 256) / 256)
        mirror = vector(sign, 1.0, 1.0)
        positions = palm + (bones.positions * mirror) @ axes
        turned = bones.axes * mirror[None, None, :] * mirror[None, :, None]
        orientations = quaternion(turned @ axes)
        elbow = positions[1] + 0.27 * unit(
            0.75 * axes[2] + 0.5 * unit(shoulder + vector(sign * 0.06, -0.22, 0.0) - positions[1])
        )
        return Hand(side, positions, orientations, JOINT_RADII, elbow, holding)
