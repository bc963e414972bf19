"""Each fault of the simulated headset, as a client sees it."""

import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firsthand.api import SettingsError, SimulatedFault
from firsthand.testing.raw_peer import RawPeer, comes_to_listen, refuses
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig
from firsthand_hl2ss.simulator.faults import KINDS

pytestmark = pytest.mark.process
HOST = "127.0.12.16"
EET, SI, MIC, PV, RC = 3817, 3812, 3811, 3810, 3809
REQUEST = {EET: b"\x5a", SI: b"", MIC: b"\xff\x00"}
STREAM = {EET: "eet", SI: "si", MIC: "mic"}


@pytest.fixture
def headset() -> Iterator[Hl2ssSimulator]:
    config = SimulatorConfig(
        host=HOST, voice=False, eye_tracker_opens_s=0.0, camera_opens_s=0.05, research_mode=False
    )
    with Hl2ssSimulator(config) as simulator:
        yield simulator


class Client(RawPeer):
    """A client of one stream that reads packet by packet."""

    def __init__(self, port: int, **settings: Any) -> None:
        super().__init__(HOST, port, **settings)
        self.port = port
        self.send(REQUEST[port])

    def packet(self) -> tuple[int, bytes, tuple[float, ...]]:
        timestamp, length = self.unpack("<QI")
        payload = self.read(int(length))
        return int(timestamp), payload, self.unpack("<16f") if self.port == EET else ()

    def times(self, count: int) -> list[int]:
        return [self.packet()[0] for _ in range(count)]


def rc(command: bytes, layout: str) -> tuple[int | float, ...]:
    with RawPeer(HOST, RC) as client:
        client.send(command)
        return client.unpack(layout)


def happens(
    headset: Hl2ssSimulator, kind: str, port: int = 0, for_s: float = 0, **about: Any
) -> None:
    headset.fault(SimulatedFault(kind, STREAM.get(port, ""), for_s=for_s, about=about))


@pytest.mark.parametrize("port", [EET, SI, MIC])
def test_a_stall_is_silence_and_the_lost_slots_are_in_the_account(
    headset: Hl2ssSimulator, port: int
) -> None:
    with Client(port) as client:
        before = client.times(3)
        happens(headset, "stall", port, for_s=0.5)
        while not client.silent_for(0.15):
            before += client.times(1)
        after = client.times(3)
    headset.stop()
    steps = np.diff([*before, *after])
    assert max(steps) > 2_000_000
    count = headset.ledger.count(STREAM[port], before[0], after[-1])
    assert count.sent == len(before) + len(after)
    assert set(count.unsent) == {"stall"}
    assert count.unsent["stall"] == round(max(steps) / np.median(steps)) - 1
    assert headset.ledger.holes(STREAM[port]) == []


@pytest.mark.parametrize(("kind", "end"), [("disconnect", "closed"), ("reset", "reset")])
def test_a_connection_is_ended_and_the_next_one_goes_on_on_the_same_grid(
    headset: Hl2ssSimulator, kind: str, end: str
) -> None:
    with Client(EET) as client:
        before = client.times(2)
        happens(headset, kind, EET)
        assert client.ended_by() == end
    with Client(EET) as client:
        after = client.times(2)
    headset.stop()
    count = headset.ledger.count("eet", before[0], after[-1])
    assert count.slots == round((after[-1] - before[0]) * 90 / 10**7) + 1
    assert headset.ledger.holes("eet") == []


def test_a_fault_without_a_stream_befalls_all(headset: Hl2ssSimulator) -> None:
    with Client(EET) as eyes, Client(SI) as spatial:
        eyes.packet()
        spatial.packet()
        happens(headset, "disconnect")
        assert eyes.ended_by() == spatial.ended_by() == "closed"


def test_a_fault_waits_for_its_time(headset: Hl2ssSimulator) -> None:
    headset.fault(SimulatedFault("disconnect", "si", at_s=0.6))
    with Client(SI) as client:
        times = client.times(5)
        assert client.ended_by() == "closed"
    assert len(times) == 5


