"""The first seconds of a source again and again, for all senses alike.

What is encoded ahead is shown over and over; gaze, hands, sound and poses must go with it.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.source import (
    F4,
    SOUND_HZ,
    U1,
    DepthSample,
    EyeSample,
    GreyCamera,
    Motion,
    MotionSamples,
    PvMetadata,
    SensorSource,
    SpatialSample,
    Truth,
)

_BESIDE_S: Final = 0.05
"""More than two readings of the slowest motion sensor."""


class LoopedSource:
    """A ``SensorSource`` that begins anew every ``period_s`` seconds, sound to the sample."""

    def __init__(self, source: SensorSource, period_s: int) -> None:
        self._source = source
        self._period_s = period_s

    def _at(self, t_s: float) -> float:
        return t_s if t_s < 0 else t_s % self._period_s

    @property
    def duration_s(self) -> float | None:
        return float(self._period_s)

    def words(self) -> str:
        return f"{self._source.words()} The first {self._period_s} s are shown again and again."

    def frame(self, t_s: float, index: int, width: int, height: int) -> U1:
        return self._source.frame(self._at(t_s), index, width, height)

    def pv_metadata(self, t_s: float, width: int, height: int) -> PvMetadata:
        return self._source.pv_metadata(self._at(t_s), width, height)

    def pv_pose(self, t_s: float) -> F4:
        return self._source.pv_pose(self._at(t_s))

    def rig_pose(self, t_s: float) -> F4:
        return self._source.rig_pose(self._at(t_s))

    def eye(self, t_s: float) -> EyeSample:
        return self._source.eye(self._at(t_s))

    def spatial(self, t_s: float) -> SpatialSample:
        return self._source.spatial(self._at(t_s))

    def sound(self, start_sample: int, count: int) -> F4:
        period = self._period_s * SOUND_HZ
        out = np.zeros(count, np.float32)
        at = max(0, -start_sample)
        while at < count:
            start = (start_sample + at) % period
            length = min(count - at, period - start)
            out[at : at + length] = self._source.sound(start, length)
            at += length
        return out

    def grey(self, camera: GreyCamera, t_s: float) -> U1:
        return self._source.grey(camera, self._at(t_s))

    def depth_long_throw(self, t_s: float) -> DepthSample:
        return self._source.depth_long_throw(self._at(t_s))

    def depth_ahat(self, t_s: float) -> DepthSample:
        return self._source.depth_ahat(self._at(t_s))

    def motion(self, kind: Motion, start_s: float, stop_s: float) -> MotionSamples:
        """Readings keep the sensor's own times, of which a period need not hold a whole number."""
        period = self._period_s
        whole = self._source.motion(kind, start_s, stop_s)
        times, values = whole.times_s, whole.values.copy()
        for begun in range(period, math.ceil(stop_s), period):
            here = (times >= begun) & (times < begun + period)
            if here.any():
                local = times[here] - begun
                known = self._source.motion(kind, local[0] - _BESIDE_S, local[-1] + _BESIDE_S)
                for axis in range(values.shape[1]):
                    values[here, axis] = np.interp(local, known.times_s, known.values[:, axis])
        return replace(whole, values=values)

    def truth(self) -> Truth:
        truth = self._source.truth()
        return replace(truth, source={**truth.source, "begins_again_after_s": self._period_s})

    def close(self) -> None:
        self._source.close()
