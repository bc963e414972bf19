"""Video encoded ahead: shown again and again, and everything else that is sensed goes with it."""

import logging
import struct
from itertools import pairwise

import av
import numpy as np
import pytest

from firsthand.api import SimulatedFault
from firsthand.testing.raw_peer import RawPeer
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig
from firsthand_hl2ss.simulator.ahead_of import read_ahead_of
from firsthand_hl2ss.simulator.counter import read_counter
from firsthand_hl2ss.simulator.looped import LoopedSource
from firsthand_hl2ss.simulator.scene import SceneSource
from firsthand_hl2ss.simulator.source import GreyCamera, Motion
from firsthand_hl2ss.simulator.sources import open_source

HOST = "127.0.12.33"
WIDTH, HEIGHT, FPS = 424, 240, 30
OPENING = struct.pack("<7B3f2I", 0, 1, 0, 0, 0, 0, 0, 0.9, 0.0, 0.0, 0, 1)
H264, HEVC = 1, 3
BITRATE = {H264: WIDTH * HEIGHT * FPS * 12 // 75, HEVC: WIDTH * HEIGHT * FPS * 12 // 150}


def settings(**other: object) -> SimulatorConfig:
    usual = {"camera_opens_s": 0.05, "empty_pv_probability": 0.0, "empty_first_probability": 0.0}
    about = {"host": HOST, "base_port": 0, "voice": False, "ahead_s": 1, **usual, **other}
    return SimulatorConfig.model_validate(about)


class Packet:
    """A packet of the front camera, taken apart."""

    def __init__(self, client: RawPeer) -> None:
        timestamp, length = client.unpack("<QI")
        payload = client.read(int(length))
        self.hns = int(timestamp)
        self.unit = payload[:-80]
        self.lens = struct.unpack("<4f", payload[-80:-64])
        self.pose = np.array(client.unpack("<16f"), np.float32).reshape(4, 4)


def film(simulator: Hl2ssSimulator, profile: int, count: int, *, gop: int = 15) -> list[Packet]:
    head = struct.pack(
        "<BHHBBBBIB", 1, WIDTH, HEIGHT, FPS, 1, profile, 255, BITRATE[profile], 1
    ) + struct.pack("<QQ", 10, gop)
    with RawPeer(HOST, int(simulator.device_settings()["base_port"]) + 10) as client:
        client.send(b"\x0d" + OPENING + head[1:])
        return [Packet(client) for _ in range(count)]


def numbers(packets: list[Packet], profile: int) -> list[int | None]:
    """What stands in the pictures; each packet must give one, empty ones apart."""
    decoder = av.CodecContext.create("hevc" if profile == HEVC else "h264", "r")
    assert isinstance(decoder, av.VideoCodecContext)
    found = []
    for packet in packets:
        if packet.unit:
            (picture,) = decoder.decode(av.Packet(packet.unit))
            found.append(read_counter(picture.to_ndarray(format="gray")))
    return found


@pytest.mark.process
@pytest.mark.parametrize("profile", [H264, HEVC])
def test_pictures_encoded_ahead_come_again_with_their_own_lens_and_pose(profile: int) -> None:
    config = settings()
    with Hl2ssSimulator(config) as simulator:
        packets = film(simulator, profile, 50, gop=7)
    seen = numbers(packets, profile)
    first = seen[0]
    assert first in {0, 7, 14, 21, 28}, "a client begins at a key frame"
    assert seen == [(first + k) % FPS for k in range(50)]
    assert {after.hns - before.hns for before, after in pairwise(packets)} <= {333_333, 333_334}
    source = open_source(config)
    for packet, number in zip(packets, seen, strict=True):
        assert number is not None
        told = source.pv_metadata(number / FPS, WIDTH, HEIGHT)
        assert packet.lens == pytest.approx((*told.focal_length, *told.principal_point), abs=1e-3)
        assert np.array_equal(packet.pose, source.pv_pose(number / FPS))
    assert len({packet.pose.tobytes() for packet in packets}) == FPS


@pytest.mark.process
def test_only_the_last_picture_of_a_group_is_ever_left_out() -> None:
    config = settings(empty_pv_probability=0.7)
    with Hl2ssSimulator(config) as simulator:
        packets = film(simulator, H264, 40, gop=5)
        ledger = simulator.ledger
    seen = numbers(packets, H264)
    assert 0 < sum(not packet.unit for packet in packets) <= 8
    assert None not in seen
    steps = {((after or 0) - (before or 0)) % FPS for before, after in pairwise(seen)}
    assert steps == {1, 2}
    assert ledger.holes("pv") == []


@pytest.mark.process
def test_after_a_stall_a_client_goes_on_at_a_key_frame() -> None:
    with Hl2ssSimulator(settings()) as simulator:
        simulator.fault(SimulatedFault("stall", "pv", 0.9, 0.4, {}))
        packets = film(simulator, H264, 50, gop=10)
    seen = numbers(packets, H264)
    assert None not in seen
    (jump,) = [
        now
        for before, now in pairwise(zip(packets, seen, strict=True))
        if now[0].hns - before[0].hns > 400_000
    ]
    assert jump[1] in {0, 10, 20}


@pytest.mark.process
def test_what_is_named_is_encoded_before_it_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "firsthand_hl2ss.simulator.stretches")
    with Hl2ssSimulator(settings(ahead_of="h264:424x240@30")) as simulator:
        told = [record.message for record in caplog.records if "ahead" in record.message]
        assert told == ["encoding 30 pictures ahead"]
        assert "again and again" in simulator.words()
        film(simulator, H264, 3)
    assert [r.message for r in caplog.records if "ahead" in r.message] == told