def test_a_half_open_connection_is_silent_until_the_client_resets_it(
    headset: Hl2ssSimulator,
) -> None:
    first = Client(EET)
    first.packet()
    happens(headset, "half_open", EET, for_s=30)
    while not first.silent_for(0.15):
        first.packet()
    with Client(EET) as second:
        assert second.silent_for(0.15)
        first.abort()
        assert second.silent_for(0.3)  # the path is still dead


def test_when_a_half_open_connection_is_given_up_the_next_client_is_served(
    headset: Hl2ssSimulator,
) -> None:
    with Client(EET) as first, Client(EET) as second:
        first.packet()
        happens(headset, "half_open", EET, for_s=0.3)
        assert first.ended_by() == "reset"
        second.packet()


def test_a_truncated_packet_ends_the_connection_and_is_accounted_as_cut(
    headset: Hl2ssSimulator,
) -> None:
    with Client(SI) as client:
        client.packet()
        happens(headset, "truncate", SI, keep=0.25)
        rest = client.rest()
    headset.stop()
    whole = 12 + 1936
    assert len(rest) % whole == whole // 4
    cut = [row for row in headset.ledger.sent("si", complete=False) if not row.complete]
    assert len(cut) == 1


@pytest.mark.parametrize(
    ("part", "start", "stop"),
    [("timestamp", 0, 8), ("length", 8, 12), ("payload", 12, 104), ("pose", 104, 168)],
)
def test_only_the_part_that_was_to_be_damaged_is_and_the_account_says_so(
    headset: Hl2ssSimulator, part: str, start: int, stop: int
) -> None:
    with Client(EET) as client:
        client.packet()
        happens(headset, "corrupt", EET, part=part, bits=3)
        packets = [client.read(168) for _ in range(20)]
    headset.stop()
    rows = headset.ledger.sent("eet")
    (damaged,) = [row for row in rows if row.damage]
    assert damaged.damage == part
    sent = packets[damaged.number - 1]
    assert damaged.crc32 == zlib.crc32(sent[12:104])
    if part in {"timestamp", "length"}:
        told = struct.unpack_from("<QI", sent)
        true = (damaged.timestamp_hns, 92)
        assert [a == b for a, b in zip(told, true, strict=True)] == [start != 0, start != 8]
        wrong = told[0 if start == 0 else 1] ^ true[0 if start == 0 else 1]
        assert wrong.bit_count() == 3
    assert stop <= 168


def test_a_length_can_be_forged(headset: Hl2ssSimulator) -> None:
    with Client(SI) as client:
        client.packet()
        happens(headset, "corrupt", SI, part="length", value=2**31)
        lengths = [struct.unpack_from("<QI", client.read(12 + 1936))[1] for _ in range(15)]
    assert lengths.count(2**31) == 1


def test_a_throttled_link_is_slow_and_what_the_queue_drops_is_accounted(
    headset: Hl2ssSimulator,
) -> None:
    config = SimulatorConfig(
        host="127.0.12.17", voice=False, queue_s=0.2, send_buffer_bytes=4096, research_mode=False
    )
    with Hl2ssSimulator(config) as slow:
        slow.fault(SimulatedFault("throttle", "si", about={"bytes_per_s": 30_000}))
        with RawPeer("127.0.12.17", SI) as client:
            started = time.perf_counter()
            times = [struct.unpack_from("<Q", client.read(12 + 1936))[0] for _ in range(15)]
            took = time.perf_counter() - started
        slow.stop()
        count = slow.ledger.count("si", times[0], times[-1])
        assert took > 14 * 1948 / 30_000
        assert count.sent == 15
        assert set(count.unsent) == {"not sent: blocked"}
        assert slow.ledger.holes("si") == []


def test_slices_change_nothing_but_the_size_of_the_pieces(headset: Hl2ssSimulator) -> None:
    with Client(EET) as client:
        first = client.packet()[0]
        happens(headset, "slices", EET, for_s=0.5, bytes=1)
        times = client.times(20)
    headset.stop()
    rows = {row.timestamp_hns for row in headset.ledger.sent("eet")}
    assert {first, *times} <= rows


