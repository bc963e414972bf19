"""Research Mode's ports of the simulated headset, against layouts written out here."""

import struct
from collections.abc import Iterator

import av
import cv2
import numpy as np
import pytest
from av.video.codeccontext import VideoCodecContext

from firsthand.testing.raw_peer import RawPeer, refuses
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process
HOST, OFF_HOST = "127.0.12.14", "127.0.12.15"
GREY = (3800, 3801, 3802, 3803)


@pytest.fixture(scope="module")
def headset() -> Iterator[Hl2ssSimulator]:
    with Hl2ssSimulator(SimulatorConfig(host=HOST, voice=False)) as simulator:
        yield simulator


def peer(port: int) -> RawPeer:
    return RawPeer(HOST, port)


def packet(client: RawPeer, *, pose: bool) -> tuple[int, bytes, tuple[float, ...]]:
    timestamp, length = client.unpack("<QI")
    payload = client.read(int(length))
    return int(timestamp), payload, client.unpack("<16f") if pose else ()


def grey_request(
    profile: int, *, mode: int = 1, divisor: int = 1, shift: int | None = None
) -> bytes:
    options = [] if shift is None else [struct.pack("<Qq", 0xFFFF_FFFF_FFFF_FFFE, shift)]
    head = struct.pack("<BBBBIB", mode, divisor, profile, 255, 1_000_000, len(options))
    return head + b"".join(options)


@pytest.mark.parametrize("port", GREY)
def test_a_raw_grey_picture_is_307200_bytes_and_24_of_metadata(
    headset: Hl2ssSimulator, port: int
) -> None:
    with peer(port) as client:
        client.send(grey_request(255))
        packets = [packet(client, pose=True) for _ in range(3)]
    assert {len(payload) for _, payload, _ in packets} == {640 * 480 + 24}
    assert set(np.diff([time for time, _, _ in packets])) <= {333_333, 333_334}
    _, exposure_ns, _, reserved = struct.unpack("<QQII", packets[0][1][-24:])
    assert 10_000 < exposure_ns < 40_000_000
    assert reserved == 0
    assert packets[0][2][15] == 1


def test_an_encoded_grey_picture_is_luma_with_neutral_chroma(headset: Hl2ssSimulator) -> None:
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    with peer(3800) as client:
        client.send(grey_request(0, mode=0))
        (picture,) = decoder.decode(av.Packet(packet(client, pose=False)[1][:-24]))
    planes = picture.reformat(format="yuv420p").to_ndarray()
    assert planes.shape == (720, 640)
    assert np.abs(planes[480:].astype(int) - 0x80).max() <= 2


def test_the_time_shift_that_is_asked_for_moves_grey_stamps(headset: Hl2ssSimulator) -> None:
    stamps = []
    for shift in (None, -125_000):
        with peer(3801) as client:
            client.send(grey_request(255, shift=shift))
            stamps.append(packet(client, pose=True)[0])
    # Both lie on the sensor's grid but for the shift.
    off = (stamps[1] + 125_000 - stamps[0]) % (10**7 / 30)
    assert min(off, 10**7 / 30 - off) < 2


def test_far_depth_is_a_png_of_two_planes_in_bgra_order(headset: Hl2ssSimulator) -> None:
    with peer(3805) as client:
        client.send(struct.pack("<BBI", 1, 1, 0))
        _, payload, pose = packet(client, pose=True)
    bgra = cv2.imdecode(np.frombuffer(payload[:-8], np.uint8), cv2.IMREAD_UNCHANGED)
    assert bgra is not None
    assert bgra.shape == (288, 320, 4)
    depth, brightness = np.frombuffer(bgra.tobytes(), "<u2").reshape(2, 288, 320)
    assert 200 < np.median(depth[depth > 0]) < 8000
    assert brightness.max() > 0
    assert pose[15] == 1


def test_near_depth_is_two_sizes_two_planes_and_ticks(headset: Hl2ssSimulator) -> None:
    with peer(3804) as client:
        client.send(struct.pack("<BBBBBIB", 1, 1, 0, 255, 255, 1, 0))
        packets = [packet(client, pose=True) for _ in range(3)]
    payload = packets[0][1]
    zdepth, rest = struct.unpack_from("<II", payload)
    assert (zdepth, rest) == (0, 512 * 512 * 2 * 2)
    assert len(payload) == 8 + rest + 8
    depth = np.frombuffer(payload[8 : 8 + 512 * 512 * 2], "<u2")
    assert depth.max() <= 1055
    assert set(np.diff([time for time, _, _ in packets])) <= {222_222, 222_223}


