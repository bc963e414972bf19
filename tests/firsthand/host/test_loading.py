"""Plugins given by the program: taken by kind and name, or refused with both names told."""

import threading
from types import ModuleType
from typing import Any

import pytest

from firsthand.api import Device, PluginError, SettingsError, hookimpl
from firsthand.host import PluginHost, load_plugins
from firsthand.testing.bad_plugins import BAD, GOOD

pytestmark = pytest.mark.unit


def module(name: str, source: str) -> ModuleType:
    made = ModuleType(name)
    exec(source, made.__dict__)
    return made


def good(name: str, offered: str) -> ModuleType:
    return module(name, GOOD.format(offered=offered))


def load(*plugins: object, **more: Any) -> PluginHost:
    return load_plugins(extra=plugins, only=(), **more)


def refusals(host: PluginHost) -> dict[str, str]:
    return {plugin.name: plugin.refused for plugin in host.plugins if plugin.refused is not None}


def test_a_plugin_is_listed_with_its_hooks_and_offers() -> None:
    (info,) = load(good("firsthand_calm", "quiet")).plugins
    assert (info.name, info.hooks, info.refused) == ("calm", ("firsthand_devices",), None)
    (offer,) = info.offers
    assert (offer.kind, offer.name) == ("device", "quiet")
    assert info.to_json()["offers"] == (
        {"kind": "device", "name": "quiet", "title": "A device that is quiet"},
    )


def test_classes_are_given_by_kind_and_name() -> None:
    host = load(good("one", "quiet"), good("two", "still"))
    assert set(host.devices()) == {"quiet", "still"}
    assert host.device("quiet").name == "quiet"
    assert host.owner("device", "still").name == "two"
    assert not host.exporters()
    assert not host.simulators()


def test_a_name_nobody_offers_is_answered_with_the_closest() -> None:
    host = load(good("one", "quiet"), module("two", BAD["misspelt"]))
    with pytest.raises(SettingsError, match=r"no device 'quite'\. Did you mean 'quiet'\?") as told:
        host.device("quite")
    assert "refused: two" in str(told.value)
    with pytest.raises(SettingsError, match="no exporter 'mp4'"):
        host.exporter("mp4")
    with pytest.raises(SettingsError, match="no simulator 'quiet'"):
        host.simulator("quiet")


def test_a_device_is_made_with_checked_settings() -> None:
    host = load(good("one", "quiet"))
    device = host.make_device("quiet", {"streams": 3})
    assert isinstance(device, host.device("quiet"))
    assert device.config.model_dump() == {"streams": 3}
    with pytest.raises(SettingsError, match=r"the device 'quiet'.*Did you mean 'streams'"):
        host.make_device("quiet", {"steams": 3})


def test_a_device_that_cannot_be_made_names_its_plugin() -> None:
    source = GOOD.format(offered="quiet").replace(
        "    def schemas", "    def __init__(self, config):\n        1 / 0\n\n    def schemas"
    )
    host = load(module("shaky", source))
    for _ in range(3):
        with pytest.raises(PluginError, match=r"'shaky' failed while making .* ZeroDivisionError"):
            host.make_device("quiet", {})
    with pytest.raises(PluginError, match="switched off"):
        host.make_device("quiet", {})


def test_a_class_that_makes_something_else_is_noticed() -> None:
    source = GOOD.format(offered="quiet").replace(
        "    def schemas", "    def __new__(cls, config):\n        return 3\n\n    def schemas"
    )
    with pytest.raises(PluginError, match="made something else"):
        load(module("shaky", source)).make_device("quiet", {})


def test_two_plugins_that_offer_one_name_are_both_told() -> None:
    host = load(good("first", "quiet"), good("second", "quiet"), good("third", "still"))
    kept, refused, other = host.plugins
    assert refused.refused is not None
    assert "'quiet'" in refused.refused
    assert "'first'" in refused.refused
    assert "'second'" in refused.refused
    assert "'second' was refused" in kept.notes[0]
    assert other.refused is None
    assert set(host.devices()) == {"quiet", "still"}
    assert host.owner("device", "quiet").name == "first"


def test_a_plugin_that_offers_a_name_twice_is_refused() -> None:
    source = GOOD.format(offered="quiet").replace("[QuietDevice]", "[QuietDevice, QuietDevice]")
    assert "'quiet' twice" in refusals(load(module("double", source)))["double"]


def test_two_plugins_of_one_name_are_not_both_taken() -> None:
    host = load(good("same", "quiet"), good("same", "still"))
    assert "already a plugin of the name 'same'" in refusals(host)["same"]
    assert set(host.devices()) == {"quiet"}


@pytest.mark.parametrize("backwards", [False, True])
def test_refused_plugins_stop_no_other_whatever_the_order(backwards: bool) -> None:
    names = ["raises_in_hooks", "nonsense_in_hooks", "misspelt", "wrong_arguments", "no_hooks"]
    plugins = [*(module(name, BAD[name]) for name in names), good("calm", "quiet")]
    host = load(*(reversed(plugins) if backwards else plugins))
    assert set(refusals(host)) == set(names)
    assert set(host.devices()) == {"quiet"}


def test_a_plugin_that_raises_is_refused_in_its_own_words() -> None:
    told = refusals(load(module("shaky", BAD["raises_in_hooks"])))["shaky"]
    assert told == "it failed while loading: ValueError: not today"


def test_a_refusal_is_one_printable_line_whatever_the_plugin_says() -> None:
    source = BAD["raises_in_hooks"].replace("not today", "\\x1b[2J\\nline" + "x" * 10_000)
    told = refusals(load(module("rude", source)))["rude"]
    assert told.isprintable()
    assert len(told) < 1000


class Hangs:
    """A plugin object whose hook waits for the test to end it."""

    def __init__(self) -> None:
        self.release = threading.Event()

    @hookimpl
    def firsthand_devices(self) -> list[type[Device]]:
        self.release.wait()
        return []


def test_a_hook_that_does_not_come_back_is_refused() -> None:
    hangs = Hangs()
    host = load(hangs, good("calm", "quiet"), deadline_s=0.05)
    assert refusals(host) == {"Hangs": "it did not load within 0.05 s"}
    assert set(host.devices()) == {"quiet"}
    hangs.release.set()


def test_a_hook_that_wants_to_end_the_program_is_refused() -> None:
    source = BAD["raises_in_hooks"].replace("raise ValueError('not today')", "raise SystemExit")
    assert "end the whole program" in refusals(load(module("rude", source)))["rude"]


def test_what_a_plugin_prints_does_not_end_in_our_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = BAD["raises_in_hooks"].replace(
        "raise ValueError('not today')", "return print('hi') or []"
    )
    assert not refusals(load(module("chatty", source)))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hi" in captured.err
