"""What the motion sensors feel of a rig's movement, each in its own frame on the rig."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.calibration import motion_from_rig
from firsthand_hl2ss.simulator.scene_geometry import vector
from firsthand_hl2ss.simulator.source import F8, Motion, MotionSamples

MOTION_HZ: Final = {
    Motion.ACCELEROMETER: 93 / 0.085,
    Motion.GYROSCOPE: 315 / 0.048,
    Motion.MAGNETOMETER: 11 / 0.220,
}
_KNOTS_HZ: Final = 60
"""Movement is looked at so often; readings between are interpolated."""
_UPWARD: Final = vector(0, 9.81, 0)
"""What an accelerometer at rest feels, m/s²."""
_NORTH: Final = vector(19.0, -44.0, -3.0)
_NOISE: Final = {Motion.ACCELEROMETER: 0.02, Motion.GYROSCOPE: 0.05, Motion.MAGNETOMETER: 0.3}


class MotionSense:
    """Accelerometer (m/s²), gyroscope (degrees/s) and magnetometer of a moving rig."""

    def __init__(self, rig: Callable[[float], F8]) -> None:
        """``rig`` gives the rig's pose (4, 4) to the world at a time."""
        self._rig = rig
        self._to_rig = {
            kind: np.linalg.inv(motion_from_rig(f"imu_{kind.value}")) for kind in Motion
        }

    def samples(
        self, kind: Motion, start_s: float, stop_s: float, begun_s: float = 0.0
    ) -> MotionSamples:
        """The readings of an interval; abutting intervals give each once. ``begun_s`` is when the
        rig's story began: its movement is looked up by the time since."""
        rate = MOTION_HZ[kind]
        numbers = np.arange(math.ceil(start_s * rate - 1e-6), math.ceil(stop_s * rate - 1e-6))
        times = numbers / rate
        first = math.floor((start_s - begun_s) * _KNOTS_HZ) - 2
        count = math.ceil((stop_s - start_s) * _KNOTS_HZ) + 6
        knots = np.arange(first, first + count)
        poses = self._to_rig[kind] @ np.array([self._rig(k / _KNOTS_HZ) for k in knots])
        felt_at, felt = _felt(kind, knots / _KNOTS_HZ, poses)
        values = np.stack(
            [np.interp(times - begun_s, felt_at, column) for column in felt.T], axis=1
        )
        values += _NOISE[kind] * np.sin(numbers[:, None] * vector(12.9898, 78.233, 37.719))
        return MotionSamples(times, values.astype(np.float32), 38.0 + math.sin(start_s / 60))


def _felt(kind: Motion, times: F8, poses: F8) -> tuple[F8, F8]:
    """Times, and what is felt then (n, 3), in the frame of a sensor with these poses."""
    axes = poses[:, :3, :3]
    if kind is Motion.GYROSCOPE:
        return (times[:-1] + times[1:]) / 2, np.degrees(_turning(axes)) * _KNOTS_HZ
    if kind is Motion.ACCELEROMETER:
        pushed = np.diff(poses[:, 3, :3], n=2, axis=0) * _KNOTS_HZ**2 + _UPWARD
        return times[1:-1], np.einsum("nij,nj->ni", axes[1:-1], pushed)
    return times, axes @ _NORTH


def _turning(axes: F8) -> F8:
    """Rotation vectors (n - 1, 3), in radians and the sensor's frame, from each of n frames to the
    next; the rows of ``axes`` are the frame's axes in the world."""
    # Between frames, columns of the sensor's frame turn by W; W - Wᵀ holds the axis times 2 sin.
    turned = axes[:-1] @ axes[1:].transpose(0, 2, 1)
    skew = turned - turned.transpose(0, 2, 1)
    axis = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1) / 2
    sine = np.linalg.norm(axis, axis=1, keepdims=True)
    longer = np.arcsin(sine.clip(0, 1)) / np.where(sine > 0, sine, 1.0)
    out: F8 = axis * np.where(sine > 0, longer, 1.0)
    return out
