"""The simulated headset's clocks and grids, with time passed in."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand_hl2ss.simulator.clock import Grid, HeadsetClock

pytestmark = pytest.mark.unit
S = 10_000_000


class Time:
    """Host and UTC clocks that stand still until told."""

    def __init__(self) -> None:
        self.host_ns = 5_000_000_000_000
        self.utc_ns = 1_790_000_000_000_000_000

    def passes(self, seconds: float) -> None:
        self.host_ns += round(seconds * 1e9)
        self.utc_ns += round(seconds * 1e9)


def clock_on(time: Time, **settings: float) -> HeadsetClock:
    return HeadsetClock(
        seed=3, host_ns=lambda: time.host_ns, utc_ns=lambda: time.utc_ns, **settings
    )


def test_qpc_runs_with_the_host_and_knows_when_a_moment_comes() -> None:
    time = Time()
    clock = clock_on(time)
    before = clock.qpc_hns()
    time.passes(2.5)
    assert clock.qpc_hns() - before == 25 * S // 10
    assert clock.host_ns_at(before) == pytest.approx(time.host_ns - 2_500_000_000, abs=200)


def test_a_drifting_crystal_gains_by_its_parts_in_a_million() -> None:
    time = Time()
    clock = clock_on(time, drift_ppm=100.0)
    before = clock.qpc_hns()
    time.passes(100)
    assert clock.qpc_hns() - before == pytest.approx(100 * S + 0.01 * S, abs=2)
    clock.set_drift(0.0)
    at_change = clock.qpc_hns()
    time.passes(10)
    assert clock.qpc_hns() - at_change == pytest.approx(10 * S, abs=2)


def test_a_step_of_the_wall_clock_moves_what_goes_through_it_from_then_on_and_nothing_else() -> (
    None
):
    time = Time()
    clock = clock_on(time)
    offset = clock.offset_hns
    early = clock.qpc_hns()
    time.passes(1)
    clock.step_wall(400 * S // 1000)
    late = clock.qpc_hns()
    assert late - early == S
    assert clock.offset_hns == offset
    assert abs(clock.through_wall(early) - early) < 100
    assert abs(clock.through_wall(late) - late - 400 * S // 1000) < 100


def test_a_slewed_wall_clock_leaves_qpc_bit_by_bit() -> None:
    time = Time()
    clock = clock_on(time)
    clock.set_wall_drift(500.0)
    time.passes(10)
    now = clock.qpc_hns()
    assert clock.through_wall(now) - now == pytest.approx(10 * S * 500e-6, abs=100)


def test_the_offset_is_measured_anew_when_the_app_starts() -> None:
    time = Time()
    clock = clock_on(time)
    before = clock.offset_hns
    clock.step_wall(S)
    clock.app_started()
    assert clock.offset_hns - before == pytest.approx(S, abs=100)
    now = clock.qpc_hns()
    assert abs(clock.through_wall(now) - now) < 100


def test_a_start_of_the_app_always_shows_in_the_offset() -> None:
    clock = clock_on(Time())
    seen = []
    for _ in range(20):
        seen.append(clock.offset_hns)
        clock.app_started()
    assert all(a != b for a, b in itertools.pairwise(seen))


def test_a_reboot_restarts_qpc_but_not_the_wall_clock_nor_the_scene() -> None:
    time = Time()
    clock = clock_on(time)
    time.passes(30)
    before = clock.qpc_hns()
    wall, scene = clock.wall_hns(before), clock.scene_s(before)
    clock.rebooted()
    after = clock.qpc_hns()
    assert after < 61 * S < before
    assert clock.wall_hns(after) == wall
    assert clock.scene_s(after) == pytest.approx(scene)
    assert clock.boot == 1


@given(
    start=st.integers(0, 10**12),
    period=st.fractions(Fraction(1, 100), Fraction(1, 5), max_denominator=5000),
    slot=st.integers(0, 10**7),
    inside=st.floats(0, 0.999),
)
def test_a_moment_belongs_to_the_last_slot_before_it(
    start: int, period: Fraction, slot: int, inside: float
) -> None:
    grid = Grid(start, period * S)
    moment = grid.hns(slot) + int((grid.hns(slot + 1) - grid.hns(slot) - 1) * inside)
    assert grid.last_until(moment) == slot
    assert grid.hns(slot) == pytest.approx(start + float(slot * period * S), abs=0.51 + 1e-4)
