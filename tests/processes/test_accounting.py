"""Whatever goes wrong on the way: sent and unsent slots equal stored packets plus recorded gaps."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from firsthand.api import SimulatedFault

pytestmark = pytest.mark.process
STREAMS = ("pv", "eet", "si", "mic")
FAULTS = {
    "nothing": [],
    "a stall": [SimulatedFault("stall", "", for_s=1.5)],
    "closed connections": [SimulatedFault("disconnect", s) for s in STREAMS],
    "reset connections": [SimulatedFault("reset", s) for s in STREAMS],
    "a half-open link": [SimulatedFault("half_open", "", for_s=2.0)],
    "packets cut short": [SimulatedFault("truncate", s) for s in STREAMS],
    "forged lengths": [SimulatedFault("corrupt", s, about={"part": "length"}) for s in STREAMS],
    "damaged timestamps": [
        SimulatedFault("corrupt", s, about={"part": "timestamp", "bits": 3}) for s in STREAMS
    ],
    "damaged contents": [SimulatedFault("corrupt", s, about={"part": "payload"}) for s in STREAMS],
    "damaged poses": [SimulatedFault("corrupt", s, about={"part": "pose"}) for s in ("pv", "eet")],
    "slivers": [SimulatedFault("slices", "", for_s=1.0, about={"bytes": 1})],
    "jitter": [SimulatedFault("jitter", "", for_s=2.0, about={"ms": 120})],
    "a slow link": [SimulatedFault("throttle", "pv", for_s=2.0, about={"bytes_per_s": 4000})],
    "a stepped wall clock": [SimulatedFault("clock_step", about={"ms": 400})],
    "a drifting crystal": [SimulatedFault("drift", about={"ppm": 200})],
    "old values behind cleared bits": [SimulatedFault("stale_si", "si", for_s=1.0)],
    "pictures that the encoder swallowed": [SimulatedFault("empty_pv", "pv", for_s=0.5)],
    "ports that refuse": [SimulatedFault("refuse", "", for_s=1.0)],
    "another client": [SimulatedFault("ghost_client", "", for_s=1.5)],
    "a restarted app": [SimulatedFault("restart")],
}


@pytest.mark.parametrize("what", FAULTS)
def test_every_packet_is_stored_or_counted_under(
    what: str, record_headset: Callable[..., Any]
) -> None:
    recorded = record_headset(seconds=4.0, faults=FAULTS[what])
    for stream in STREAMS:
        stored = recorded.stored(stream)
        times = [int(t) // 100 for t in stored.device_ns]
        assert len(times) > 1, f"{stream} stored nothing"
        assert recorded.ledger.holes(stream) == []

        sent = {row.timestamp_hns: row for row in recorded.ledger.sent(stream)}
        assert set(times) <= set(sent), f"{stream} holds packets that nobody sent"
        assert len(set(times)) == len(times), f"{stream} holds a packet twice"
        if stored.payload_crc32:
            for time_hns, crc in zip(times, stored.payload_crc32, strict=True):
                row = sent[time_hns]
                if row.damage:
                    continue  # nothing on the wire tells that a payload's bits were flipped
                assert crc == (row.crc32 if stream == "mic" else row.picture_crc32)

        counted = [gap for gap in stored.gaps if gap[2] != "not_started"]
        assert all(lost >= 0 for *_, lost in counted), f"{stream}: {counted}"
        slots = recorded.ledger.count(stream, times[0], times[-1]).slots
        assert slots == len(times) + stored.lost, f"{stream}: {slots=} {len(times)=} {counted}"


def test_measured_gaps_never_overlap_and_lie_between_stored_packets(
    record_headset: Callable[..., Any],
) -> None:
    faults = [SimulatedFault("disconnect", s, at_s=1.0) for s in STREAMS]
    faults += [SimulatedFault("stall", "", at_s=2.0, for_s=1.2)]
    recorded = record_headset(seconds=4.5, faults=faults)
    for stream in STREAMS:
        stored = recorded.stored(stream)
        # Packets that arrived without content have rows at their own times, within or beside these.
        own = {"not_started", "empty_packet", "damaged_packet"}
        gaps = [gap for gap in stored.gaps if gap[2] not in own]
        assert gaps
        for (_, stop, *_), (start, *_) in itertools.pairwise(gaps):
            assert stop <= start
        held = set(stored.device_ns.tolist())
        assert all(start in held and stop in held for start, stop, *_ in gaps)
