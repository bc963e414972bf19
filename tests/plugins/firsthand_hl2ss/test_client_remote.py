"""Remote configuration over short connections, and what its failures are called."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from firsthand_hl2ss.dial import Address, Stopped, abort, dial
from firsthand_hl2ss.remote import Remote, RemoteError, RemoteOutcome
from firsthand_hl2ss.wire import Port
from firsthand_hl2ss.wire_rc import Op, TimeSource

pytestmark = pytest.mark.process
HOST = "127.0.11.41"
BASE = 3800


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A serial server of remote configuration: ``answer`` has each connection in turn."""
    listener = socket.create_server((HOST, Port.REMOTE_CONFIGURATION.on(BASE)))

    def run() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.settimeout(3)
                answer(peer)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def never_replying(peer: socket.socket) -> None:
    while peer.recv(100):
        pass


def remote(stop: threading.Event | None = None) -> Remote:
    return Remote(Address(HOST, BASE), 0.5, 0.5, stop or threading.Event())


def outcome_of(answer: Callable[[socket.socket], None] | None) -> RemoteOutcome:
    with contextlib.ExitStack() as stack:
        if answer is not None:
            stack.enter_context(serving(answer))
        with pytest.raises(RemoteError) as caught, remote().session() as session:
            session.version()
    return caught.value.outcome


def test_replies_are_read_as_sent() -> None:
    def answer(peer: socket.socket) -> None:
        replies = {
            b"\x00": struct.pack("<4H", 1, 0, 37, 0),
            b"\x01": struct.pack("<Q", 12345),
            b"\x03": b"\x01",
            b"\x18": struct.pack("<Q", 777),
        }
        while op := peer.recv(1):
            if op == b"\x18":
                assert peer.recv(4) == b"\0\0\0\0"
            peer.sendall(replies[op])

    with serving(answer), remote().session() as session:
        assert session.version() == (1, 0, 37, 0)
        assert session.utc_offset_hns() == 12345
        assert session.camera_is_on()
        before_ns, hns, after_ns = session.time(TimeSource.QPC)
    assert hns == 777
    assert before_ns < after_ns


def test_nobody_listening_is_a_refusal() -> None:
    assert outcome_of(None) is RemoteOutcome.REFUSES


def test_no_reply_is_silence_and_ends_in_time() -> None:
    began = time.monotonic()
    assert outcome_of(never_replying) is RemoteOutcome.SILENT
    assert time.monotonic() - began < 2


def test_an_end_instead_of_a_reply_is_called_so() -> None:
    assert outcome_of(lambda peer: None) is RemoteOutcome.CLOSES
    assert outcome_of(lambda peer: peer.sendall(b"\1")) is RemoteOutcome.CLOSES


def test_a_version_that_no_app_has_is_strange() -> None:
    assert outcome_of(lambda peer: peer.sendall(b"HTTP/1.1 400")) is RemoteOutcome.STRANGE


def test_connections_are_closed_properly_and_one_at_a_time() -> None:
    ends: list[bytes] = []

    def answer(peer: socket.socket) -> None:
        peer.recv(1)
        peer.sendall(b"\x00")
        ends.append(peer.recv(1))  # b"" for a proper end; a reset would raise

    def ask() -> None:
        with ours.session() as session:
            session.camera_is_on()

    ours = remote()
    with serving(answer):
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ends == [b""] * 3


def test_settings_that_the_app_does_not_know_are_told_apart() -> None:
    def answer(peer: socket.socket) -> None:
        while op := peer.recv(1):
            if op[0] == Op.PV_HDR:
                return
            if op[0] == Op.PV_IS_ON:
                peer.sendall(b"\x01")
            else:
                peer.recv(4)

    with serving(answer):
        refused = remote().apply([(Op.PV_HDR, (1,)), (Op.PV_SCENE_MODE, (2,))])
    assert [op for op, _ in refused] == [Op.PV_HDR]


def test_waiting_ends_when_the_device_is_closed() -> None:
    stop = threading.Event()
    with serving(never_replying):
        threading.Timer(0.1, stop.set).start()
        slow = Remote(Address(HOST, BASE), 5, 5, stop)
        began = time.monotonic()
        with pytest.raises(Stopped), slow.session() as session:
            session.camera_is_on()
    assert time.monotonic() - began < 2


def test_an_aborted_connection_reaches_the_peer_as_a_reset() -> None:
    with socket.create_server((HOST, 0)) as listener:
        sock = dial(listener.getsockname(), 1, threading.Event())
        peer, _ = listener.accept()
        with peer:
            abort(sock)
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
