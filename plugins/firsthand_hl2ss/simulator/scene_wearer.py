"""The wearer of the headset: how the head moves, where the eyes point, where things are by now.

Frames: the head's origin is between the eyes; camera, eye tracker and rig sit at fixed places on
it. Everything is looked up in tracks that are laid out once.
"""

import math
from bisect import bisect_right
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.scene_geometry import (
    Camera,
    ease,
    pose,
    turn,
    unit,
    vector,
)
from firsthand_hl2ss.simulator.scene_hands import Hands, carried
from firsthand_hl2ss.simulator.scene_script import SACCADE_S, Fixation, Script
from firsthand_hl2ss.simulator.scene_world import BY_ID, PLACES
from firsthand_hl2ss.simulator.source import F8

TRACK_HZ: Final = 60
_KERNEL_S: Final = 0.75
CAMERA_ON_HEAD: Final = pose(turn(0.0, -0.10), vector(0.0, 0.045, -0.075))
TRACKER_ON_HEAD: Final = pose(np.eye(3), vector(0.0, -0.012, -0.030))
EYE_DISTANCE_M: Final = 0.063
_EYES_IN_TRACKER: Final = vector(0.0, 0.012, 0.030)

# The camera in the frame of the rig (the left-front grey camera): translation and quaternion
# x, y, z, w of the real sample in the protocol's notes.
RIG_TRANSLATION: Final = (0.00363, -0.04999, 0.01336)
RIG_QUATERNION: Final = (0.71564, -0.69836, 0.00190, -0.01244)


def _rig_to_camera() -> F8:
    """T(-t) · R(q*), for row vectors."""
    x, y, z, w = np.array(RIG_QUATERNION) / np.linalg.norm(RIG_QUATERNION)
    columns = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )  # turns column vectors by q; as it stands it turns row vectors by q*
    shift = np.eye(4)
    shift[3, :3] = -np.array(RIG_TRANSLATION)
    return shift @ pose(columns, (0.0, 0.0, 0.0))


RIG_TO_CAMERA: Final = _rig_to_camera()


def _smooth(track: F8, over_s: float) -> F8:
    """A track (n, k) run through a bell of ``over_s`` seconds, its ends held."""
    half = int(over_s * TRACK_HZ / 2)
    bell = np.hanning(2 * half + 3)[1:-1]
    bell /= bell.sum()
    padded = np.pad(track, ((half, half), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, bell, mode="valid") for column in padded.T], axis=1)


