"""The simulated headset byte by byte, against layouts written out here from the protocol's notes.

Nothing of the plugin's own packing and parsing is used to judge it.
"""

import struct
import time
from collections.abc import Iterator

import numpy as np
import pytest

from firsthand.testing.raw_peer import RawPeer, refuses
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process
HOST = "127.0.12.11"


@pytest.fixture(scope="module")
def headset() -> Iterator[Hl2ssSimulator]:
    config = SimulatorConfig(host=HOST, voice=False, eye_tracker_opens_s=0.05)
    with Hl2ssSimulator(config) as simulator:
        yield simulator


def peer(port: int) -> RawPeer:
    return RawPeer(HOST, port)


def packet(client: RawPeer, *, pose: bool) -> tuple[int, bytes, tuple[float, ...]]:
    timestamp, length = client.unpack("<QI")
    payload = client.read(int(length))
    return int(timestamp), payload, client.unpack("<16f") if pose else ()


def rc(command: bytes, layout: str) -> tuple[int | float, ...]:
    with peer(3809) as client:
        client.send(command)
        return client.unpack(layout)


def qpc() -> int:
    return int(rc(b"\x18\x00\x00\x00\x00", "<Q")[0])


# Remote configuration


def test_version_offset_and_camera_state_are_told(headset: Hl2ssSimulator) -> None:
    assert rc(b"\x00", "<4H") == (1, 0, 37, 0)
    assert rc(b"\x03", "<B") == (0,)
    assert rc(b"\x01", "<Q") == rc(b"\x01", "<Q")


def test_present_times_and_the_offset_fit_together_and_are_not_unix_time(
    headset: Hl2ssSimulator,
) -> None:
    with peer(3809) as client:
        client.send(b"\x18\x00\x00\x00\x00" + b"\x18\x01\x00\x00\x00" + b"\x01")
        now, utc, offset = client.unpack("<QQQ")
    assert 3600 * 10**7 < now < 21 * 3600 * 10**7
    assert abs(utc - now - offset) < 10**6  # asked for one after the other
    unix_s = (now + offset - 116_444_736_000_000_000) / 10**7
    assert abs(unix_s - time.time() - 0.35) < 1.0


@pytest.mark.parametrize(
    "command",
    [
        b"\x02" + struct.pack("<I", 1),
        b"\x04" + struct.pack("<5I", 3, 2, 0, 1500, 1),
        b"\x05" + struct.pack("<I", 1),
        b"\x06" + struct.pack("<I", 3),
        b"\x07" + struct.pack("<I", 150),
        b"\x08" + struct.pack("<2I", 0, 8000),
        b"\x09" + struct.pack("<I", 1),
        b"\x0a" + struct.pack("<2I", 0, 800),
        b"\x0b" + struct.pack("<I", 1),
        b"\x0c" + struct.pack("<I", 12),
        b"\x0d" + struct.pack("<I", 0),
        b"\x0e" + struct.pack("<I", 1),
        b"\x0f" + struct.pack("<I", 6),
        b"\x10" + struct.pack("<I", 2),
        b"\x11" + struct.pack("<I", 1),
        b"\x12" + struct.pack("<I", 2),
        b"\x13" + struct.pack("<I4f", 0x900, 0.1, 0.1, 0.5, 0.5),
        b"\x14" + struct.pack("<Ii", 3810, -2),
        b"\x15" + struct.pack("<I", 0),
        b"\x19" + struct.pack("<q", 0),
        b"\x20" + struct.pack("<I", 1),
        b"\x21" + struct.pack("<I", 1),
        b"\x22" + struct.pack("<2I", 3800, 0),
    ],
    ids=lambda command: f"{command[0]:02x}",
)
def test_a_setter_takes_just_its_arguments_and_answers_nothing(
    headset: Hl2ssSimulator, command: bytes
) -> None:
    # What follows a setter is understood only if the setter has eaten exactly its own bytes.
    assert rc(command + b"\x00", "<4H") == (1, 0, 37, 0)


@pytest.mark.parametrize("opcode", [0x1A, 0x1F, 0x23, 0xFF])
def test_an_unknown_command_closes_without_a_byte(headset: Hl2ssSimulator, opcode: int) -> None:
    with peer(3809) as client:
        client.send(bytes([opcode]))
        assert client.rest() == b""


