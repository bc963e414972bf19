"""The built-in scene: a wearer at a shelf and a table, with everything known about it."""

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from firsthand_hl2ss.simulator.render import Renderer
from firsthand_hl2ss.simulator.scene_grey import as_the_sensor_sees, upright_camera
from firsthand_hl2ss.simulator.scene_hands import Hand
from firsthand_hl2ss.simulator.scene_motion import MotionSense
from firsthand_hl2ss.simulator.scene_script import Scene, write_script
from firsthand_hl2ss.simulator.scene_sensors import DepthEyes
from firsthand_hl2ss.simulator.scene_wearer import Wearer, front_camera
from firsthand_hl2ss.simulator.scene_world import BY_ID, PLACES, THINGS
from firsthand_hl2ss.simulator.slowly import slowly_varying
from firsthand_hl2ss.simulator.source import (
    F4,
    F8,
    SOUND_HZ,
    U1,
    DepthSample,
    EyeSample,
    GreyCamera,
    HandSample,
    Motion,
    MotionSamples,
    PvMetadata,
    Ray,
    SpatialSample,
    Truth,
)
from firsthand_hl2ss.simulator.speech import murmur, speak_all
from firsthand_hl2ss.simulator.speech_track import SoundTrack

VOICES: Final = {Scene.DEMONSTRATION: "slt", Scene.REPLICATION: "rms"}
_GREY_HZ: Final = 10
"""Grey pictures are drawn anew so often, to leave the computer free for what is recorded."""
_SI_EYE_HZ: Final = 30
"""The eye ray in spatial input comes from a slower reading, so two in a row can be equal."""


def ray(origin: F8, direction: F8, *, valid: bool) -> Ray:
    if not valid:
        return Ray(np.zeros(3, np.float32), np.zeros(3, np.float32), valid=False)
    return Ray(origin.astype(np.float32), direction.astype(np.float32), valid=True)