def test_jitter_delays_packets_but_not_their_times_and_keeps_their_order(
    headset: Hl2ssSimulator,
) -> None:
    with Client(EET) as client:
        client.packet()
        happens(headset, "jitter", EET, ms=60)
        arrivals, times = [], []
        for _ in range(40):
            times.append(client.packet()[0])
            arrivals.append(time.perf_counter())
    assert set(np.diff(times)) <= {111_111, 111_112}
    late = np.array(arrivals) - (np.array(times) - times[0]) / 1e7
    assert np.ptp(late) > 0.01


def test_a_step_of_the_wall_clock_moves_the_eye_tracker_alone(headset: Hl2ssSimulator) -> None:
    offset = rc(b"\x01", "<Q")
    with Client(EET) as eyes, Client(SI) as spatial:
        gaze, head = eyes.times(1), spatial.times(1)
        happens(headset, "clock_step", ms=400)
        gaze, head = gaze + eyes.times(30), head + spatial.times(20)
    assert max(np.diff(gaze)) in range(4_111_110, 4_111_114)
    assert max(np.diff(head)) <= 166_667
    assert rc(b"\x01", "<Q") == offset
    with RawPeer(HOST, RC) as client:
        client.send(b"\x18\x00\x00\x00\x00\x18\x01\x00\x00\x00")
        qpc, utc = client.unpack("<QQ")
    assert utc - qpc - offset[0] == pytest.approx(4_000_000, abs=500_000)
    headset.stop()
    assert headset.ledger.holes("eet") == []


def test_a_step_back_that_meets_the_last_reading_drops_a_near_duplicate(
    headset: Hl2ssSimulator,
) -> None:
    with Client(EET) as client:
        times = client.times(2)
        happens(headset, "clock_step", ms=-11)
        times += client.times(30)
    headset.stop()
    assert min(np.diff(times)) >= 10**7 / 180
    reasons = {row.reason for row in headset.ledger.unsent("eet")}
    assert "near duplicate" in reasons


def test_a_drifting_wall_clock_changes_the_eye_trackers_rate(headset: Hl2ssSimulator) -> None:
    with Client(EET) as client:
        client.packet()
        happens(headset, "drift", ppm=900.0, clock="wall")
        client.times(3)
        times = client.times(50)
    assert (times[-1] - times[0]) / 49 == pytest.approx(111_111.1 * 1.0009, abs=3)


def test_stale_spatial_input_repeats_old_numbers_behind_cleared_bits(
    headset: Hl2ssSimulator,
) -> None:
    with Client(SI) as client:
        client.packet()
        happens(headset, "stale_si", SI, for_s=0.3, parts="head+eye")
        payloads = [client.packet()[1] for _ in range(40)]
    stale = [p for p in payloads if not struct.unpack_from("<I", p)[0] & 3]
    assert 5 < len(stale) < 40
    assert {p[4:64] for p in stale} == {stale[0][4:64]}
    assert any(stale[0][4:64])


def test_an_empty_video_packet_is_metadata_alone(headset: Hl2ssSimulator) -> None:
    start = b"\x05" + struct.pack("<7B3f2I", 0, 1, 0, 0, 0, 0, 0, 0.9, 0, 0, 0, 1)
    video = struct.pack("<HHBBBBIBQQ", 424, 240, 30, 1, 0, 255, 400_000, 1, 10, 30)
    with RawPeer(HOST, PV) as client:
        client.send(start + video)
        lengths = []
        for number in range(12):
            length = int(client.unpack("<QI")[1])
            client.read(length + 64)
            lengths.append(length)
            if number == 3:
                happens(headset, "empty_pv", PV)
    assert 80 in lengths[4:]


