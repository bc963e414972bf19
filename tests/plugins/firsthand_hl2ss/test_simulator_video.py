"""The simulated front camera byte by byte, against layouts written out here."""

import struct
import time
from collections.abc import Iterator

import av
import numpy as np
import pytest
from av.video.codeccontext import VideoCodecContext

from firsthand.testing.raw_peer import RawPeer
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process
HOST, ANOTHER_HOST = "127.0.12.12", "127.0.12.13"
OPENING = struct.pack("<7B3f2I", 0, 1, 0, 0, 0, 0, 0, 0.9, 0.0, 0.0, 0, 1)
SHARED = struct.pack("<7B3f2I", 0, 1, 0, 0, 0, 0, 1, 0.9, 0.0, 0.0, 0, 1)
METADATA = "<2f2fQ2QIIII2f3f2H"
RAW, HEVC, H264_BASE, H264_HIGH = 255, 3, 0, 2


@pytest.fixture(scope="module")
def running() -> Iterator[Hl2ssSimulator]:
    with Hl2ssSimulator(settings()) as simulator:
        yield simulator


@pytest.fixture
def headset(running: Hl2ssSimulator) -> Hl2ssSimulator:
    """A headset whose camera is off."""
    if is_on():
        with peer() as client:
            client.send(b"\x0b")
            client.rest()
    return running


@pytest.fixture
def filming(running: Hl2ssSimulator) -> Hl2ssSimulator:
    """A headset whose camera is on."""
    if not is_on():
        open_camera()
    return running


def settings(**other: object) -> SimulatorConfig:
    usual = {"camera_opens_s": 0.15, "empty_pv_probability": 0.0, "empty_first_probability": 0.0}
    return SimulatorConfig.model_validate({"host": HOST, "voice": False, **usual, **other})


def peer(port: int = 3810, host: str = HOST) -> RawPeer:
    return RawPeer(host, port)


def is_on(host: str = HOST) -> bool:
    with peer(3809, host) as client:
        client.send(b"\x03")
        return bool(client.unpack("<B")[0])


def until(on: bool, host: str = HOST) -> None:
    limit = time.monotonic() + 5
    while is_on(host) is not on:
        assert time.monotonic() < limit
        time.sleep(0.02)


def open_camera(opening: bytes = OPENING, host: str = HOST) -> None:
    with peer(host=host) as client:
        client.send(b"\x07" + opening)
    until(on=True, host=host)


def request(
    profile: int = H264_BASE,
    *,
    mode: int = 1,
    size: tuple[int, int] = (424, 240),
    fps: int = 30,
    divisor: int = 1,
    bitrate: int = 400_000,
    options: tuple[tuple[int, int], ...] = ((10, 5),),
) -> bytes:
    head = struct.pack("<BHHBBBBIB", mode, *size, fps, divisor, profile, 255, bitrate, len(options))
    return head + b"".join(struct.pack("<QQ", *option) for option in options)


def packet(client: RawPeer, *, pose: bool = True) -> tuple[int, bytes, tuple[float, ...]]:
    timestamp, length = client.unpack("<QI")
    payload = client.read(int(length))
    return int(timestamp), payload, client.unpack("<16f") if pose else ()


def test_the_camera_is_closed_until_it_is_started_and_closed_again_after_a_stop(
    headset: Hl2ssSimulator,
) -> None:
    assert not is_on()
    with peer() as client:
        client.send(b"\x07" + OPENING)
        assert not is_on()  # opening takes its time
        assert client.rest() == b""  # no answer, then closed
    assert is_on()
    with peer() as client:
        client.send(b"\x0b")
        assert client.rest() == b""
    assert not is_on()


