"""Settings that are sent to the headset by remote configuration: camera and app.

A value of None leaves the headset as it is. Ranges are the app's own: it ignores silently what lies
outside, so we refuse it beforehand.
"""

import struct
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from firsthand.api import PluginConfig
from firsthand_hl2ss import wire_rc
from firsthand_hl2ss.wire import STREAM_PORTS
from firsthand_hl2ss.wire_rc import Op

Command: TypeAlias = tuple[Op, tuple[Any, ...]]


class _Words(IntEnum):
    """Numbers of the wire with the words of the settings."""

    @classmethod
    def of(cls, word: str) -> int:
        return cls[word.upper()].value


class FocusMode(_Words):
    AUTO = 0
    SINGLE = 1
    CONTINUOUS = 2
    MANUAL = 3


class FocusRange(_Words):
    FULL = 0
    MACRO = 1
    NORMAL = 2


class FocusDistance(_Words):
    INFINITY = 0
    NEAREST = 2


class WhiteBalance(_Words):
    AUTO = 0
    MANUAL = 1
    CLOUDY = 2
    DAYLIGHT = 3
    FLASH = 4
    FLUORESCENT = 5
    TUNGSTEN = 6
    CANDLELIGHT = 7


class Scene(_Words):
    AUTO = 0
    MACRO = 2
    PORTRAIT = 3
    SPORT = 4
    SNOW = 5
    NIGHT = 6
    BEACH = 7
    SUNSET = 8
    CANDLELIGHT = 9
    LANDSCAPE = 10
    NIGHT_PORTRAIT = 11
    BACKLIT = 12


class Optimisation(_Words):
    DEFAULT = 0
    QUALITY = 1
    LATENCY = 2
    POWER = 3
    LATENCY_THEN_QUALITY = 4
    LATENCY_THEN_POWER = 5
    POWER_AND_QUALITY = 6


class PrimaryUse(_Words):
    NOT_SET = 0
    PHOTO = 1
    VIDEO = 2


class Hdr(_Words):
    OFF = 0
    ON = 1
    AUTO = 2


class FocusSettings(PluginConfig):
    """How the front camera focuses."""

    mode: Literal["auto", "single", "continuous", "manual"] = Field(
        default="continuous", description="Manual keeps the focus where `value` puts it."
    )
    range: Literal["full", "macro", "normal"] = Field(
        default="normal", description="Range searched."
    )
    distance: Literal["infinity", "nearest"] = Field(
        default="infinity", description="Where to begin."
    )
    value: int = Field(
        default=1000, ge=170, le=10000, description="Lens position, in the driver's units."
    )
    driver_fallback: bool = Field(
        default=True,
        description="Let the driver fall back to its own choice; switch off for manual.",
    )

    def command(self) -> Command:
        return Op.PV_FOCUS, (
            FocusMode.of(self.mode),
            FocusRange.of(self.range),
            FocusDistance.of(self.distance),
            self.value,
            0 if self.driver_fallback else 1,
        )


class RegionSettings(PluginConfig):
    """A part of the picture that focus and exposure care for most."""

    x: float = Field(default=0.0, ge=0, le=1, description="Left edge, as a share of the width.")
    y: float = Field(default=0.0, ge=0, le=1, description="Top edge, as a share of the height.")
    width: float = Field(default=1.0, gt=0, le=1, description="Width, as a share of the picture's.")
    height: float = Field(
        default=1.0, gt=0, le=1, description="Height, as a share of the picture's."
    )
    weight: int = Field(default=100, ge=0, le=100, description="How much it counts, in percent.")
    face: bool = Field(default=False, description="Whether it holds a face.")
    auto_focus: bool = Field(default=True, description="Whether focus looks at it.")
    auto_exposure: bool = Field(default=True, description="Whether exposure looks at it.")
    clear_first: bool = Field(default=True, description="Forget earlier regions first.")

    def command(self) -> Command:
        bits = self.weight | wire_rc.ROI_NORMALISED | wire_rc.ROI_SET
        bits |= wire_rc.ROI_FACE if self.face else 0
        bits |= wire_rc.ROI_AUTO_FOCUS if self.auto_focus else 0
        bits |= wire_rc.ROI_AUTO_EXPOSURE if self.auto_exposure else 0
        bits |= wire_rc.ROI_CLEAR_FIRST if self.clear_first else 0
        return Op.PV_REGION, (bits, self.x, self.y, self.width, self.height)