def test_when_nobody_wears_it_empty_readings_come_every_nine_periods(
    headset: Hl2ssSimulator,
) -> None:
    with Client(EET) as client:
        client.packet()
        happens(headset, "not_worn")
        packets = [client.packet() for _ in range(20)]
    empty = [(stamp, pose) for stamp, payload, pose in packets if payload == bytes(92)]
    assert len(empty) > 5
    steps = np.diff([stamp for stamp, _ in empty])
    assert set(steps) <= {999_999, 1_000_000, 1_000_001}
    assert all(pose[15] == 1 for _, pose in empty)
    headset.stop()
    assert "no reading" in {row.reason for row in headset.ledger.unsent("eet")}
    assert headset.ledger.holes("eet") == []


def test_eyes_that_are_not_calibrated_have_a_clear_first_bit(headset: Hl2ssSimulator) -> None:
    happens(headset, "not_calibrated", EET)
    with Client(EET) as client:
        bits = {struct.unpack_from("<I", client.packet()[1], 88)[0] & 1 for _ in range(5)}
    assert bits == {0}


def test_lost_tracking_makes_poses_all_zero(headset: Hl2ssSimulator) -> None:
    happens(headset, "lost_tracking", for_s=0.3)
    with Client(EET) as eyes, Client(SI) as spatial:
        assert eyes.packet()[2] == (0.0,) * 16
        assert struct.unpack_from("<I", spatial.packet()[1])[0] == 0
        poses = [eyes.packet()[2] for _ in range(50)]
    assert poses[-1][15] == 1


def test_a_refusing_port_resets_its_client_and_comes_back(headset: Hl2ssSimulator) -> None:
    with Client(EET) as client, Client(SI) as other:
        client.packet()
        happens(headset, "refuse", EET, for_s=0.5)
        assert client.ended_by() == "reset"
        assert refuses(HOST, EET)
        other.packet()
    assert comes_to_listen(HOST, EET, 3)
    with Client(EET) as client:
        client.packet()


def test_denied_permission_closes_the_listening_socket(headset: Hl2ssSimulator) -> None:
    happens(headset, "permission_denied", SI)
    limit = time.monotonic() + 2
    while not refuses(HOST, SI):
        assert time.monotonic() < limit


def test_a_ghost_keeps_the_port_busy_for_everybody(headset: Hl2ssSimulator) -> None:
    happens(headset, "ghost_client", EET, for_s=0.6)
    with Client(EET) as client:
        assert client.silent_for(0.3)
        assert len(client.packet()[1]) == 92


def test_a_restart_of_the_app_ends_everything_and_makes_a_new_world(
    headset: Hl2ssSimulator,
) -> None:
    offset = rc(b"\x01", "<Q")[0]
    with Client(EET) as eyes, Client(SI) as spatial, RawPeer(HOST, RC) as remote:
        pose = eyes.packet()[2]
        qpc = spatial.packet()[0]
        happens(headset, "restart", for_s=0.3)
        assert eyes.ended_by() == spatial.ended_by() == remote.ended_by() == "reset"
        assert refuses(HOST, RC)
    assert comes_to_listen(HOST, RC, 3)
    again = rc(b"\x01", "<Q")[0]
    assert again != offset
    assert abs(again - offset) < 1000
    with Client(EET) as eyes:
        stamp, _, moved = eyes.packet()
    assert 0 < stamp - qpc < 10**8
    assert np.linalg.norm(np.subtract(moved[12:15], pose[12:15])) > 0.3
    matrix = np.array(moved).reshape(4, 4)
    assert np.allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-4)
    headset.stop()
    assert headset.ledger.holes("eet") == []
    assert "restart" in {row.reason for row in headset.ledger.unsent("eet")}


def test_head_eyes_and_hands_move_to_the_new_world_together(headset: Hl2ssSimulator) -> None:
    happens(headset, "restart", for_s=0.1)
    limit = time.monotonic() + 3
    while not any(event.kind == "restart done" for event in headset.ledger.events):
        assert time.monotonic() < limit
    with Client(EET) as eyes, Client(SI) as spatial:
        pose = np.array(eyes.packet()[2]).reshape(4, 4)
        head = struct.unpack_from("<9f", spatial.packet()[1], 4)
    # The tracker sits on the head and looks where it looks.
    assert np.linalg.norm(np.subtract(pose[3, :3], head[:3])) < 0.1
    assert np.dot(-pose[2, :3], head[3:6]) > 0.95


