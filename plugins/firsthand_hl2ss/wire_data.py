"""Layouts of hl2ss payloads and calibrations as numpy records.

Records have the wire's own order and widths, so ``np.frombuffer(payload, EET)`` reads one and
``record.tobytes()`` writes one.
"""

from typing import Final

import numpy as np

from firsthand_hl2ss.wire import DEPTH_AHAT_SIZE, DEPTH_LONG_THROW_SIZE, JOINTS, VLC_SIZE

PV_METADATA: Final = np.dtype(
    [
        ("focal_length", "<f4", (2,)),
        ("principal_point", "<f4", (2,)),
        ("exposure_hns", "<u8"),
        ("exposure_compensation", "<u8", (2,)),
        ("lens_position", "<u4"),
        ("focus_state", "<u4"),
        ("iso", "<u4"),
        ("white_balance_k", "<u4"),
        ("iso_gains", "<f4", (2,)),
        ("white_balance_gains", "<f4", (3,)),
        ("resolution", "<u2", (2,)),
    ]
)
"""80 bytes behind each picture of the front camera."""

EET: Final = np.dtype(
    [
        ("reserved", "<u4"),
        ("origin", "<f4", (3,)),
        ("direction", "<f4", (3,)),
        ("left_origin", "<f4", (3,)),
        ("left_direction", "<f4", (3,)),
        ("right_origin", "<f4", (3,)),
        ("right_direction", "<f4", (3,)),
        ("left_openness", "<f4"),
        ("right_openness", "<f4"),
        ("vergence_m", "<f4"),
        ("validity", "<u4"),
    ]
)
"""92 bytes: a reading of the extended eye tracker, in the tracker's frame."""

JOINT: Final = np.dtype(
    [
        ("orientation", "<f4", (4,)),
        ("position", "<f4", (3,)),
        ("radius", "<f4"),
        ("accuracy", "<i4"),
    ]
)
"""36 bytes: quaternion x y z w, metres, metres, 0 high or 1 approximate."""

SI: Final = np.dtype(
    [
        ("validity", "<u4"),
        ("head_position", "<f4", (3,)),
        ("head_forward", "<f4", (3,)),
        ("head_up", "<f4", (3,)),
        ("eye_origin", "<f4", (3,)),
        ("eye_direction", "<f4", (3,)),
        ("left", JOINT, (JOINTS,)),
        ("right", JOINT, (JOINTS,)),
    ]
)
"""1936 bytes: head, eye ray and hands, in the world frame."""

VLC_METADATA: Final = np.dtype(
    [("sensor_ticks", "<u8"), ("exposure_ns", "<u8"), ("gain", "<u4"), ("reserved", "<u4")]
)
"""24 bytes behind each picture of a grey camera."""

IMU_READING: Final = np.dtype(
    [
        ("sensor_ns", "<u8"),
        ("host_hns", "<u8"),
        ("value", "<f4", (3,)),
        ("temperature_c", "<f4"),
    ]
)
"""32 bytes; the magnetometer has padding where the others have their temperature."""

DEPTH_TICKS: Final = np.dtype([("sensor_ticks", "<u8")])
"""8 bytes behind each depth picture."""
AHAT_SIZES: Final = np.dtype([("zdepth_bytes", "<u4"), ("rest_bytes", "<u4")])
"""8 bytes in front of each near depth picture; one whose rest is empty is skipped."""

PV_CALIBRATION: Final = np.dtype(
    [
        ("focal_length", "<f4", (2,)),
        ("principal_point", "<f4", (2,)),
        ("radial_distortion", "<f4", (3,)),
        ("tangential_distortion", "<f4", (2,)),
        ("projection", "<f4", (4, 4)),
        ("extrinsics", "<f4", (4, 4)),
        ("raw_intrinsics", "<f4", (4,)),
        ("raw_translation", "<f4", (3,)),
        ("raw_rotation", "<f4", (4,)),
    ]
)
"""208 bytes. ``extrinsics`` lead from the rig (left-front grey camera) to the front camera;
``raw_rotation`` is a quaternion x y z w, and with ``raw_translation`` the camera in the rig."""


def _grid(size: tuple[int, int], scales: tuple[str, ...] = ()) -> np.dtype[np.void]:
    width, height = size
    return np.dtype(
        [
            ("uv2x", "<f4", (height, width)),
            ("uv2y", "<f4", (height, width)),
            ("extrinsics", "<f4", (4, 4)),
            *((scale, "<f4") for scale in scales),
            ("mapx", "<f4", (height, width)),
            ("mapy", "<f4", (height, width)),
            ("undistorted", "<f4", (4,)),
        ]
    )


VLC_CALIBRATION: Final = _grid(VLC_SIZE)
"""4 915 280 bytes. ``extrinsics`` lead from the rig to the sensor; ``undistorted``: fx fy cx cy."""
DEPTH_LONG_THROW_CALIBRATION: Final = _grid(DEPTH_LONG_THROW_SIZE, ("scale",))
"""1 474 644 bytes."""
DEPTH_AHAT_CALIBRATION: Final = _grid(DEPTH_AHAT_SIZE, ("scale", "alias"))
"""4 194 392 bytes."""
IMU_CALIBRATION: Final = np.dtype([("extrinsics", "<f4", (4, 4))])
"""64 bytes; accelerometer and gyroscope only."""
