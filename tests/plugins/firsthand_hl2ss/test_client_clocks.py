"""Which clocks ran on and which began anew, judged from exchanges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import Clock
from firsthand_hl2ss.clock_judge import Burst, ClockJudge, Exchange, Verdict, best

pytestmark = pytest.mark.unit

OFFSET_HNS = 134_000_000_000_000_000


class Headset:
    """Clocks that can be set; exchanges take ``way_ns`` each way."""

    def __init__(self) -> None:
        self.host_ns = 50_000_000_000
        self.qpc_zero_ns = -900_000_000_000
        self.wall_ahead_ns = 0
        self.offset_hns = OFFSET_HNS
        self.rate = 1.0
        self._judge = ClockJudge()

    def qpc_ns(self) -> int:
        return round((self.host_ns - self.qpc_zero_ns) * self.rate)

    def burst(self, way_ns: int = 1_000_000, back_ns: int | None = None) -> Burst:
        back_ns = way_ns if back_ns is None else back_ns
        readings = []
        for ahead_ns in (0, self.offset_hns * 100 + self.wall_ahead_ns):
            before_ns = self.host_ns
            self.host_ns += way_ns
            hns = (self.qpc_ns() + ahead_ns) // 100
            self.host_ns += back_ns
            readings.append(Exchange(before_ns, hns, self.host_ns))
        return Burst(self.offset_hns, readings[:1], readings[1:])

    def judged(self, wait_s: float = 5.0, way_ns: int = 1_000_000) -> Verdict:
        self.host_ns += round(wait_s * 1e9)
        return self._judge.judge(self.burst(way_ns))


def test_of_several_exchanges_the_shortest_is_kept() -> None:
    exchanges = [Exchange(0, 1, 9), Exchange(10, 2, 13), Exchange(20, 3, 30)]
    assert best(exchanges) == Exchange(10, 2, 13)


def test_pairs_hold_the_readings_in_nanoseconds() -> None:
    headset = Headset()
    verdict = headset.judged()
    device, wall = verdict.pairs
    assert (device.clock, wall.clock) == (Clock.DEVICE, Clock.DEVICE_WALL)
    assert device.device_ns == (device.host_ns - headset.qpc_zero_ns) // 100 * 100
    assert device.uncertainty_ns == 1_000_000
    assert abs(wall.device_ns - device.device_ns - (wall.host_ns - device.host_ns)) <= 200


@given(st.floats(-150e-6, 150e-6), st.lists(st.integers(10_000, 40_000_000), max_size=30))
def test_a_clock_that_drifts_over_any_link_begins_no_epoch(
    drift: float, ways_ns: list[int]
) -> None:
    headset = Headset()
    headset.rate = 1 + drift
    for way_ns in ways_ns:
        assert headset.judged(way_ns=way_ns).epochs == ()


@pytest.mark.parametrize("step_ms", [400, -400, 20, -3_600_000])
def test_a_set_wall_clock_begins_an_epoch_of_the_wall_clock_alone(step_ms: int) -> None:
    headset = Headset()
    headset.judged()
    headset.wall_ahead_ns += step_ms * 1_000_000
    verdict = headset.judged()
    (news,) = verdict.epochs
    assert (news.clock, news.epoch) == (Clock.DEVICE_WALL, 1)
    assert not verdict.app_restarted
    assert {pair.clock: pair.epoch for pair in verdict.pairs} == {
        Clock.DEVICE: 0,
        Clock.DEVICE_WALL: 1,
    }
    assert headset.judged().epochs == ()


def test_a_wall_clock_that_is_slewed_begins_no_epoch() -> None:
    headset = Headset()
    for _ in range(100):
        headset.wall_ahead_ns += 2_500_000  # 500 ppm
        assert headset.judged().epochs == ()


def test_a_step_hidden_by_a_slow_link_shows_as_soon_as_the_link_is_fast() -> None:
    headset = Headset()
    headset.judged()
    headset.wall_ahead_ns += 40_000_000
    assert headset.judged(way_ns=100_000_000).epochs == ()
    assert [news.clock for news in headset.judged().epochs] == [Clock.DEVICE_WALL]


def test_a_changed_offset_means_that_the_app_was_started_again() -> None:
    headset = Headset()
    headset.judged()
    headset.offset_hns += 4_000_000
    headset.wall_ahead_ns -= 400_000_000  # the wall clock itself stands
    verdict = headset.judged()
    assert verdict.app_restarted
    assert not verdict.headset_restarted
    assert [(news.clock, news.epoch) for news in verdict.epochs] == [(Clock.DEVICE_WALL, 1)]


def test_a_clock_that_goes_back_means_that_the_headset_was_started_again() -> None:
    headset = Headset()
    headset.judged()
    headset.qpc_zero_ns = headset.host_ns - 30_000_000_000
    headset.offset_hns += 9_000_000_000
    verdict = headset.judged()
    assert verdict.headset_restarted
    assert verdict.app_restarted
    assert {(news.clock, news.epoch) for news in verdict.epochs} == {
        (Clock.DEVICE, 1),
        (Clock.DEVICE_WALL, 1),
    }
    assert all(pair.epoch == 1 for pair in verdict.pairs)


def test_a_clock_that_slept_begins_anew_without_a_restart() -> None:
    headset = Headset()
    headset.judged()
    headset.qpc_zero_ns -= 3_000_000_000
    verdict = headset.judged()
    assert not verdict.headset_restarted
    assert {news.clock for news in verdict.epochs} == {Clock.DEVICE, Clock.DEVICE_WALL}


@given(st.integers(100_000, 80_000_000), st.integers(100_000, 80_000_000))
def test_the_true_time_lies_within_the_stated_uncertainty(way_ns: int, back_ns: int) -> None:
    headset = Headset()
    verdict = ClockJudge().judge(headset.burst(way_ns, back_ns))
    pair = verdict.pairs[0]
    true_host_ns = pair.device_ns + headset.qpc_zero_ns
    assert abs(true_host_ns - pair.host_ns) <= pair.uncertainty_ns + 100
