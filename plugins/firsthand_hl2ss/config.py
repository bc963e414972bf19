"""Settings of the hl2ss device: which streams, in which form, and how patient the client is."""

import difflib
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from firsthand.api import PluginConfig
from firsthand_hl2ss import wire
from firsthand_hl2ss.camera_config import AppSettings, CameraSettings
from firsthand_hl2ss.wire import EncoderOption, VideoProfile
from firsthand_hl2ss.wire_config import Format, MixedReality, Video

_U64 = Annotated[int, Field(ge=0, lt=2**64)]
_VIDEO_PROFILES = {
    "h264": VideoProfile.H264_MAIN,
    "h264_baseline": VideoProfile.H264_BASELINE,
    "h264_main": VideoProfile.H264_MAIN,
    "h264_high": VideoProfile.H264_HIGH,
    "hevc": VideoProfile.HEVC_MAIN,
    "raw": VideoProfile.RAW,
}
_Codec = Literal["h264", "h264_baseline", "h264_main", "h264_high", "hevc", "raw"]


class EncodedConfig(PluginConfig):
    """How pictures are encoded on the headset."""

    codec: _Codec = Field(default="h264", description="Encoding; h264 means its main profile.")
    level: int = Field(
        default=wire.LEVEL_CHOSEN_BY_ENCODER,
        ge=0,
        le=255,
        description="Codec level; 255: encoder's choice.",
    )
    bitrate: int | None = Field(
        default=None, ge=1, lt=2**32, description="Bits per second; empty: by size and rate."
    )
    gop: int | None = Field(
        default=15,
        ge=1,
        le=10_000,
        description="Pictures from key frame to key frame; a seek decodes these.",
    )
    options: dict[str, _U64] = Field(
        default_factory=dict,
        description="Further encoder options by name (such as `low_latency`) or number.",
    )
    divisor: int = Field(default=1, ge=1, le=255, description="Keep one picture of so many.")

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, int]) -> dict[str, int]:
        names = [option.name.lower() for option in EncoderOption]
        for key in options:
            if key.isdecimal() and int(key) < 2**64:
                continue
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
                raise ValueError(f"there is no encoder option {key!r}{hint}")
        if len(options) > 250:
            raise ValueError("more than 250 encoder options cannot be sent")
        return options

    @property
    def profile(self) -> VideoProfile:
        return _VIDEO_PROFILES[self.codec]

    def video(self, width: int, height: int, fps: int) -> Video:
        """What the app is told about the encoder, for pictures of that size."""
        options = {} if self.gop is None else {int(EncoderOption.GOP_SIZE): self.gop}
        for key, value in self.options.items():
            options[int(key) if key.isdecimal() else EncoderOption[key.upper()].value] = value
        bitrate = self.bitrate or wire.default_bitrate(width, height, fps, self.profile)
        return Video(self.profile, self.level, bitrate, tuple(options.items()))


class PvConfig(EncodedConfig):
    """Front camera: personal video."""

    width: int = Field(default=1920, description="Width in pixels.")
    height: int = Field(default=1080, description="Height in pixels.")
    fps: int = Field(default=30, description="Pictures per second.")
    holograms: bool = Field(default=False, description="Draw holograms into the picture.")
    hologram_composition: bool = Field(
        default=True, description="Compose holograms on the headset."
    )
    recording_indicator: bool = Field(default=False, description="Show the wearer that it records.")
    video_stabilisation: bool = Field(default=False, description="Steady the picture; shifts it.")
    stabilisation_length: int = Field(
        default=0, ge=0, le=60, description="Frames that steadying looks at."
    )
    blank_protected: bool = Field(default=False, description="Blank protected content.")
    show_mesh: bool = Field(default=False, description="Draw the room's mesh.")
    shared: bool = Field(
        default=False,
        description="Use the camera beside another app; size and rate are then that app's.",
    )
    opacity: float = Field(default=0.9, ge=0, le=1, description="Opacity of holograms.")
    hologram_perspective: Literal["display", "camera"] = Field(
        default="camera", description="From where holograms are seen."
    )
    stop_camera: bool = Field(default=True, description="Turn the camera off at the end.")
    calibration: bool = Field(
        default=True, description="Ask for the camera's calibration at the start."
    )
    camera: CameraSettings = Field(
        default_factory=CameraSettings, description="Focus, exposure, colour and so on."
    )

    @model_validator(mode="after")
    def _offered(self) -> Self:
        if (self.width, self.height, self.fps) not in wire.PV_FORMATS:
            sizes = sorted({(w, h) for w, h, _ in wire.PV_FORMATS}, reverse=True)
            rates = sorted(f for w, h, f in wire.PV_FORMATS if (w, h) == (self.width, self.height))
            if rates:
                raise ValueError(
                    f"the camera has {self.width}×{self.height} with {rates} pictures a second, "
                    f"not {self.fps}"
                )
            raise ValueError(
                f"the camera has no {self.width}×{self.height}; it has "
                + ", ".join(f"{w}×{h}" for w, h in sizes)
            )
        if self.shared and self.holograms:
            raise ValueError("holograms cannot be drawn while the camera is shared")
        return self

    @property
    def format(self) -> Format:
        return Format(self.width, self.height, self.fps)

    @property
    def opening(self) -> MixedReality:
        return MixedReality(
            holograms=self.holograms,
            hologram_composition=self.hologram_composition,
            recording_indicator=self.recording_indicator,
            video_stabilisation=self.video_stabilisation,
            blank_protected=self.blank_protected,
            show_mesh=self.show_mesh,
            shared=self.shared,
            opacity=self.opacity,
            stabilisation_length=self.stabilisation_length,
            perspective=int(self.hologram_perspective == "camera"),
        )


