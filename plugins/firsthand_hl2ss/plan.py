"""What it takes to receive one stream: port, request, limits and parser, made from the settings."""

from dataclasses import dataclass

from firsthand.api import StreamSchema
from firsthand_hl2ss import parsers, wire
from firsthand_hl2ss.config import AhatConfig, Hl2ssConfig, MicConfig, PvConfig, VlcConfig
from firsthand_hl2ss.framing import Limits
from firsthand_hl2ss.parsers import Parser
from firsthand_hl2ss.schemas import schemas
from firsthand_hl2ss.wire import POSE_BYTES, STREAM_PORTS, AudioProfile, EncoderOption, VideoProfile
from firsthand_hl2ss.wire_config import (
    AhatRequest,
    AudioRequest,
    LongThrowRequest,
    PvRequest,
    Video,
    VlcRequest,
    pack_eet,
    pack_imu,
)
from firsthand_hl2ss.wire_data import EET, IMU_READING, PV_METADATA, SI, VLC_METADATA

_RAW_PADDING = 64 * 1024
"""A raw picture may be padded beyond what is documented."""
_IMU_READINGS = 8192
_LARGEST_PV = wire.nv12_bytes(1952, 1100)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How one stream is asked for and understood."""

    schema: StreamSchema
    port: wire.Port
    request: bytes
    """Sent once a connection stands; nothing for spatial input."""
    limits: Limits
    parse: Parser
    calibration: bool = False
    """Whether its calibration is asked for at the start."""

    @property
    def name(self) -> str:
        return self.schema.name


def plans(config: Hl2ssConfig) -> list[StreamPlan]:
    """A plan for every stream that the settings ask for."""
    return [_plan(config, schema) for schema in schemas(config)]


def _plan(config: Hl2ssConfig, schema: StreamSchema) -> StreamPlan:
    name = schema.name
    if name == "pv" and config.pv:
        request, limits, parse, calibration = _pv(config.pv)
    elif name == "eet" and config.eet:
        limits = Limits(EET.itemsize, EET.itemsize, POSE_BYTES)
        request, parse, calibration = pack_eet(config.eet.fps), parsers.parse_eet, False
    elif name == "si":
        limits = Limits(SI.itemsize, SI.itemsize)
        request, parse, calibration = b"", parsers.parse_si, False
    elif name == "mic" and config.mic:
        request, limits, parse, calibration = _mic(config.mic)
    elif name.startswith("vlc_") and config.vlc:
        request, limits, parse, calibration = _vlc(config.vlc)
    elif name == "depth_long_throw" and config.depth_long_throw:
        far = config.depth_long_throw
        width, height = wire.DEPTH_LONG_THROW_SIZE
        limits = Limits(8 + 8, 8 + 2 * 4 * width * height, POSE_BYTES)
        asked = LongThrowRequest(far.divisor, wire.PngFilter[far.png_filter.upper()])
        request, parse, calibration = asked.pack(), parsers.parse_long_throw, far.calibration
    elif name == "depth_ahat" and config.depth_ahat:
        request, limits, parse, calibration = _ahat(config.depth_ahat)
    elif name.startswith("imu_") and config.imu:
        size = IMU_READING.itemsize
        limits = Limits(size, size * _IMU_READINGS, step=size)
        request, parse, calibration = pack_imu(), parsers.parse_imu, config.imu.calibration
        calibration = calibration and name != "imu_magnetometer"  # it has none and closes
    else:
        raise AssertionError(f"no plan for the stream {name}")
    return StreamPlan(schema, STREAM_PORTS[name], request, limits, parse, calibration)


def _pv(pv: PvConfig) -> tuple[bytes, Limits, Parser, bool]:
    request = PvRequest(pv.format, pv.video(pv.width, pv.height, pv.fps), pv.divisor).pack()
    raw = wire.nv12_bytes(pv.width, pv.height)
    tail = PV_METADATA.itemsize
    most = _LARGEST_PV if pv.shared else raw
    limits = Limits(tail, tail + most + _RAW_PADDING, POSE_BYTES)
    size = None if pv.shared else (pv.width, pv.height)
    return request, limits, parsers.pv_parser(pv.profile, size), pv.calibration


def _mic(mic: MicConfig) -> tuple[bytes, Limits, Parser, bool]:
    if mic.form == "aac":
        profile = AudioProfile[f"AAC_{mic.aac_kbit * 125}"]
        request = AudioRequest(profile, mic.aac_level)
        # An ADTS header has 7 bytes, and 13 bits for the length.
        return request.pack(), Limits(8, 8191), parsers.parse_aac, False
    if mic.form == "array":
        request = AudioRequest(AudioProfile.RAW, wire.AUDIO_LEVEL_ARRAY)
        sample = 4 * wire.ARRAY_CHANNELS
    else:
        request = AudioRequest(AudioProfile.RAW, 0)
        sample = 2 * wire.STEREO_CHANNELS
    limits = Limits(sample, sample * wire.SOUND_HZ, step=sample)
    return request.pack(), limits, parsers.pcm_parser(sample), False


def _vlc(vlc: VlcConfig) -> tuple[bytes, Limits, Parser, bool]:
    width, height = wire.VLC_SIZE
    video = vlc.video(width, height, wire.VLC_HZ)
    shift = (int(EncoderOption.VLC_TIME_SHIFT), vlc.time_shift_hns % 2**64)
    video = Video(video.profile, video.level, video.bitrate, (*video.options, shift))
    tail, raw = VLC_METADATA.itemsize, width * height
    if vlc.profile is VideoProfile.RAW:
        limits = Limits(tail + raw, tail + raw, POSE_BYTES)
    else:
        limits = Limits(tail, tail + 2 * raw, POSE_BYTES)
    request = VlcRequest(video, vlc.divisor).pack()
    return request, limits, parsers.vlc_parser(vlc.profile), vlc.calibration


def _ahat(ahat: AhatConfig) -> tuple[bytes, Limits, Parser, bool]:
    width, height = wire.DEPTH_AHAT_SIZE
    video = ahat.video(width, height, wire.DEPTH_AHAT_HZ)
    depth = wire.DepthProfile.ZDEPTH if ahat.zdepth else wire.DepthProfile.SAME
    request = AhatRequest(video, ahat.divisor, depth).pack()
    limits = Limits(8 + 8, 8 + 8 + 8 * width * height, POSE_BYTES)
    return request, limits, parsers.ahat_parser(ahat.profile), ahat.calibration
