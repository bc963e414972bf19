"""Motion sensors, ports 3806-3808: batches of readings, each with a time of its own."""

from fractions import Fraction
from typing import Final

import numpy as np

from firsthand_hl2ss import wire, wire_config, wire_data
from firsthand_hl2ss.simulator.calibration import motion_calibration
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pump import Beat, Nothing, Pump, Ready
from firsthand_hl2ss.simulator.source import Motion
from firsthand_hl2ss.wire import Mode, WireError

MOTIONS: Final = {
    "imu_accelerometer": Motion.ACCELEROMETER,
    "imu_gyroscope": Motion.GYROSCOPE,
    "imu_magnetometer": Motion.MAGNETOMETER,
}
_SENSOR_AHEAD_NS: Final = 8_123_456_789
"""The sensors' own clock against QPC."""


class MotionPort:
    """Serves one sensor's port. A packet leaves when its batch is full."""

    def __init__(self, headset: Headset, stream: str, phase_hns: int) -> None:
        self._headset = headset
        self._stream = stream
        self._motion = MOTIONS[stream]
        self._period_s = Fraction(wire.IMU_PERIOD_MS[self._motion.value], 1000)
        self.pump = Pump(headset, stream, phase_hns=phase_hns)

    def serve(self, connection: Connection) -> None:
        mode, _, _ = wire_config.read_mode(connection.receive)
        match mode:
            case Mode.CALIBRATION:
                calibration = motion_calibration(self._stream)
                if calibration is None:
                    raise WireError(f"{self._stream} has no calibration")
                connection.reply(calibration)
            case Mode.DATA | Mode.DATA_AND_POSE:
                self._stream_to(connection, with_pose=mode is Mode.DATA_AND_POSE)
            case Mode.NOTHING:
                return

    def _stream_to(self, connection: Connection, *, with_pose: bool) -> None:
        period_hns = round(self._period_s * wire.HNS_PER_S)
        headset = self._headset

        def make(beat: Beat) -> Ready | Nothing:
            start_s = beat.scene_s - float(self._period_s)
            batch = headset.source.motion(self._motion, start_s, beat.scene_s)
            if batch.times_s.size == 0:
                return Nothing("no reading")
            records = np.zeros(batch.times_s.size, wire_data.IMU_READING)
            host = beat.hns + np.rint((batch.times_s - beat.scene_s) * wire.HNS_PER_S)
            records["host_hns"] = host.astype(np.uint64)
            records["sensor_ns"] = records["host_hns"] * wire.NS_PER_HNS + _SENSOR_AHEAD_NS
            records["value"] = batch.values
            if self._motion is not Motion.MAGNETOMETER:
                records["temperature_c"] = batch.temperature_c
            pose = b""
            if with_pose:
                pose = headset.pose(self._stream, headset.source.rig_pose(start_s))
            return Ready(beat.hns - period_hns, [records.tobytes()], pose)

        self.pump.run(connection, self._period_s, make, stamp=lambda hns: hns - period_hns)
