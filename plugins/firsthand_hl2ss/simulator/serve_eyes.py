"""The extended eye tracker, port 3817: readings in the tracker's frame, always with a pose.

Readings are stamped with the headset's wall clock, less the offset that the app measured when it
started: a step of the wall clock therefore moves this stream against every other.
"""

from fractions import Fraction
from typing import Final

import numpy as np

from firsthand_hl2ss import wire_data
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pump import Beat, Nothing, Pump, Ready
from firsthand_hl2ss.simulator.source import EyeSample, Ray
from firsthand_hl2ss.wire import EET_EMPTY_AFTER_PERIODS, HNS_PER_S, EetValidity
from firsthand_hl2ss.wire_config import read_eet

STREAM: Final = "eet"
NO_READING: Final = "no reading"
DUPLICATE: Final = "near duplicate"
_DUPLICATE_HNS: Final = HNS_PER_S // 180
_EMPTY: Final = np.zeros((), wire_data.EET).tobytes()


class EyeTracker:
    """Serves port 3817."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self.pump = Pump(headset, STREAM, phase_hns=31_007)

    def serve(self, connection: Connection) -> None:
        fps = read_eet(connection.receive)
        self._await_tracker(connection)
        readings = _Readings(self._headset)
        self.pump.run(
            connection,
            Fraction(1, fps),
            readings.make,
            stamp=self._headset.clock.through_wall,
        )

    def _await_tracker(self, connection: Connection) -> None:
        """The app's first client waits until the system offers a tracker; it then stays open."""
        app = self._headset.app
        if not app.eye_tracker.is_set():
            self._headset.wait(connection, self._headset.config.eye_tracker_opens_s)
            app.eye_tracker.set()


class _Readings:
    """The readings of one connection."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self._last_slot: int | None = None
        self._last_hns: int | None = None

    def make(self, beat: Beat) -> Ready | Nothing:
        headset = self._headset
        stamp = headset.clock.through_wall(beat.hns)
        eye = headset.source.eye(beat.scene_s)
        pose = headset.pose(STREAM, eye.pose)
        if self._last_slot is None:
            self._last_slot = beat.slot - 1
        if not eye.worn or headset.under("not_worn", STREAM):
            if beat.slot - self._last_slot < EET_EMPTY_AFTER_PERIODS:
                return Nothing(NO_READING)
            self._last_slot, self._last_hns = beat.slot, stamp
            return Ready(stamp, [_EMPTY], pose, empty=True)
        if self._last_hns is not None and abs(stamp - self._last_hns) < _DUPLICATE_HNS:
            return Nothing(DUPLICATE)
        self._last_slot, self._last_hns = beat.slot, stamp
        calibrated = eye.calibrated and not headset.under("not_calibrated", STREAM)
        return Ready(stamp, [_packed(eye, calibrated)], pose)


def _packed(eye: EyeSample, calibrated: bool) -> bytes:
    """92 bytes. Openness and vergence are not offered by this headset: bits and numbers stay 0."""
    record = np.zeros((), wire_data.EET)
    validity = EetValidity.CALIBRATION if calibrated else EetValidity.NONE
    for bit, prefix, ray in (
        (EetValidity.COMBINED, "", eye.combined),
        (EetValidity.LEFT, "left_", eye.left),
        (EetValidity.RIGHT, "right_", eye.right),
    ):
        validity |= _put(record, prefix, ray, bit)
    record["validity"] = int(validity)
    return record.tobytes()


def _put(record: np.ndarray, prefix: str, ray: Ray, bit: EetValidity) -> EetValidity:
    if not ray.valid:
        return EetValidity.NONE
    record[f"{prefix}origin"] = ray.origin
    record[f"{prefix}direction"] = ray.direction
    return bit
