"""The hooks: each hands in classes and does nothing else."""

from collections.abc import Iterable

import pluggy

from firsthand.api.device import Device
from firsthand.api.exporter import Exporter
from firsthand.api.simulator import Simulator

PROJECT = "firsthand"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def firsthand_devices() -> Iterable[type[Device]]:
    """Offer devices that deliver streams.

    Called once when a program starts, in every process, so import heavy libraries when a device
    is opened and not here. A name that another plugin already uses is refused.
    """
    return ()


@hookspec
def firsthand_exporters() -> Iterable[type[Exporter]]:
    """Offer formats that a recording can be written in.

    Called once when a program starts, in every process. The exporting itself happens in a worker
    process. A name that another plugin already uses is refused.
    """
    return ()


@hookspec
def firsthand_simulators() -> Iterable[type[Simulator]]:
    """Offer stand-ins for a device that speak its protocol over real sockets.

    Called once when a program starts, in every process. A simulator bears the name of the device
    that it stands in for; a name that another plugin already uses is refused.
    """
    return ()
