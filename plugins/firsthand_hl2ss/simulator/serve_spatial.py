"""Spatial input, port 3812: head, eye ray and hands, 60 times a second, without being asked.

Behind a cleared validity bit stand the last valid numbers of the connection, as on the headset;
zeros only before the first.
"""

import time
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from firsthand_hl2ss import wire_data
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.faults import stale_parts
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pump import Beat, Pump, Ready
from firsthand_hl2ss.simulator.source import HandSample
from firsthand_hl2ss.wire import SiValidity

STREAM: Final = "si"
_PERIOD_S: Final = Fraction(1, 60)
_BITS: Final = {
    "head": SiValidity.HEAD,
    "eye": SiValidity.EYE,
    "left": SiValidity.LEFT,
    "right": SiValidity.RIGHT,
}


class SpatialInput:
    """Serves port 3812."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self.pump = Pump(headset, STREAM, phase_hns=77_003)

    def serve(self, connection: Connection) -> None:
        samples = _Samples(self._headset)
        self.pump.run(connection, _PERIOD_S, samples.make, stamp=samples.asked_for)


class _Samples:
    """The buffers of one connection: they keep what was last valid."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self._record: npt.NDArray[Any] = np.zeros((), wire_data.SI)

    def asked_for(self, hns: int) -> int:
        """The time that a sample is asked for: now, less what remote configuration set."""
        return hns - self._headset.app.si_delay_hns

    def make(self, beat: Beat) -> Ready:
        stamp = self.asked_for(beat.hns)
        sample = self._headset.source.spatial(self._headset.clock.scene_s(stamp))
        valid = self._validity(
            head=sample.head_valid,
            eye=sample.eye.valid and sample.head_valid,
            left=sample.left.valid,
            right=sample.right.valid,
        )
        record, world = self._record, self._headset.world
        if SiValidity.HEAD in valid:
            record["head_position"] = world.points(sample.head_position)
            record["head_forward"] = world.directions(sample.head_forward)
            record["head_up"] = world.directions(sample.head_up)
        if SiValidity.EYE in valid:
            record["eye_origin"] = world.points(sample.eye.origin)
            record["eye_direction"] = world.directions(sample.eye.direction)
        if SiValidity.LEFT in valid:
            self._put_hand("left", sample.left)
        if SiValidity.RIGHT in valid:
            self._put_hand("right", sample.right)
        record["validity"] = int(valid)
        return Ready(stamp, [record.tobytes()])

    def _validity(self, **parts: bool) -> SiValidity:
        stale = set()
        now = time.perf_counter_ns()
        if (fault := self._headset.board.holding(STREAM, "stale_si", now)) is not None:
            stale |= set(stale_parts(fault.about))
        if self._headset.under("not_worn", STREAM):
            stale |= {"eye", "left", "right"}
        if self._headset.under("lost_tracking", STREAM):
            stale |= set(parts)
        if "head" in stale:
            stale.add("eye")  # an eye ray without a head is never told
        valid = SiValidity.NONE
        for part, good in parts.items():
            if good and part not in stale:
                valid |= _BITS[part]
        return valid

    def _put_hand(self, side: str, hand: HandSample) -> None:
        joints, world = self._record[side], self._headset.world
        joints["orientation"] = world.orientations(hand.orientation)
        joints["position"] = world.points(hand.position)
        joints["radius"] = hand.radius
        joints["accuracy"] = hand.accuracy