def test_the_camera_opens_even_if_the_client_has_gone_at_once(headset: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(b"\x07" + OPENING)
    until(on=True)


@pytest.mark.parametrize(
    "asked",
    [request(), b"\x02" + struct.pack("<HHB", 1920, 1080, 30)],
    ids=["stream", "calibration"],
)
def test_with_the_camera_off_it_is_closed_without_a_byte(
    headset: Hl2ssSimulator, asked: bytes
) -> None:
    with peer() as client:
        client.send(asked)
        assert client.rest() == b""


def test_a_stream_asked_for_while_the_camera_opens_waits_for_it(headset: Hl2ssSimulator) -> None:
    with peer() as opening, peer() as client:
        opening.send(b"\x07" + OPENING)
        client.send(request())
        assert len(packet(client)[1]) > 80


def test_one_connection_can_start_stream_and_stop(headset: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(b"\x0d" + OPENING + request()[1:])
        timestamp, payload, pose = packet(client)
        assert timestamp > 0
        assert len(payload) > 80
        assert pose[15] == 1
        assert is_on()
    until(on=False)


@pytest.mark.parametrize(
    ("sent", "blocks"),
    [
        (request(size=(1920, 1088)), False),
        (request(fps=29), False),
        (request(size=(1280, 720), fps=60), False),
        (request(divisor=0), False),
        (request(4), False),
        (request(bitrate=0), False),
        (request(RAW, bitrate=0), False),
        (request(size=(0, 0))[:6], False),  # refused before the divisor is read
        (request(divisor=0)[:7], False),  # refused before the profile is read
        (request(bitrate=0)[:13], False),  # refused before the options are read
        (request()[:6], True),
        (request()[:13], True),
        (request()[:-1], True),
    ],
)
def test_settings_are_judged_in_order_and_the_first_bad_one_closes(
    filming: Hl2ssSimulator, sent: bytes, blocks: bool
) -> None:
    with peer() as client:
        client.send(sent)
        if blocks:
            assert client.silent_for(0.2)
        else:
            assert client.rest() == b""


def test_each_format_of_the_camera_is_delivered_as_asked(filming: Hl2ssSimulator) -> None:
    sizes = [(1952, 1100), (1920, 1080), (1504, 846), (1280, 720), (1128, 636)]
    sizes += [(960, 540), (760, 428), (640, 360), (500, 282), (424, 240)]
    formats = [(w, h, fps) for w, h in sizes for fps in (30, 15)]
    for width, height, fps in [*formats, (1504, 846, 60), (1504, 846, 5), (1952, 1100, 60)]:
        with peer() as client:
            client.send(request(RAW, size=(width, height), fps=fps, options=()))
            _, payload, _ = packet(client)
        stride = (width + 63) & ~63
        assert len(payload) == stride * height * 3 // 2 + 80
        assert struct.unpack(METADATA, payload[-80:])[-2:] == (width, height)


def test_packets_carry_metadata_pose_and_times_on_the_grid(filming: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(request(size=(1920, 1080), bitrate=9_953_280))
        packets = [packet(client) for _ in range(5)]
    assert set(np.diff([time for time, _, _ in packets])) <= {333_333, 333_334}
    for _, payload, pose in packets:
        fx, fy, cx, cy, exposure, flags, value, _, focus, iso, kelvin, *_, w, h = struct.unpack(
            METADATA, payload[-80:]
        )
        assert 1400 < fx < 1500
        assert 1400 < fy < 1500
        assert 900 < cx < 1000
        assert 480 < cy < 600
        assert 10_000 < exposure < 700_000
        assert flags == 1
        assert value & 0xFFFFFFFF == 0
        assert value >> 32 != 0  # rubbish that only the low half may be read without
        assert 0 <= focus <= 4
        assert 100 <= iso <= 3200
        assert 2000 < kelvin < 8000
        assert (w, h) == (1920, 1080)
        matrix = np.array(pose).reshape(4, 4)
        assert matrix[:, 3].tolist() == [0, 0, 0, 1]
        assert np.allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-4)


def test_mode_0_leaves_the_pose_out(filming: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(request(mode=0))
        first = packet(client, pose=False)
        second = packet(client, pose=False)
    assert second[0] - first[0] in {333_333, 333_334}


def test_the_divisor_keeps_one_frame_in_so_many(filming: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(request(divisor=3))
        times = [packet(client)[0] for _ in range(3)]
    assert set(np.diff(times)) == {1_000_000}


def nal_types(unit: bytes, *, hevc: bool) -> list[int]:
    starts = [i + 4 for i in range(len(unit) - 4) if unit[i : i + 4] == b"\x00\x00\x00\x01"]
    return [(unit[i] >> 1) & 0x3F if hevc else unit[i] & 0x1F for i in starts]


@pytest.mark.parametrize("profile", [H264_BASE, 1, H264_HIGH, HEVC])
def test_each_packet_is_one_access_unit_and_decodes_alone_and_at_once(
    filming: Hl2ssSimulator, profile: int
) -> None:
    hevc = profile == HEVC
    decoder = av.CodecContext.create("hevc" if hevc else "h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    with peer() as client:
        client.send(request(profile))
        for number in range(11):
            unit = packet(client)[1][:-80]
            types = nal_types(unit, hevc=hevc)
            key = any(16 <= t <= 21 for t in types) if hevc else 5 in types
            assert key is (number % 5 == 0)
            if number == 0:
                assert types[:3] == [32, 33, 34] if hevc else types[:3] == [9, 7, 8]
            if not hevc:
                assert unit[:5] == b"\x00\x00\x00\x01\x09"
                assert unit[6:10] == b"\x00\x00\x00\x01"
            # Upstream's client cuts the delimiter off; both ways must give a picture at once.
            part = unit if hevc else unit[6:]
            pictures = decoder.decode(av.Packet(part))
            assert [(p.width, p.height) for p in pictures] == [(424, 240)]


def test_each_connection_begins_with_a_key_frame(filming: Hl2ssSimulator) -> None:
    for _ in range(2):
        with peer() as client:
            client.send(request(options=((10, 30), (0xFFFF_FFFF_FFFF_FFFD, 1), (777, 1))))
            assert 5 in nal_types(packet(client)[1][:-80], hevc=False)
            assert 5 not in nal_types(packet(client)[1][:-80], hevc=False)


def test_empty_packets_come_now_and_then_also_as_the_first() -> None:
    config = settings(host=ANOTHER_HOST, empty_pv_probability=0.3, empty_first_probability=1.0)
    with Hl2ssSimulator(config) as headset:
        open_camera(host=ANOTHER_HOST)
        with peer(host=ANOTHER_HOST) as client:
            client.send(request())
            payloads = [packet(client)[1] for _ in range(30)]
        assert len(payloads[0]) == 80
        empty = sum(len(payload) == 80 for payload in payloads)
        assert 1 < empty < 25
        first = next(payload for payload in payloads if len(payload) > 80)
        assert 5 in nal_types(first[:-80], hevc=False)
        assert struct.unpack(METADATA, payloads[0][-80:])[-2:] == (424, 240)
    assert sum(row.empty for row in headset.ledger.sent("pv")) >= empty


def test_calibration_is_52_floats_and_its_matrix_is_made_of_place_and_turn(
    filming: Hl2ssSimulator,
) -> None:
    with peer() as client:
        client.send(b"\x02" + struct.pack("<HHB", 1920, 1080, 30))
        data = client.rest()
    assert len(data) == 208
    values = np.frombuffer(data, "<f4")
    assert 1400 < values[0] < 1500
    assert 900 < values[2] < 1000
    translation, (x, y, z, w) = values[45:48], values[48:52]
    assert np.linalg.norm([x, y, z, w]) == pytest.approx(1, abs=1e-4)
    extrinsics = values[25:41].reshape(4, 4)
    assert np.allclose([*translation, 1] @ extrinsics, [0, 0, 0, 1], atol=1e-5)
    # q* turns a row vector: v' = q* v q, by the cross-product form of the rotation.
    for v in np.eye(3):
        u = np.array([-x, -y, -z])
        turned = v + 2 * np.cross(u, np.cross(u, v) + w * v)
        assert np.allclose(v @ extrinsics[:3, :3], turned, atol=1e-3)
    # The rig's origin, the left-front camera: 5.0 cm left of, 0.3 above, 1.4 behind.
    assert extrinsics[3, :3] == pytest.approx([-0.050, 0.003, 0.014], abs=1e-3)


def test_intrinsics_scale_with_the_size(filming: Hl2ssSimulator) -> None:
    focal = {}
    for width, height in ((1920, 1080), (960, 540)):
        with peer() as client:
            client.send(b"\x02" + struct.pack("<HHB", width, height, 30))
            focal[width] = np.frombuffer(client.rest(), "<f4")[0]
    assert focal[960] == pytest.approx(focal[1920] / 2, rel=0.01)


def test_a_bad_calibration_format_is_closed_without_a_byte(filming: Hl2ssSimulator) -> None:
    with peer() as client:
        client.send(b"\x02" + struct.pack("<HHB", 1919, 1080, 30))
        assert client.rest() == b""


def test_camera_settings_act_while_it_is_on_and_are_forgotten_at_a_new_start(
    headset: Hl2ssSimulator,
) -> None:
    exposure_10_ms = b"\x08" + struct.pack("<2I", 0, 10_000)

    def told() -> int:
        with peer() as client:
            client.send(request())
            return int(struct.unpack(METADATA, packet(client)[1][-80:])[4])

    def tell() -> None:
        with peer(3809) as client:
            client.send(exposure_10_ms + b"\x03")
            client.unpack("<B")

    tell()  # off: read and ignored
    open_camera()
    assert told() != 100_000
    tell()
    assert told() == 100_000
    with peer() as client:  # a start while on closes and opens again
        client.send(b"\x07" + OPENING)
        assert client.rest() == b""
    assert told() != 100_000


def test_a_shared_camera_ignores_the_size_asked_for_and_the_settings(
    headset: Hl2ssSimulator,
) -> None:
    open_camera(SHARED)
    with peer(3809) as client:
        client.send(b"\x08" + struct.pack("<2I", 0, 10_000) + b"\x03")
        client.unpack("<B")
    with peer() as client:
        client.send(request(RAW, size=(424, 240), options=()))
        payload = packet(client)[1]
    *_, width, height = values = struct.unpack(METADATA, payload[-80:])
    assert (width, height) == (1920, 1080)
    assert len(payload) == 1920 * 1080 * 3 // 2 + 80
    assert values[4] != 100_000


def test_without_permission_the_camera_never_opens_and_the_microphone_closes() -> None:
    config = SimulatorConfig(
        host=ANOTHER_HOST, voice=False, camera_opens_s=0.1, denied=frozenset({"pv", "mic"})
    )
    with Hl2ssSimulator(config):
        with peer(host=ANOTHER_HOST) as client:
            client.send(b"\x07" + OPENING)
            assert client.rest() == b""
        assert not is_on(ANOTHER_HOST)
        with peer(3811, ANOTHER_HOST) as client:
            client.send(b"\xff\x00")
            assert client.rest() == b""
