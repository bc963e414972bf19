"""Times that a headset may send, told from forged ones."""

import time

import pytest

from firsthand.api import Clock
from firsthand_hl2ss.time_judge import TimeJudge

pytestmark = pytest.mark.unit

PERIOD_NS = 11_111_111
NOW_HNS = 9_000_000_000_000


class Watch:
    """Knows a clock, or not; counts how often it was asked to look."""

    def __init__(self, device_ns: int | None = None) -> None:
        self._device_ns = device_ns
        self._began_ns = time.perf_counter_ns()
        self.pokes = 0

    def poke(self) -> None:
        self.pokes += 1

    def estimate_ns(self, clock: Clock, host_ns: int, since_ns: int) -> int | None:
        if self._device_ns is None:
            return None
        return self._device_ns + host_ns - self._began_ns


def judge(clock: Clock, watch: Watch) -> TimeJudge:
    return TimeJudge(clock, PERIOD_NS, watch, 0)


@pytest.mark.parametrize("hns", [0, 2**62, 2**64 - 1])
@pytest.mark.parametrize("clock", [Clock.DEVICE, Clock.DEVICE_WALL])
def test_what_no_clock_shows_is_refused_without_knowing_anything(clock: Clock, hns: int) -> None:
    assert judge(clock, Watch()).refuse(hns)


def test_the_first_time_of_a_connection_is_believed_while_no_clock_is_known() -> None:
    assert judge(Clock.DEVICE, Watch()).refuse(NOW_HNS) is None


@pytest.mark.parametrize(
    ("seconds", "good"),
    [(0.0, True), (-30.0, True), (0.5, True), (3.0, False), (-3600.0, False), (1e6, False)],
)
def test_a_monotonic_time_must_lie_near_the_headsets_clock_or_behind(
    seconds: float, good: bool
) -> None:
    found = judge(Clock.DEVICE, Watch(NOW_HNS * 100)).refuse(NOW_HNS + round(seconds * 1e7))
    assert (found is None) is good


@pytest.mark.parametrize(
    ("seconds", "good"), [(0.4, True), (3600.0, True), (-7200.0, True), (200_000.0, False)]
)
def test_a_wall_clock_may_be_set_by_hours(seconds: float, good: bool) -> None:
    found = judge(Clock.DEVICE_WALL, Watch(NOW_HNS * 100)).refuse(NOW_HNS + round(seconds * 1e7))
    assert (found is None) is good


@pytest.mark.parametrize(
    ("step_s", "good"), [(0.011, True), (-0.5, True), (-2.0, False), (30.0, True), (100.0, False)]
)
def test_a_time_must_follow_the_one_before_it(step_s: float, good: bool) -> None:
    times = judge(Clock.DEVICE, Watch())
    times.accepted(NOW_HNS, time.perf_counter_ns())
    assert (times.refuse(NOW_HNS + round(step_s * 1e7)) is None) is good


def test_a_jump_of_the_eye_trackers_clock_asks_for_a_comparison_once() -> None:
    watch = Watch()
    times = judge(Clock.DEVICE_WALL, watch)
    arrival_ns, hns = 10**9, NOW_HNS
    for _ in range(20):
        times.accepted(hns, arrival_ns)
        arrival_ns, hns = arrival_ns + PERIOD_NS, hns + PERIOD_NS // 100
    assert watch.pokes == 0
    times.accepted(hns + 4_000_000, arrival_ns)
    times.accepted(hns + 4_000_000 - 3_000_000, arrival_ns + PERIOD_NS)
    assert watch.pokes == 1


def test_neither_late_arrival_nor_missing_readings_look_like_a_set_clock() -> None:
    watch = Watch()
    times = judge(Clock.DEVICE_WALL, watch)
    times.accepted(NOW_HNS, 10**9)
    times.accepted(NOW_HNS + PERIOD_NS // 100, 10**9 + 300_000_000)  # late by Wi-Fi
    times.accepted(NOW_HNS + 5_000_000, 10**9 + 500_000_000)  # a blink
    assert watch.pokes <= 1
    times.accepted(NOW_HNS + 7_000_000, 10**9 + 700_000_000)
    assert watch.pokes <= 1


def test_a_jump_of_a_monotonic_clock_asks_for_nothing() -> None:
    watch = Watch()
    times = judge(Clock.DEVICE, watch)
    times.accepted(NOW_HNS, 10**9)
    times.accepted(NOW_HNS + 4_000_000, 10**9 + PERIOD_NS)
    assert watch.pokes == 0
