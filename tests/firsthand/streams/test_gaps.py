"""Accounts of one stream: what is missing stands in a row, once, with its cause."""

import struct
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.api import (
    Clock,
    Column,
    GapCause,
    GapRow,
    Packet,
    PacketFlags,
    PayloadKind,
    StreamRole,
    StreamSchema,
)
from firsthand.streams.gaps import GapTracker

pytestmark = pytest.mark.unit

VIDEO = StreamSchema(name="video", title="Video", nominal_hz=30.0)
SOUND = StreamSchema(
    name="sound",
    title="Sound",
    columns=(Column("samples", "<u4"),),
    role=StreamRole.MICROPHONE,
    payload=PayloadKind.PCM_S16,
    nominal_hz=100.0,
    sample_hz=48000.0,
    channels=2,
)
HEAD = StreamSchema(name="head", title="Head", nominal_hz=60.0, regular=False)
MOTION = StreamSchema(
    name="motion",
    title="Motion",
    columns=(Column("time_ns", "<i8"), Column("x", "<f4")),
    role=StreamRole.MOTION,
    nominal_hz=11.0,
    regular=False,
    row_time="time_ns",
)
START = 8_123_456_789_100
"""A device time to begin at, on the 100 ns grid of the headset."""


def slot_ns(slot: int, hz: float = 30.0, start_ns: int = START) -> int:
    """Device time of a slot, rounded to 100 ns as the headset does."""
    return start_ns + round(slot * 1e7 / hz) * 100


def packet(
    device_ns: int, *, stream: str = "video", fields: bytes = b"", wait_ns: int = 3_000_000
) -> Packet:
    return Packet(stream, 0, device_ns, device_ns - START + wait_ns, fields)


def feed(tracker: GapTracker, *packets: Packet) -> list[GapRow]:
    return [row for each in packets for row in tracker.packet(each)[1]]


def counted(rows: list[GapRow]) -> int:
    assert all(row.packets_lost >= 0 for row in rows)
    return sum(row.packets_lost for row in rows)


def test_packets_in_step_make_no_row() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    assert feed(tracker, *(packet(slot_ns(k)) for k in range(1, 500))) == []
    assert tracker.close() == []


def test_the_wait_for_the_first_packet_is_a_row_of_no_lost_packets() -> None:
    tracker = GapTracker(VIDEO, started_host_ns=1_000_000_000)
    stored, rows = tracker.packet(Packet("video", 0, START, 3_500_000_000))
    assert rows == [GapRow("video", START - 2_500_000_000, START, "not_started", 0)]
    assert stored.flags == PacketFlags.NONE


def test_a_hole_is_told_from_neighbour_to_neighbour() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)), packet(slot_ns(1)))
    stored, rows = tracker.packet(packet(slot_ns(5)))
    assert rows == [GapRow("video", slot_ns(1), slot_ns(5), "device_dropped", 3)]
    assert stored.flags == PacketFlags.FIRST_AFTER_GAP
    assert tracker.lost == 3


def test_flags_that_a_device_set_are_kept() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    key = replace(packet(slot_ns(4)), flags=PacketFlags.KEY_FRAME | PacketFlags.NEW_CONNECTION)
    stored, _ = tracker.packet(key)
    assert stored.flags == (
        PacketFlags.KEY_FRAME | PacketFlags.NEW_CONNECTION | PacketFlags.FIRST_AFTER_GAP
    )


def test_an_interruption_gives_its_cause_to_the_next_hole_only() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.interrupted(GapCause.STALLED, "Nothing came.")
    tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    rows = feed(tracker, packet(slot_ns(61)), packet(slot_ns(63)))
    assert [(row.cause, row.packets_lost) for row in rows] == [
        ("connection_lost", 60),
        ("device_dropped", 1),
    ]


def test_an_interruption_without_a_hole_makes_no_row() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.interrupted(GapCause.STALLED, "Nothing came.")
    assert feed(tracker, packet(slot_ns(1)), packet(slot_ns(2))) == []
    assert tracker.close() == []


def test_empty_packets_fill_their_holes_and_are_counted_once() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    assert tracker.skipped(GapCause.EMPTY_PACKET, slot_ns(1), 1) == []
    assert tracker.skipped(GapCause.EMPTY_PACKET, slot_ns(2), 1) == []
    rows = feed(tracker, packet(slot_ns(4)))
    assert rows == [
        GapRow("video", slot_ns(1), slot_ns(2), "empty_packet", 2),
        GapRow("video", slot_ns(0), slot_ns(4), "device_dropped", 1),
    ]


