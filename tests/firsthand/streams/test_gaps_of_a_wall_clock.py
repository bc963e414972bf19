"""Accounts of a stream stamped by the device's wall clock: a step is no loss, a loss is no step."""

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.api import (
    POSE,
    Clock,
    ClockPair,
    Column,
    GapCause,
    GapRow,
    Packet,
    PacketFlags,
    StreamRole,
    StreamSchema,
)
from firsthand.streams.gaps import GapTracker

pytestmark = pytest.mark.unit

HZ = 90.0
PERIOD_NS = 1e9 / HZ
MS = 1_000_000
SECOND = 1_000_000_000
DEVICE_AHEAD = 6_000 * SECOND
GAZE = StreamSchema(
    name="gaze",
    title="Gaze",
    role=StreamRole.GAZE,
    columns=(
        Column("valid", "?"),
        Column("calibrated", "?"),
        Column("origin", "<f4", (3,), "m"),
        Column("direction", "<f4", (3,)),
        Column(POSE, "<f4", (4, 4), "m"),
    ),
    nominal_hz=HZ,
    idle_periods=9,
    clock=Clock.DEVICE_WALL,
)
ZEROS = bytes(GAZE.dtype.itemsize - 2)
READING = struct.pack("??", True, True) + ZEROS
BLINK = struct.pack("??", False, True) + ZEROS
EMPTY = struct.pack("??", False, False) + ZEROS


@dataclass
class Headset:
    """A headset and its path to the recorder, by the host's clock; steps move its wall clock."""

    delay_ns: int = 4 * MS
    blur_ns: int = 1 * MS
    wall_error_ns: int = 0
    tracker: GapTracker = field(default_factory=lambda: GapTracker(GAZE, 0))
    rows: list[GapRow] = field(default_factory=list)
    flags: list[PacketFlags] = field(default_factory=list)

    def send(self, host_ns: int, fields: bytes = READING, delay_ns: int | None = None) -> None:
        stamp_ns = round((host_ns + DEVICE_AHEAD + self.wall_error_ns) / 100) * 100
        arrival_ns = host_ns + (self.delay_ns if delay_ns is None else delay_ns)
        stored, told = self.tracker.packet(Packet("gaze", 0, stamp_ns, arrival_ns, fields))
        self.flags.append(stored.flags)
        self.rows += told

    def settle(self, slot: int) -> None:
        """A pair of readings, and ten seconds of packets after it: all is decided then."""
        self.pairs(at(slot) + self.delay_ns)
        run(self, range(slot, slot + 910))

    def pairs(self, host_ns: int) -> None:
        """One exchange for each clock, the second a little after the first."""
        for clock, error_ns in ((Clock.DEVICE, 0), (Clock.DEVICE_WALL, self.wall_error_ns)):
            before_ns, after_ns = host_ns - self.blur_ns, host_ns + self.blur_ns
            pair = ClockPair(clock, before_ns, after_ns, host_ns + DEVICE_AHEAD + error_ns)
            self.rows += self.tracker.clock(pair)
            host_ns += 3 * self.blur_ns

    @property
    def lost(self) -> int:
        rows = [row for row in self.rows if row.cause != GapCause.NOT_STARTED]
        assert all(row.packets_lost >= 0 for row in rows)
        return sum(row.packets_lost for row in rows)


def at(slot: int) -> int:
    return SECOND + round(slot * PERIOD_NS)


def run(headset: Headset, slots: range, missing: frozenset[int] = frozenset()) -> None:
    for slot in slots:
        if slot not in missing:
            headset.send(at(slot))


@pytest.mark.parametrize("step_ms", [400, 5_000, -400, -7, 17, 3_600_000, -3_600_000])
def test_a_step_is_no_gap(step_ms: int) -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(100))
    headset.wall_error_ns += step_ms * MS
    run(headset, range(100, 200))
    headset.settle(200)
    assert headset.lost == 0
    assert headset.tracker.undecided == 0
    assert (PacketFlags.TIME_WENT_BACK in headset.flags[100]) == (step_ms < -11)


