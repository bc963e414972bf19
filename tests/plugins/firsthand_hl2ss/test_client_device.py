"""The device against a simulated headset: every stream, every form, camera and clocks."""

import base64
import contextlib
import itertools
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import av
import numpy as np
import pytest

from firsthand.api import (
    Clock,
    Device,
    GapCause,
    Packet,
    PacketFlags,
    SimulatedFault,
    StreamState,
)
from firsthand.testing.claims import comes_true
from firsthand.testing.collecting_sink import CollectingSink
from firsthand.testing.contract_device import DeviceContract
from firsthand_hl2ss import Hl2ssConfig, Hl2ssDevice
from firsthand_hl2ss.dial import Address
from firsthand_hl2ss.remote import Remote
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process
HOST = "127.0.11.31"
SMALL = {"width": 424, "height": 240}
ONLY: dict[str, Any] = {"pv": None, "eet": None, "si": None, "mic": None}


@contextlib.contextmanager
def headset(**settings: Any) -> Iterator[Hl2ssSimulator]:
    quick: dict[str, Any] = {
        "voice": False,
        "camera_opens_s": 0.1,
        "eye_tracker_opens_s": 0,
        "empty_pv_probability": 0,
        "empty_first_probability": 0,
    }
    config = SimulatorConfig(host=HOST, base_port=0, **{**quick, **settings})
    with Hl2ssSimulator(config) as simulator:
        yield simulator


@contextlib.contextmanager
def receiving(
    simulator: Hl2ssSimulator, packets: int = 5, **streams: Any
) -> Iterator[CollectingSink]:
    """A device that has received so many packets of every stream."""
    config = Hl2ssConfig.model_validate({**simulator.device_settings(), **ONLY, **streams})
    sink = CollectingSink()
    with Hl2ssDevice(config) as device:
        names = [schema.name for schema in device.schemas()]
        device.open(sink)
        assert comes_true(lambda: all(len(sink.of(n)) >= packets for n in names), 8), {
            name: len(sink.of(name)) for name in names
        }
        yield sink


class TestHl2ssDevice(DeviceContract):
    def plugin_class(self) -> type[Device]:
        return Hl2ssDevice

    def settings(self) -> Mapping[str, Any]:
        return {"host": HOST, "pv": SMALL}

    def world(self) -> AbstractContextManager[Mapping[str, Any]]:
        return self._world()

    @contextlib.contextmanager
    def _world(self) -> Iterator[Mapping[str, Any]]:
        with headset() as simulator:
            yield {**simulator.device_settings(), "pv": SMALL}


@pytest.mark.parametrize(("codec", "decoder"), [("h264", "h264"), ("hevc", "hevc")])
def test_pictures_decode_one_for_one_from_the_first(codec: str, decoder: str) -> None:
    with headset() as simulator, receiving(simulator, 20, pv={**SMALL, "codec": codec}) as sink:
        packets = sink.of("pv")[:20]
    context: Any = av.VideoCodecContext.create(decoder, "r")
    shapes = []
    for packet in packets:
        frames = context.decode(av.Packet(bytes(packet.payload)))
        shapes += [(frame.width, frame.height) for frame in frames]
    assert shapes == [(424, 240)] * 20
    keys = [i for i, p in enumerate(packets) if PacketFlags.KEY_FRAME in p.flags]
    assert keys == [0, 15]
    assert [PacketFlags.NEW_CONNECTION in p.flags for p in packets] == [True] + [False] * 19


def test_raw_pictures_have_the_size_of_their_padded_rows() -> None:
    with headset() as simulator, receiving(simulator, 2, pv={**SMALL, "codec": "raw"}) as sink:
        packet = sink.of("pv")[0]
    assert len(packet.payload) == 448 * 240 * 3 // 2
    assert PacketFlags.KEY_FRAME in packet.flags


@pytest.mark.parametrize(
    ("settings", "samples"),
    [({"form": "pcm"}, 768), ({"form": "aac"}, 1024), ({"form": "array"}, None)],
)
def test_sound_comes_in_three_forms(settings: dict[str, str], samples: int | None) -> None:
    with headset() as simulator, receiving(simulator, mic=settings) as sink:
        packets = sink.of("mic")
    for before, after in itertools.pairwise(packets):
        count = int.from_bytes(before.fields, "little")
        assert samples is None or count == samples
        assert abs(after.device_ns - before.device_ns - count / 48_000 * 1e9) < 1000
    if settings["form"] == "array":
        assert {len(p.payload) / int.from_bytes(p.fields, "little") for p in packets} == {20.0}


@pytest.mark.parametrize("fps", [30, 60, 90])
def test_the_eye_tracker_delivers_at_the_rate_asked_for(fps: int) -> None:
    with headset() as simulator, receiving(simulator, 20, eet={"fps": fps}) as sink:
        steps = np.diff([packet.device_ns for packet in sink.of("eet")])
    assert abs(np.median(steps) - 1e9 / fps) < 1000