def test_a_damaged_packet_is_taken_out_of_the_hole_that_reconnecting_leaves() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.skipped(GapCause.DAMAGED_PACKET, slot_ns(987654), 1)  # a time out of damaged bytes
    tracker.interrupted(GapCause.CONNECTION_LOST, "Connecting anew after damaged data.")
    rows = feed(tracker, packet(slot_ns(9)))
    assert rows == [
        GapRow("video", slot_ns(0), slot_ns(9), "damaged_packet", 1),
        GapRow("video", slot_ns(0), slot_ns(9), "connection_lost", 7),
    ]


@pytest.mark.parametrize(
    ("interrupted", "shares"),
    [(False, [("damaged_packet", 7)]), (True, [("damaged_packet", 1), ("stalled", 6)])],
)
def test_damage_of_unknown_extent_adds_up_to_the_hole(
    interrupted: bool, shares: list[tuple[str, int]]
) -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.skipped(GapCause.DAMAGED_PACKET, None, -1)
    if interrupted:
        tracker.interrupted(GapCause.STALLED, "Nothing came.")
    rows = feed(tracker, packet(slot_ns(8)))
    assert [(row.cause, row.packets_lost) for row in rows] == shares


def test_a_skip_without_room_in_the_device_times_is_noted_but_not_counted() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.skipped(GapCause.DAMAGED_PACKET, None, 1)
    rows = feed(tracker, packet(slot_ns(1)))
    assert [(row.cause, row.packets_lost) for row in rows] == [("damaged_packet", 0)]


def test_skipped_packets_at_both_ends_are_rows_as_told() -> None:
    tracker = GapTracker(VIDEO, 0)
    tracker.skipped(GapCause.EMPTY_PACKET, slot_ns(0), 1)
    rows = feed(tracker, packet(slot_ns(1)))
    assert [(row.cause, row.start_ns, row.packets_lost) for row in rows] == [
        ("not_started", slot_ns(1) - (slot_ns(1) - START + 3_000_000), 0),
        ("empty_packet", slot_ns(0), 1),
    ]
    tracker.skipped(GapCause.EMPTY_PACKET, slot_ns(2), 1)
    assert tracker.close() == [GapRow("video", slot_ns(2), slot_ns(2), "empty_packet", 1)]


def test_a_gap_open_at_the_end_reaches_to_the_last_known_moment() -> None:
    tracker = GapTracker(VIDEO, 0)
    last = packet(slot_ns(3))
    feed(tracker, last)
    tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    stop_ns = slot_ns(3) + 2_000_000_000
    assert tracker.close(last.arrival_ns + 2_000_000_000) == [
        GapRow("video", slot_ns(3), stop_ns, "connection_lost", -1)
    ]
    assert tracker.unknown == 1
    assert tracker.close() == []


def test_a_stream_that_never_began_has_no_rows_of_invented_times() -> None:
    tracker = GapTracker(VIDEO, 0)
    tracker.interrupted(GapCause.REFUSED, "Another program is using this headset.")
    assert tracker.close(5_000_000_000) == []


def test_a_stamp_behind_its_predecessor_is_marked_and_makes_no_hole() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)), packet(slot_ns(10)))
    stored, rows = tracker.packet(packet(slot_ns(2)))
    assert (stored.flags, rows) == (PacketFlags.TIME_WENT_BACK, [])
    stored, rows = tracker.packet(packet(slot_ns(11)))
    assert (stored.flags, rows) == (PacketFlags.NONE, [])


def test_one_stamp_far_ahead_does_not_blind_the_accounts_for_long() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)), packet(slot_ns(25)))
    feed(tracker, *(packet(slot_ns(k)) for k in range(1, 5)))
    assert [row.packets_lost for row in feed(tracker, packet(slot_ns(7)))] == [2]


@pytest.mark.parametrize("told_first", [True, False])
def test_a_restart_of_the_headset_is_one_gap_that_cannot_be_counted(told_first: bool) -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    rows = tracker.epoch(Clock.DEVICE, 1) if told_first else []
    fresh = [replace(packet(slot_ns(k)), device_ns=slot_ns(k, start_ns=77_000)) for k in range(3)]
    rows += feed(tracker, *fresh[:2])
    rows += [] if told_first else tracker.epoch(Clock.DEVICE, 1)
    rows += feed(tracker, *fresh[2:])
    assert rows == [GapRow("video", slot_ns(0), 77_000, "connection_lost", -1)]


