"""Frames numbered by the simulated headset come back each in its own packet's row.

Number in the picture, time, lens and pose of a packet must be of one moment: watched live through
the tap of a real recorder process, and read from the finished file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from zlib import crc32

import av
import numpy as np
import pytest

import firsthand
from firsthand.api import Packet, PacketFlags
from firsthand.recording.client import DeviceChoice, RecorderProcess, RecorderSettings
from firsthand.recording.finalise import finalise
from firsthand.recording.tap import open_tap
from firsthand.streams.fanout import EVERYTHING
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig
from firsthand_hl2ss.simulator.counter import read_counter
from firsthand_hl2ss.simulator.ledger import Ledger, SentRow
from firsthand_hl2ss.simulator.sources import open_source

pytestmark = pytest.mark.process

WIDTH, HEIGHT, FPS = 424, 240, 30
WATCHED = 60
HNS_PER_FRAME = Fraction(10_000_000, FPS)


class Truth:
    """What the simulated headset sent, by timestamp, and what it saw then."""

    def __init__(self, config: SimulatorConfig, ledger: Ledger) -> None:
        self.rows = {row.timestamp_hns: row for row in ledger.sent("pv") if not row.empty}
        self.empty = sum(row.empty for row in ledger.sent("pv"))
        begins = {t - round(row.slot * HNS_PER_FRAME) for t, row in self.rows.items()}
        assert len(begins) == 1, "times are those of the camera's grid"
        self._begin_hns = begins.pop()
        self._source = open_source(config)

    def row(self, device_ns: int) -> SentRow:
        assert device_ns % 100 == 0
        return self.rows[device_ns // 100]

    def lens(self, slot: int) -> tuple[float, ...]:
        told = self._source.pv_metadata(self._scene_s(slot), WIDTH, HEIGHT)
        values = (*told.focal_length, *told.principal_point)
        return tuple(float(np.float32(value)) for value in values)

    def exposure_ns(self, slot: int) -> int:
        told = self._source.pv_metadata(self._scene_s(slot), WIDTH, HEIGHT)
        return told.exposure_ns // 100 * 100

    def pose(self, slot: int) -> Any:
        return self._source.pv_pose(self._scene_s(slot))

    @staticmethod
    def _scene_s(slot: int) -> float:
        return round(slot * HNS_PER_FRAME) / 1e7


@dataclass(frozen=True)
class Seen:
    """A decoded picture's number and the packet's data that came with it."""

    number: int | None
    device_ns: int
    record: Any


@dataclass(frozen=True)
class Session:
    """One recorded session: what was watched live, the file, and the truth."""

    live: list[tuple[Seen, int]]
    """With the CRC-32 of each payload."""
    lost_live: int
    folder: Path
    truth: Truth


def watched(packets: Iterator[Packet], dtype: np.dtype[Any], codec: str) -> list[tuple[Seen, int]]:
    """Decode packet by packet, from the first key frame on, as a viewer does."""
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    seen: list[tuple[Seen, int]] = []
    for packet in packets:
        if not seen and not packet.flags & PacketFlags.KEY_FRAME:
            continue
        pictures = decoder.decode(av.Packet(bytes(packet.payload)))
        assert len(pictures) == 1, "one packet in, one picture out"
        number = read_counter(pictures[0].to_ndarray(format="gray"))
        record = np.frombuffer(packet.fields, dtype)[0]
        seen.append((Seen(number, packet.device_ns, record), crc32(packet.payload)))
        if len(seen) == WATCHED:
            break
    return seen


@pytest.fixture(scope="module", params=["h264", "hevc"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    codec = str(request.param)
    places = tmp_path_factory.mktemp(f"numbered-{codec}")
    folder = places / "session"
    # Packets without a picture now and then: where they are taken for one, numbers shift.
    config = SimulatorConfig(
        host="127.0.12.32",
        base_port=0,
        voice=False,
        camera_opens_s=0.1,
        empty_pv_probability=0.08,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTHAND_RUNTIME_DIR", str(places / "run"))
        patch.setenv("FIRSTHAND_LOG_DIR", str(places / "logs"))
        with Hl2ssSimulator(config) as simulator:
            settings = {
                **simulator.device_settings(),
                "pv": {"codec": codec, "width": WIDTH, "height": HEIGHT, "fps": FPS, "gop": 10},
                "eet": None,
                "si": None,
                "mic": None,
            }
            recorder = RecorderProcess.start(
                RecorderSettings(
                    folder=folder,
                    devices=[DeviceChoice(name="hl2ss", settings=settings)],
                    plugins=["hl2ss"],
                )
            )
            try:
                with open_tap(folder, ["pv"], EVERYTHING) as tap:
                    live = watched(iter(tap), tap.schemas["pv"].dtype, codec)
                    lost = tap.lost
            finally:
                recorder.stop()
    finalise(folder)
    return Session(live, lost, folder, Truth(config, simulator.ledger))


def assert_of_one_moment(seen: Seen, truth: Truth) -> None:
    slot = truth.row(seen.device_ns).slot
    assert seen.number == slot
    lens = (*seen.record["focal_length"].tolist(), *seen.record["principal_point"].tolist())
    assert lens == truth.lens(slot)
    assert seen.record["exposure_ns"] == truth.exposure_ns(slot)
    assert tuple(seen.record["resolution"]) == (WIDTH, HEIGHT)
    assert np.array_equal(seen.record["pose"], truth.pose(slot))


def test_each_moment_has_a_lens_and_a_pose_of_its_own(session: Session) -> None:
    """Else the comparisons below would prove nothing."""
    truth = session.truth
    slots = [row.slot for row in truth.rows.values()]
    assert len(slots) >= WATCHED
    assert truth.empty > 0
    assert len({truth.lens(slot) for slot in slots}) > 0.9 * len(slots)
    assert len({truth.pose(slot).tobytes() for slot in slots}) == len(slots)


def test_live_each_picture_comes_with_its_own_packets_data(session: Session) -> None:
    assert session.lost_live == 0
    assert len(session.live) == WATCHED
    for seen, crc in session.live:
        assert crc == session.truth.row(seen.device_ns).picture_crc32
        assert_of_one_moment(seen, session.truth)
    slots = [session.truth.row(seen.device_ns).slot for seen, _ in session.live]
    expected = sorted(row.slot for row in session.truth.rows.values())
    first = expected.index(slots[0])
    assert slots == expected[first : first + WATCHED]


def test_from_the_file_each_picture_comes_with_its_own_packets_data(session: Session) -> None:
    with firsthand.open(session.folder) as recording:
        video = recording.video
        assert len(video) >= WATCHED
        for index in range(len(video)):
            frame = video.frame(index)
            assert frame.index == index
            seen = Seen(read_counter(frame.rgb), frame.device_ns, frame.fields)
            assert_of_one_moment(seen, session.truth)


def test_in_any_order_each_picture_is_still_its_own(session: Session) -> None:
    with firsthand.open(session.folder) as recording:
        video = recording.video
        order = np.random.default_rng(7).permutation(len(video))[:40]
        for index in order.tolist():
            frame = video.frame(index)
            seen = Seen(read_counter(frame.rgb), frame.device_ns, frame.fields)
            assert_of_one_moment(seen, session.truth)
            assert video.frame_at(frame.time_s).index == index
