"""The hooks of this plugin, and nothing else."""

from collections.abc import Iterable

from firsthand.api import Device, hookimpl

from firsthand_newplugin.device import NewpluginDevice


@hookimpl
def firsthand_devices() -> Iterable[type[Device]]:
    return [NewpluginDevice]