class Wearer:
    """A person who lives through a script. Times outside the script hold its ends, with life."""

    def __init__(self, script: Script, seed: int) -> None:
        self.script = script
        rng = np.random.default_rng([seed, 5])
        self._phase = rng.uniform(0, 2 * math.pi, 12)
        self._tall = float(rng.uniform(-0.03, 0.03))
        self._history: dict[str, list[tuple[float, float, F8, F8]]] = {}
        marks = []
        for move in script.moves:
            thing = BY_ID[move.thing]
            pair = PLACES[move.start].mark_of(thing), PLACES[move.stop].mark_of(thing)
            marks.append(pair)
            self._history.setdefault(move.thing, []).append((move.grasp_s, move.release_s, *pair))
        self._started = {k: [row[0] for row in rows] for k, rows in self._history.items()}
        self._begin = {
            thing: PLACES[place].mark_of(BY_ID[thing]) for thing, place in script.start.items()
        }
        self._hands = Hands(script.moves, marks)
        self._fixation_starts = [f.start_s for f in script.fixations]
        self._blink_starts = [b[0] for b in script.blinks]
        self._body, self._angles = self._lay_out()
        self.hands = self._hands.at

    # Things

    def mark(self, thing: str, t_s: float) -> F8:
        """Where the mark of a thing is."""
        rows = self._history.get(thing)
        i = bisect_right(self._started[thing], t_s) - 1 if rows else -1
        if rows is None or i < 0:
            return self._begin[thing]
        grasp, release, start, stop = rows[i]
        return carried(start, stop, (t_s - grasp) / (release - grasp)) if t_s < release else stop

    def aim(self, fixation: Fixation, t_s: float) -> F8:
        """The point that a fixation looks at."""
        if fixation.target in BY_ID:
            return self.mark(fixation.target, t_s)
        return vector(*PLACES[fixation.target].floor) + vector(0.0, 0.09, 0.0)

    # Head

    def _lay_out(self) -> tuple[F8, F8]:
        """Tracks of the body's position (n, 3) and the head's yaw, pitch (n, 2)."""
        count = int(self.script.duration_s * TRACK_HZ) + 2
        times = np.arange(count) / TRACK_HZ
        lean = np.tile(vector(0.0, self._tall, -0.02), (count, 1))
        for move in self.script.moves:
            for at_s, until_s, place in (
                (move.reach_s + 0.2, move.grasp_s + 0.3, move.start),
                (move.grasp_s + 0.3, move.release_s + 0.3, move.stop),
            ):
                x, y, _ = PLACES[place].floor
                far = PLACES[place].surface != "table"
                down = min(0.0, y + 0.25) * 0.35 if far else -0.03
                want = vector(0.42 * x, self._tall + down, -0.30 if far else -0.12)
                lean[int(at_s * TRACK_HZ) : int(until_s * TRACK_HZ)] = want
        body = _smooth(lean, 1.3)
        angles = np.zeros((count, 2))
        for fixation in self.script.fixations:
            a, b = int(fixation.start_s * TRACK_HZ), int(fixation.stop_s * TRACK_HZ) + 4
            middle = (fixation.start_s + fixation.stop_s) / 2
            point = self.aim(fixation, middle)
            for move in self.script.moves:  # what is carried stays in view
                if move.grasp_s <= middle < move.release_s:
                    point = 0.6 * point + 0.4 * self.mark(move.thing, middle)
            ahead = point - body[a:b]
            angles[a:b, 0] = np.arctan2(-ahead[:, 0], -ahead[:, 2]) * 0.8
            angles[a:b, 1] = np.arctan2(ahead[:, 1], -ahead[:, 2]) * 0.72 + 0.03
        angles = _smooth(angles, _KERNEL_S)
        p = self._phase
        body[:, 0] += 0.006 * np.sin(0.9 * times + p[0]) - 0.006 * math.sin(p[0])
        body[:, 1] += 0.004 * np.sin(1.6 * times + p[1])
        body[:, 2] += 0.005 * np.sin(0.7 * times + p[2])
        angles[:, 0] += 0.010 * np.sin(0.8 * times + p[3]) + 0.003 * np.sin(3.1 * times + p[4])
        angles[:, 1] += 0.008 * np.sin(1.1 * times + p[5]) + 0.003 * np.sin(2.7 * times + p[6])
        return body, angles

    def _at(self, track: F8, t_s: float) -> F8:
        """Catmull-Rom between the track's samples: smooth in its speed as well."""
        last = len(track) - 1
        x = min(max(t_s * TRACK_HZ, 0.0), float(last))
        i = min(int(x), last - 1)
        s = x - i
        before, after = track[max(i - 1, 0)], track[min(i + 2, last)]
        a, b = track[i], track[i + 1]
        value: F8 = (
            a
            + 0.5 * s * (b - before)
            + s * s * (before - 2.5 * a + 2 * b - 0.5 * after)
            + s * s * s * (1.5 * (a - b) + 0.5 * (after - before))
        )
        return value

    def body(self, t_s: float) -> F8:
        """Between the eyes, in the world."""
        return self._at(self._body, t_s)

    def head(self, t_s: float) -> F8:
        """(4, 4) head to world."""
        yaw, pitch = self._at(self._angles, t_s)
        late = max(0.0, t_s - self.script.duration_s)
        fade = min(1.0, late)  # after the story the head goes on swaying a little
        yaw += fade * 0.012 * math.sin(0.8 * late)
        pitch += fade * 0.010 * math.sin(1.1 * late)
        roll = 0.012 * math.sin(0.6 * t_s + self._phase[7])
        return pose(turn(yaw, pitch, roll), self.body(t_s))

    def camera_pose(self, t_s: float) -> F8:
        return CAMERA_ON_HEAD @ self.head(t_s)

    def rig_pose(self, t_s: float) -> F8:
        return RIG_TO_CAMERA @ self.camera_pose(t_s)

    # Eyes

    def blinking(self, t_s: float) -> bool:
        i = bisect_right(self._blink_starts, t_s) - 1
        return i >= 0 and t_s < self.script.blinks[i][1]

    def fixation(self, t_s: float) -> Fixation | None:
        """What is fixated at this moment; None during a saccade."""
        i = bisect_right(self._fixation_starts, t_s) - 1
        if i < 0:
            return None
        fixation = self.script.fixations[i]
        last = i == len(self.script.fixations) - 1
        return fixation if t_s < fixation.stop_s or last else None

    def gaze_point(self, t_s: float) -> F8:
        """The point in the room that the eyes are on, without the tracker's noise."""
        i = max(0, bisect_right(self._fixation_starts, t_s) - 1)
        fixations = self.script.fixations
        now = self.aim(fixations[i], t_s)
        if t_s < fixations[i].stop_s or i + 1 == len(fixations):
            return now
        to = fixations[i + 1]
        s = ease((t_s - fixations[i].stop_s) / max(SACCADE_S, to.start_s - fixations[i].stop_s))
        return now + s * (self.aim(to, t_s) - now)

    def eyes(self, t_s: float) -> tuple[F8, F8, F8]:
        """Tracker to world (4, 4), and in the tracker's frame origins and unit directions (3, 3)
        of combined, left and right gaze."""
        tracker = TRACKER_ON_HEAD @ self.head(t_s)
        point = (self.gaze_point(t_s) - tracker[3, :3]) @ tracker[:3, :3].T
        half = vector(EYE_DISTANCE_M / 2, 0.0, 0.0)
        origins = np.stack([_EYES_IN_TRACKER, _EYES_IN_TRACKER - half, _EYES_IN_TRACKER + half])
        p = self._phase
        jitter = 0.0009 * vector(
            math.sin(23.0 * t_s + p[8]) + math.sin(57.0 * t_s + p[9]),
            math.sin(29.0 * t_s + p[10]) + math.sin(63.0 * t_s + p[11]),
            0.0,
        )
        directions = unit(unit(point - origins) + jitter)
        return tracker, origins, directions


def front_camera(
    camera_pose: F8, t_s: float, width: int, height: int, breathing: float = 1.0
) -> Camera:
    """The front camera with its intrinsics of the moment: autofocus lets them breathe."""
    breath = 1.0 + breathing * (0.004 * math.sin(0.37 * t_s) + 0.0015 * math.sin(1.9 * t_s))
    sx, sy = width / 1920, height / 1080
    return Camera(
        camera_pose,
        1453.77 * sx * breath,
        1455.95 * sy * breath,
        (945.22 + 1.5 * math.sin(0.29 * t_s)) * sx,
        (510.87 + 1.0 * math.sin(0.23 * t_s)) * sy,
        width,
        height,
    )
