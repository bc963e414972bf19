"""The HoloLens 2 through the hl2ss server app: its client, and a simulator of it."""

from collections.abc import Iterable

from firsthand.api import Device, Simulator, hookimpl
from firsthand_hl2ss.config import Hl2ssConfig
from firsthand_hl2ss.device import Hl2ssDevice

__all__ = ["Hl2ssConfig", "Hl2ssDevice"]


@hookimpl
def firsthand_devices() -> Iterable[type[Device]]:
    return [Hl2ssDevice]


@hookimpl
def firsthand_simulators() -> Iterable[type[Simulator]]:
    # The simulator's libraries are needed by few of the programs that load plugins.
    from firsthand_hl2ss.simulator import Hl2ssSimulator

    return [Hl2ssSimulator]
