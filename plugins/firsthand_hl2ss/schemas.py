"""The hl2ss streams as the rest of the house sees them, made from the settings."""

from typing import Any, Final

from firsthand.api import POSE, Clock, Column, PayloadKind, StreamRole, StreamSchema
from firsthand_hl2ss import wire
from firsthand_hl2ss.config import EncodedConfig, Hl2ssConfig, MicConfig, PvConfig
from firsthand_hl2ss.wire import VideoProfile

_WORLD: Final = "world: right-handed, metres, +y up, −z ahead at the app's start"
_POSE: Final = Column(POSE, "<f4", (4, 4), "m", "sensor to world, row vectors; 0: not located")
_RIG_POSE: Final = Column(
    POSE, "<f4", (4, 4), "m", "rig (left-front grey camera) to world, row vectors; 0: not located"
)

PV_COLUMNS: Final = (
    Column("focal_length", "<f4", (2,), "px", "x and y, of this very picture"),
    Column("principal_point", "<f4", (2,), "px", "from the top left"),
    Column("exposure_ns", "<i8", (), "ns"),
    Column("exposure_compensation", "<u8", (2,), "1", "flags, and value in its low 32 bits"),
    Column("lens_position", "<u4", (), "1", "in the driver's units"),
    Column("focus_state", "<u4", (), "1", "0 unknown 1 lost 2 searching 3 focused 4 failed"),
    Column("iso", "<u4"),
    Column("white_balance_k", "<u4", (), "K"),
    Column("iso_gains", "<f4", (2,), "1", "analogue, digital (order not confirmed)"),
    Column("white_balance_gains", "<f4", (3,), "1", "R G B (order not confirmed)"),
    Column("resolution", "<u2", (2,), "px", "width and height really delivered"),
    _POSE,
)
EET_COLUMNS: Final = (
    Column("valid", "?", (), "1", "whether origin and direction are valid"),
    Column("calibrated", "?", (), "1", "whether the wearer is calibrated on this headset"),
    Column("left_valid", "?", (), "1", "whether the left eye's ray is valid"),
    Column("right_valid", "?", (), "1", "whether the right eye's ray is valid"),
    Column("origin", "<f4", (3,), "m", "of the combined gaze, in the tracker's frame"),
    Column("direction", "<f4", (3,), "1", "of the combined gaze, in the tracker's frame"),
    Column("left_origin", "<f4", (3,), "m", "of the left eye, in the tracker's frame"),
    Column("left_direction", "<f4", (3,), "1", "of the left eye, in the tracker's frame"),
    Column("right_origin", "<f4", (3,), "m", "of the right eye, in the tracker's frame"),
    Column("right_direction", "<f4", (3,), "1", "of the right eye, in the tracker's frame"),
    Column("left_openness", "<f4", (), "1", "not supported by HoloLens 2"),
    Column("right_openness", "<f4", (), "1", "not supported by HoloLens 2"),
    Column("vergence_m", "<f4", (), "m", "not supported by HoloLens 2"),
    Column(
        "validity", "<u4", (), "1", "bits as received: 1 calibrated, 2 combined, 4 left, 8 right"
    ),
    _POSE,
)


_JOINT_ORDER: Final = (
    "0 palm, 1 wrist, thumb: 2 metacarpal, 3 proximal, 4 distal, 5 tip, then metacarpal, proximal, "
    "intermediate, distal, tip of 6–10 index, 11–15 middle, 16–20 ring, 21–25 little finger"
)


def _hand(side: str) -> tuple[Column, ...]:
    return (
        Column(f"{side}_orientation", "<f4", (wire.JOINTS, 4), "1", "quaternions x y z w"),
        Column(f"{side}_position", "<f4", (wire.JOINTS, 3), "m", _JOINT_ORDER),
        Column(f"{side}_radius", "<f4", (wire.JOINTS,), "m", "of the hand at each joint"),
        Column(f"{side}_accuracy", "<i4", (wire.JOINTS,), "1", "0 high, 1 approximate, −1 invalid"),
    )