def test_a_found_step_is_told_with_its_place_and_size() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(100))
    headset.wall_error_ns += 400 * MS
    run(headset, range(100, 200))
    assert headset.tracker.undecided == 1
    headset.settle(200)
    (step,) = headset.tracker.jumps
    assert step.step_ns == 400 * MS
    assert step.arrival_ns == at(100) + headset.delay_ns
    assert step.after_ns - step.before_ns == pytest.approx(400 * MS + PERIOD_NS, abs=200)


def test_a_real_gap_waits_for_a_pair_and_then_is_told() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(200), frozenset(range(100, 136)))
    assert headset.lost == 0
    assert headset.tracker.undecided == 1
    headset.settle(200)
    assert headset.lost == 36
    assert headset.tracker.jumps == []


@pytest.mark.parametrize("step_ms", [400, -400, 403, 15, -5_000])
def test_a_step_and_a_loss_in_one_jump_are_told_apart(step_ms: int) -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(100))
    headset.wall_error_ns += step_ms * MS
    headset.tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    run(headset, range(171, 200))
    headset.settle(200)
    assert [(r.cause, r.packets_lost) for r in headset.rows[1:]] == [("connection_lost", 71)]


def test_a_pair_that_was_taken_between_step_and_arrival_is_not_mistaken_for_the_old_side() -> None:
    """The path holds packets back for two seconds, so old stamps arrive after the step."""
    headset = Headset(delay_ns=2 * SECOND)
    headset.pairs(SECOND // 2)
    run(headset, range(100))
    headset.wall_error_ns += 400 * MS
    headset.pairs(at(100))
    run(headset, range(100, 400))
    headset.settle(400)
    assert headset.lost == 0
    assert [step.step_ns for step in headset.tracker.jumps] == [400 * MS]


def test_packets_that_come_in_one_burst_do_not_make_a_step_of_a_loss() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    for slot in range(200):
        if not 100 <= slot < 136:
            headset.send(at(slot), delay_ns=at(200) - at(slot) + slot * 1000)
    headset.settle(200)
    assert headset.lost == 36


def test_without_pairs_the_arrivals_decide_at_the_end() -> None:
    headset = Headset()
    run(headset, range(200), frozenset(range(100, 136)))
    headset.wall_error_ns += 400 * MS
    run(headset, range(200, 300))
    assert headset.lost == 0
    headset.rows += headset.tracker.close()
    assert headset.lost == 36


def test_a_restart_of_the_headset_ends_what_can_be_counted() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(100))
    headset.rows += headset.tracker.epoch(Clock.DEVICE_WALL, 1)
    headset.rows += headset.tracker.epoch(Clock.DEVICE, 1)
    headset.wall_error_ns -= DEVICE_AHEAD
    run(headset, range(500, 600))
    headset.settle(600)
    assert [r.packets_lost for r in headset.rows[1:]] == [-1]


def hides(losses: dict[int, int], slot: int, step_ms: int) -> bool:
    """Whether a step makes the jump of a loss look like one period: nothing shows then."""
    missing = sum(count for first, count in losses.items() if first <= slot <= first + count)
    return missing > 0 and abs(step_ms * MS / PERIOD_NS) < missing + 1 and step_ms < 0