def test_a_reboot_restarts_qpc_as_well(headset: Hl2ssSimulator) -> None:
    with Client(SI) as client:
        before = client.packet()[0]
        happens(headset, "reboot", for_s=0.2)
        assert client.ended_by() == "reset"
    assert comes_to_listen(HOST, SI, 3)
    with Client(SI) as client:
        after = client.times(2)
    assert after[0] < 120 * 10**7 < before
    headset.stop()
    assert {row.boot for row in headset.ledger.sent("si")} == {0, 1}
    assert headset.ledger.holes("si") == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (SimulatedFault("stal"), "stall"),
        (SimulatedFault("stall", "pvv"), "'pv'"),
        (SimulatedFault("stall", "pv", about={"ms": 3}), "ms"),
        (SimulatedFault("throttle", "pv", about={"bytes_per": 3}), "bytes_per_s"),
        (SimulatedFault("throttle", "pv", about={"bytes_per_s": 0}), "at least 1"),
        (SimulatedFault("throttle", "pv", about={"bytes_per_s": "much"}), "much"),
        (SimulatedFault("stale_si", "pv"), "si"),
        (SimulatedFault("stale_si", about={"parts": "heat"}), "head"),
        (SimulatedFault("corrupt", "pv", about={"part": "lenght"}), "length"),
        (SimulatedFault("drift", about={"clock": "wal"}), "wall"),
        (SimulatedFault("restart", "pv"), "whole"),
        (SimulatedFault("stall", at_s=-1), "below zero"),
    ],
    ids=lambda value: value.kind if isinstance(value, SimulatedFault) else None,
)
def test_a_fault_that_makes_no_sense_is_refused_with_what_may_be_meant(
    fault: SimulatedFault, words: str
) -> None:
    simulator = Hl2ssSimulator(SimulatorConfig(host=HOST))
    with pytest.raises(SettingsError) as refused:
        simulator.fault(fault)
    assert words in str(refused.value)


def test_a_fault_told_before_the_start_strikes_after_it() -> None:
    simulator = Hl2ssSimulator(SimulatorConfig(host=HOST, voice=False))
    simulator.fault(SimulatedFault("ghost_client", "si", for_s=0.4))
    with simulator, Client(SI) as client:
        assert client.silent_for(0.2)
        client.packet()


def test_a_link_that_takes_nothing_blocks_the_send_and_drops_what_the_queue_cannot_keep() -> None:
    config = SimulatorConfig(
        host=HOST, voice=False, queue_s=0.2, send_buffer_bytes=4096, research_mode=False
    )
    with Hl2ssSimulator(config) as headset:
        with Client(SI, receive_buffer_bytes=4096) as client:
            times = client.times(1)
            limit = time.monotonic() + 8
            # Reading nothing: sent packets stay in the buffers, then the send blocks.
            while not _blocked(headset):
                assert time.monotonic() < limit
                time.sleep(0.4)
                times += client.times(1)
            while "not sent: blocked" not in {r.reason for r in headset.ledger.unsent("si")}:
                assert time.monotonic() < limit
                times += client.times(1)
            times += client.times(30)
        headset.stop()
        count = headset.ledger.count("si", times[0], times[-1])
        assert count.sent == len(times)
        assert count.slots == round((times[-1] - times[0]) * 60 / 10**7) + 1
        assert headset.ledger.holes("si") == []


def _blocked(headset: Hl2ssSimulator) -> bool:
    sent = headset.ledger.sent("si")
    return bool(sent) and time.perf_counter_ns() - sent[-1].host_ns > 500_000_000


def test_every_kind_of_fault_is_in_the_guide() -> None:
    guide = Path(__file__).parents[3] / "docs" / "simulator.md"
    text = guide.read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