class EetConfig(PluginConfig):
    """Extended eye tracker."""

    fps: Literal[30, 60, 90] = Field(default=90, description="Readings per second.")


class SiConfig(PluginConfig):
    """Spatial input: head, eye ray, hands."""


class MicConfig(PluginConfig):
    """Microphone."""

    form: Literal["pcm", "aac", "array"] = Field(
        default="pcm",
        description="Stereo as it is, stereo as AAC, or the five microphones unprocessed.",
    )
    aac_kbit: Literal[96, 128, 160, 192] = Field(
        default=192, description="AAC: kilobits per second."
    )
    aac_level: int = Field(default=wire.AAC_LEVEL_DEFAULT, description="AAC: level indication.")

    @field_validator("aac_level")
    @classmethod
    def _known_level(cls, level: int) -> int:
        if level not in wire.AAC_LEVELS:
            raise ValueError(f"AAC has levels {sorted(wire.AAC_LEVELS)}, not {level}")
        return level


class VlcConfig(EncodedConfig):
    """Grey tracking cameras (Research Mode)."""

    cameras: tuple[Literal["left_front", "left_left", "right_front", "right_right"], ...] = Field(
        default=("left_front", "left_left", "right_front", "right_right"),
        min_length=1,
        description="Which of the four.",
    )
    time_shift_hns: int = Field(
        default=wire.VLC_TIME_SHIFT_HNS,
        ge=-(2**63),
        lt=2**63,
        description="Added to their times by the headset, in 100 ns: they are stamped late.",
    )
    calibration: bool = Field(
        default=True, description="Ask for the calibration at the start (5 MB each)."
    )


class LongThrowConfig(PluginConfig):
    """Far depth camera (Research Mode)."""

    divisor: int = Field(default=1, ge=1, le=255, description="Keep one picture of so many.")
    png_filter: Literal["automatic", "none", "sub", "up", "average", "paeth", "adaptive"] = Field(
        default="automatic", description="How the picture is compressed."
    )
    calibration: bool = Field(
        default=True, description="Ask for the calibration at the start (1.5 MB)."
    )


class AhatConfig(EncodedConfig):
    """Near depth camera (Research Mode)."""

    codec: _Codec = Field(default="raw", description="Encoding of what is not Zdepth.")
    gop: int | None = Field(
        default=45, ge=1, le=10_000, description="Pictures from key frame to key frame."
    )
    zdepth: bool = Field(default=False, description="Depth apart, compressed without loss.")
    calibration: bool = Field(
        default=True, description="Ask for the calibration at the start (4 MB)."
    )


class ImuConfig(PluginConfig):
    """Motion sensors (Research Mode)."""

    sensors: tuple[Literal["accelerometer", "gyroscope", "magnetometer"], ...] = Field(
        default=("accelerometer", "gyroscope", "magnetometer"),
        min_length=1,
        description="Which of them.",
    )
    calibration: bool = Field(default=True, description="Ask for the calibration at the start.")


class PatienceConfig(PluginConfig):
    """How long the client waits for what. The defaults suit a headset on its own access point."""

    connect_s: float = Field(
        default=1.0, ge=0.1, le=10, description="For a connection to be taken."
    )
    reply_s: float = Field(
        default=1.0, ge=0.1, le=10, description="For a reply of remote configuration."
    )
    explain_s: float = Field(
        default=1.5, ge=0.2, le=60, description="Without a first byte, before it is explained why."
    )
    grace_s: float = Field(
        default=0.75,
        ge=0,
        le=10,
        description="After a lost path has come back: for what still waits in the headset.",
    )
    camera_s: float = Field(default=10.0, ge=0.5, le=120, description="For the camera to turn on.")
    calibration_s: float = Field(default=4.0, ge=0.2, le=60, description="For a calibration.")
    clock_s: float = Field(
        default=5.0, ge=0.2, le=60, description="Between two comparisons of clocks."
    )


class Hl2ssConfig(PluginConfig):
    """A HoloLens 2 that runs the hl2ss app."""

    host: str = Field(min_length=1, max_length=253, description="The headset's IPv4 address.")
    base_port: int = Field(
        default=wire.BASE_PORT,
        ge=1,
        le=65_514,
        description="First of the app's ports; fixed on a headset.",
    )
    pv: PvConfig | None = Field(default_factory=PvConfig, description="Front camera.")
    eet: EetConfig | None = Field(default_factory=EetConfig, description="Eye tracker.")
    si: SiConfig | None = Field(default_factory=SiConfig, description="Head, eye ray and hands.")
    mic: MicConfig | None = Field(default_factory=MicConfig, description="Microphone.")
    vlc: VlcConfig | None = Field(default=None, description="Grey cameras (Research Mode).")
    depth_long_throw: LongThrowConfig | None = Field(
        default=None, description="Far depth (Research Mode)."
    )
    depth_ahat: AhatConfig | None = Field(default=None, description="Near depth (Research Mode).")
    imu: ImuConfig | None = Field(default=None, description="Motion sensors (Research Mode).")
    app: AppSettings = Field(
        default_factory=AppSettings, description="Settings of the app on the headset."
    )
    patience: PatienceConfig = Field(
        default_factory=PatienceConfig, description="How long to wait for what."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        chosen = (self.pv, self.eet, self.si, self.mic, self.vlc, self.depth_long_throw)
        if not any((*chosen, self.depth_ahat, self.imu)):
            raise ValueError("no stream is chosen; choose at least one of pv, eet, si, mic")
        return self
