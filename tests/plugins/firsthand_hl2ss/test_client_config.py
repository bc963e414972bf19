"""Settings: what is refused beforehand, and which bytes they become."""

from typing import Any

import pytest
from pydantic import ValidationError

from firsthand_hl2ss import wire_rc
from firsthand_hl2ss.camera_config import AppSettings, CameraSettings
from firsthand_hl2ss.config import Hl2ssConfig, MicConfig, PvConfig, VlcConfig
from firsthand_hl2ss.plan import plans
from firsthand_hl2ss.schemas import schemas
from firsthand_hl2ss.wire import PV_FORMATS

pytestmark = pytest.mark.unit


def request_of(stream: str, **settings: Any) -> bytes:
    config = Hl2ssConfig.model_validate({"host": "127.0.0.1", **settings})
    return next(plan.request for plan in plans(config) if plan.name == stream)


def test_the_defaults_are_1080p30_h264_with_15_pictures_from_key_to_key() -> None:
    assert request_of("pv").hex() == (
        "01" "8007" "3804" "1e" "01" "01" "ff" "00e09700" "01"
        "0a00000000000000" "0f00000000000000"
    )  # fmt: skip
    assert request_of("eet") == b"\x5a"
    assert request_of("si") == b""
    assert request_of("mic") == b"\xff\x00"


def test_hevc_at_30_with_a_gop_of_30_is_the_documented_example() -> None:
    asked = {"codec": "hevc", "bitrate": 5_000_000, "gop": 30}
    assert request_of("pv", pv=asked).hex() == (
        "01800738041e0103ff404b4c00010a000000000000001e00000000000000"
    )


@pytest.mark.parametrize("size", sorted(PV_FORMATS))
def test_every_format_that_the_camera_has_can_be_asked_for(size: tuple[int, int, int]) -> None:
    width, height, fps = size
    request = request_of("pv", pv={"width": width, "height": height, "fps": fps})
    assert request[1:6] == bytes((width & 255, width >> 8, height & 255, height >> 8, fps))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pv": {"width": 1920, "height": 1081}}, "no 1920×1081"),
        ({"pv": {"fps": 60}}, "not 60"),
        ({"pv": {"options": {"gop_sise": 3}}}, "did you mean 'gop_size'"),
        ({"pv": {"shared": True, "holograms": True}}, "shared"),
        ({"eet": {"fps": 45}}, "30, 60 or 90"),
        ({"mic": {"form": "aac", "aac_level": 1}}, "not 1"),
        ({"pv": None, "eet": None, "si": None, "mic": None}, "no stream is chosen"),
        ({"app": {"thread_priority": {"pw": 1}}}, "no stream 'pw'"),
        ({"pv": {"camera": {"iso": "manual", "iso_value": 50}}}, "iso_value"),
        ({"host": ""}, "host"),
        ({"pw": {}}, "pw"),
    ],
)
def test_what_cannot_be_is_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Hl2ssConfig.model_validate({"host": "127.0.0.1", **settings})


def test_encoder_options_go_by_name_or_number_and_replace_the_gop() -> None:
    options = {"low_latency": 1, "4096": 7, "gop_size": 99}
    data = request_of("pv", pv={"options": options})
    assert data[13] == 3
    pairs = [
        (
            int.from_bytes(data[at : at + 8], "little"),
            int.from_bytes(data[at + 8 : at + 16], "little"),
        )
        for at in range(14, len(data), 16)
    ]
    assert sorted(pairs) == [(10, 99), (16, 1), (4096, 7)]


def test_the_grey_cameras_time_shift_travels_as_a_signed_number() -> None:
    data = request_of("vlc_left_front", vlc=VlcConfig().model_dump(mode="json"))
    assert data[-16:-8] == b"\xfe" + b"\xff" * 7
    assert int.from_bytes(data[-8:], "little", signed=True) == -125_000


def test_sound_is_asked_for_in_three_forms() -> None:
    assert request_of("mic", mic={"form": "aac"}) == b"\x03\x29"
    assert request_of("mic", mic={"form": "aac", "aac_kbit": 96}) == b"\x00\x29"
    assert request_of("mic", mic={"form": "array"}) == b"\xff\x2b"
    (array,) = [
        s for s in schemas(Hl2ssConfig(host="h", mic=MicConfig(form="array"))) if s.channels
    ]
    assert array.channels == 5


def sent(settings: dict[str, Any]) -> list[str]:
    commands = CameraSettings.model_validate(settings).commands()
    return [wire_rc.pack(op, *arguments).hex() for op, arguments in commands]


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"focus": {}}, "04 02000000 02000000 00000000 e8030000 00000000"),
        (
            {"focus": {"mode": "manual", "value": 170, "driver_fallback": False}},
            "04 03000000 02000000 00000000 aa000000 01000000",
        ),
        ({"temporal_denoising": True}, "05 01000000"),
        ({"white_balance": "candlelight"}, "06 07000000"),
        ({"white_balance": "auto"}, "06 00000000"),
        ({"white_balance_k": 2300}, "07 5c000000"),
        ({"white_balance_k": 7500}, "07 2c010000"),
        ({"exposure": "manual", "exposure_us": 66_000}, "08 00000000 d0010100"),
        ({"exposure": "auto"}, "08 01000000 10270000"),
        ({"exposure_priority": False}, "09 00000000"),
        ({"iso": "manual", "iso_value": 3200}, "0a 00000000 800c0000"),
        ({"backlight_compensation": True}, "0b 01000000"),
        ({"scene": "backlit"}, "0c 0c000000"),
        ({"scene": "auto"}, "0c 00000000"),
        ({"optimisation": "power_and_quality"}, "0f 06000000"),
        ({"primary_use": "video"}, "10 02000000"),
        ({"optical_stabilisation": False}, "11 00000000"),
        ({"hdr": "auto"}, "12 02000000"),
        (
            {"region": {"x": 0.5, "width": 0.25, "weight": 50, "face": True}},
            "13 b21f0000 0000003f 00000000 0000803e 0000803f",
        ),
    ],
)  # fmt: skip
def test_camera_settings_become_the_documented_commands(
    settings: dict[str, Any], command: str
) -> None:
    assert sent(settings) == [command.replace(" ", "")]


def test_settings_that_are_not_given_send_nothing() -> None:
    assert sent({}) == []
    assert AppSettings().commands(3800) == []


def test_app_settings_become_the_documented_commands() -> None:
    settings = AppSettings(
        pv_marker=True,
        flat_mode=False,
        quiet_mode=True,
        eye_selection=True,
        thread_priority={"pv": 2},
        si_delay_ms=-16.5,
        encoder_buffering=False,
        reader_buffering=True,
        vlc_workaround={"vlc_left_left": True},
    )
    commands = {wire_rc.pack(op, *rest).hex() for op, rest in settings.commands(3800)}
    assert commands == {
        "0201000000",
        "0d00000000",
        "1501000000",
        "0e01000000",
        "14e20e000002000000",
        "19787bfdffffffffff",
        "2000000000",
        "2101000000",
        "22d90e000001000000",
    }


def test_streams_of_15_packets_a_second_or_more_stall_within_a_second() -> None:
    for schema in schemas(Hl2ssConfig(host="h", pv=PvConfig(fps=15))):
        assert schema.stalls_after_s < 1.0
    (slow,) = schemas(Hl2ssConfig(host="h", pv=PvConfig(divisor=30), eet=None, si=None, mic=None))
    assert slow.nominal_hz == 1.0
    assert slow.stalls_after_s == 3.0
