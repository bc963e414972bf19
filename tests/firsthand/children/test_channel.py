"""Channels over a real socket: keys, caps, ends, and threads that wait."""

import multiprocessing.connection
import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firsthand.children import channel as channels
from firsthand.children import road
from firsthand.children.channel import (
    Channel,
    ChannelClosed,
    ChannelError,
    Listener,
    MessageTooLarge,
    connect,
)

pytestmark = pytest.mark.process


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    with Listener() as listener, connect(listener.address, listener.key, 5.0) as mine:
        theirs = listener.accept(5.0)
        assert theirs is not None
        with theirs:
            yield mine, theirs


def test_messages_go_both_ways_with_their_attachments(ends: tuple[Channel, Channel]) -> None:
    mine, theirs = ends
    mine.send({"kind": "question"}, b"abc", memoryview(b"defg"))
    question = theirs.receive(5.0)
    assert question is not None
    assert (question.header, question.blobs) == ({"kind": "question"}, [b"abc", b"defg"])
    theirs.send({"kind": "answer"})
    answer = mine.receive(5.0)
    assert answer is not None
    assert answer.header == {"kind": "answer"}


def test_waiting_for_a_message_ends_in_time(ends: tuple[Channel, Channel]) -> None:
    assert ends[0].receive(0.02) is None
    assert ends[0].receive(0) is None


def test_the_other_side_going_away_is_told_to_who_waits(ends: tuple[Channel, Channel]) -> None:
    mine, theirs = ends
    mine.send({"last": True})
    mine.close()
    last = theirs.receive(5.0)
    assert last is not None
    assert last.header == {"last": True}
    with pytest.raises(ChannelClosed):
        theirs.receive(5.0)
    with pytest.raises(ChannelClosed):
        theirs.receive(5.0)


def test_a_message_above_the_cap_is_not_sent_and_the_channel_stays_good(
    ends: tuple[Channel, Channel],
) -> None:
    mine, theirs = ends
    with pytest.raises(ChannelError, match="larger"):
        mine.send({}, bytes(channels.LIMIT_BYTES))
    mine.send({"still": "here"})
    message = theirs.receive(5.0)
    assert message is not None
    assert message.header == {"still": "here"}


def test_a_message_above_the_receivers_cap_closes_the_channel() -> None:
    with (
        Listener(limit_bytes=1000) as listener,
        connect(listener.address, listener.key, 5.0) as mine,
    ):
        theirs = listener.accept(5.0)
        assert theirs is not None
        with theirs:
            mine.send({}, bytes(2000))
            with pytest.raises(MessageTooLarge):
                theirs.receive(5.0)
            assert theirs.closed


def test_a_message_that_does_not_parse_closes_the_channel(ends: tuple[Channel, Channel]) -> None:
    mine, theirs = ends
    mine._road.send_bytes(b"\x80\x04N.")  # a pickle, say
    with pytest.raises(ChannelError, match="message from another process"):
        theirs.receive(5.0)
    with pytest.raises(ChannelClosed):
        theirs.receive(0)
    with pytest.raises(ChannelClosed):
        theirs.send({})


def test_closing_wakes_a_thread_that_waits_for_a_message(ends: tuple[Channel, Channel]) -> None:
    mine, _ = ends
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mine.receive)
        time.sleep(0.05)
        mine.close()
        with pytest.raises(ChannelClosed):
            waiting.result(5.0)


def test_closing_wakes_a_thread_that_cannot_send(ends: tuple[Channel, Channel]) -> None:
    mine, theirs = ends

    def fill() -> None:
        while True:
            mine.send({}, bytes(1_000_000))

    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(fill)
        assert theirs.receive(5.0) is not None
        time.sleep(0.05)
        mine.close()
        with pytest.raises(ChannelClosed):
            stuck.result(5.0)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes carry whole messages")
def test_half_a_message_does_not_keep_the_receiver_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(road, "SILENCE_S", 0.1)
    with Listener() as listener, connect(listener.address, listener.key, 5.0) as mine:
        theirs = listener.accept(5.0)
        assert theirs is not None
        with theirs:
            os.write(mine._road.fileno(), struct.pack("!i", 1000) + b"only this")
            with pytest.raises(ChannelClosed):
                theirs.receive(20.0)


def test_a_side_that_never_reads_does_not_keep_the_sender_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(road, "SILENCE_S", 0.1)
    with Listener() as listener, connect(listener.address, listener.key, 5.0) as mine:
        theirs = listener.accept(5.0)
        assert theirs is not None
        with theirs, pytest.raises(ChannelClosed):
            mine.send({}, bytes(10_000_000))


def test_many_threads_may_send_at_once(ends: tuple[Channel, Channel]) -> None:
    mine, theirs = ends
    with ThreadPoolExecutor(4) as pool:
        for number in range(100):
            pool.submit(mine.send, {"number": number}, bytes([number]) * 30_000)
        numbers = set()
        for _ in range(100):
            message = theirs.receive(5.0)
            assert message is not None
            assert message.blobs == [bytes([message.header["number"]]) * 30_000]
            numbers.add(message.header["number"])
    assert numbers == set(range(100))


def test_a_wrong_key_is_refused_and_the_right_one_still_gets_in() -> None:
    with Listener() as listener:
        with pytest.raises(ChannelError, match="another key"):
            connect(listener.address, b"x" * 32, 5.0)
        assert listener.accept(0) is None
        with connect(listener.address, listener.key, 5.0):
            accepted = listener.accept(5.0)
            assert accepted is not None
            accepted.close()


def test_a_stranger_who_stays_silent_keeps_nobody_out_for_long() -> None:
    with Listener() as listener:
        stranger = multiprocessing.connection.Client(listener.address)
        with connect(listener.address, listener.key, 10.0):
            accepted = listener.accept(5.0)
            assert accepted is not None
            accepted.close()
        stranger.close()


def test_a_listener_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    with multiprocessing.connection.Listener(address) as impostor:

        def answer() -> None:
            with impostor.accept() as road:
                road.send_bytes(b"firsthand-1 " + bytes(32))
                road.recv_bytes()
                road.send_bytes(bytes(32))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ChannelError, match="another key"):
            connect(address, b"k" * 32, 5.0)
        thread.join()


def test_only_this_user_can_reach_the_socket_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    with Listener(tmp_path) as listener:
        home = Path(listener.address).parent
        assert home.parent == tmp_path
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ChannelClosed):
        connect(listener.address, listener.key, 1.0)


def test_a_folder_with_a_long_name_does_not_matter(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    with Listener(long) as listener, connect(listener.address, listener.key, 5.0):
        accepted = listener.accept(5.0)
        assert accepted is not None
        accepted.close()
    assert list(long.iterdir()) == []


def test_accepting_gives_up_in_time_and_closing_drops_who_was_not_accepted() -> None:
    with Listener() as listener:
        assert listener.accept(0.02) is None
        mine = connect(listener.address, listener.key, 5.0)
    with pytest.raises(ChannelClosed):
        mine.receive(5.0)