def test_packets_of_a_new_life_that_run_ahead_of_the_old_are_not_counted_either() -> None:
    tracker = GapTracker(VIDEO, 0)
    feed(tracker, packet(slot_ns(0)))
    assert tracker.epoch(Clock.DEVICE, 1) == []
    stored, rows = tracker.packet(packet(slot_ns(5000)))
    assert [row.packets_lost for row in rows] == [-1]
    assert stored.flags == PacketFlags.FIRST_AFTER_GAP


def test_the_epochs_of_other_clocks_are_none_of_a_streams_business() -> None:
    tracker = GapTracker(replace(VIDEO, clock=Clock.HOST), 0)
    feed(tracker, packet(slot_ns(0)))
    assert tracker.epoch(Clock.DEVICE, 1) == []
    assert [row.packets_lost for row in feed(tracker, packet(slot_ns(2)))] == [1]


# -- sound ------------------------------------------------------------------------------------


def sound(sample: int, samples: int, jitter_ns: int = 0, rate: float = 48000.0) -> Packet:
    device_ns = START + round(sample * 1e7 / rate) * 100 + jitter_ns
    return packet(device_ns, stream="sound", fields=struct.pack("<I", samples))


def test_missing_sound_is_counted_in_packets_of_its_own_length() -> None:
    tracker = GapTracker(SOUND, 0)
    feed(tracker, sound(0, 480), sound(480, 480))
    rows = feed(tracker, sound(480 * 102, 480))
    assert [(row.cause, row.packets_lost) for row in rows] == [("device_dropped", 100)]


def test_packets_of_changing_length_that_join_up_make_no_row() -> None:
    tracker = GapTracker(SOUND, 0)
    feed(tracker, sound(0, 480))
    at, sizes = 480, [960, 480, 1024, 480, 768, 96, 480]
    for size in sizes:
        assert feed(tracker, sound(at, size)) == []
        at += size


@settings(max_examples=50, deadline=None)
@given(
    lost=st.sets(st.integers(1, 398), max_size=60),
    jitter=st.lists(st.integers(-2_000_000, 2_000_000), min_size=400, max_size=400),
    ppm=st.integers(-200, 200),
)
def test_lost_sound_is_exact_under_jitter_and_a_drifting_crystal(
    lost: set[int], jitter: list[int], ppm: int
) -> None:
    tracker = GapTracker(SOUND, 0)
    rows: list[GapRow] = []
    for k in range(400):
        if k not in lost:
            rows += feed(tracker, sound(k * 1024, 1024, jitter[k], 48000.0 * (1 + ppm * 1e-6)))
    assert counted(rows) == len(lost)


def test_an_hour_of_drifting_sound_loses_nothing_and_a_long_hole_in_it_is_exact() -> None:
    tracker = GapTracker(SOUND, 0)
    rate = 48000.0 * (1 + 180e-6)
    first, missing = 20_000, 28_000  # seven minutes of sound, then ten that are missing
    rows = feed(tracker, *(sound(k * 1024, 1024, rate=rate) for k in range(first)))
    assert counted(rows) == 0
    tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    rows = feed(tracker, sound((first + missing) * 1024, 1024, rate=rate))
    assert [row.packets_lost for row in rows] == [missing]


# -- streams without a grid -------------------------------------------------------------------


def test_an_irregular_stream_has_rows_for_interruptions_silences_and_skips() -> None:
    tracker = GapTracker(HEAD, 0)
    feed(tracker, packet(slot_ns(0, 60)), packet(slot_ns(3, 60)), packet(slot_ns(4, 60)))
    tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    tracker.skipped(GapCause.DAMAGED_PACKET, None, 1)
    rows = feed(tracker, packet(slot_ns(20, 60)))
    assert [(row.cause, row.packets_lost) for row in rows] == [
        ("damaged_packet", 1),
        ("connection_lost", -1),
    ]
    rows = feed(tracker, packet(slot_ns(90, 60)))
    assert [(row.cause, row.packets_lost) for row in rows] == [("device_dropped", -1)]
    tracker.skipped(GapCause.EMPTY_PACKET, slot_ns(91, 60), 1)
    rows = feed(tracker, packet(slot_ns(92, 60)))
    assert [(row.cause, row.packets_lost) for row in rows] == [("empty_packet", 1)]


