"""Settings that are wrong are told by key, with what was probably meant."""

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from firsthand.api import PluginConfig, SettingsError
from firsthand.host.settings import checked

pytestmark = pytest.mark.unit


class Camera(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    width_px: int = 1280


class Config(PluginConfig):
    host: str
    rate_hz: float = Field(default=30.0, gt=0)
    camera: Camera = Camera()
    spare: Camera | None = None

    @field_validator("host")
    @classmethod
    def _is_an_address(cls, host: str) -> str:
        if " " in host:
            raise ValueError("An address has no spaces")
        return host


def test_good_settings_become_the_config() -> None:
    config = checked("a device", Config, {"host": "127.0.0.1", "camera": {"width_px": 640}})
    assert config == Config(host="127.0.0.1", camera=Camera(width_px=640))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hots": "x", "host": "x"}, "there is no setting 'hots'. Did you mean 'host'?"),
        (
            {"host": "x", "zzz": 1},
            "there is no setting 'zzz'. There is: camera, host, rate_hz, spare.",
        ),
        ({}, "the setting 'host' is missing"),
        (
            {"hots": "x"},
            "the setting 'host' is missing. There is no setting 'hots'. Did you mean 'host'?",
        ),
        ({"host": "x", "rate_hz": -1}, "'rate_hz': input should be greater than 0"),
        ({"host": "a b"}, "'host': an address has no spaces"),
        (
            {"host": "x", "camera": {"widht_px": 1}},
            "there is no setting 'camera.widht_px'. Did you mean 'width_px'?",
        ),
        (
            {"host": "x", "spare": {"widht_px": 1}},
            "there is no setting 'spare.widht_px'. Did you mean 'width_px'?",
        ),
        ({"host": "x", "spare": 5}, "'spare' is set by its parts, such as spare.width_px."),
        ({"host": 3, "rate_hz": "fast"}, "'rate_hz': input should be a valid number"),
    ],
)
def test_wrong_settings_are_told_in_words(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        checked("the device 'headset'", Config, settings)
    assert words in str(caught.value)
    assert "?." not in str(caught.value)
    assert ".." not in str(caught.value)
    assert "the device 'headset'" in str(caught.value)
    assert "pydantic" not in str(caught.value)
