"""Decides from exchanges of clock readings which clocks ran on and which began anew.

An exchange says that the headset read its clock between two readings of ours, so it gives an
interval in which the difference of the clocks lies. Intervals of one epoch have a common part (with
some room for drift); one that misses it by more than a step is the first of a new epoch. A long way
to the headset makes intervals wide, never wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from firsthand.api import Clock, ClockPair
from firsthand_hl2ss.wire import NS_PER_HNS

_STEP_NS: Final = {Clock.DEVICE: 20_000_000, Clock.DEVICE_WALL: 5_000_000}
_DRIFT: Final = 200e-6
"""Two quartz clocks against each other, and slewing by network time."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Our clock before, the headset's in hns, our clock after."""

    before_ns: int
    hns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class Burst:
    """What one visit to remote configuration told."""

    offset_hns: int
    qpc: Sequence[Exchange]
    utc: Sequence[Exchange]


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """A clock began anew, before the pairs of the same verdict."""

    clock: Clock
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a burst: epochs first, then pairs."""

    epochs: tuple[NewEpoch, ...]
    pairs: tuple[ClockPair, ...]
    app_restarted: bool
    headset_restarted: bool


@dataclass(slots=True)
class _Track:
    """Where the difference of two clocks lies: between ``low_ns`` and ``high_ns`` at ``at_ns``."""

    low_ns: float
    high_ns: float
    at_ns: int

    def misses_ns(self, low_ns: float, high_ns: float, at_ns: int) -> float:
        """How far an interval lies from ours, 0 where they meet; signed. Takes in what meets."""
        room = _DRIFT * max(0, at_ns - self.at_ns)
        ours_low, ours_high = self.low_ns - room, self.high_ns + room
        miss = 0.0
        if low_ns > ours_high:
            miss = low_ns - ours_high
        elif high_ns < ours_low:
            miss = high_ns - ours_low
        if miss:
            self.low_ns, self.high_ns = low_ns, high_ns
        else:
            self.low_ns, self.high_ns = max(ours_low, low_ns), min(ours_high, high_ns)
        self.at_ns = at_ns
        return miss


@dataclass(slots=True)
class ClockJudge:
    """Remembers what is known of the headset's clocks. Feed it every burst, in order."""

    epochs: dict[Clock, int] = field(
        default_factory=lambda: {Clock.DEVICE: 0, Clock.DEVICE_WALL: 0}
    )
    _offset_hns: int | None = None
    _qpc_ns: int = 0
    _device: _Track | None = None
    _wall: _Track | None = None

    def judge(self, burst: Burst) -> Verdict:
        """Judge a burst, which must hold at least one exchange of each clock."""
        qpc = best(burst.qpc)
        utc = best(burst.utc)
        qpc_ns = qpc.hns * NS_PER_HNS
        wall_ns = (utc.hns - burst.offset_hns) * NS_PER_HNS
        news: list[NewEpoch] = []

        # QPC against our clock.
        device_low, device_high = qpc_ns - qpc.after_ns, qpc_ns - qpc.before_ns
        went_back = qpc_ns < self._qpc_ns
        self._qpc_ns = qpc_ns
        stepped = self._steps("_device", device_low, device_high, qpc.after_ns, Clock.DEVICE)
        if stepped is not None:
            reason = (
                "The headset was started again: its clock went back."
                if went_back
                else f"The clocks of headset and computer came apart by {stepped / 1e9:+.3f} s: "
                "one of them slept."
            )
            news.append(self._begin(Clock.DEVICE, reason))

        # The wall clock, less its offset, against QPC.
        wall_low = wall_ns - utc.after_ns - device_high
        wall_high = wall_ns - utc.before_ns - device_low
        step = self._steps("_wall", wall_low, wall_high, utc.after_ns, Clock.DEVICE_WALL)
        app_restarted = self._offset_hns not in (None, burst.offset_hns)
        self._offset_hns = burst.offset_hns
        if app_restarted:
            reason = "The app on the headset was started again, with a new world frame."
            news.append(self._begin(Clock.DEVICE_WALL, reason))
        elif stepped is not None:
            news.append(self._begin(Clock.DEVICE_WALL, news[0].reason))
        elif step is not None:
            reason = f"The headset's wall clock was set by {step / 1e6:+.0f} ms."
            news.append(self._begin(Clock.DEVICE_WALL, reason))

        pairs = tuple(
            ClockPair(clock, exchange.before_ns, exchange.after_ns, value, self.epochs[clock])
            for clock, exchange, value in (
                (Clock.DEVICE, qpc, qpc_ns),
                (Clock.DEVICE_WALL, utc, wall_ns),
            )
        )
        return Verdict(tuple(news), pairs, app_restarted, stepped is not None and went_back)

    def _begin(self, clock: Clock, reason: str) -> NewEpoch:
        self.epochs[clock] += 1
        return NewEpoch(clock, self.epochs[clock], reason)

    def _steps(
        self, name: str, low_ns: float, high_ns: float, at_ns: int, clock: Clock
    ) -> float | None:
        track: _Track | None = getattr(self, name)
        if track is None:
            setattr(self, name, _Track(low_ns, high_ns, at_ns))
            return None
        miss = track.misses_ns(low_ns, high_ns, at_ns)
        return miss if abs(miss) > _STEP_NS[clock] else None


def best(exchanges: Sequence[Exchange]) -> Exchange:
    """The exchange with the shortest way there and back."""
    return min(exchanges, key=lambda exchange: exchange.after_ns - exchange.before_ns)
