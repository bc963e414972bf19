"""The clocks of a simulated headset: QPC, its wall clock, and the offset told by the app.

Everything here is in "hns", ticks of 100 ns. QPC is monotonic, begins at some moment before boot
and starts anew with a reboot. The wall clock counts from 1601-01-01 UTC (Windows FILETIME) and may
be stepped or slewed; the app measures ``wall - QPC`` once, when it starts.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from firsthand_hl2ss.wire import FILETIME_OF_UNIX_EPOCH, HNS_PER_S, NS_PER_HNS


@dataclass(frozen=True, slots=True)
class _Rate:
    """A stretch in which QPC ran steadily against the host's clock."""

    host_ns: int
    qpc_hns: int
    hns_per_ns: float


@dataclass(frozen=True, slots=True)
class _Shift:
    """How far the wall clock has been moved against QPC, from ``qpc_hns`` on."""

    qpc_hns: int
    shift_hns: int
    ppm: float

    def at(self, qpc_hns: int) -> int:
        return self.shift_hns + round((qpc_hns - self.qpc_hns) * self.ppm * 1e-6)


class HeadsetClock:
    """QPC and wall clock of one headset; safe to read from any thread.

    ``scene_s`` is the time that sensors go by: device seconds since the simulator began, which a
    reboot does not set back.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        drift_ppm: float = 0.0,
        wall_offset_s: float = 0.0,
        host_ns: Callable[[], int] = time.perf_counter_ns,
        utc_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._chance = random.Random(f"clock {seed}")  # noqa: S311 – a simulation, not a secret
        self._host_ns = host_ns
        self._lock = threading.Lock()
        self.boot = 0
        """How often the headset has been started again."""
        now = host_ns()
        # A headset that has been on for some hours: neither near zero nor near Unix time.
        self.boot_qpc_hns = self._chance.randrange(1 * 3600, 20 * 3600) * HNS_PER_S + 4_711
        self._rate = _Rate(now, self.boot_qpc_hns, (1 + drift_ppm * 1e-6) / NS_PER_HNS)
        self._boot_scene_s = 0.0
        wall_hns = (
            utc_ns() // NS_PER_HNS + FILETIME_OF_UNIX_EPOCH + round(wall_offset_s * HNS_PER_S)
        )
        self._base_hns = wall_hns - self.boot_qpc_hns
        self._shifts: tuple[_Shift, ...] = (_Shift(self.boot_qpc_hns, 0, 0.0),)
        self.offset_hns = 0
        """What the app tells: wall clock less QPC, as measured when the app started."""
        self.app_started()

    def qpc_hns(self) -> int:
        """QPC now."""
        return self._qpc_at(self._host_ns())

    def _qpc_at(self, host_ns: int) -> int:
        rate = self._rate
        return rate.qpc_hns + int((host_ns - rate.host_ns) * rate.hns_per_ns)

    def host_ns_at(self, qpc_hns: int) -> int:
        """The host's ``perf_counter_ns`` at which QPC reaches ``qpc_hns``."""
        rate = self._rate
        return rate.host_ns + int((qpc_hns - rate.qpc_hns) / rate.hns_per_ns)

    def wall_hns(self, qpc_hns: int) -> int:
        """The wall clock (FILETIME) at a moment of QPC."""
        return qpc_hns + self._base_hns + self._shift(qpc_hns)

    def through_wall(self, qpc_hns: int) -> int:
        """A moment as a stream stamps it that goes by the wall clock less the app's offset."""
        return self.wall_hns(qpc_hns) - self.offset_hns

    def _shift(self, qpc_hns: int) -> int:
        shifts = self._shifts
        for shift in reversed(shifts):
            if shift.qpc_hns <= qpc_hns:
                return shift.at(qpc_hns)
        return shifts[0].at(shifts[0].qpc_hns)

    def scene_s(self, qpc_hns: int) -> float:
        """Seconds since the simulator began, by the headset's crystal."""
        return self._boot_scene_s + (qpc_hns - self.boot_qpc_hns) / HNS_PER_S

    def set_drift(self, ppm: float) -> None:
        """Let QPC run ``ppm`` millionths fast against the host from now on, without a step."""
        with self._lock:
            now = self._host_ns()
            self._rate = _Rate(now, self._qpc_at(now), (1 + ppm * 1e-6) / NS_PER_HNS)

    def set_wall_drift(self, ppm: float) -> None:
        """Slew the wall clock by ``ppm`` against QPC from now on, without a step."""
        self._move_wall(0, ppm)

    def step_wall(self, hns: int) -> None:
        """Set the wall clock forward (or back) by ``hns`` now. QPC does not notice."""
        self._move_wall(hns, None)

    def _move_wall(self, hns: int, ppm: float | None) -> None:
        with self._lock:
            qpc = self.qpc_hns()
            slew = self._shifts[-1].ppm if ppm is None else ppm
            self._shifts = (*self._shifts, _Shift(qpc, self._shift(qpc) + hns, slew))

    def app_started(self) -> None:
        """The app measures its offset: anew at each start, never in between.

        It reads one clock after the other, so the number differs by a few ticks from start to
        start even if nobody touched the wall clock.
        """
        qpc = self.qpc_hns()
        before = self.offset_hns
        while self.offset_hns == before:
            self.offset_hns = self._base_hns + self._shift(qpc) + self._chance.randrange(1, 80)

    def rebooted(self) -> None:
        """QPC starts anew, some seconds after zero; the wall clock goes on."""
        with self._lock:
            host = self._host_ns()
            before = self._qpc_at(host)
            wall = self.wall_hns(before)
            scene_s = self.scene_s(before)
            after = self._chance.randrange(20, 60) * HNS_PER_S + 1_234
            slew = self._shifts[-1].ppm
            rate = self._rate.hns_per_ns
            self._boot_scene_s, self.boot_qpc_hns = scene_s, after
            self._base_hns, self._shifts = wall - after, (_Shift(after, 0, slew),)
            self._rate = _Rate(host, after, rate)
            self.boot += 1


@dataclass(frozen=True, slots=True)
class Grid:
    """The exact moments at which a sensor delivers: ``start + k * period``, rounded to a tick.

    It belongs to the headset and not to a connection, so whoever comes back later finds the same
    moments, and lost ones can be counted.
    """

    start_hns: int
    period_hns: Fraction

    def hns(self, slot: int) -> int:
        return self.start_hns + round(slot * self.period_hns)

    def last_until(self, hns: int) -> int:
        """The last slot that is not later than ``hns``."""
        slot = int((hns - self.start_hns) / self.period_hns) + 1
        while self.hns(slot) > hns:
            slot -= 1
        return slot
