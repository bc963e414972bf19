"""Cutting a stream into packets, whatever comes and however it is sliced."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand_hl2ss.framing import CONTEXT_BYTES, Damaged, Framer, Limits
from firsthand_hl2ss.wire import pack_packet

pytestmark = pytest.mark.unit

packets = st.lists(st.tuples(st.integers(1, 2**50), st.binary(max_size=300)), max_size=20)


def fed(framer: Framer, data: bytes, slices: list[int]) -> list[tuple[int, bytes, bytes]]:
    """Receive ``data`` in pieces of the given sizes, over and over; give what was cut out."""
    found = []
    at = turn = 0
    while at < len(data):
        space = framer.space()
        count = min(len(space), slices[turn % len(slices)], len(data) - at)
        space[:count] = data[at : at + count]
        framer.received(count)
        at, turn = at + count, turn + 1
        while (raw := framer.next()) is not None:
            found.append((raw.timestamp_hns, bytes(raw.payload), bytes(raw.pose)))
    return found


@given(packets, st.lists(st.integers(1, 700), min_size=1, max_size=5), st.booleans())
def test_packets_come_out_as_they_went_in_however_they_are_sliced(
    sent: list[tuple[int, bytes]], slices: list[int], posed: bool
) -> None:
    pose = bytes(range(64)) if posed else b""
    data = b"".join(pack_packet(at, payload, pose) for at, payload in sent)
    framer = Framer(Limits(0, 300, len(pose)))
    assert fed(framer, data, slices) == [(at, payload, pose) for at, payload in sent]
    assert framer.pending == 0


def test_one_byte_at_a_time_is_enough() -> None:
    sent = [(1, b"first"), (2, b""), (3, b"third" * 50)]
    data = b"".join(pack_packet(at, payload) for at, payload in sent)
    found = fed(Framer(Limits(0, 300)), data, [1])
    assert [(at, payload) for at, payload, _ in found] == sent


@pytest.mark.parametrize("length", [301, 2**20, 2**31, 2**32 - 1])
def test_a_forged_length_is_refused_and_allocates_nothing(length: int) -> None:
    framer = Framer(Limits(1, 300))
    before = framer.capacity
    with pytest.raises(Damaged, match=str(length)):
        fed(framer, struct.pack("<QI", 5, length) + b"x" * 100, [1000])
    assert framer.capacity == before


def test_a_length_within_the_limit_grows_the_buffer_only_as_bytes_arrive() -> None:
    framer = Framer(Limits(0, 50_000_000))
    fed(framer, struct.pack("<QI", 5, 50_000_000) + b"x" * 1000, [100])
    assert framer.capacity < 100_000


def test_the_buffer_stays_below_one_packet_and_some_reading_ahead() -> None:
    framer = Framer(Limits(0, 300_000))
    data = b"".join(pack_packet(at, bytes(300_000)) for at in range(1, 20))
    assert len(fed(framer, data, [1_000_000])) == 19
    assert framer.capacity <= 300_000 + 12 + 65_536


@pytest.mark.parametrize(
    ("limits", "length", "good"),
    [
        (Limits(92, 92, 64), 92, True),
        (Limits(92, 92, 64), 91, False),
        (Limits(92, 92, 64), 0, False),
        (Limits(4, 400, step=4), 8, True),
        (Limits(4, 400, step=4), 9, False),
        (Limits(4, 400, step=4), 404, False),
    ],
)
def test_lengths_are_judged_by_the_stream(limits: Limits, length: int, good: bool) -> None:
    assert (limits.refuse(length) is None) is good


def test_a_header_is_judged_before_its_payload_has_come() -> None:
    framer = Framer(Limits(0, 300), lambda hns: "too early" if hns < 10 else None)
    good = pack_packet(10, b"good")
    with pytest.raises(Damaged, match="too early") as caught:
        fed(framer, good + struct.pack("<QI", 9, 200), [1000])
    assert caught.value.context == struct.pack("<QI", 9, 200)


def test_the_context_of_damage_is_kept_up_to_four_kilobytes() -> None:
    framer = Framer(Limits(0, 300))
    junk = struct.pack("<QI", 1, 9999) + bytes(range(256)) * 40
    with pytest.raises(Damaged) as caught:
        fed(framer, junk, [10_000])
    assert caught.value.context == junk[:CONTEXT_BYTES]


@given(st.binary(max_size=3000), st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_noise_ends_in_damage_or_waits_and_never_in_anything_else(
    noise: bytes, slices: list[int]
) -> None:
    framer = Framer(Limits(10, 2000, 64), lambda hns: None if hns < 2**40 else "time")
    try:
        found = fed(framer, noise, slices)
    except Damaged:
        return
    assert sum(12 + len(p) + len(q) for _, p, q in found) + framer.pending == len(noise)