@pytest.mark.parametrize(
    ("port", "count", "period"), [(3806, 93, 850_000), (3807, 315, 480_000), (3808, 11, 2_200_000)]
)
def test_motion_comes_in_batches_with_times_that_go_on(
    headset: Hl2ssSimulator, port: int, count: int, period: int
) -> None:
    with peer(port) as client:
        client.send(b"\x00")
        packets = [packet(client, pose=False) for _ in range(2)]
    assert packets[1][0] - packets[0][0] == period
    records = [
        np.frombuffer(
            payload,
            [("sensor", "<u8"), ("host", "<u8"), ("xyz", "<f4", (3,)), ("temperature", "<f4")],
        )
        for _, payload, _ in packets
    ]
    assert all(abs(len(batch) - count) <= 2 for batch in records)
    host = np.concatenate([batch["host"] for batch in records]).astype(np.int64)
    sensor = np.concatenate([batch["sensor"] for batch in records]).astype(np.int64)
    assert (np.diff(host) > 0).all()
    assert np.allclose(np.diff(sensor), np.diff(host) * 100)
    assert abs(int(records[0]["host"][0]) - packets[0][0]) < period
    if port == 3806:
        assert np.linalg.norm(records[0]["xyz"], axis=1) == pytest.approx(9.8, abs=3)


@pytest.mark.parametrize(
    ("port", "size", "width", "height", "scales"),
    [(port, 4_915_280, 640, 480, ()) for port in GREY]
    + [(3805, 1_474_644, 320, 288, (1000.0,)), (3804, 4_194_392, 512, 512, (1000.0, 1055.0))],
)
def test_a_cameras_calibration_has_its_size_and_its_maps_agree(
    headset: Hl2ssSimulator,
    port: int,
    size: int,
    width: int,
    height: int,
    scales: tuple[float, ...],
) -> None:
    with peer(port) as client:
        client.send(b"\x02")
        data = client.rest()
    assert len(data) == size
    values = np.frombuffer(data, "<f4")
    cells = width * height
    uv2x, uv2y = values[:cells].reshape(height, width), values[cells : 2 * cells]
    extrinsics = values[2 * cells : 2 * cells + 16].reshape(4, 4)
    at = 2 * cells + 16
    assert tuple(values[at : at + len(scales)]) == scales
    at += len(scales)
    mapx = values[at : at + cells].reshape(height, width)
    fx, fy, cx, cy = values[at + 2 * cells : at + 2 * cells + 4]
    assert (np.diff(uv2x, axis=1) > 0).all()
    assert (np.diff(uv2y.reshape(height, width), axis=0) > 0).all()
    assert np.allclose(extrinsics[:3, :3] @ extrinsics[:3, :3].T, np.eye(3), atol=1e-5)
    assert extrinsics[:, 3].tolist() == [0, 0, 0, 1]
    # An undistorted pixel leads, by mapx, to the picture's pixel that sees the same ray.
    row, column = height // 2, width // 2 + width // 5
    found = mapx[row, column]
    ray = np.interp(found, np.arange(width), uv2x[row])
    assert ray == pytest.approx((column - cx) / fx, abs=2e-3)
    assert 0 < cy < height
    assert fy > 100


def test_the_left_front_camera_is_the_rig_itself(headset: Hl2ssSimulator) -> None:
    with peer(3800) as client:
        client.send(b"\x02")
        values = np.frombuffer(client.rest(), "<f4")
    assert np.array_equal(values[2 * 640 * 480 :][:16].reshape(4, 4), np.eye(4))


@pytest.mark.parametrize("port", [3806, 3807])
def test_a_motion_sensors_calibration_is_its_place_on_the_rig(
    headset: Hl2ssSimulator, port: int
) -> None:
    with peer(port) as client:
        client.send(b"\x02")
        data = client.rest()
    assert len(data) == 64
    assert np.frombuffer(data, "<f4")[15] == 1


@pytest.mark.parametrize(
    ("port", "sent"),
    [
        (3808, b"\x02"),
        (3800, b"\x03"),
        (3800, b"\x01\x00"),
        (3800, grey_request(4)),
        (3800, struct.pack("<BBBBIB", 1, 1, 255, 255, 0, 0)),
        (3804, struct.pack("<BBB", 1, 1, 2)),
        (3804, struct.pack("<BB", 1, 0)),
        (3805, struct.pack("<BB", 0, 0)),
        (3807, b"\x03"),
    ],
)
def test_what_has_no_answer_is_closed_without_a_byte(
    headset: Hl2ssSimulator, port: int, sent: bytes
) -> None:
    with peer(port) as client:
        client.send(sent)
        assert client.rest() == b""


def test_without_research_mode_its_ports_refuse_and_its_commands_close() -> None:
    config = SimulatorConfig(host=OFF_HOST, voice=False, research_mode=False)
    with Hl2ssSimulator(config):
        assert all(refuses(OFF_HOST, port) for port in range(3800, 3809))
        for opcode in (b"\x0e", b"\x16", b"\x17"):  # before any argument is read
            with RawPeer(OFF_HOST, 3809) as client:
                client.send(opcode)
                assert client.rest() == b""


def test_flat_mode_refuses_spatial_input() -> None:
    with Hl2ssSimulator(SimulatorConfig(host=OFF_HOST, voice=False, flat_mode=True)):
        assert refuses(OFF_HOST, 3812)
        assert not refuses(OFF_HOST, 3817)
