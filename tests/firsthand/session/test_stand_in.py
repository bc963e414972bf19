"""Where a simulated device listens when the standard ports are taken, and what it says if not."""

import socket

import pytest

from firsthand.api import DeviceError, SettingsError
from firsthand.session.stand_in import PORTS, StandIn, free_base_port

HOST = "127.0.42.1"


@pytest.mark.process
def test_the_next_row_of_free_ports_is_taken_when_one_port_is_in_use() -> None:
    assert free_base_port(HOST) == 3800
    with socket.socket() as taken:
        taken.bind((HOST, 3800 + PORTS - 1))
        taken.listen()
        assert free_base_port(HOST) > 3800 + PORTS - 1


@pytest.mark.process
@pytest.mark.parametrize("host", ["192.0.2.1", ""])
def test_an_address_of_another_computer_is_refused(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: socket.socket, address: object) -> None:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(SettingsError, match="not an address"):
        free_base_port(host)


@pytest.mark.process
def test_a_simulator_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(DeviceError, match="pretend"),
        StandIn("hl2ss", HOST, source="scene:pretend") as headset,
    ):
        headset.wait()