def test_research_mode_streams_come_with_their_calibrations() -> None:
    streams: dict[str, Any] = {
        "vlc": {"cameras": ["left_front", "right_right"]},
        "depth_long_throw": {},
        "depth_ahat": {},
        "imu": {},
    }
    with headset() as simulator, receiving(simulator, 2, **streams) as sink:
        names = sink.streams()
    assert set(sink.calibrations) == names - {"imu_magnetometer"}
    uv, about = sink.calibrations["vlc_left_front"]
    assert uv["uv2x"].shape == (480, 640)
    assert about["stream"] == "vlc_left_front"


def test_the_front_cameras_calibration_is_read_before_streaming() -> None:
    with headset() as simulator, receiving(simulator, pv=SMALL) as sink:
        values, about = sink.calibrations["pv"]
    assert values["extrinsics"].shape == (4, 4)
    assert about["settings"]["width"] == 424


def camera_is_on(simulator: Hl2ssSimulator) -> bool:
    where = simulator.device_settings()
    remote = Remote(Address(where["host"], where["base_port"]), 1, 1, threading.Event())
    with remote.session() as session:
        return session.camera_is_on()


def test_the_camera_is_turned_on_for_the_recording_and_off_afterwards() -> None:
    with headset() as simulator:
        assert not camera_is_on(simulator)
        with receiving(simulator, pv=SMALL):
            assert camera_is_on(simulator)
        assert comes_true(lambda: not camera_is_on(simulator), 3)


def test_a_camera_may_be_left_on() -> None:
    with headset() as simulator:
        with receiving(simulator, pv={**SMALL, "stop_camera": False}):
            pass
        assert camera_is_on(simulator)


def test_camera_settings_reach_the_pictures_and_stand_in_the_recording() -> None:
    camera = {"iso": "manual", "iso_value": 400, "exposure": "manual", "exposure_us": 8000}
    config = {**SMALL, "camera": camera}
    with headset() as simulator, receiving(simulator, pv=config) as sink:
        schema = next(
            s
            for s in Hl2ssDevice(
                Hl2ssConfig.model_validate({"host": HOST, **ONLY, "pv": config})
            ).schemas()
        )
        row = np.frombuffer(sink.of("pv")[-1].fields, schema.dtype)[0]
    assert row["iso"] == 400
    assert row["exposure_ns"] == 8_000_000
    (note,) = [about for kind, about in sink.notes if kind == "camera_settings"]
    assert {sent["command"] for sent in note["sent"]} == {"pv_iso", "pv_exposure"}
    assert note["refused"] == []


def test_empty_pictures_are_counted_and_not_stored() -> None:
    with headset() as simulator, receiving(simulator, pv=SMALL) as sink:
        simulator.fault(SimulatedFault("empty_pv", "pv"))
        assert comes_true(lambda: len(sink.skips) == 1, 3)
        (skip,) = sink.skips
        assert skip[:2] == ("pv", GapCause.EMPTY_PACKET)
        assert comes_true(lambda: sink.of("pv")[-1].device_ns > (skip[2] or 0), 3)
    assert skip[2] not in {packet.device_ns for packet in sink.of("pv")}
    assert all(packet.payload for packet in sink.of("pv"))


def crcs(packets: list[Packet]) -> list[int]:
    return [zlib.crc32(packet.payload) for packet in packets]


