"""Health of a stream: its numbers, and the word they come to."""

import json

import pytest

from firsthand.api import StreamSchema, StreamState
from firsthand.streams.health import HealthSnapshot, StreamHealth

pytestmark = pytest.mark.unit

MS = 1_000_000
SECOND = 1_000_000_000
AHEAD = 77 * SECOND
VIDEO = StreamSchema(name="video", title="Video", nominal_hz=30.0)


def live(
    seconds: float, *, hz: float = 30.0, schema: StreamSchema = VIDEO, late_ms: int = 5
) -> StreamHealth:
    """A stream that has run for so long from host time 100 s on."""
    health = StreamHealth(schema, 100 * SECOND)
    health.state(StreamState.LIVE)
    run(health, 0.0, seconds, hz, late_ms)
    return health


def run(health: StreamHealth, start_s: float, stop_s: float, hz: float, late_ms: int) -> None:
    for k in range(round(start_s * hz), round(stop_s * hz)):
        host = 100 * SECOND + round(k * 1e9 / hz)
        health.packet(host + AHEAD, host + late_ms * MS, 1000)


def at(seconds: float) -> int:
    return 100 * SECOND + round(seconds * 1e9)


def test_a_stream_in_step_is_good() -> None:
    now = live(10.0).snapshot(at(10.0))
    assert now.word == "good"
    assert now.rate_hz == pytest.approx(30.0, rel=0.02)
    assert (now.packets, now.bytes, now.dropped, now.bad_times) == (300, 300_000, 0, 0)
    assert now.silence_s == pytest.approx(0.028, abs=0.01)
    assert now.age_ms == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6, 1.1, 2.7])
@pytest.mark.parametrize("hz", [5.0, 30.0, 90.0])
def test_a_stream_that_has_just_begun_is_not_called_slow(seconds: float, hz: float) -> None:
    schema = StreamSchema(name="any", title="Any", nominal_hz=hz)
    assert live(seconds, hz=hz, schema=schema).snapshot(at(seconds)).word == "good"


def test_silence_beyond_what_the_stream_allows_is_told() -> None:
    health = live(10.0)
    assert health.snapshot(at(10.9)).word != "silent"
    now = health.snapshot(at(11.2))
    assert now.word == "silent"
    assert now.silence_s == pytest.approx(1.2, abs=0.05)


@pytest.mark.parametrize("state", [state for state in StreamState if state != "live"])
def test_a_stream_that_is_not_live_is_silent(state: StreamState) -> None:
    health = live(10.0)
    health.state(state, "The headset does not answer.")
    now = health.snapshot(at(10.0))
    assert (now.word, now.state, now.reason) == ("silent", state, "The headset does not answer.")


@pytest.mark.parametrize(("lost", "word"), [(0, "good"), (3, "degraded"), (20, "poor")])
def test_lost_packets_lower_the_word(lost: int, word: str) -> None:
    health = live(10.0)
    health.lost(lost, 0.7)
    now = health.snapshot(at(10.3))
    assert now.word == word
    assert now.dropped == lost
    assert now.drop_ratio == pytest.approx(lost / (300 + lost))
    assert now.longest_drop_s == (0.7 if lost else 0.0)


def test_old_losses_are_forgiven_in_the_word_and_kept_in_the_numbers() -> None:
    health = live(10.0)
    health.lost(20, 0.7)
    health.lost(-1, 0.2)
    run(health, 10.0, 25.0, 30.0, 5)
    now = health.snapshot(at(25.0))
    assert (now.word, now.dropped, now.longest_drop_s) == ("good", 20, 0.7)


@pytest.mark.parametrize(("hz", "word"), [(28.0, "good"), (24.0, "degraded"), (13.0, "poor")])
def test_a_slow_stream_is_told(hz: float, word: str) -> None:
    assert live(10.0, hz=hz).snapshot(at(10.0)).word == word


@pytest.mark.parametrize(("late_ms", "word"), [(100, "good"), (400, "degraded"), (1400, "poor")])
def test_packets_that_come_late_are_told_by_their_age(late_ms: int, word: str) -> None:
    health = live(10.0)
    run(health, 10.0, 15.0, 30.0, late_ms)
    now = health.snapshot(at(15.0 + late_ms / 1000))
    assert now.word == word
    assert now.age_ms == pytest.approx(late_ms - 5, abs=2)


def test_a_device_clock_that_drifts_does_not_make_packets_old() -> None:
    health = StreamHealth(VIDEO, 100 * SECOND)
    health.state(StreamState.LIVE)
    for k in range(30 * 1800):
        host = 100 * SECOND + round(k * 1e9 / 30)
        health.packet(round(host * (1 - 100e-6)), host + 5 * MS, 1000)
    assert health.snapshot(at(1800)).age_ms < 1.0


def test_times_that_do_not_go_on_are_counted_and_degrade() -> None:
    health = live(10.0)
    health.packet(at(2.0) + AHEAD, at(10.0), 1000)
    health.packet(at(2.0) + AHEAD, at(10.03), 1000)
    now = health.snapshot(at(10.4))
    assert (now.bad_times, now.word) == (2, "degraded")
    assert now.age_ms < 5


def test_a_stream_without_a_rate_is_judged_by_the_rest() -> None:
    schema = StreamSchema(name="events", title="Events", regular=False, stalls_after_s=60.0)
    health = live(1.0, hz=3.0, schema=schema)
    assert health.snapshot(at(30.0)).word == "good"


def test_a_stream_that_never_came_is_silent_since_the_start() -> None:
    health = StreamHealth(VIDEO, 100 * SECOND)
    now = health.snapshot(at(4.0))
    assert (now.word, now.state, now.silence_s) == ("silent", StreamState.CONNECTING, 4.0)
    assert (now.drop_ratio, now.rate_hz) == (0.0, 0.0)


def test_a_snapshot_survives_json() -> None:
    health = live(3.0)
    health.lost(2, 0.1)
    now = health.snapshot(at(3.0))
    assert HealthSnapshot.from_json(json.loads(json.dumps(now.to_json()))) == now
    with pytest.raises(TypeError):
        HealthSnapshot.from_json({"state": "live", "colour": "green"})