class CameraSettings(PluginConfig):
    """Settings of the front camera, sent each time after it has been turned on."""

    focus: FocusSettings | None = Field(default=None, description="How the camera focuses.")
    temporal_denoising: bool | None = Field(default=None, description="Less noise, some smear.")
    white_balance: (
        Literal[
            "auto",
            "manual",
            "cloudy",
            "daylight",
            "flash",
            "fluorescent",
            "tungsten",
            "candlelight",
        ]
        | None
    ) = Field(default=None, description="Preset; manual goes with `white_balance_k`.")
    white_balance_k: int | None = Field(
        default=None, ge=2300, le=7500, multiple_of=25, description="Colour temperature in kelvin."
    )
    exposure: Literal["auto", "manual"] | None = Field(
        default=None, description="Manual keeps the exposure at `exposure_us`."
    )
    exposure_us: int = Field(
        default=10000, ge=100, le=66000, description="Exposure in microseconds."
    )
    exposure_priority: bool | None = Field(
        default=None, description="Hold the frame rate in the dark rather than expose for longer."
    )
    iso: Literal["auto", "manual"] | None = Field(
        default=None, description="Manual keeps the sensitivity at `iso_value`."
    )
    iso_value: int = Field(default=800, ge=100, le=3200, description="Sensitivity.")
    backlight_compensation: bool | None = Field(default=None, description="Lift dark foregrounds.")
    scene: (
        Literal[
            "auto",
            "macro",
            "portrait",
            "sport",
            "snow",
            "night",
            "beach",
            "sunset",
            "candlelight",
            "landscape",
            "night_portrait",
            "backlit",
        ]
        | None
    ) = Field(default=None, description="Scene mode of the driver.")
    optimisation: (
        Literal[
            "default",
            "quality",
            "latency",
            "power",
            "latency_then_quality",
            "latency_then_power",
            "power_and_quality",
        ]
        | None
    ) = Field(default=None, description="What the driver favours.")
    primary_use: Literal["not_set", "photo", "video"] | None = Field(
        default=None, description="What the pictures are for."
    )
    optical_stabilisation: bool | None = Field(
        default=None, description="Move the lens against shaking."
    )
    hdr: Literal["off", "on", "auto"] | None = Field(
        default=None, description="High dynamic range."
    )
    region: RegionSettings | None = Field(
        default=None, description="What focus and exposure care for."
    )

    def commands(self) -> list[Command]:
        """The commands that these settings stand for, in the order in which they are sent."""
        found: list[Command] = []
        for value, op in (
            (self.optimisation and Optimisation.of(self.optimisation), Op.PV_OPTIMISATION),
            (self.primary_use and PrimaryUse.of(self.primary_use), Op.PV_PRIMARY_USE),
            (self.scene and Scene.of(self.scene), Op.PV_SCENE_MODE),
            (self.temporal_denoising, Op.PV_TEMPORAL_DENOISING),
            (self.optical_stabilisation, Op.PV_OPTICAL_STABILISATION),
            (self.hdr and Hdr.of(self.hdr), Op.PV_HDR),
            (self.backlight_compensation, Op.PV_BACKLIGHT_COMPENSATION),
            (self.exposure_priority, Op.PV_EXPOSURE_PRIORITY),
            (
                self.white_balance and WhiteBalance.of(self.white_balance),
                Op.PV_WHITE_BALANCE_PRESET,
            ),
        ):
            if value is not None:
                found.append((op, (int(value),)))
        if self.white_balance_k is not None:
            found.append((Op.PV_WHITE_BALANCE_VALUE, (self.white_balance_k // 25,)))
        if self.exposure is not None:
            found.append((Op.PV_EXPOSURE, (int(self.exposure == "auto"), self.exposure_us)))
        if self.iso is not None:
            found.append((Op.PV_ISO, (int(self.iso == "auto"), self.iso_value)))
        if self.focus is not None:
            found.append(self.focus.command())
        if self.region is not None:
            found.append(self.region.command())
        return found


PRIORITIES: Final = 2
_Priority = Annotated[int, Field(ge=-PRIORITIES, le=PRIORITIES)]


class AppSettings(PluginConfig):
    """Settings of the hl2ss app, sent at the first contact and after it was started again."""

    pv_marker: bool | None = Field(
        default=None, description="Show the wearer the camera's field of view."
    )
    flat_mode: bool | None = Field(
        default=None,
        description="Run as a flat window, without spatial input, from the app's next start.",
    )
    quiet_mode: bool | None = Field(
        default=None, description="No pop-ups, from the app's next start."
    )
    eye_selection: bool | None = Field(default=None, description="Eye selection of Research Mode.")
    thread_priority: dict[str, _Priority] = Field(
        default_factory=dict, description="Priority from −2 to 2 of a stream's thread, by name."
    )
    si_delay_ms: float | None = Field(
        default=None,
        ge=-1000,
        le=1000,
        description="Spatial input of so long ago; negative predicts.",
    )
    encoder_buffering: bool | None = Field(default=None, description="Buffering in the encoders.")
    reader_buffering: bool | None = Field(default=None, description="Buffering in the readers.")
    vlc_workaround: dict[str, bool] = Field(
        default_factory=dict, description="Another way of capture for a grey camera, by stream."
    )

    def model_post_init(self, _: Any) -> None:
        for name in {*self.thread_priority, *self.vlc_workaround} - set(STREAM_PORTS):
            raise ValueError(f"there is no stream {name!r}; streams are {', '.join(STREAM_PORTS)}")

    def commands(self, base_port: int) -> list[Command]:
        """The commands that these settings stand for, in the order in which they are sent."""
        found: list[Command] = []
        for value, op in (
            (self.pv_marker, Op.PV_MARKER),
            (self.flat_mode, Op.FLAT_MODE),
            (self.quiet_mode, Op.QUIET_MODE),
            (self.encoder_buffering, Op.ENCODER_BUFFERING),
            (self.reader_buffering, Op.READER_BUFFERING),
        ):
            if value is not None:
                found.append((op, (int(value),)))
        if self.si_delay_ms is not None:
            found.append((Op.SI_DELAY, (round(self.si_delay_ms * 10_000),)))
        for name, priority in self.thread_priority.items():
            found.append((Op.THREAD_PRIORITY, (STREAM_PORTS[name].on(base_port), priority)))
        for name, on in self.vlc_workaround.items():
            found.append((Op.VLC_WORKAROUND, (STREAM_PORTS[name].on(base_port), int(on))))
        if self.eye_selection is not None:
            found.append((Op.RM_EYE_SELECTION, (int(self.eye_selection),)))
        return found


def describe(command: Command) -> dict[str, Any]:
    """A command as JSON types, for the recording."""
    op, arguments = command
    return {"command": op.name.lower(), "arguments": [_json(a) for a in arguments]}


def _json(value: Any) -> Any:
    # What the headset gets is a float32: the file tells that very number.
    if isinstance(value, float):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return value