class SceneSource:
    """A story told by the sensors of a headset; see ``source.SensorSource``.

    With ``loop`` it begins again after its end, else the wearer stays and looks on. ``voice`` is
    False for a murmur in place of synthesised speech, which is there at once.
    """

    def __init__(
        self,
        scene: Scene | str = Scene.DEMONSTRATION,
        *,
        seed: int = 0,
        duration_s: float | None = None,
        loop: bool = False,
        voice: bool = True,
    ) -> None:
        self._scene = Scene(scene)
        self._seed = seed
        self._loop = loop
        self.script = write_script(self._scene, seed, duration_s)
        self.wearer = Wearer(self.script, seed)
        self._renderer = Renderer(self.wearer)
        self._grey = lru_cache(maxsize=8)(self._draw_grey)
        self._depth = DepthEyes(self.wearer, seed)
        self._motion = MotionSense(self.wearer.rig_pose)
        texts = [line.text for line in self.script.lines]
        name = VOICES[self._scene]
        spoken = speak_all(texts, name) if voice else [murmur(text, name) for text in texts]
        thuds = [move.release_s for move in self.script.moves]
        self._track = SoundTrack(self.script.lines, spoken, thuds, seed)

    @property
    def duration_s(self) -> float:
        return self.script.duration_s

    def words(self) -> str:
        told = {
            Scene.DEMONSTRATION: "a wearer who tidies a shelf and thinks aloud",
            Scene.REPLICATION: "a wearer who asks an assistant where things go on a shelf",
        }[self._scene]
        return f"The built-in scene shows {told}, for {self.duration_s:.0f} s."

    def told_s(self, t_s: float) -> float:
        """The moment of the story that is shown at ``t_s``."""
        return t_s % self.duration_s if self._loop else max(0.0, t_s)

    # The front camera

    def frame(self, t_s: float, index: int, width: int, height: int) -> U1:
        told = self.told_s(t_s)
        camera = front_camera(self.wearer.camera_pose(told), told, width, height)
        return self._renderer.picture(camera, told, index)

    def pv_metadata(self, t_s: float, width: int, height: int) -> PvMetadata:
        told = self.told_s(t_s)
        camera = front_camera(np.eye(4), told, width, height)
        return PvMetadata(
            focal_length=(camera.fx, camera.fy),
            principal_point=(camera.cx, camera.cy),
            **slowly_varying(told),
        )

    def pv_pose(self, t_s: float) -> F4:
        return self.wearer.camera_pose(self.told_s(t_s)).astype(np.float32)

    def rig_pose(self, t_s: float) -> F4:
        return self.wearer.rig_pose(self.told_s(t_s)).astype(np.float32)

    # Eyes and hands

    def eye(self, t_s: float) -> EyeSample:
        told = self.told_s(t_s)
        tracker, origins, directions = self.wearer.eyes(told)
        closed = self.wearer.blinking(told)
        combined, left, right = (
            ray(o, d, valid=not closed) for o, d in zip(origins, directions, strict=True)
        )
        return EyeSample(combined, left, right, tracker.astype(np.float32))

    def spatial(self, t_s: float) -> SpatialSample:
        told = self.told_s(t_s)
        head = self.wearer.head(told)
        read_s = math.floor(told * _SI_EYE_HZ) / _SI_EYE_HZ
        tracker, origins, directions = self.wearer.eyes(read_s)
        eye = Ray(
            (origins[0] @ tracker[:3, :3] + tracker[3, :3]).astype(np.float32),
            (directions[0] @ tracker[:3, :3]).astype(np.float32),
            valid=not self.wearer.blinking(read_s),
        )
        body = self.wearer.body(told)
        left, right = (
            _hand_sample(self.wearer.hands(side, told, body), head) for side in ("left", "right")
        )
        return SpatialSample(
            head_position=head[3, :3].astype(np.float32),
            head_forward=(-head[2, :3]).astype(np.float32),
            head_up=head[1, :3].astype(np.float32),
            head_valid=True,
            eye=eye,
            left=left,
            right=right,
        )

    # Everything else

    def sound(self, start_sample: int, count: int) -> F4:
        length = round(self.duration_s * SOUND_HZ)
        if not self._loop or start_sample + count <= length:
            return self._track.mix(start_sample, count)
        parts, at, left = [], start_sample % length, count
        while left > 0:
            take = min(left, length - at)
            parts.append(self._track.mix(at, take))
            at, left = 0, left - take
        return np.concatenate(parts)

    def grey(self, camera: GreyCamera, t_s: float) -> U1:
        return self._grey(camera, math.floor(self.told_s(t_s) * _GREY_HZ))

    def _draw_grey(self, camera: GreyCamera, tick: int) -> U1:
        told = tick / _GREY_HZ
        seen = self._renderer.grey(upright_camera(self.wearer.rig_pose(told), camera), told)
        return as_the_sensor_sees(seen, camera)

    def depth_long_throw(self, t_s: float) -> DepthSample:
        return self._depth.long_throw(self.told_s(t_s))

    def depth_ahat(self, t_s: float) -> DepthSample:
        return self._depth.ahat(self.told_s(t_s))

    def motion(self, kind: Motion, start_s: float, stop_s: float) -> MotionSamples:
        begun_s = start_s - self.told_s(start_s) if self._loop else 0.0
        return self._motion.samples(kind, start_s, stop_s, begun_s)

    def close(self) -> None:
        """Nothing is held."""

    # Truth

    def truth(self) -> Truth:
        script = self.script
        by = sorted({sound.by for _, sound, _ in self._track.said})
        return Truth(
            source={
                "kind": "scene",
                "scene": self._scene.value,
                "seed": self._seed,
                "duration_s": script.duration_s,
                "loops": self._loop,
                "speech_by": by,
                "about": self.words(),
            },
            objects=[self._object(thing.id) for thing in THINGS],
            segments=[
                {
                    "start_s": s.start_s,
                    "stop_s": s.stop_s,
                    "kind": s.kind,
                    "words": s.words,
                    "object": s.thing,
                    "place": s.place,
                }
                for s in script.segments
            ],
            utterances=[
                {
                    "text": line.text,
                    "start_s": round(start_s, 4),
                    "stop_s": round(start_s + sound.length_s, 4),
                    "speaker": "wearer",
                    "words": sound.words,
                }
                for line, sound, start_s in self._track.said
            ],
            fixations=[
                {
                    "start_s": f.start_s,
                    "stop_s": f.stop_s,
                    "on": "object" if f.target in BY_ID else "place",
                    "target": f.target,
                    "position_m": _rounded(self.wearer.aim(f, f.start_s)),
                }
                for f in script.fixations
            ],
            blinks=[{"start_s": a, "stop_s": b} for a, b in script.blinks],
            sounds=[
                {"kind": "put_down", "at_s": move.release_s, "object": move.thing}
                for move in script.moves
            ],
        )

    def _object(self, name: str) -> dict[str, Any]:
        thing = BY_ID[name]
        first = self.script.start[name]
        stays = [
            {"from_s": 0.0, "place": first, "position_m": _rounded(PLACES[first].mark_of(thing))}
        ]
        for move in self.script.moves:
            if move.thing == name:
                stays[-1]["until_s"] = round(move.grasp_s, 4)
                stays.append(
                    {
                        "from_s": round(move.release_s, 4),
                        "place": move.stop,
                        "position_m": _rounded(PLACES[move.stop].mark_of(thing)),
                        "carried_by": move.hand,
                    }
                )
        return {
            "id": thing.id,
            "name": thing.name,
            "family": thing.family,
            "kind": thing.kind,
            "shape": thing.shape.value,
            "size_m": list(thing.size),
            "colour_rgb": list(thing.colour),
            "stays": stays,
        }


def _hand_sample(hand: Hand, head: F8) -> HandSample:
    """A hand as the headset tracks it: valid while it is before the wearer's face."""
    x, y, z = (hand.positions[0] - head[3, :3]) @ head[:3, :3].T
    ahead = -z
    seen = bool(ahead > 0.1 and abs(x) < ahead * 1.1 and -ahead * 1.15 < y < ahead * 0.8)
    accuracy = (
        np.where(np.arange(len(hand.radii)) % 5 == 0, 1, 0) if hand.holding else 0 * hand.radii
    )
    return HandSample(
        hand.orientations.astype(np.float32),
        hand.positions.astype(np.float32),
        hand.radii.astype(np.float32),
        accuracy.astype(np.int32),
        valid=seen,
    )


def _rounded(point: F8) -> list[float]:
    return [round(float(x), 5) for x in point]