@pytest.mark.parametrize(
    "command",
    [
        b"\x16" + struct.pack("<3I", 3806, 0, 1) + bytes(8),
        b"\x16" + struct.pack("<3I", 3800, 2, 1) + bytes(8),
        b"\x18" + struct.pack("<I", 2),
    ],
    ids=["port", "operation", "source"],
)
def test_an_invalid_port_operation_or_clock_closes_without_a_byte(
    headset: Hl2ssSimulator, command: bytes
) -> None:
    with peer(3809) as client:
        client.send(command)
        assert client.rest() == b""


@pytest.mark.parametrize("port", [3800, 3801, 3802, 3803, 3804, 3805])
def test_mapping_points_there_and_back_again_changes_nothing(
    headset: Hl2ssSimulator, port: int
) -> None:
    pixels = (100.0, 120.0, 160.5, 144.25, 300.0, 20.0)
    with peer(3809) as client:
        client.send(b"\x16" + struct.pack("<3I6f", port, 0, 3, *pixels))
        plane = client.unpack("<6f")
        client.send(b"\x16" + struct.pack("<3I6f", port, 1, 3, *plane))
        back = client.unpack("<6f")
    assert np.allclose(back, pixels, atol=0.01)
    assert max(abs(v) for v in plane) < 2


def test_rig_poses_come_for_each_time_asked_for(headset: Hl2ssSimulator) -> None:
    now = qpc()
    with peer(3809) as client:
        client.send(b"\x17" + struct.pack("<I2Q", 2, now, now - 10**6))
        poses = np.array(client.unpack("<32f")).reshape(2, 4, 4)
    for pose in poses:
        assert np.allclose(pose[:, 3], [0, 0, 0, 1])
        assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-4)


# Serving one client after the other


def test_a_second_client_is_connected_but_gets_nothing_until_the_first_has_gone(
    headset: Hl2ssSimulator,
) -> None:
    with peer(3812) as first, peer(3812) as second:
        packet(first, pose=False)
        assert second.silent_for(0.3)
        first.close()
        assert len(packet(second, pose=False)[1]) == 1936


def test_eight_clients_may_wait_and_are_served_in_turn(headset: Hl2ssSimulator) -> None:
    clients = [peer(3817) for _ in range(9)]
    for client in clients:
        client.send(b"\x5a")
    try:
        for client in clients:
            assert len(packet(client, pose=True)[1]) == 92
            client.close()
    finally:
        for client in clients:
            client.close()


def test_a_client_that_sends_nothing_blocks_its_port(headset: Hl2ssSimulator) -> None:
    with peer(3817) as mute, peer(3817) as other:
        other.send(b"\x1e")
        assert mute.silent_for(0.3)
        assert other.silent_for(0.2)
        mute.close()
        assert len(packet(other, pose=True)[1]) == 92


def test_ports_that_are_not_simulated_refuse(headset: Hl2ssSimulator) -> None:
    for port in (3813, 3814, 3815, 3816, 3818, 3819, 3820, 3821):
        assert refuses(HOST, port), port


# Extended eye tracker


@pytest.mark.parametrize(("fps", "step"), [(30, 333_333), (60, 166_667), (90, 111_111)])
def test_eye_readings_come_at_the_rate_that_was_asked_for(
    headset: Hl2ssSimulator, fps: int, step: int
) -> None:
    with peer(3817) as client:
        client.send(bytes([fps]))
        times = [packet(client, pose=True)[0] for _ in range(6)]
    assert set(np.diff(times)) <= {step - 1, step, step + 1}


@pytest.mark.parametrize("fps", [0, 1, 29, 45, 120, 255])
def test_another_eye_rate_is_closed_without_a_byte(headset: Hl2ssSimulator, fps: int) -> None:
    with peer(3817) as client:
        client.send(bytes([fps]))
        assert client.rest() == b""


