"""Consent decides what is asked of a device, before anything is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from firsthand.api import (
    Column,
    Device,
    DeviceSink,
    PayloadKind,
    PluginConfig,
    SettingsError,
    StreamRole,
    StreamSchema,
)
from firsthand.host import load_plugins
from firsthand.paths import study_protocols_dir
from firsthand.session.consent import (
    checked_answers,
    is_refused,
    refused_data,
    without_data,
)
from firsthand.session.loading import load_protocol
from firsthand.session.protocol import Consent, DataType

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def step() -> Consent:
    found = load_protocol(study_protocols_dir() / "mica.yaml").phase("demonstration").steps[0]
    assert isinstance(found, Consent)
    return found


def answers(step: Consent, **no: bool) -> dict[str, bool]:
    return {scope.id: no.get(scope.id, True) for scope in step.scopes}


def test_every_point_must_be_answered_and_no_other(step: Consent) -> None:
    whole = answers(step)
    assert checked_answers(step, whole) == whole
    with pytest.raises(SettingsError, match="not answered yet: gaze"):
        checked_answers(step, {k: v for k, v in whole.items() if k != "gaze"})
    with pytest.raises(SettingsError, match="Did you mean 'gaze'"):
        checked_answers(step, {**whole, "gase": True})


def test_a_no_to_what_is_needed_refuses_and_to_anything_else_does_not(step: Consent) -> None:
    assert is_refused(step, answers(step, video=False))
    assert not is_refused(step, answers(step, gaze=False, sound=False, hands=False))
    assert refused_data(step, answers(step, sound=False, excerpts=False)) == {DataType.SOUND}


def streams_left(*refused: DataType, **settings: Any) -> set[str] | None:
    host = load_plugins(only=["hl2ss"])
    asked = {"host": "127.0.0.1", **settings}
    left = without_data(host.make_device, "hl2ss", asked, refused)
    if left is None:
        return None
    return {schema.name for schema in host.make_device("hl2ss", left).schemas()}


def test_without_sound_the_headset_is_not_asked_for_its_microphone() -> None:
    assert streams_left(DataType.SOUND) == {"pv", "eet", "si"}


def test_without_gaze_the_eye_ray_beside_the_hands_is_left_out_too() -> None:
    assert streams_left(DataType.GAZE) == {"pv", "mic"}


def test_without_hands_gaze_stays() -> None:
    assert streams_left(DataType.HANDS) == {"pv", "eet", "mic"}


def test_a_yes_to_everything_changes_nothing() -> None:
    assert streams_left() == {"pv", "eet", "si", "mic"}


def test_a_device_of_which_nothing_is_left_is_not_used() -> None:
    assert streams_left(DataType.SOUND, pv=None, eet=None, si=None) is None


def test_cameras_depth_and_motion_are_answers_of_their_own() -> None:
    everything: dict[str, Any] = {"vlc": {}, "depth_long_throw": {}, "imu": {}}
    refused = (DataType.CAMERAS, DataType.DEPTH, DataType.MOTION)
    assert streams_left(*refused, **everything) == {"pv", "eet", "si", "mic"}


class StubbornConfig(PluginConfig):
    pass


class Stubborn(Device):
    """Delivers sound and pictures and cannot be asked to leave either out."""

    name = "stubborn"
    title = "Stubborn"
    Config = StubbornConfig

    def schemas(self) -> Sequence[StreamSchema]:
        return [
            StreamSchema("picture", "Picture", (Column("n", "<u4"),), StreamRole.VIDEO),
            StreamSchema("noise", "Noise", payload=PayloadKind.PCM_S16, sample_hz=8000),
        ]

    def open(self, sink: DeviceSink) -> None:
        raise AssertionError("nothing may be opened to find this out")

    def close(self) -> None:
        return


def test_a_device_that_cannot_do_without_refused_data_is_refused_itself() -> None:
    def make(_: str, settings: Mapping[str, Any]) -> Device:
        return Stubborn(StubbornConfig(**settings))

    with pytest.raises(SettingsError, match="sound"):
        without_data(make, "stubborn", {}, {DataType.SOUND})
