"""A headset that plays a folder of recorded video, gaze, hands and sound.

The picture has no known pose, so the head sways a little about one spot; gaze is made into rays
from the camera's own position, so that projecting one into the picture of its time gives the pixel
that was recorded, at any depth.
"""

import math
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np

from firsthand.api import SettingsError
from firsthand_hl2ss.simulator import folder_sound, folder_video
from firsthand_hl2ss.simulator.counter import draw_counter
from firsthand_hl2ss.simulator.folder_sound import FolderSound
from firsthand_hl2ss.simulator.folder_tracks import (
    ARIA,
    PLAIN,
    Gaze,
    HandTrack,
    find_gaze,
    find_hands,
    read_gaze,
    read_hands,
)
from firsthand_hl2ss.simulator.folder_video import FolderVideo, Letterbox
from firsthand_hl2ss.simulator.scene_geometry import facing, pose, quaternion, turn, unit, vector
from firsthand_hl2ss.simulator.scene_hands import JOINT_RADII, skeleton
from firsthand_hl2ss.simulator.scene_motion import MotionSense
from firsthand_hl2ss.simulator.scene_sensors import AHAT_SIZE, LONG_THROW_SIZE
from firsthand_hl2ss.simulator.scene_wearer import EYE_DISTANCE_M, RIG_TO_CAMERA
from firsthand_hl2ss.simulator.slowly import slowly_varying
from firsthand_hl2ss.simulator.source import (
    F4,
    F8,
    JOINTS,
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
from firsthand_hl2ss.wire import VLC_SIZE

_FOCAL: Final = 0.757
"""Focal length as a share of the picture's width: the headset's own."""
_CONVERGE_M: Final = 1.0
_WALL_MM: Final = 1600
_NO_HAND: Final = HandSample(
    np.zeros((JOINTS, 4), np.float32),
    np.zeros((JOINTS, 3), np.float32),
    np.zeros(JOINTS, np.float32),
    np.zeros(JOINTS, np.int32),
    valid=False,
)
_NONE: Final = Ray(np.zeros(3, np.float32), np.zeros(3, np.float32), valid=False)


class FolderSource:
    """Recorded files told by the sensors of a headset; see ``source.SensorSource``.

    ``path`` is a video, or a folder with one. What else lies in the folder (gaze, hands, a sound
    file) is used as well; ``gaze``, ``hands`` and ``sound`` name files elsewhere. All begin
    together; gaze and hands go with the picture, a sound file of its own begins anew by itself.
    Raises ``SettingsError`` for what cannot be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        loop: bool = True,
        gaze: Path | None = None,
        hands: Path | None = None,
        sound: Path | None = None,
    ) -> None:
        if not path.exists():
            raise SettingsError(
                f"There is nothing at {path}.",
                try_this="Give a video file, or a folder that holds one.",
            )
        folder = path if path.is_dir() else path.parent
        own = path.is_dir()
        self._loop = loop
        film = path if not own else _first(folder, folder_video.SUFFIXES)
        if film is None:
            raise SettingsError(
                f"There is no video in {folder}.",
                try_this="Put one there (MP4, MKV, MOV, AVI or WebM), or give its name.",
            )
        gaze = gaze or (find_gaze(folder) if own else None)
        hands = hands or (find_hands(folder) if own else None)
        sound = sound or (_first(folder, folder_sound.SUFFIXES) if own else None)
        self._video = FolderVideo(film)
        try:
            self._gaze: Gaze | None = read_gaze(gaze, self._video.size) if gaze else None
            self._hands: dict[str, HandTrack] = read_hands(hands) if hands else {}
            self._sound = FolderSound(sound or film, 0.0 if sound else self._video.start_s)
        except SettingsError:
            self._video.close()
            raise
        self._own_sound = sound is not None
        self._gaze_start, self._hands_start = _starts(self._gaze, self._hands)
        self._motion = MotionSense(self._rig)
        self._files = {"video": film, "gaze": gaze, "hands": hands, "sound": sound}

    @property
    def duration_s(self) -> float:
        return self._video.duration_s

    def words(self) -> str:
        extra = [name for name in ("gaze", "hands", "sound") if self._files[name] is not None]
        more = f" with {' and '.join(extra)}" if extra else ""
        width, height = self._video.size
        return (
            f"The file {self._video.path.name} is shown{more}: {width}×{height}, "
            f"{self._video.rate_hz:.0f} pictures a second, {self.duration_s:.1f} s."
        )

    def told_s(self, t_s: float) -> float:
        """The moment of the video that is shown at ``t_s``."""
        return t_s % self.duration_s if self._loop else max(0.0, t_s)

    # The front camera

    def frame(self, t_s: float, index: int, width: int, height: int) -> U1:
        nv12 = self._video.picture(self.told_s(t_s), width, height)
        draw_counter(nv12[:height], nv12[height:].reshape(height // 2, width // 2, 2), index)
        return nv12

    def _lens(self, width: int, height: int) -> tuple[float, float, float, float]:
        """fx, fy, cx, cy of the video's camera in a picture of a size."""
        inner = self._video.size
        box = Letterbox(inner, (width, height))
        focal = _FOCAL * inner[0]
        cx, cy = box.pixel((inner[0] - 1) / 2, (inner[1] - 1) / 2)
        return focal * box.scale[0], focal * box.scale[1], cx, cy

    def pv_metadata(self, t_s: float, width: int, height: int) -> PvMetadata:
        fx, fy, cx, cy = self._lens(width, height)
        return PvMetadata(
            focal_length=(fx, fy), principal_point=(cx, cy), **slowly_varying(self.told_s(t_s))
        )

    def _camera(self, t_s: float) -> F8:
        told = self.told_s(t_s)
        still = vector(0.004 * math.sin(0.9 * told), 0.003 * math.sin(1.6 * told), 0.0)
        return pose(turn(0.006 * math.sin(0.8 * told), 0.005 * math.sin(1.1 * told)), still)

    def pv_pose(self, t_s: float) -> F4:
        return self._camera(t_s).astype(np.float32)

    def _rig(self, t_s: float) -> F8:
        rig: F8 = RIG_TO_CAMERA @ self._camera(t_s)
        return rig

    def rig_pose(self, t_s: float) -> F4:
        return self._rig(t_s).astype(np.float32)

    # Eyes and hands

    def _direction(self, t_s: float) -> tuple[F8 | None, bool]:
        """Where the eyes look, in the camera's frame, and whether the device is worn."""
        gaze = self._gaze
        if gaze is None:
            return vector(0.0, 0.0, -1.0), True
        i = gaze.at(self.told_s(t_s) + self._gaze_start)
        if i is None:
            return None, True
        value, worn = gaze.values[i], bool(gaze.worn[i])
        if not np.isfinite(value).all():
            return None, worn
        if gaze.size is None:
            return value, worn
        width, height = self._video.size
        x = (value[0] + 0.5) * width / gaze.size[0] - 0.5
        y = (value[1] + 0.5) * height / gaze.size[1] - 0.5
        focal = _FOCAL * width
        flat = vector((x - (width - 1) / 2) / focal, -(y - (height - 1) / 2) / focal, -1.0)
        return unit(flat), worn

    def eye(self, t_s: float) -> EyeSample:
        direction, worn = self._direction(t_s)
        world = self.pv_pose(t_s)
        if direction is None or not worn:
            return EyeSample(_NONE, _NONE, _NONE, world, worn=worn)
        point = direction * _CONVERGE_M
        rays = []
        for side in (0.0, -EYE_DISTANCE_M / 2, EYE_DISTANCE_M / 2):
            origin = vector(side, 0.0, 0.0)
            way = unit(point - origin)
            rays.append(Ray(origin.astype(np.float32), way.astype(np.float32), valid=True))
        return EyeSample(rays[0], rays[1], rays[2], world)

    def spatial(self, t_s: float) -> SpatialSample:
        head = self._camera(t_s)
        direction, worn = self._direction(t_s)
        eye = _NONE
        if direction is not None and worn:
            way = direction @ head[:3, :3]
            eye = Ray(head[3, :3].astype(np.float32), way.astype(np.float32), valid=True)
        return SpatialSample(
            head_position=head[3, :3].astype(np.float32),
            head_forward=(-head[2, :3]).astype(np.float32),
            head_up=head[1, :3].astype(np.float32),
            head_valid=True,
            eye=eye,
            left=self._hand("left", t_s, head),
            right=self._hand("right", t_s, head),
        )

    def _hand(self, side: str, t_s: float, head: F8) -> HandSample:
        track = self._hands.get(side)
        found = track.at(self.told_s(t_s) + self._hands_start) if track else None
        if found is None:
            return _NO_HAND
        wrist, palm = (point @ head[:3, :3] + head[3, :3] for point in found)
        sign = 1.0 if side == "right" else -1.0
        axes = facing(wrist - palm, vector(sign * 0.3, 1.0, 0.1))
        bones = skeleton(0.25)
        mirror = vector(sign, 1.0, 1.0)
        positions = palm + (bones.positions * mirror) @ axes
        positions[1] = wrist
        turned = bones.axes * mirror[None, None, :] * mirror[None, :, None]
        return HandSample(
            quaternion(turned @ axes).astype(np.float32),
            positions.astype(np.float32),
            JOINT_RADII.astype(np.float32),
            np.where(np.arange(JOINTS) < 2, 0, 1).astype(np.int32),
            valid=True,
        )

    # Everything else

    def sound(self, start_sample: int, count: int) -> F4:
        period = None
        if self._loop:
            length_s = self._sound.duration_s if self._own_sound else self.duration_s
            period = max(1, round(length_s * SOUND_HZ))
        return self._sound.mix(start_sample, count, period=period)

    def grey(self, camera: GreyCamera, t_s: float) -> U1:
        luma = self._video.picture(self.told_s(t_s), *VLC_SIZE)[: VLC_SIZE[1]]
        if camera in {GreyCamera.LEFT_LEFT, GreyCamera.RIGHT_RIGHT}:
            luma = cv2.flip(luma, 1).astype(np.uint8)
        return luma

    def depth_long_throw(self, t_s: float) -> DepthSample:
        return self._wall(LONG_THROW_SIZE, t_s, None)

    def depth_ahat(self, t_s: float) -> DepthSample:
        return self._wall(AHAT_SIZE, t_s, 1055)

    def _wall(self, size: tuple[int, int], t_s: float, wrap: int | None) -> DepthSample:
        """Nothing is known of the room: a flat wall ahead."""
        depth = _WALL_MM + round(4 * math.sin(t_s))
        shape = (size[1], size[0])
        bright = np.full(shape, 420, np.uint16)
        return DepthSample(np.full(shape, depth % wrap if wrap else depth, np.uint16), bright)

    def motion(self, kind: Motion, start_s: float, stop_s: float) -> MotionSamples:
        return self._motion.samples(kind, start_s, stop_s)

    def truth(self) -> Truth:
        files: dict[str, Any] = {k: v.name for k, v in self._files.items() if v is not None}
        return Truth(
            source={
                "kind": "folder",
                "files": files,
                "gaze_from": self._gaze.kind if self._gaze else None,
                "duration_s": self.duration_s,
                "loops": self._loop,
                "about": self.words(),
            }
        )

    def close(self) -> None:
        self._video.close()


def _first(folder: Path, suffixes: set[str]) -> Path | None:
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in suffixes and path.is_file():
            return path
    return None


def _starts(gaze: Gaze | None, hands: dict[str, HandTrack]) -> tuple[float, float]:
    """What the clocks of gaze and hands show when the video begins: each file's first time, the
    earlier one for both where they share a clock. Our own ``gaze.csv`` counts from the video."""
    of_hands = min((float(track.times_s[0]) for track in hands.values()), default=0.0)
    if gaze is None or gaze.kind == PLAIN:
        return 0.0, of_hands
    first = float(gaze.times_s[0])
    if gaze.kind == ARIA and hands:
        first = of_hands = min(first, of_hands)
    return first, of_hands
