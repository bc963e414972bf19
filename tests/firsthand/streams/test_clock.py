"""Host times from device times: drifting, stepped, slewed and restarted clocks, honest bounds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.api import Clock, ClockPair, RecordingError
from firsthand.streams.clock import ClockTable, Epoch, best_of

pytestmark = pytest.mark.unit

Times = npt.NDArray[np.int64]
MS = 1_000_000
SECOND = 1_000_000_000
AHEAD = 7_777 * SECOND


@dataclass
class World:
    """A headset whose clocks are functions of the host's, and a path that takes its time."""

    ppm: float = 35.0
    steps: list[tuple[int, int]] = field(default_factory=list)
    """Of the wall clock: host time and size."""
    slew: Callable[[Times], Times] | None = None
    way_ns: int = 2 * MS
    seed: int = 1

    def device(self, host_ns: Times) -> Times:
        ahead = np.rint(host_ns * (1 + self.ppm * 1e-6)) + AHEAD
        return np.asarray(ahead.astype(np.int64))

    def wall(self, host_ns: Times) -> Times:
        wall = self.device(host_ns)
        for at_ns, step_ns in self.steps:
            wall = wall + np.where(host_ns >= at_ns, step_ns, 0)
        return wall if self.slew is None else wall + self.slew(host_ns)

    def pairs(
        self, stop_s: int, *, every_s: float = 5.0, asymmetric_ns: int = 0, declared: bool = True
    ) -> list[ClockPair]:
        """Pairs of both clocks; each way takes up to ``way_ns``, one of them more."""
        rng = np.random.default_rng(self.seed)
        pairs = []
        for at in np.arange(0.3, stop_s, every_s):
            for late_ns, clock in ((0, Clock.DEVICE), (7 * MS, Clock.DEVICE_WALL)):
                read = np.array([int(at * SECOND) + late_ns])
                there, back = (int(w) for w in rng.integers(self.way_ns // 10, self.way_ns, 2))
                value = (self.device if clock is Clock.DEVICE else self.wall)(read)
                epoch = sum(read[0] >= at_ns for at_ns, _ in self.steps) if declared else 0
                pairs.append(
                    ClockPair(
                        clock,
                        int(read[0]) - there - asymmetric_ns,
                        int(read[0]) + back,
                        int(value[0]),
                        int(epoch) if clock is Clock.DEVICE_WALL else 0,
                    )
                )
        return pairs

    def epochs(self, noticed_s: float = 5.0) -> list[Epoch]:
        return [
            Epoch(Clock.DEVICE_WALL, n + 1, at_ns + int(noticed_s * SECOND), "The clock was set.")
            for n, (at_ns, _) in enumerate(self.steps)
        ]


def steady(stop_s: float, hz: float = 90.0) -> Times:
    return np.asarray(SECOND + np.rint(np.arange(stop_s * hz) * 1e9 / hz).astype(np.int64))


def at_once(host_ns: Times) -> Times:
    return host_ns + 3 * MS


def in_bursts(host_ns: Times, every_ns: int = 700 * MS) -> Times:
    """Nothing for a while, then everything that has gathered."""
    return np.asarray(-(-host_ns // every_ns) * every_ns + 3 * MS)


def jittery(host_ns: Times) -> Times:
    rng = np.random.default_rng(3)
    late = rng.exponential(8 * MS, len(host_ns)) + 2 * MS
    return np.maximum.accumulate(host_ns + late.astype(np.int64))


def worst_ms(found: Times, truth: Times) -> float:
    return float(np.abs(found - truth).max()) / MS


def test_the_exchange_with_the_shortest_round_trip_is_the_best() -> None:
    pairs = [ClockPair(Clock.DEVICE, 0, trip, 5) for trip in (900, 300, 700)]
    assert best_of(pairs) is pairs[1]
    with pytest.raises(RecordingError, match="no clock exchange"):
        best_of([])


def test_times_of_the_host_are_left_alone() -> None:
    times = np.array([5, 9, 12])
    assert ClockTable([]).to_host_ns(Clock.HOST, times, times).tolist() == [5, 9, 12]


@pytest.mark.parametrize("ppm", [-100.0, 0.0, 100.0])
def test_a_drifting_clock_is_followed(ppm: float) -> None:
    world = World(ppm=ppm)
    table = ClockTable(world.pairs(600))
    host = steady(600, 30)
    assert worst_ms(table.to_host_ns(Clock.DEVICE, world.device(host), at_once(host)), host) < 0.3
    (fit,) = table.fits(Clock.DEVICE)
    assert fit.rate_ppm == pytest.approx(ppm, abs=1.0)
    assert fit.pairs == 120
    assert not fit.slewed
    assert 0 < fit.residual_p50_ns <= fit.residual_p95_ns <= fit.residual_max_ns < world.way_ns
    assert fit.to_json()["clock"] == "device"


def test_two_pairs_do_not_invent_a_rate() -> None:
    """Read five seconds apart with 2 ms of doubt they could say anything up to 800 ppm."""
    world = World(ppm=0.0)
    pairs = [
        ClockPair(Clock.DEVICE, at - 4 * MS * late, at + 4 * MS * (1 - late), at + AHEAD)
        for late, at in ((0, SECOND), (1, 6 * SECOND))
    ]
    host = steady(120, 30)
    table = ClockTable(pairs)
    assert worst_ms(table.to_host_ns(Clock.DEVICE, world.device(host), at_once(host)), host) < 15


@pytest.mark.parametrize("arrive", [at_once, in_bursts, jittery])
@pytest.mark.parametrize("step_ms", [400, -400, 60, -60, 5_000, -5_000, 13])
@pytest.mark.parametrize("declared", [True, False])
def test_the_packet_of_a_step_is_found_between_two_pairs(
    step_ms: int, declared: bool, arrive: Callable[[Times], Times]
) -> None:
    world = World(steps=[(62_345 * MS, step_ms * MS)])
    table = ClockTable(world.pairs(120, declared=declared), world.epochs() if declared else [])
    host = steady(110)
    found = table.to_host_ns(Clock.DEVICE_WALL, world.wall(host), arrive(host))
    assert worst_ms(found, host) < 1.0
    assert [fit.pairs for fit in table.fits(Clock.DEVICE_WALL)] == [13, 11]


@pytest.mark.parametrize("arrive", [at_once, jittery])
@pytest.mark.parametrize("step_ms", [400, -400])
@pytest.mark.parametrize("hole_s", [(61.0, 62.0), (63.0, 63.9), (62.0, 63.0), (61.9, 64.4)])
def test_a_step_is_not_confused_with_a_hole_in_the_stream(
    hole_s: tuple[float, float], step_ms: int, arrive: Callable[[Times], Times]
) -> None:
    world = World(steps=[(62_345 * MS, step_ms * MS)])
    table = ClockTable(world.pairs(120), world.epochs())
    host = steady(110)
    host = host[(host < hole_s[0] * SECOND) | (host > hole_s[1] * SECOND)]
    found = table.to_host_ns(Clock.DEVICE_WALL, world.wall(host), arrive(host))
    assert worst_ms(found, host) < 1.0


def test_several_steps_each_find_their_packet() -> None:
    world = World(steps=[(20_100 * MS, 400 * MS), (44_700 * MS, -650 * MS), (80_200 * MS, 90 * MS)])
    table = ClockTable(world.pairs(120), world.epochs())
    host = steady(110)
    found = table.to_host_ns(Clock.DEVICE_WALL, world.wall(host), in_bursts(host))
    assert worst_ms(found, host) < 1.0


@settings(max_examples=60, deadline=None)
@given(
    at_ms=st.integers(10_000, 80_000),
    step_ms=st.integers(-3_000, -15) | st.integers(15, 3_000),
    way_ms=st.integers(1, 8),
    seed=st.integers(0, 1_000),
    lost=st.lists(st.tuples(st.integers(0, 8_000), st.integers(1, 60)), max_size=6),
    arrive=st.sampled_from([at_once, in_bursts, jittery]),
)
def test_gaze_and_video_stay_together_through_a_step(
    at_ms: int,
    step_ms: int,
    way_ms: int,
    seed: int,
    lost: list[tuple[int, int]],
    arrive: Callable[[Times], Times],
) -> None:
    """Five milliseconds is what is promised between gaze and video."""
    world = World(steps=[(at_ms * MS, step_ms * MS)], way_ns=way_ms * MS, seed=seed)
    table = ClockTable(world.pairs(100), world.epochs())
    host = steady(90)
    whole_periods = abs(step_ms * 0.09 - round(step_ms * 0.09)) < 0.3
    for first, count in [] if arrive is in_bursts and whole_periods else lost:
        host = np.delete(host, slice(first, first + count))
    gaze = table.to_host_ns(Clock.DEVICE_WALL, world.wall(host), arrive(host))
    video = table.to_host_ns(Clock.DEVICE, world.device(host), arrive(host))
    assert worst_ms(gaze, video) < 5.0


def test_a_slewed_clock_is_followed_from_pair_to_pair() -> None:
    def slew(host_ns: Times) -> Times:
        """500 ppm for a minute, then steady, then back."""
        seconds = host_ns / SECOND
        part = np.interp(seconds, [0, 60, 120, 200, 260, 300], [0, 0, 30, 30, 0, 0])
        return np.rint(part * MS).astype(np.int64)

    world = World(slew=slew, way_ns=MS)
    table = ClockTable(world.pairs(300))
    host = steady(290, 30)
    found = table.to_host_ns(Clock.DEVICE_WALL, world.wall(host), jittery(host))
    (fit,) = table.fits(Clock.DEVICE_WALL)
    assert fit.slewed
    assert worst_ms(found, host) < 2.0
    doubt = table.uncertainty_ns(Clock.DEVICE_WALL, host)
    assert (np.abs(found - host) <= doubt).all()


@pytest.mark.parametrize("arrive", [at_once, in_bursts])
def test_a_restarted_headset_counts_from_the_start_again(arrive: Callable[[Times], Times]) -> None:
    host = steady(60, 30)
    host = host[(host < 25 * SECOND) | (host > 40 * SECOND)]
    reborn = host >= 30 * SECOND
    device = np.where(reborn, host - 29 * SECOND, host + AHEAD)
    pairs = [
        ClockPair(Clock.DEVICE, at * SECOND - MS, at * SECOND + MS, at * SECOND + AHEAD)
        for at in (1, 6, 11, 16, 21)
    ] + [
        ClockPair(Clock.DEVICE, at * SECOND - MS, at * SECOND + MS, (at - 29) * SECOND, 1)
        for at in (44, 49, 54, 59)
    ]
    table = ClockTable(pairs, [Epoch(Clock.DEVICE, 1, 44 * SECOND, "The headset was restarted.")])
    assert worst_ms(table.to_host_ns(Clock.DEVICE, device, arrive(host)), host) < 0.1
    assert [fit.epoch for fit in table.fits(Clock.DEVICE)] == [0, 1]


@settings(deadline=None)
@given(
    asymmetric_ms=st.sampled_from([0, 1, 10, 40]),
    ppm=st.floats(-100, 100),
    stop_s=st.integers(4, 300),
    seed=st.integers(0, 1_000),
)
def test_the_stated_interval_holds_the_truth_whatever_the_way(
    asymmetric_ms: int, ppm: float, stop_s: int, seed: int
) -> None:
    world = World(ppm=ppm, seed=seed)
    table = ClockTable(world.pairs(stop_s, asymmetric_ns=asymmetric_ms * MS))
    host = steady(stop_s + 10, 30)
    for clock, stamps in (
        (Clock.DEVICE, world.device(host)),
        (Clock.DEVICE_WALL, world.wall(host)),
    ):
        found = table.to_host_ns(clock, stamps, at_once(host))
        assert (np.abs(found - host) <= table.uncertainty_ns(clock, host)).all()


def test_a_pair_with_a_long_way_does_not_spoil_the_others() -> None:
    world = World()
    pairs = world.pairs(100)
    for at in range(3, 40, 7):
        pair = pairs[at]
        pairs[at] = ClockPair(
            pair.clock,
            pair.host_before_ns - 900 * MS,
            pair.host_after_ns,
            pair.device_ns,
            pair.epoch,
        )
    host = steady(90, 30)
    table = ClockTable(pairs)
    assert worst_ms(table.to_host_ns(Clock.DEVICE, world.device(host), at_once(host)), host) < 0.5


def test_a_wall_clock_without_pairs_is_taken_for_the_device_clock_it_began_as() -> None:
    world = World()
    pairs = [pair for pair in world.pairs(60) if pair.clock is Clock.DEVICE]
    host = steady(50)
    found = ClockTable(pairs).to_host_ns(Clock.DEVICE_WALL, world.device(host), at_once(host))
    assert worst_ms(found, host) < 0.5


def test_without_any_pair_the_quickest_packets_set_the_time() -> None:
    world = World(ppm=0.0)
    host = steady(50)
    found = ClockTable([]).to_host_ns(Clock.DEVICE, world.device(host), jittery(host))
    assert worst_ms(found, host) < 3.0
    with pytest.raises(RecordingError, match="never compared"):
        ClockTable([]).uncertainty_ns(Clock.DEVICE, host)


def test_a_million_rows_and_none_are_both_welcome() -> None:
    world = World()
    table = ClockTable(world.pairs(60))
    nothing = np.array([], dtype=np.int64)
    assert table.to_host_ns(Clock.DEVICE, nothing, nothing).tolist() == []
    host = steady(50, 20_000)
    assert worst_ms(table.to_host_ns(Clock.DEVICE, world.device(host), at_once(host)), host) < 0.5


def test_the_time_of_day_follows_a_set_wall_clock_while_durations_do_not() -> None:
    day = 1_780_000_000 * SECOND
    pairs = [
        ClockPair(
            Clock.UTC,
            at * SECOND,
            at * SECOND + 2_000,
            day + at * SECOND + 1_000 + (3_600 * SECOND if at >= 50 else 0),
        )
        for at in range(0, 101, 10)
    ]
    table = ClockTable(pairs)
    host = np.array([5, 20, 39, 61, 90]) * SECOND
    utc = table.host_to_utc_ns(host)
    assert np.abs(utc - (host + day + np.array([0, 0, 0, 1, 1]) * 3_600 * SECOND)).max() < 2_000
    with pytest.raises(RecordingError, match="never compared"):
        ClockTable([]).host_to_utc_ns(host)
