"""A headset on loopback that speaks hl2ss so exactly that its clients cannot tell.

Importing this costs little: the scene, encoders and sockets are loaded when it is started.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from firsthand.api import DeviceError, SimulatedFault, Simulator
from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.faults import plan
from firsthand_hl2ss.wire import Port

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.clock import HeadsetClock
    from firsthand_hl2ss.simulator.ledger import Ledger
    from firsthand_hl2ss.simulator.server import RunningHeadset

__all__ = ["Hl2ssSimulator", "SimulatorConfig"]


class Hl2ssSimulator(Simulator):
    """A HoloLens 2 with the hl2ss app, on this computer's own addresses.

    Simulated are the streams (front camera, eye tracker, spatial input, microphone, Research Mode's
    cameras and motion sensors), remote configuration, calibration and every refusal. Spatial
    mapping, scene understanding, voice input, both message queues and the extended audio, video
    and depth ports refuse connections. ``docs/simulator.md`` has the faults and the limits.
    """

    name: ClassVar[str] = "hl2ss"
    title: ClassVar[str] = "Simulated HoloLens 2"
    Config: ClassVar[type[SimulatorConfig]] = SimulatorConfig
    config: SimulatorConfig

    def __init__(self, config: SimulatorConfig) -> None:
        super().__init__(config)
        self._running: RunningHeadset | None = None
        self._early: list[SimulatedFault] = []

    def start(self) -> None:
        from firsthand_hl2ss.simulator.server import RunningHeadset

        if self._running is not None:
            raise DeviceError("The simulated headset has been started already.")
        self._running = RunningHeadset(self.config)
        for fault in self._early:
            self._running.fault(fault)

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    @property
    def ledger(self) -> "Ledger":
        """The account of every packet so far; complete once the simulator has stopped."""
        if self._running is None:
            raise DeviceError("The simulated headset has not been started: nothing was sent.")
        return self._running.ledger()

    @property
    def clock(self) -> "HeadsetClock":
        """The headset's own clocks: what a recording's times are held against."""
        if self._running is None:
            raise DeviceError("The simulated headset has not been started: its clocks stand still.")
        return self._running.clock

    def device_settings(self) -> Mapping[str, Any]:
        return {"host": self.config.host, "base_port": self._base_port}

    @property
    def _base_port(self) -> int:
        return self.config.base_port if self._running is None else self._running.base_port

    def fault(self, fault: SimulatedFault) -> None:
        if self._running is not None:
            self._running.fault(fault)
            return
        now = time.perf_counter_ns()
        plan(fault, now, now)  # what would be refused later is refused at once
        self._early.append(fault)

    def words(self) -> str:
        shown = f"Source: {self.config.source}." if self._running is None else self._running.shown()
        first, last = self._base_port, self._base_port + len(Port) - 1
        listens = "will listen" if self._running is None else "listens"
        return f"{self.title}. {shown} It {listens} on {self.config.host}, ports {first} to {last}."