@pytest.mark.parametrize("slices", [1, 100])
def test_what_comes_in_slivers_is_the_same(slices: int) -> None:
    with headset() as simulator:
        simulator.fault(SimulatedFault("slices", "mic", about={"bytes": slices}))
        with receiving(simulator, 8, mic={}) as sink:
            packets = sink.of("mic")[:8]
        sent = {row.timestamp_hns: row.crc32 for row in simulator.ledger.sent("mic")}
    assert crcs(packets) == [sent[packet.device_ns // 100] for packet in packets]


@pytest.mark.parametrize("part", ["length", "pose"])
def test_damage_is_put_aside_counted_and_over_at_once(part: str) -> None:
    with headset() as simulator, receiving(simulator, 10, eet={}) as sink:
        simulator.fault(SimulatedFault("corrupt", "eet", about={"part": part}))
        assert comes_true(lambda: bool(sink.skips), 3)
        count = len(sink.of("eet"))
        assert comes_true(lambda: len(sink.of("eet")) > count + 10, 3)
    assert [skip[:2] for skip in sink.skips] == [("eet", GapCause.DAMAGED_PACKET)]
    (note,) = [about for kind, about in sink.notes if kind == "quarantine"]
    assert note["stream"] == "eet"
    assert 12 <= len(base64.b64decode(note["bytes_base64"])) <= 4096
    news = [p.seq for p in sink.of("eet") if PacketFlags.NEW_CONNECTION in p.flags]
    assert len(news) == 2
    assert [p.seq for p in sink.of("eet")] == list(range(len(sink.of("eet"))))


def test_a_set_wall_clock_begins_an_epoch_at_once() -> None:
    with headset() as simulator, receiving(simulator, eet={}) as sink:
        simulator.fault(SimulatedFault("clock_step", about={"ms": 400}))
        assert comes_true(lambda: bool(sink.epochs), 2)
    assert [(clock, epoch) for clock, epoch, _ in sink.epochs] == [(Clock.DEVICE_WALL, 1)]


def test_an_app_that_is_started_again_is_noticed_before_its_first_packet() -> None:
    class Ordered(CollectingSink):
        def __init__(self) -> None:
            super().__init__()
            self.order: list[str] = []

        def packet(self, packet: Packet) -> None:
            self.order.append("new" if PacketFlags.NEW_CONNECTION in packet.flags else "packet")
            super().packet(packet)

        def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
            self.order.append(clock.value)
            super().epoch(clock, epoch, reason)

    sink = Ordered()
    with headset() as simulator:
        config = Hl2ssConfig.model_validate({**simulator.device_settings(), **ONLY, "si": {}})
        with Hl2ssDevice(config) as device:
            device.open(sink)
            assert comes_true(lambda: len(sink.packets) > 5, 3)
            simulator.fault(SimulatedFault("reboot", for_s=0.5))
            assert comes_true(lambda: sink.order.count("new") == 2, 4)
    again = sink.order.index("new", 1)
    assert {"device", "device_wall"} <= set(sink.order[:again])
    assert sink.order.count("device") == 1
    apps = [about for kind, about in sink.notes if kind == "hl2ss_app"]
    assert [about["new_world_frame"] for about in apps] == [False, True]
    states = [state for _, state, _ in sink.states]
    assert states[-1] is StreamState.LIVE
    assert StreamState.REFUSED in states


def test_a_silent_stream_is_stalled_within_a_second_and_asked_for_anew() -> None:
    with headset() as simulator, receiving(simulator, si={}) as sink:
        simulator.fault(SimulatedFault("stall", "si", for_s=1.9))
        assert comes_true(lambda: sink.state_of("si") is StreamState.STALLED, 1.2)
        last_ns = sink.of("si")[-1].arrival_ns
        count = len(sink.of("si"))
        assert comes_true(lambda: len(sink.of("si")) > count + 5, 4)
        first_ns = sink.of("si")[count].arrival_ns
    assert sink.interruptions[0][:2] == ("si", GapCause.STALLED)
    assert 1.5e9 < first_ns - last_ns < 4e9


def test_clocks_are_compared_at_once_and_again() -> None:
    patience = {"clock_s": 0.3}
    with headset() as simulator, receiving(simulator, si={}, patience=patience) as sink:
        assert comes_true(lambda: len(sink.pairs) >= 6, 4)
    assert {pair.clock for pair in sink.pairs} == {Clock.DEVICE, Clock.DEVICE_WALL}
    assert all(0 < pair.uncertainty_ns < 1e9 for pair in sink.pairs)
    packet = sink.of("si")[-1]
    device = [pair for pair in sink.pairs if pair.clock is Clock.DEVICE]
    nearest = min(device, key=lambda pair: abs(pair.host_ns - packet.arrival_ns))
    age_ns = nearest.device_ns + packet.arrival_ns - nearest.host_ns - packet.device_ns
    assert -5e6 < age_ns < 500e6


def test_the_headset_is_found_good_before_a_session() -> None:
    with headset() as simulator:
        config = Hl2ssConfig.model_validate({**simulator.device_settings(), "pv": SMALL})
        items = Hl2ssDevice(config).preflight(6)
    assert {item.name for item in items} >= {"hl2ss app", "Clock", "Front camera", "Microphone"}
    assert [item.words for item in items if not item.good] == []


def test_an_old_app_and_a_missing_permission_are_found_before_a_session() -> None:
    with headset(app_version=(1, 0, 33, 0), denied={"eet"}) as simulator:
        config = Hl2ssConfig.model_validate({**simulator.device_settings(), "pv": None})
        items = {item.name: item for item in Hl2ssDevice(config).preflight(2)}
    assert not items["hl2ss app"].good
    assert "1.0.33" in items["hl2ss app"].words
    assert not items["Eye tracker"].good
    assert "permission" in items["Eye tracker"].words
    assert items["Microphone"].good


def test_a_headset_that_is_not_there_is_a_line_of_the_check_and_no_error() -> None:
    config = Hl2ssConfig(host=HOST, base_port=3950)
    items = Hl2ssDevice(config).preflight(1)
    assert not any(item.good for item in items)
    assert all(item.try_this for item in items)
