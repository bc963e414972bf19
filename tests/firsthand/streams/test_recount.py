"""Rows that a killed recorder did not write are found in what it stored."""

import pytest

from firsthand.api import Clock, ClockPair, GapRow, Packet, StreamSchema
from firsthand.streams.gaps import GapTracker
from firsthand.streams.recount import Recount

pytestmark = pytest.mark.unit

SECOND = 1_000_000_000
GAZE = StreamSchema(name="gaze", title="Gaze", nominal_hz=90.0, clock=Clock.DEVICE_WALL)


def packets(lost: set[int], slots: int = 1_000) -> list[Packet]:
    times = [(slot, SECOND + round(slot * 1e7 / 90) * 100) for slot in range(slots)]
    return [Packet("gaze", 0, at, at + 3_000_000) for slot, at in times if slot not in lost]


def pairs(host_ns: int) -> list[ClockPair]:
    return [
        ClockPair(clock, host_ns - 200_000, host_ns + 200_000, host_ns)
        for clock in (Clock.DEVICE, Clock.DEVICE_WALL)
    ]


def test_a_loss_that_was_still_undecided_is_found_and_a_written_one_not_doubled() -> None:
    lost = {*range(100, 110), *range(900, 920)}
    recorder, recount = GapTracker(GAZE, SECOND), Recount(GAZE)
    written: list[GapRow] = []
    for pair in pairs(SECOND // 2):
        recorder.clock(pair)
        recount.clock(pair)
    for n, packet in enumerate(packets(lost)):
        if n == 400:
            for pair in pairs(packet.arrival_ns):
                written += recorder.clock(pair)
                recount.clock(pair)
        stored, rows = recorder.packet(packet)
        written += rows
        recount.packet(stored)
    for row in written:
        recount.told(row)
    assert recorder.lost == 10  # and then it is killed
    assert [(row.cause, row.packets_lost) for row in recount.missing()] == [("device_dropped", 20)]


def test_nothing_is_missing_where_everything_was_written() -> None:
    recorder, recount = GapTracker(GAZE, SECOND), Recount(GAZE)
    written: list[GapRow] = []
    for packet in packets({50, 51, 700}):
        stored, rows = recorder.packet(packet)
        written += rows
        recount.packet(stored)
    for row in [*written, *recorder.close()]:
        recount.told(row)
    assert recorder.lost == 3
    assert recount.missing() == []
