"""What commands are given in words: devices and their settings."""

from collections.abc import Iterable
from typing import Any

from firsthand.api import SettingsError
from firsthand.cli.simulate import parse_setting
from firsthand.host import PluginHost, load_plugins
from firsthand.recording.recorder_settings import DeviceChoice

SET_HELP = "A setting of the device, as key=value; parts of parts as in pv.fps=15."


def nested_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Settings from ``key=value`` words; ``a.b=1`` sets ``b`` within ``a``.

    Raises ``SettingsError`` for what is not a setting, or sets a thing and a part of it.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        key, value = parse_setting(text)
        place = settings
        *parents, last = key.split(".")
        for part in parents:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise SettingsError(f"{text!r} sets a part of what was set as a whole before.")
        if last in place:
            raise SettingsError(f"{key!r} is set twice.")
        place[last] = value
    return settings


def device_choice(name: str, texts: Iterable[str]) -> DeviceChoice:
    """A device with the settings given."""
    return DeviceChoice(name=name, settings=nested_settings(texts))


def check_devices(devices: Iterable[DeviceChoice], plugins: PluginHost | None = None) -> None:
    """Find what is misspelt before anybody waits for it. Raises ``SettingsError``."""
    for choice in devices:
        plugins = plugins or load_plugins()
        plugins.make_device(choice.name, choice.settings)
