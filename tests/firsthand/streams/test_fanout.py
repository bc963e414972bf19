"""Takers of packets: each loses only what it named, and none of them holds anybody up."""

import logging
import threading

import pytest

from firsthand.api import Packet, SettingsError
from firsthand.streams.fanout import EVERYTHING, NEWEST, FanOut, LossRule, last

pytestmark = pytest.mark.unit

LIMIT_S = 10.0


def packet(seq: int, stream: str = "video", size: int = 0) -> Packet:
    return Packet(stream, seq, seq * 1000, seq * 100_000_000, b"", bytes(size))


def test_everything_comes_in_order_and_whole() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(EVERYTHING)
    for seq in range(100):
        fanout.put(packet(seq))
    first = taker.get(0)
    assert first is not None
    assert first.seq == 0
    assert [each.seq for each in taker.drain()] == list(range(1, 100))
    assert taker.get(0) is None
    assert taker.lost == 0


def test_the_newest_of_each_stream_is_kept() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(NEWEST)
    for seq in range(10):
        fanout.put(packet(seq))
        fanout.put(packet(seq, "gaze"))
    assert [(each.stream, each.seq) for each in taker.drain()] == [("video", 9), ("gaze", 9)]
    assert taker.lost_by_stream() == {"video": 9, "gaze": 9}


def test_the_last_seconds_are_kept() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(last(1.0))
    for seq in range(30):
        fanout.put(packet(seq))
    assert [each.seq for each in taker.drain()] == list(range(19, 30))
    assert taker.lost == 19


@pytest.mark.parametrize("rule", [EVERYTHING, last(1000.0)])
def test_one_who_does_not_take_loses_the_oldest_and_is_told(rule: LossRule) -> None:
    fanout = FanOut()
    taker = fanout.subscribe(rule, limit_bytes=10_000)
    other = fanout.subscribe(EVERYTHING)
    for seq in range(50):
        fanout.put(packet(seq, size=1_000))
    assert taker.take_losses() == {"video": 42}
    assert taker.take_losses() == {}
    assert [each.seq for each in taker.drain()] == list(range(42, 50))
    assert taker.lost == 42
    assert other.lost == 0


def test_a_packet_larger_than_the_limit_is_still_given() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(EVERYTHING, limit_bytes=100)
    fanout.put(packet(0, size=5_000))
    assert [each.seq for each in taker.drain()] == [0]


def test_a_taker_sees_only_the_streams_it_asked_for() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(EVERYTHING, streams=["gaze"])
    fanout.put(packet(0))
    fanout.put(packet(1, "gaze"))
    assert [each.seq for each in taker.drain()] == [1]
    assert taker.lost == 0


def test_a_closed_taker_gets_nothing_more_but_may_take_what_waits() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(EVERYTHING)
    fanout.put(packet(0))
    taker.close()
    fanout.put(packet(1))
    assert [each.seq for each in taker] == [0]
    assert taker.closed


def test_waiting_ends_when_the_fan_out_is_closed() -> None:
    fanout = FanOut()
    taker = fanout.subscribe(EVERYTHING)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(each.seq for each in taker))
    thread.start()
    for seq in range(5):
        fanout.put(packet(seq))
    fanout.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert seen == [0, 1, 2, 3, 4]
    assert fanout.subscribe(NEWEST).closed


def test_a_callback_that_raises_is_logged_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    fanout = FanOut()
    seen: list[int] = []
    done = threading.Event()

    def raises(each: Packet) -> None:
        raise ValueError("cannot draw this")

    def keeps(each: Packet) -> None:
        seen.append(each.seq)
        if each.seq == 9:
            done.set()

    with caplog.at_level(logging.ERROR):
        broken = fanout.call(raises, EVERYTHING)
        fanout.call(keeps, EVERYTHING)
        for seq in range(10):
            fanout.put(packet(seq))
        assert done.wait(LIMIT_S)
        fanout.close()
    assert seen == list(range(10))
    assert broken.closed
    assert "failed and is forgotten" in caplog.text


def test_a_callback_that_hangs_does_not_hold_up_the_others() -> None:
    fanout = FanOut()
    hanging = threading.Event()

    def hangs(_: Packet) -> None:
        hanging.wait(LIMIT_S)

    fanout.call(hangs, NEWEST)
    taker = fanout.subscribe(EVERYTHING)
    for seq in range(1000):
        fanout.put(packet(seq))
    assert len(taker.drain()) == 1000
    hanging.set()
    fanout.close()


@pytest.mark.parametrize("rule", [EVERYTHING, NEWEST, last(2.5)])
def test_a_rule_survives_being_written_as_a_word(rule: LossRule) -> None:
    assert LossRule.parse(str(rule)) == rule


@pytest.mark.parametrize("text", ["", "all", "last", "last:", "last:-1", "last:inf", "newest:2"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="does not say what may be lost"):
        LossRule.parse(text)