def test_an_eye_packet_has_92_bytes_and_always_a_pose(headset: Hl2ssSimulator) -> None:
    with peer(3817) as client:
        client.send(b"\x5a")
        _, payload, pose = packet(client, pose=True)
    assert len(payload) == 92
    reserved, validity = struct.unpack_from("<I", payload, 0)[0], payload[88:92]
    assert reserved == 0
    bits = struct.unpack("<I", validity)[0]
    assert bits & 0b111_0000 == 0  # openness and vergence: not on this device
    assert payload[76:88] == bytes(12)
    assert bits & 1
    if bits & 2:
        assert np.linalg.norm(struct.unpack_from("<3f", payload, 16)) == pytest.approx(1, abs=1e-3)
    assert pose[3] == pose[7] == pose[11] == 0
    assert pose[15] == 1


def test_eye_times_are_near_the_present_by_the_headsets_clock(headset: Hl2ssSimulator) -> None:
    with peer(3817) as client:
        client.send(b"\x5a")
        stamp = packet(client, pose=True)[0]
        assert -(10**6) < qpc() - stamp < 10**7


# Spatial input


def test_spatial_input_starts_unasked_at_60_hertz_with_1936_bytes(headset: Hl2ssSimulator) -> None:
    with peer(3812) as client:
        packets = [packet(client, pose=False) for _ in range(6)]
    assert {len(payload) for _, payload, _ in packets} == {1936}
    assert set(np.diff([time for time, _, _ in packets])) <= {166_666, 166_667}
    validity, *head = struct.unpack_from("<I9f", packets[0][1])
    assert validity & ~0b1111 == 0
    assert validity & 1
    assert np.linalg.norm(head[3:6]) == pytest.approx(1, abs=1e-3)
    assert np.linalg.norm(head[6:9]) == pytest.approx(1, abs=1e-3)
    assert np.dot(head[3:6], head[6:9]) == pytest.approx(0, abs=1e-3)


def test_a_hand_that_was_never_seen_is_all_zero(headset: Hl2ssSimulator) -> None:
    with peer(3812) as client:
        payload = packet(client, pose=False)[1]
    validity = struct.unpack_from("<I", payload)[0]
    for bit, start in ((4, 64), (8, 1000)):
        hand = payload[start : start + 26 * 36]
        assert bool(validity & bit) == any(hand)


# Microphone


def test_raw_sound_is_768_stereo_samples_a_packet_without_holes(headset: Hl2ssSimulator) -> None:
    with peer(3811) as client:
        client.send(b"\xff\x00")
        packets = [packet(client, pose=False) for _ in range(8)]
    assert {len(payload) for _, payload, _ in packets} == {768 * 2 * 2}
    assert set(np.diff([time for time, _, _ in packets])) == {160_000}
    left, right = np.frombuffer(packets[-1][1], "<i2").reshape(-1, 2).T
    assert np.array_equal(left, right)


def test_the_array_is_five_channels_of_float(headset: Hl2ssSimulator) -> None:
    with peer(3811) as client:
        client.send(b"\xff\x2b")
        payload = packet(client, pose=False)[1]
    assert len(payload) % (5 * 4) == 0
    assert np.abs(np.frombuffer(payload, "<f4")).max() <= 1


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
def test_aac_comes_as_adts_frames_of_1024_stereo_samples(
    headset: Hl2ssSimulator, profile: int
) -> None:
    with peer(3811) as client:
        client.send(bytes([profile, 0x29]))
        packets = [packet(client, pose=False) for _ in range(4)]
    for _, payload, _ in packets:
        head = int.from_bytes(payload[:7], "big")
        assert head >> 44 == 0xFFF  # syncword
        assert head >> 38 & 3 == 1  # LC
        assert head >> 34 & 15 == 3  # 48 kHz
        assert head >> 30 & 7 == 2  # channels
        assert head >> 13 & 0x1FFF == len(payload)
        assert head & 3 == 0  # one block of 1024
    assert set(np.diff([time for time, _, _ in packets])) <= {213_333, 213_334}


@pytest.mark.parametrize("request_", [b"\x04\x29", b"\x00\x00", b"\x02\x2d", b"\x00\x34"])
def test_another_sound_profile_or_level_is_closed_without_a_byte(
    headset: Hl2ssSimulator, request_: bytes
) -> None:
    with peer(3811) as client:
        client.send(request_)
        assert client.rest() == b""
