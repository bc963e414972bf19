"""Streams that do not come, and what is said about it."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import pytest

from firsthand.api import StreamState
from firsthand.testing.claims import comes_true
from firsthand.testing.collecting_sink import CollectingSink
from firsthand_hl2ss import Hl2ssConfig, Hl2ssDevice
from firsthand_hl2ss.config import PatienceConfig
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig
from firsthand_hl2ss.wire import Port

pytestmark = pytest.mark.process
HOST = "127.0.11.21"
HASTY = PatienceConfig(explain_s=0.4, camera_s=0.6, connect_s=0.4, reply_s=0.4)
ONLY: dict[str, Any] = {"pv": None, "eet": None, "si": None, "mic": None}


@contextlib.contextmanager
def opened(port: int = 3800, **streams: Any) -> Iterator[CollectingSink]:
    config = Hl2ssConfig(host=HOST, base_port=port, patience=HASTY, **{**ONLY, **streams})
    sink = CollectingSink()
    with Hl2ssDevice(config) as device:
        device.open(sink)
        yield sink


@contextlib.contextmanager
def headset(**settings: Any) -> Iterator[Hl2ssSimulator]:
    config = {"voice": False, "eye_tracker_opens_s": 0, **settings}
    with Hl2ssSimulator(SimulatorConfig(host=HOST, base_port=0, **config)) as simulator:
        yield simulator


def base_port(simulator: Hl2ssSimulator) -> int:
    return int(simulator.device_settings()["base_port"])


def told(sink: CollectingSink, stream: str, state: StreamState, words: str) -> bool:
    return comes_true(
        lambda: any(
            (name, now) == (stream, state) and words in reason for name, now, reason in sink.states
        ),
        4.0,
    )


def test_an_app_that_is_not_running_is_called_so() -> None:
    with opened(si={}) as sink:
        assert told(sink, "si", StreamState.REFUSED, "app is not running")
    assert sink.packets == []


@pytest.mark.parametrize(
    ("stream", "words"),
    [("eet", "eye tracker permission"), ("mic", "permission for the microphone")],
)
def test_a_permission_that_was_denied_is_named(stream: str, words: str) -> None:
    with (
        headset(denied={stream}) as simulator,
        opened(base_port(simulator), **{stream: {}, "si": {}}) as sink,
    ):
        assert told(sink, stream, StreamState.REFUSED, words)
        assert told(sink, "si", StreamState.LIVE, "")


def test_research_mode_that_is_off_is_named() -> None:
    streams: dict[str, Any] = {"imu": {"sensors": ["gyroscope"]}}
    with (
        headset(research_mode=False) as simulator,
        opened(base_port(simulator), **streams) as sink,
    ):
        assert told(sink, "imu_gyroscope", StreamState.REFUSED, "Research Mode is off")


def test_flat_mode_is_named() -> None:
    with headset(flat_mode=True) as simulator, opened(base_port(simulator), si={}) as sink:
        assert told(sink, "si", StreamState.REFUSED, "")


def test_a_camera_that_does_not_turn_on_is_named() -> None:
    with (
        headset(camera_opens_s=20) as simulator,
        opened(base_port(simulator), pv={"stop_camera": False}) as sink,
    ):
        assert told(sink, "pv", StreamState.REFUSED, "does not turn on")


def test_another_client_is_waited_for_and_never_called_a_connection() -> None:
    with headset() as simulator:
        port = base_port(simulator)
        other = socket.create_connection((HOST, Port.SPATIAL_INPUT.on(port)))
        assert other.recv(1)
        with other, opened(port, si={}) as sink:
            assert told(sink, "si", StreamState.WAITING, "Another program")
            assert not any(state is StreamState.LIVE for _, state, _ in sink.states)
            other.close()
            assert told(sink, "si", StreamState.LIVE, "")


class Speaker:
    """Something else than a headset on its ports: answers every connection with the same bytes."""

    def __init__(self, ports: list[int], words: bytes) -> None:
        self._words = words
        self._socks = [socket.create_server((HOST, port)) for port in ports]
        self._threads = [threading.Thread(target=self._run, args=(sock,)) for sock in self._socks]
        self.connections = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._socks:
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join()

    def _run(self, sock: socket.socket) -> None:
        while True:
            try:
                peer, _ = sock.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                self.connections += 1
                peer.sendall(self._words)
                peer.settimeout(0.3)
                peer.recv(100)


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
    ],
    ids=["http", "ssh", "tls"],
)
def test_a_service_of_another_kind_is_called_so_and_left_in_peace(words: bytes) -> None:
    ports = [Port.REMOTE_CONFIGURATION.on(), Port.EXTENDED_EYE_TRACKER.on()]
    with Speaker(ports, words) as speaker, opened(eet={}) as sink:
        assert told(sink, "eet", StreamState.REFUSED, "Something else")
        before, began = speaker.connections, time.monotonic()
        time.sleep(0.5)
        assert speaker.connections - before <= 8 * (time.monotonic() - began) + 2
    assert sink.packets == []


@pytest.fixture
def swallowing() -> Iterator[int]:
    """A first port behind which connections are neither taken nor refused."""
    base, socks = 3900, []
    for port in (Port.REMOTE_CONFIGURATION, Port.SPATIAL_INPUT):
        listener = socket.create_server((HOST, port.on(base)), backlog=0)
        socks.append(listener)
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((HOST, port.on(base)))
            socks.append(filler)
    yield base
    for sock in socks:
        sock.close()


def test_a_headset_that_does_not_answer_at_all_is_called_asleep(swallowing: int) -> None:
    with opened(swallowing, si={}) as sink:
        assert told(sink, "si", StreamState.LOST, "asleep")


def test_closing_takes_no_longer_for_a_headset_that_does_not_answer(swallowing: int) -> None:
    config = Hl2ssConfig(host=HOST, base_port=swallowing)
    device = Hl2ssDevice(config)
    device.open(CollectingSink())
    time.sleep(0.3)
    began = time.monotonic()
    device.close()
    assert time.monotonic() - began < 5