def motion(row: int, rows: int, spacing_ns: int = 900_000) -> Packet:
    times = [START + (row + k) * spacing_ns for k in range(rows)]
    fields = b"".join(struct.pack("<qf", time, 0.0) for time in times)
    return packet(times[0], stream="motion", fields=fields)


def test_lost_batches_are_counted_by_the_spacing_of_their_rows() -> None:
    tracker = GapTracker(MOTION, 0)
    feed(tracker, motion(0, 93), motion(93, 93))
    assert feed(tracker, motion(186, 90), motion(276, 93)) == []
    assert [row.packets_lost for row in feed(tracker, motion(369 + 4 * 93, 93))] == [4]


def test_batches_whose_rows_share_one_time_are_not_counted() -> None:
    tracker = GapTracker(MOTION, 0)
    feed(tracker, motion(0, 93, 0))
    late = replace(motion(0, 93, 0), device_ns=START + 5_000_000_000)
    assert [row.packets_lost for row in feed(tracker, late)] == [-1]


# -- whatever happens, the sum is right -------------------------------------------------------

Fate = st.sampled_from(["stored"] * 6 + ["lost", "empty", "damaged", "wire"])


@settings(deadline=None)
@given(
    fates=st.lists(Fate, min_size=1, max_size=300),
    hz=st.sampled_from([5.0, 30.0, 45.0, 59.94, 90.0]),
    declared_error=st.floats(-2e-4, 2e-4),
    jitter=st.floats(0, 0.2),
    data=st.data(),
)
def test_stored_and_lost_add_up_to_the_slots_exactly(
    fates: list[str], hz: float, declared_error: float, jitter: float, data: st.DataObject
) -> None:
    """Slots are lost in the device, sent empty, damaged on the way or lost with the connection."""
    fates = ["stored", *fates, "stored"]
    tracker = GapTracker(replace(VIDEO, nominal_hz=hz * (1 + declared_error)), 0)
    shake = data.draw(
        st.lists(st.floats(-jitter, jitter), min_size=len(fates), max_size=len(fates))
    )
    rows: list[GapRow] = []
    flagged = 0
    for slot, fate in enumerate(fates):
        device_ns = slot_ns(slot, hz) + round(shake[slot] * 1e9 / hz)
        if fate == "stored":
            stored, told = tracker.packet(packet(device_ns))
            rows += told
            flagged += PacketFlags.FIRST_AFTER_GAP in stored.flags
        elif fate == "empty":
            rows += tracker.skipped(GapCause.EMPTY_PACKET, device_ns, 1)
        elif fate == "damaged":
            rows += tracker.skipped(GapCause.DAMAGED_PACKET, None, 1)
            tracker.interrupted(GapCause.CONNECTION_LOST, "Connecting anew after damaged data.")
        elif fate == "wire":
            tracker.interrupted(GapCause.CONNECTION_LOST, "The headset does not answer.")
    rows += tracker.close()
    assert counted(rows) == len(fates) - fates.count("stored")
    by_cause = {cause: sum(r.packets_lost for r in rows if r.cause == cause) for cause in GapCause}
    assert by_cause[GapCause.EMPTY_PACKET] == fates.count("empty")
    assert by_cause[GapCause.DAMAGED_PACKET] == fates.count("damaged")
    text = "".join("s" if fate == "stored" else "-" for fate in fates)
    assert flagged == sum(1 for a, b in pairwise(text) if (a, b) == ("-", "s"))


def test_hours_of_rounded_times_never_miscount() -> None:
    """Ninety a second for three hours; every 1000th packet missing, times rounded to 100 ns."""
    tracker = GapTracker(replace(VIDEO, nominal_hz=90.0), 0)
    last = 90 * 3600 * 3
    rows: list[GapRow] = []
    for slot in range(0, last, 7):  # six of seven lost as well: the count grows fast
        if slot % 1000:
            rows += tracker.packet(packet(slot_ns(slot, 90.0)))[1]
    kept = [slot for slot in range(0, last, 7) if slot % 1000]
    assert counted(rows) == kept[-1] - kept[0] + 1 - len(kept)
