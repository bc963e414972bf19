"""Carries out, at their time, the faults that befall the headset or a port as a whole."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from firsthand.api import DeviceError
from firsthand_hl2ss.simulator.faults import Planned
from firsthand_hl2ss.simulator.headset import AppState, Headset
from firsthand_hl2ss.simulator.port import Port
from firsthand_hl2ss.simulator.pump import Pump

log = logging.getLogger(__name__)

_APP_DOWN_S = 1.0
_BOOT_DOWN_S = 3.0
_HNS_PER_MS = 10_000
LISTENING_DENIED = frozenset(
    {"eet", "si", "imu_accelerometer", "imu_gyroscope", "imu_magnetometer"}
)
"""Ports that stop listening when their permission is denied; PV and microphone close instead."""


class FaultRunner:
    """A thread that waits for the next thing to do. The serving threads see to packet faults."""

    def __init__(self, headset: Headset, ports: Mapping[str, Port], pumps: Iterable[Pump]) -> None:
        self._headset = headset
        self._ports = ports
        self._pumps = tuple(pumps)
        self._condition = threading.Condition()
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopping = False
        self._closed: dict[str, int] = {}
        """How many faults keep a port's listening socket closed."""
        self._thread = threading.Thread(target=self._run, name="hl2ss-sim faults")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def add(self, planned: Planned) -> None:
        """Put what a fault does to the headset on the agenda."""
        self._at(planned.start_ns, lambda: self._begin(planned))

    def _at(self, host_ns: int, act: Callable[[], None]) -> None:
        with self._condition:
            heapq.heappush(self._agenda, (host_ns, next(self._order), act))
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._stopping:
                    return
                now = time.perf_counter_ns()
                if not self._agenda or self._agenda[0][0] > now:
                    left_s = (self._agenda[0][0] - now) / 1e9 if self._agenda else None
                    self._condition.wait(None if left_s is None else min(left_s, 3600.0))
                    continue
                _, _, act = heapq.heappop(self._agenda)
            try:
                act()
            except DeviceError as error:
                log.warning("a fault could not be ended: %s", error)
            except Exception:
                log.exception("a fault could not be carried out")

    def _begin(self, planned: Planned) -> None:
        about = dict(planned.about)
        for stream in sorted(planned.streams) if len(planned.streams) == 1 else [""]:
            self._headset.ledger.event(planned.kind, stream, about)
        log.info("fault %s for %s", planned.kind, ", ".join(sorted(planned.streams)))
        match planned.kind:
            case "clock_step":
                self._headset.clock.step_wall(round(float(about.get("ms", 400.0)) * _HNS_PER_MS))
            case "drift":
                self._drift(planned)
            case "refuse":
                self._refuse(planned, planned.streams, keep=bool(about.get("keep", False)))
            case "permission_denied":
                self._refuse(planned, planned.streams & LISTENING_DENIED, keep=False)
            case "restart" | "reboot":
                self._restart(planned)
            case "disconnect" | "reset":
                self._end_all(planned)
            case _:
                pass

    def _end_all(self, planned: Planned) -> None:
        for name in planned.streams & self._ports.keys():
            self._ports[name].end_connection(planned.kind, hard=planned.kind == "reset")

    def _drift(self, planned: Planned) -> None:
        ppm = float(planned.about.get("ppm", 100.0))
        clock, usual = self._headset.clock, self._headset.config.drift_ppm
        wall = planned.about.get("clock", "device") == "wall"
        drift, back = (clock.set_wall_drift, 0.0) if wall else (clock.set_drift, usual)
        drift(ppm)
        if planned.stop_ns > planned.start_ns:
            self._at(planned.stop_ns, lambda: drift(back))

    def _refuse(self, planned: Planned, streams: Iterable[str], *, keep: bool) -> None:
        names = [name for name in streams if name in self._ports]
        self._close(names)
        if not keep:
            for name in names:
                self._ports[name].end_connection(planned.kind, hard=True)
        self._at(planned.stop_ns, lambda: self._open(names))

    def _restart(self, planned: Planned) -> None:
        """The app (or the whole headset) dies with all its sockets and comes back after a while."""
        headset = self._headset
        names = list(self._ports)
        self._close(names)
        for name in names:
            self._ports[name].end_connection(planned.kind, hard=True)
        headset.camera.close()
        reboots = planned.kind == "reboot"
        usual_ns = round((_BOOT_DOWN_S if reboots else _APP_DOWN_S) * 1e9)
        down_ns = planned.stop_ns - planned.start_ns or usual_ns

        def back() -> None:
            for name in names:
                self._ports[name].await_end()
            if reboots:
                for pump in self._pumps:
                    pump.finish()
                headset.clock.rebooted()
            headset.clock.app_started()
            headset.world.begin_anew()
            headset.app = AppState()
            headset.camera.close()
            self._open(names)
            headset.ledger.event(f"{planned.kind} done")

        self._at(time.perf_counter_ns() + down_ns, back)

    def _close(self, names: Iterable[str]) -> None:
        for name in names:
            self._closed[name] = self._closed.get(name, 0) + 1
            self._ports[name].deafen()

    def _open(self, names: Iterable[str]) -> None:
        for name in names:
            self._closed[name] -= 1
            if self._closed[name] == 0:
                self._ports[name].listen()