@pytest.mark.parametrize(
    "text", ["", "vp9:1920x1080@30", "hevc:1920x1080", "hevc:1921x1080@30", "h264:1920x1080@60"]
)
def test_what_the_camera_does_not_have_cannot_be_encoded_ahead(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as|the camera has no"):
        read_ahead_of(text)


def test_encoding_ahead_needs_a_length_and_a_format_that_exists() -> None:
    with pytest.raises(ValueError, match="needs ahead_s"):
        settings(ahead_s=0, ahead_of="h264:424x240@30")
    with pytest.raises(ValueError, match="the camera has no"):
        settings(ahead_of="h264:424x241@30")


def test_every_sense_begins_anew_together() -> None:
    plain = SceneSource("demonstration", seed=3, voice=False)
    source = LoopedSource(plain, 2)
    assert source.duration_s == 2
    for t in (0.4, 1.9):
        for again in (t + 2, t + 6):
            assert np.array_equal(source.pv_pose(again), plain.pv_pose(again % 2))
            assert np.allclose(source.rig_pose(again), plain.rig_pose(t), atol=1e-5)
            assert np.allclose(
                source.eye(again).combined.direction, plain.eye(t).combined.direction, atol=1e-5
            )
            assert np.allclose(
                source.spatial(again).head_position, plain.spatial(t).head_position, atol=1e-5
            )
            assert source.pv_metadata(again, 424, 240).focal_length == pytest.approx(
                plain.pv_metadata(t, 424, 240).focal_length
            )
    camera = GreyCamera.LEFT_FRONT
    assert np.array_equal(source.grey(camera, 2.5), plain.grey(camera, 0.5))
    assert np.array_equal(source.depth_ahat(4.25).depth, plain.depth_ahat(0.25).depth)
    far = plain.depth_long_throw(0.25).depth
    assert np.array_equal(source.depth_long_throw(4.25).depth, far)
    frame = plain.frame(0.5, 9, 424, 240)
    assert np.array_equal(source.frame(2.5, 9, 424, 240), frame)
    assert source.truth().source["begins_again_after_s"] == 2


def test_sound_begins_anew_to_the_sample() -> None:
    plain = SceneSource("demonstration", seed=3, voice=False)
    source = LoopedSource(plain, 2)
    once = plain.sound(0, 2 * 48_000)
    assert np.array_equal(source.sound(-100, 5 * 48_000 + 100)[100:], np.tile(once, 3)[:240_000])
    assert not source.sound(-100, 100).any()
    assert np.array_equal(source.sound(95_990, 20), np.concatenate([once[-10:], once[:10]]))


@pytest.mark.parametrize(
    ("kind", "noise"),
    [(Motion.ACCELEROMETER, 0.06), (Motion.GYROSCOPE, 0.15), (Motion.MAGNETOMETER, 0.9)],
)
def test_motion_begins_anew_and_each_reading_comes_once(kind: Motion, noise: float) -> None:
    plain = SceneSource("demonstration", seed=3, voice=False)
    source = LoopedSource(plain, 2)
    edges = [-0.1, 0.3, 1.7, 2.4, 6.6, 7.0]
    parts = [source.motion(kind, start, stop) for start, stop in pairwise(edges)]
    times = np.concatenate([part.times_s for part in parts])
    values = np.concatenate([part.values for part in parts])
    alone = plain.motion(kind, -0.1, 7.0)
    assert np.array_equal(times, alone.times_s)
    once = plain.motion(kind, -0.2, 2.2)
    near = np.searchsorted(once.times_s, np.where(times < 0, times, times % 2) - 1e-9)
    assert np.abs(values - once.values[near]).max() < noise
    assert np.abs(values - alone.values).max() > 2 * noise
