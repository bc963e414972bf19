"""What a simulated headset senses: the seam between the world it shows and the server it runs in.

A source is a deterministic function of time. Times ``t_s`` are seconds since the source's start;
asking twice, out of order or from several threads gives the same answer. Frames follow the wire:
row vectors, poses map the sensor's frame to the world, metres, +y up, -z ahead, camera and head
frames have +x right, +y up, +z towards the wearer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

F4: TypeAlias = npt.NDArray[np.float32]
F8: TypeAlias = npt.NDArray[np.float64]
U1: TypeAlias = npt.NDArray[np.uint8]
U2: TypeAlias = npt.NDArray[np.uint16]
I4: TypeAlias = npt.NDArray[np.int32]

SOUND_HZ: Final = 48_000
JOINTS: Final = 26


class GreyCamera(StrEnum):
    """The four grey tracking cameras."""

    LEFT_FRONT = "left_front"
    LEFT_LEFT = "left_left"
    RIGHT_FRONT = "right_front"
    RIGHT_RIGHT = "right_right"


class Motion(StrEnum):
    """The three motion sensors."""

    ACCELEROMETER = "accelerometer"
    """m/s²"""
    GYROSCOPE = "gyroscope"
    """degrees/s"""
    MAGNETOMETER = "magnetometer"
    """microtesla"""


@dataclass(frozen=True, slots=True)
class PvMetadata:
    """What the camera tells beside each picture."""

    focal_length: tuple[float, float]
    """fx, fy in pixels of the size asked for."""
    principal_point: tuple[float, float]
    """cx, cy in pixels, from the top left."""
    exposure_ns: int
    exposure_compensation: tuple[int, int]
    lens_position: int
    focus_state: int
    iso: int
    white_balance_k: int
    iso_gains: tuple[float, float]
    white_balance_gains: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Ray:
    """Origin (3,) in metres and unit direction (3,); zeros where it is not valid."""

    origin: F4
    direction: F4
    valid: bool


@dataclass(frozen=True, slots=True)
class EyeSample:
    """One reading of the eye tracker. Rays are in the tracker's frame, ``pose`` leads to the world.

    ``worn`` is False when nobody wears the headset: nothing else is then of use.
    """

    combined: Ray
    left: Ray
    right: Ray
    pose: F4
    calibrated: bool = True
    worn: bool = True


@dataclass(frozen=True, slots=True)
class HandSample:
    """One hand, joints in the order of the wire: orientation (26, 4) as x y z w, position (26, 3)
    in the world, radius (26,) in metres, accuracy (26,) 0 high or 1 approximate."""

    orientation: F4
    position: F4
    radius: F4
    accuracy: I4
    valid: bool


@dataclass(frozen=True, slots=True)
class SpatialSample:
    """Head, eye ray and hands, all in the world frame. Numbers are given even where they are not
    valid, so that a server can show what stale ones look like."""

    head_position: F4
    head_forward: F4
    head_up: F4
    head_valid: bool
    eye: Ray
    left: HandSample
    right: HandSample


@dataclass(frozen=True, slots=True)
class DepthSample:
    """Depth along the ray in millimetres (0: nothing there) and active brightness."""

    depth: U2
    brightness: U2


@dataclass(frozen=True, slots=True)
class MotionSamples:
    """Readings of one motion sensor: times (n,) in seconds, values (n, 3), temperature in °C."""

    times_s: F8
    values: F4
    temperature_c: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known for certain about a source, as JSON types; see ``truth.write_truth``."""

    source: Mapping[str, Any]
    objects: list[dict[str, Any]] = field(default_factory=list)
    segments: list[dict[str, Any]] = field(default_factory=list)
    utterances: list[dict[str, Any]] = field(default_factory=list)
    fixations: list[dict[str, Any]] = field(default_factory=list)
    blinks: list[dict[str, Any]] = field(default_factory=list)
    sounds: list[dict[str, Any]] = field(default_factory=list)


class SensorSource(Protocol):
    """Everything that the sensors of a simulated headset see, hear and feel."""

    @property
    def duration_s(self) -> float | None:
        """Length of what is told; afterwards it loops or holds. None where it has no end."""

    def words(self) -> str:
        """One sentence that says what is shown."""

    def frame(self, t_s: float, index: int, width: int, height: int) -> U1:
        """The front camera's picture as NV12: (height * 3 / 2, width) uint8, luma rows, then rows
        of interleaved U and V; BT.601, full range. Carries ``index`` as a readable counter."""

    def pv_metadata(self, t_s: float, width: int, height: int) -> PvMetadata: ...

    def pv_pose(self, t_s: float) -> F4:
        """(4, 4) camera to world; all zeros where the headset could not locate itself."""

    def rig_pose(self, t_s: float) -> F4:
        """(4, 4) of the left-front grey camera (the rig) to the world."""

    def eye(self, t_s: float) -> EyeSample: ...

    def spatial(self, t_s: float) -> SpatialSample: ...

    def sound(self, start_sample: int, count: int) -> F4:
        """Mono, 48 kHz, -1 to 1; zeros before the start. Never waits."""

    def grey(self, camera: GreyCamera, t_s: float) -> U1:
        """(480, 640) uint8."""

    def depth_long_throw(self, t_s: float) -> DepthSample:
        """(288, 320)."""

    def depth_ahat(self, t_s: float) -> DepthSample:
        """(512, 512); depths wrap at 1055 mm."""

    def motion(self, kind: Motion, start_s: float, stop_s: float) -> MotionSamples:
        """The readings taken in ``[start_s, stop_s)``; abutting intervals give each one once."""

    def truth(self) -> Truth: ...

    def close(self) -> None:
        """Give files and threads back. May be called twice."""
