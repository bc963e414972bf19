"""The simulated headset as a whole: clocks, senses, ports, faults and the account of it all."""

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from firsthand.api import DeviceError, SimulatedFault
from firsthand_hl2ss import wire
from firsthand_hl2ss.simulator.clock import HeadsetClock
from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.fault_runner import LISTENING_DENIED, FaultRunner
from firsthand_hl2ss.simulator.faults import REMOTE, FaultBoard, plan
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.ledger import Ledger, LedgerWriter
from firsthand_hl2ss.simulator.port import Port
from firsthand_hl2ss.simulator.pump import Pump
from firsthand_hl2ss.simulator.rc import RemoteConfiguration
from firsthand_hl2ss.simulator.serve_eyes import EyeTracker
from firsthand_hl2ss.simulator.serve_microphone import Microphone
from firsthand_hl2ss.simulator.serve_motion import MOTIONS, MotionPort
from firsthand_hl2ss.simulator.serve_research import (
    GREY_CAMERAS,
    AhatPort,
    GreyPort,
    LongThrowPort,
)
from firsthand_hl2ss.simulator.serve_spatial import SpatialInput
from firsthand_hl2ss.simulator.serve_video import PersonalVideo
from firsthand_hl2ss.simulator.source import SensorSource
from firsthand_hl2ss.simulator.sources import open_source
from firsthand_hl2ss.simulator.stretches import Stretches
from firsthand_hl2ss.simulator.truth import write_truth
from firsthand_hl2ss.simulator.world import World

log = logging.getLogger(__name__)

_TRIES: Final = 40
_PHASE_HNS: Final = 13_337
"""Streams deliver at different moments: each is so much later than the one before."""


class RunningHeadset:
    """A headset that listens: made by ``Hl2ssSimulator.start`` and ended by ``stop``."""

    def __init__(self, config: SimulatorConfig) -> None:
        """Listen and serve. Raises ``DeviceError`` where an address or port cannot be had."""
        self.config = config
        self.base_port = config.base_port
        self._ports: dict[str, Port] = {}
        self._pumps: list[Pump] = []
        self._stopped = False
        source = open_source(config)
        self._stretches = Stretches(source, config.ahead_s, config.encoder_threads)
        try:
            if config.ahead_of:
                self._stretches.prepare(config.ahead_of)
            self._started_ns = time.perf_counter_ns()
            self._headset = self._switch_on(source)
        except BaseException:
            self._stretches.close()
            source.close()
            raise
        try:
            self._listen(self._headset)
        except BaseException:
            self._headset.ledger.close()
            source.close()
            raise
        self._runner = FaultRunner(self._headset, self._ports, self._pumps)
        self._runner.start()
        for port in self._ports.values():
            port.start()
        log.info("the simulated headset listens on %s:%d", config.host, self.base_port)

    def _switch_on(self, source: SensorSource) -> Headset:
        config = self.config
        clock = HeadsetClock(
            seed=config.seed,
            drift_ppm=config.drift_ppm,
            wall_offset_s=config.wall_clock_offset_s,
        )
        about = {
            "source": config.source,
            "seed": config.seed,
            "started_host_ns": self._started_ns,
            "boot_qpc_hns": clock.boot_qpc_hns,
            "offset_hns": clock.offset_hns,
        }
        if config.truth_folder is not None:
            started_ns = clock.boot_qpc_hns * wire.NS_PER_HNS
            write_truth(config.truth_folder, source, {"started_device_ns": started_ns})
        ledger = LedgerWriter(config.ledger, about)
        world = World(config.seed)
        return Headset(config, clock, FaultBoard(), ledger, source, world, self._stretches)

    def _services(self, headset: Headset) -> dict[str, Callable[[Connection], None]]:
        remote, video = RemoteConfiguration(headset), PersonalVideo(headset)
        microphone, eyes, spatial = Microphone(headset), EyeTracker(headset), SpatialInput(headset)
        served: dict[str, Any] = {
            "pv": video,
            "mic": microphone,
            "eet": eyes,
            "si": spatial,
        }
        if headset.config.research_mode:
            phase = _PHASE_HNS
            for stream in GREY_CAMERAS:
                served[stream] = GreyPort(headset, stream, phase)
                phase += _PHASE_HNS
            served["depth_ahat"] = AhatPort(headset, phase)
            served["depth_long_throw"] = LongThrowPort(headset, phase + _PHASE_HNS)
            for stream in MOTIONS:
                phase += _PHASE_HNS
                served[stream] = MotionPort(headset, stream, phase)
        if headset.config.flat_mode:
            del served["si"]
        for stream in headset.config.denied & LISTENING_DENIED:
            served.pop(stream, None)
        self._pumps = [service.pump for service in served.values()]
        return {REMOTE: remote.serve} | {name: s.serve for name, s in served.items()}

    def _listen(self, headset: Headset) -> None:
        services = self._services(headset)
        if self.config.base_port:
            self._bind(services, headset, self.config.base_port)
            return
        chance = random.Random()  # noqa: S311 – any free stretch will do
        for attempt in range(_TRIES):
            try:
                self._bind(services, headset, chance.randrange(20_000, 60_000))
            except DeviceError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    def _bind(
        self, services: Mapping[str, Callable[[Connection], None]], headset: Headset, base: int
    ) -> None:
        config = self.config
        ports = {
            name: Port(
                name,
                (config.host, _port(name).on(base)),
                serve,
                headset.board,
                seed=config.seed,
                send_buffer_bytes=config.send_buffer_bytes,
            )
            for name, serve in services.items()
        }
        try:
            for port in ports.values():
                port.listen()
        except DeviceError:
            for port in ports.values():
                port.deafen()
            raise
        self._ports, self.base_port = ports, base

    def stop(self) -> None:
        """Close every socket, finish the account, join all threads. May be called twice."""
        if self._stopped:
            return
        self._stopped = True
        self._runner.stop()
        for port in self._ports.values():
            port.stop()
        for port in self._ports.values():
            port.join()
        for pump in self._pumps:
            pump.finish()
        self._headset.ledger.close()
        self._stretches.close()
        self._headset.source.close()

    @property
    def clock(self) -> HeadsetClock:
        return self._headset.clock

    def ledger(self) -> Ledger:
        return self._headset.ledger.read()

    def shown(self) -> str:
        """What the source shows, in words."""
        return self._headset.source.words()

    def fault(self, fault: SimulatedFault) -> None:
        """Let something go wrong. Raises ``SettingsError`` for what it does not know."""
        planned = plan(fault, self._started_ns, time.perf_counter_ns())
        if planned.seen_by_streams:
            self._headset.board.add(planned)
        self._runner.add(planned)


def _port(name: str) -> wire.Port:
    return wire.Port.REMOTE_CONFIGURATION if name == REMOTE else wire.STREAM_PORTS[name]