SI_COLUMNS: Final = (
    Column("validity", "<u4", (), "1", "bits as received: 1 head, 2 eye ray, 4 left, 8 right hand"),
    Column("head_valid", "?", (), "1", "whether position and axes of the head are valid"),
    Column("eye_valid", "?", (), "1", "whether the eye ray is valid"),
    Column("left_valid", "?", (), "1", "whether the left hand is seen"),
    Column("right_valid", "?", (), "1", "whether the right hand is seen"),
    Column("head_position", "<f4", (3,), "m", "of the head, in the world"),
    Column("head_forward", "<f4", (3,), "1", "the head's axis ahead, in the world"),
    Column("head_up", "<f4", (3,), "1", "the head's axis up, in the world"),
    Column("eye_origin", "<f4", (3,), "m", "of the combined gaze, in the world"),
    Column("eye_direction", "<f4", (3,), "1", "of the combined gaze, in the world"),
    *_hand("left"),
    *_hand("right"),
)
VLC_COLUMNS: Final = (
    Column("sensor_ticks", "<u8", (), "1", "the sensor's own time"),
    Column("exposure_ns", "<i8", (), "ns"),
    Column("gain", "<u4"),
    _RIG_POSE,
)
DEPTH_COLUMNS: Final = (Column("sensor_ticks", "<u8", (), "1", "the sensor's own time"), _RIG_POSE)
IMU_COLUMNS: Final = (
    Column("time_ns", "<i8", (), "ns", "of the reading, put right where the driver repeats one"),
    Column("sensor_ns", "<u8", (), "ns", "the sensor's own time"),
    Column("host_hns", "<u8", (), "100 ns", "QPC as received"),
    Column("value", "<f4", (3,), "", "x y z"),
    Column("temperature_c", "<f4", (), "°C", "without meaning for the magnetometer"),
)
_IMU_UNITS: Final = {
    "accelerometer": "m/s²",
    "gyroscope": "degrees/s (not confirmed)",
    "magnetometer": "as received",
}

STALLS_AFTER_S: Final = 0.8
"""Silence of a stream of 15 packets a second or more that is called a stall: below the second in
which a lost link is to be noticed, above what Wi-Fi does while it is well."""


def stalls_after_s(hz: float) -> float:
    return max(STALLS_AFTER_S, 3 / hz)


def schemas(config: Hl2ssConfig) -> list[StreamSchema]:
    """The streams that the settings ask for, the front camera first."""
    found: list[StreamSchema] = []
    if config.pv:
        found.append(_pv(config.pv))
    if config.eet:
        found.append(_eet(config.eet.fps))
    if config.si:
        found.append(_si())
    if config.mic:
        found.append(_mic(config.mic))
    if config.vlc:
        vlc = config.vlc
        found += [
            _camera(
                f"vlc_{camera}",
                f"Grey camera, {camera.replace('_', ' ')}",
                vlc,
                wire.VLC_SIZE,
                wire.VLC_HZ / vlc.divisor,
                video_kind(vlc.profile, PayloadKind.GRAY8),
                VLC_COLUMNS,
                time_shift_hns=vlc.time_shift_hns,
            )
            for camera in vlc.cameras
        ]
    if config.depth_long_throw:
        found.append(_long_throw(config.depth_long_throw.divisor))
    if config.depth_ahat:
        ahat = config.depth_ahat
        found.append(
            _camera(
                "depth_ahat",
                "Near depth camera (AHAT)",
                ahat,
                wire.DEPTH_AHAT_SIZE,
                wire.DEPTH_AHAT_HZ / ahat.divisor,
                PayloadKind.BYTES,
                DEPTH_COLUMNS,
                zdepth=ahat.zdepth,
            )
        )
    if config.imu:
        found += [_imu(sensor) for sensor in config.imu.sensors]
    return found


def video_kind(profile: VideoProfile, raw: PayloadKind) -> PayloadKind:
    if profile is VideoProfile.RAW:
        return raw
    return PayloadKind.H264 if profile.is_h264 else PayloadKind.HEVC


def _encoding(config: EncodedConfig, width: int, height: int, fps: int) -> dict[str, Any]:
    video = config.video(width, height, fps)
    return {
        "width": width,
        "height": height,
        "fps": fps,
        "divisor": config.divisor,
        "profile": video.profile.name.lower(),
        "level": video.level,
        "bitrate": video.bitrate,
        "options": [[str(key), str(value)] for key, value in video.options],
    }


def _pv(config: PvConfig) -> StreamSchema:
    hz = config.fps / config.divisor
    return StreamSchema(
        name="pv",
        title="Front camera",
        columns=PV_COLUMNS,
        role=StreamRole.VIDEO,
        payload=video_kind(config.profile, PayloadKind.NV12),
        nominal_hz=hz,
        stalls_after_s=stalls_after_s(hz),
        frame="camera: +x right, +y up, +z towards the wearer; pose leads to the " + _WORLD,
        width_px=config.width,
        height_px=config.height,
        description="Picture and metadata as received; one access unit per packet. BT.601, full "
        "range. Raw NV12 rows are padded to 64 bytes.",
        settings={
            **_encoding(config, config.width, config.height, config.fps),
            "camera": config.camera.model_dump(mode="json", exclude_none=True),
            # Readers need it where the encoded stream does not say so itself.
            "colour_range": "full",
        },
    )


