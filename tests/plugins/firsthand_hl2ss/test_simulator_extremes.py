"""What a client may ask for that no sensible one does: the simulated headset serves it, like the
headset, as near as its encoders come."""

import struct
from collections.abc import Iterator
from typing import Final

import pytest

from firsthand.testing.raw_peer import RawPeer
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process

HOST: Final = "127.0.31.3"
GOP_SIZE: Final = 10
START: Final = b"\x07" + bytes((0, 1, 0, 0, 0, 0, 0)) + struct.pack("<fffII", 0.9, 0, 0, 0, 1)


@pytest.fixture(scope="module")
def headset() -> Iterator[Hl2ssSimulator]:
    config = SimulatorConfig(
        host=HOST,
        voice=False,
        camera_opens_s=0.0,
        empty_first_probability=0.0,
        empty_pv_probability=0.0,
    )
    with Hl2ssSimulator(config) as simulator:
        yield simulator


@pytest.fixture(autouse=True)
def opened(headset: Hl2ssSimulator) -> None:
    with RawPeer(HOST, 3810) as client:
        client.send(START)
        assert client.rest() == b""


def pictures(profile: int, bitrate: int, gop: int, count: int = 3) -> list[bytes]:
    """Payloads of the front camera at 424×240, without their metadata."""
    head = struct.pack("<BHHBBBBI", 0, 424, 240, 30, 1, profile, 255, bitrate)
    option = struct.pack("<BQQ", 1, GOP_SIZE, gop)
    out = []
    with RawPeer(HOST, 3810) as client:
        client.send(head + option)
        for _ in range(count):
            _, length = client.unpack("<QI")
            out.append(client.read(int(length))[:-80])
    return out


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
@pytest.mark.parametrize("bitrate", [1, 100, 0xFFFF_FFFF])
def test_any_bit_rate_but_none_gives_pictures(profile: int, bitrate: int) -> None:
    assert all(pictures(profile, bitrate, 30))


@pytest.mark.parametrize("profile", [0, 3])
@pytest.mark.parametrize("gop", [0, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_any_group_size_gives_pictures(profile: int, gop: int) -> None:
    assert all(pictures(profile, 500_000, gop))


def test_a_grey_camera_with_a_bit_a_second_gives_pictures(headset: Hl2ssSimulator) -> None:
    assert headset is not None
    with RawPeer(HOST, 3800) as client:
        client.send(struct.pack("<BBBBIB", 0, 1, 0, 255, 1, 0))
        _, length = client.unpack("<QI")
        assert length > 24


def metadata(*commands: bytes) -> bytes:
    """The 80 bytes of a picture that was taken after settings were made."""
    with RawPeer(HOST, 3809) as client:
        client.send(b"".join(commands) + b"\x00")
        client.read(8)  # the version: what went before is done
    with RawPeer(HOST, 3810) as client:
        client.send(struct.pack("<BHHBBBBIB", 0, 424, 240, 30, 1, 255, 255, 1, 0))
        _, length = client.unpack("<QI")
        return client.read(int(length))[-80:]


def exposure_iso_white(about: bytes) -> tuple[int, int, int]:
    (exposure,) = struct.unpack_from("<Q", about, 16)
    iso, white = struct.unpack_from("<II", about, 48)
    return exposure, iso, white


def test_automatic_needs_no_value_in_range() -> None:
    exposure = struct.pack("<BII", 0x08, 0, 12_345)
    iso = struct.pack("<BII", 0x0A, 0, 777)
    white = struct.pack("<BI", 0x07, 200)
    assert exposure_iso_white(metadata(exposure, iso, white)) == (123_450, 777, 5000)
    automatic = metadata(
        struct.pack("<BII", 0x08, 1, 0),
        struct.pack("<BII", 0x0A, 1, 0),
        struct.pack("<BI", 0x06, 0),
    )
    told = exposure_iso_white(automatic)
    assert told[0] != 123_450
    assert told[1] != 777
    assert told[2] != 5000


def test_a_manual_value_out_of_range_is_ignored() -> None:
    set_ = [struct.pack("<BII", 0x08, 0, 12_345), struct.pack("<BII", 0x0A, 0, 777)]
    bad = [struct.pack("<BII", 0x08, 0, 99), struct.pack("<BII", 0x0A, 2, 400)]
    assert exposure_iso_white(metadata(*set_, *bad))[:2] == (123_450, 777)


def test_white_balance_by_value_outlives_the_manual_preset() -> None:
    about = metadata(struct.pack("<BI", 0x07, 200), struct.pack("<BI", 0x06, 1))
    assert exposure_iso_white(about)[2] == 5000
