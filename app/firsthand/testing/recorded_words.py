"""Schemas of the small recordings: what a headset's streams have, and no more."""

from typing import Final

from firsthand.api import POSE, Clock, Column, PayloadKind, StreamRole, StreamSchema

_POSE: Final = Column(POSE, "<f4", (4, 4), "m", "sensor to world, row vectors; 0: not located")
JOINTS: Final = 26


def pv_schema(codec: str, size_px: tuple[int, int], hz: float) -> StreamSchema:
    """A front camera."""
    return StreamSchema(
        name="pv",
        title="Front camera",
        columns=(
            Column("focal_length", "<f4", (2,), "px"),
            Column("principal_point", "<f4", (2,), "px"),
            Column("exposure_ns", "<i8", (), "ns"),
            Column("resolution", "<u2", (2,), "px"),
            _POSE,
        ),
        role=StreamRole.VIDEO,
        payload=PayloadKind(codec),
        nominal_hz=hz,
        frame="camera: +x right, +y up, +z towards the wearer",
        width_px=size_px[0],
        height_px=size_px[1],
    )


EET: Final = StreamSchema(
    name="eet",
    title="Gaze",
    columns=(
        Column("valid", "?"),
        Column("calibrated", "?"),
        Column("origin", "<f4", (3,), "m"),
        Column("direction", "<f4", (3,)),
        _POSE,
    ),
    role=StreamRole.GAZE,
    nominal_hz=90.0,
    clock=Clock.DEVICE_WALL,
    frame="eye tracker",
    idle_periods=9.0,
)
SI: Final = StreamSchema(
    name="si",
    title="Head and hands",
    columns=(
        Column("head_valid", "?"),
        Column("left_valid", "?"),
        Column("right_valid", "?"),
        Column("head_position", "<f4", (3,), "m"),
        Column("head_forward", "<f4", (3,)),
        Column("left_position", "<f4", (JOINTS, 3), "m"),
        Column("right_position", "<f4", (JOINTS, 3), "m"),
    ),
    role=StreamRole.HANDS,
    nominal_hz=60.0,
    frame="world",
)
IMU: Final = StreamSchema(
    name="imu",
    title="Accelerometer",
    columns=(
        Column("time_ns", "<i8", (), "ns"),
        Column("value", "<f4", (3,), "m/s²"),
    ),
    role=StreamRole.MOTION,
    nominal_hz=12.0,
    regular=False,
    row_time="time_ns",
    frame="accelerometer",
)
MIC: Final = StreamSchema(
    name="mic",
    title="Microphone",
    columns=(Column("samples", "<u4"),),
    role=StreamRole.MICROPHONE,
    payload=PayloadKind.PCM_S16,
    nominal_hz=62.5,
    sample_hz=48000.0,
    channels=2,
)