def _eet(fps: int) -> StreamSchema:
    return StreamSchema(
        name="eet",
        title="Eye tracker",
        columns=EET_COLUMNS,
        role=StreamRole.GAZE,
        nominal_hz=float(fps),
        idle_periods=float(wire.EET_EMPTY_AFTER_PERIODS),
        stalls_after_s=stalls_after_s(fps),
        clock=Clock.DEVICE_WALL,
        frame="tracker; pose leads to the " + _WORLD,
        settings={"fps": fps},
    )


def _si() -> StreamSchema:
    return StreamSchema(
        name="si",
        title="Head, eye ray and hands",
        columns=SI_COLUMNS,
        role=StreamRole.HANDS,
        nominal_hz=wire.SI_HZ,
        stalls_after_s=stalls_after_s(wire.SI_HZ),
        frame=_WORLD,
    )


def _mic(config: MicConfig) -> StreamSchema:
    kind = {
        "pcm": PayloadKind.PCM_S16,
        "aac": PayloadKind.AAC_ADTS,
        "array": PayloadKind.PCM_F32,
    }[config.form]
    aac = {"aac_kbit": config.aac_kbit, "aac_level": config.aac_level}
    samples = wire.AAC_SAMPLES if config.form == "aac" else wire.PCM_SAMPLES
    return StreamSchema(
        name="mic",
        title="Microphone" if config.form != "array" else "Microphone array",
        columns=(Column("samples", "<u4", (), "1", "samples per channel in the packet"),),
        role=StreamRole.MICROPHONE,
        payload=kind,
        nominal_hz=wire.SOUND_HZ / samples,
        stalls_after_s=STALLS_AFTER_S,
        sample_hz=float(wire.SOUND_HZ),
        channels=wire.ARRAY_CHANNELS if config.form == "array" else wire.STEREO_CHANNELS,
        description="Times are those of a packet's first sample."
        + (
            " Channels: top left, top centre, top right, bottom left, bottom right (not confirmed)."
            if config.form == "array"
            else ""
        ),
        settings={"form": config.form, **(aac if config.form == "aac" else {})},
    )


def _camera(
    name: str,
    title: str,
    config: EncodedConfig,
    size: tuple[int, int],
    hz: float,
    kind: PayloadKind,
    columns: tuple[Column, ...],
    **more: Any,
) -> StreamSchema:
    width, height = size
    is_depth = kind is PayloadKind.BYTES
    return StreamSchema(
        name=name,
        title=title,
        columns=columns,
        role=StreamRole.DEPTH if is_depth else StreamRole.CAMERA,
        payload=kind,
        nominal_hz=hz,
        stalls_after_s=stalls_after_s(hz),
        frame="sensor; pose leads from the rig to the " + _WORLD,
        width_px=width,
        height_px=height,
        description="As received: two u32 (bytes of Zdepth, bytes of the rest), then both."
        if is_depth
        else "Luma of the picture; 640×480 bytes where it is raw.",
        settings={**_encoding(config, width, height, round(hz * config.divisor)), **more},
    )


def _long_throw(divisor: int) -> StreamSchema:
    hz = wire.DEPTH_LONG_THROW_HZ / divisor
    width, height = wire.DEPTH_LONG_THROW_SIZE
    return StreamSchema(
        name="depth_long_throw",
        title="Far depth camera",
        columns=DEPTH_COLUMNS,
        role=StreamRole.DEPTH,
        payload=PayloadKind.DEPTH_PNG,
        nominal_hz=hz,
        stalls_after_s=stalls_after_s(hz),
        frame="sensor; pose leads from the rig to the " + _WORLD,
        width_px=width,
        height_px=height,
        description="PNG whose pixels, as bytes B G R A, are two u16 planes: depth along the ray "
        "in millimetres (0: nothing), then active brightness.",
        settings={"divisor": divisor},
    )


def _imu(sensor: str) -> StreamSchema:
    hz = 1000 / wire.IMU_PERIOD_MS[sensor]
    value = {"unit": _IMU_UNITS[sensor]}
    return StreamSchema(
        name=f"imu_{sensor}",
        title=sensor.capitalize(),
        columns=tuple(
            Column(c.name, c.dtype, c.shape, value["unit"], c.description)
            if c.name == "value"
            else c
            for c in IMU_COLUMNS
        ),
        role=StreamRole.MOTION,
        nominal_hz=hz,
        regular=False,
        stalls_after_s=stalls_after_s(hz),
        row_time="time_ns",
        frame="sensor; the calibration leads there from the rig",
    )