@settings(max_examples=100, deadline=None)
@given(
    losses=st.dictionaries(st.integers(20, 1_300), st.integers(1, 120), max_size=4),
    steps=st.dictionaries(
        st.integers(20, 500) | st.integers(1_200, 1_300),
        st.integers(-9_000, -12) | st.integers(12, 9_000),
        max_size=2,
    ),
    pairs_every=st.integers(40, 450),
    blur_us=st.integers(50, 1_000),
    burst=st.booleans(),
)
def test_losses_and_steps_in_any_order_add_up_exactly(
    losses: dict[int, int], steps: dict[int, int], pairs_every: int, blur_us: int, burst: bool
) -> None:
    """Steps far apart, pairs as sharp as on a good network."""
    missing = {slot + k for slot, count in losses.items() for k in range(count)}
    kept_steps = {
        slot: step_ms
        for n, (slot, step_ms) in enumerate(sorted(steps.items()))
        if not hides(losses, slot, step_ms) and (n == 0 or slot - sorted(steps)[n - 1] > 600)
    }
    headset = Headset(blur_ns=blur_us * 1000)

    def error_ns(host_ns: int) -> int:
        return sum(step_ms * MS for slot, step_ms in kept_steps.items() if at(slot) <= host_ns)

    events: list[tuple[int, int, bool]] = [(SECOND // 2, SECOND // 2, False)]
    for slot in range(1_500):
        hold_ns = (30 - slot % 30) * round(PERIOD_NS) if burst else 0
        if slot not in missing:
            events.append((at(slot) + headset.delay_ns + hold_ns, at(slot), True))
        if slot % pairs_every == pairs_every - 1:
            events.append((at(slot) + 5 * MS, at(slot) + 5 * MS, False))
    for now_ns, taken_ns, is_packet in sorted(events):
        headset.wall_error_ns = error_ns(taken_ns)
        if is_packet:
            headset.send(taken_ns, delay_ns=now_ns - taken_ns)
        else:
            headset.pairs(taken_ns)
    headset.delay_ns = SECOND  # whatever was held back arrives before what follows
    headset.settle(1_500)
    assert headset.lost == len([slot for slot in missing if slot < 1_500])
    assert headset.tracker.undecided == 0


# -- nobody wears it --------------------------------------------------------------------------


def idle(headset: Headset, slots: range) -> None:
    for slot in slots:
        headset.send(at(slot) + 3_300_000, EMPTY)


def test_a_headset_that_nobody_wears_has_one_row_of_no_loss() -> None:
    headset = Headset()
    run(headset, range(10))
    idle(headset, range(18, 181, 9))
    run(headset, range(187, 200))
    headset.settle(200)
    (row,) = headset.rows[1:]
    assert (row.cause, row.packets_lost) == ("no_reading", 0)
    assert row.start_ns - DEVICE_AHEAD == pytest.approx(at(9), abs=100)
    assert row.stop_ns - DEVICE_AHEAD == pytest.approx(at(187), abs=100)


def test_a_headset_that_is_put_away_until_the_end_is_told_at_the_end() -> None:
    headset = Headset()
    run(headset, range(10))
    idle(headset, range(18, 100, 9))
    assert headset.rows[1:] == []
    headset.rows += headset.tracker.close()
    assert [(r.cause, r.packets_lost) for r in headset.rows[1:]] == [("no_reading", 0)]


def test_lost_empty_records_are_counted_in_their_own_interval() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    idle(headset, range(0, 91, 9))
    headset.tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    idle(headset, range(180, 271, 9))
    run(headset, range(275, 290))
    headset.settle(290)
    assert [(r.cause, r.packets_lost) for r in headset.rows[1:]] == [
        ("no_reading", 0),
        ("connection_lost", 9),
    ]


def test_a_blink_is_a_packet_like_any_other() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    run(headset, range(10))
    for slot in (*range(10, 20), *range(23, 30)):
        headset.send(at(slot), BLINK)
    run(headset, range(30, 40))
    headset.settle(40)
    assert [(r.cause, r.packets_lost) for r in headset.rows[1:]] == [("device_dropped", 3)]


def test_losses_of_somebody_without_calibration_are_losses() -> None:
    headset = Headset()
    headset.pairs(SECOND // 2)
    for slot in (*range(10), *range(13, 20)):
        headset.send(at(slot), EMPTY)
    headset.settle(20)
    assert [(r.cause, r.packets_lost) for r in headset.rows[1:]] == [("device_dropped", 3)]
