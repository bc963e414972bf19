"""Sound by the session's time: clicks where they were, holes where nothing was recorded."""

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

import firsthand
from firsthand.api import Packet, PacketFlags, PayloadKind, RecordingError
from firsthand.recording.reader.recording import Recording
from firsthand.recording.reader.soundline import stretches
from firsthand.testing.recordings import World, make_recording, small_world, without

pytestmark = pytest.mark.unit
RATE = 48_000


def clicks(samples: npt.NDArray[np.float32]) -> list[float]:
    """Seconds at which clicks have their middle, to a part of a sample."""
    loud = np.abs(samples[:, 0])
    found = []
    at = 0
    while len(rest := np.flatnonzero(loud[at:] > 0.3)):
        first = at + int(rest[0])
        window = loud[max(0, first - 60) : first + 120]
        middle = float((np.arange(len(window)) * window).sum() / window.sum())
        found.append((max(0, first - 60) + middle) / RATE)
        at = first + 2400
    return found


def opened(folder: Path) -> Recording:
    return firsthand.open(folder, trusted=True)


@pytest.mark.parametrize(("mic_ppm", "drift_ppm"), [(0, 0), (150, 0), (-150, 0), (60, -120)])
def test_clicks_are_heard_when_they_were(tmp_path: Path, mic_ppm: float, drift_ppm: float) -> None:
    world = make_recording(
        tmp_path / "s", seconds=20.0, streams=["mic"], mic_ppm=mic_ppm, drift_ppm=drift_ppm
    )
    with opened(tmp_path / "s") as recording:
        sound = recording.audio.sound(0.0, 20.2)
    assert sound.samples.shape == (round(20.2 * RATE), 2)
    heard = clicks(sound.samples)
    assert len(heard) == len(world.click_s) >= 39
    assert np.abs(np.array(heard) - world.click_s).max() < 0.0005


def test_parts_put_together_are_the_whole(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", seconds=8.0, streams=["mic"], mic_ppm=200)
    with opened(tmp_path / "s") as recording:
        whole = recording.audio.samples(0.0, 8.0)
        parts = [recording.audio.samples(i / 4, (i + 1) / 4) for i in range(32)]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-3)


def test_what_was_not_recorded_is_zero_and_not_present(tmp_path: Path) -> None:
    world = small_world(3.0, streams=["mic"])
    loud = np.full(768 * 2, 8000, "<i2").tobytes()
    world.packets["mic"] = [replace(p, payload=loud) for p in world.packets["mic"]]
    # 16 ms a packet: one second is missing, from 0.2 + 62 * 0.016 = 1.192 s on.
    world.packets["mic"] = without(world.packets["mic"], lambda p: 62 <= p.seq < 125)
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        sound = recording.audio.sound(0.0, 3.0)
        assert not recording.audio.present(1.3, 2.1).any()
    holes = ~sound.present
    np.testing.assert_array_equal(sound.samples[holes], 0.0)
    assert np.abs(sound.samples[sound.present]).min() > 0.2
    missing = np.flatnonzero(np.diff(holes.astype(int))) / RATE
    assert missing == pytest.approx([0.2, 1.192, 1.192 + 63 * 0.016], abs=1e-4)


def test_jittered_stamps_make_no_holes(tmp_path: Path) -> None:
    world = small_world(3.0, streams=["mic"])
    noise = np.random.default_rng(1).integers(-1_500_000, 1_500_000, len(world.packets["mic"]))
    world.packets["mic"] = [
        replace(p, device_ns=p.device_ns + int(n))
        for p, n in zip(world.packets["mic"], noise, strict=True)
    ]
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        assert len(recording.audio.stretches) == 1
        heard = clicks(recording.audio.samples(0.0, 3.2))
    assert np.abs(np.array(heard) - world.click_s).max() < 0.001


def test_a_damaged_packet_of_sound_is_a_hole(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", seconds=2.0, streams=["mic"])
    raw = bytearray((tmp_path / "s" / "raw.h5").read_bytes())
    with opened(tmp_path / "s") as recording:
        click = next(recording.packets("mic", 18, 19))  # the one with the first click
    at = raw.index(bytes(click.payload))
    raw[at + 5] ^= 1
    (tmp_path / "s" / "raw.h5").write_bytes(raw)
    with opened(tmp_path / "s") as recording:
        present = recording.audio.present(0.2, 2.2)
        assert recording.audio.damaged == {18}
    assert (~present).sum() == pytest.approx(768, abs=1)


def as_float_array(packet: Packet) -> Packet:
    stereo = np.frombuffer(packet.payload, "<i2").reshape(-1, 2).astype("<f4") / 32768
    return replace(packet, payload=np.repeat(stereo[:, :1], 5, axis=1).tobytes())


def test_an_array_of_microphones_keeps_its_channels(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["mic"])
    world.schemas["mic"] = replace(world.schemas["mic"], payload=PayloadKind.PCM_F32, channels=5)
    world.packets["mic"] = [as_float_array(p) for p in world.packets["mic"]]
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        samples = recording.audio.samples(0.0, 2.2)
    assert samples.shape[1] == 5
    np.testing.assert_array_equal(samples[:, 0], samples[:, 4])
    assert clicks(samples) == pytest.approx(world.click_s, abs=0.0005)


def as_aac(world: World) -> None:
    """The world's sound as AAC frames with ADTS headers, 1024 samples each."""
    pcm = b"".join(bytes(p.payload) for p in world.packets["mic"])
    signal = np.frombuffer(pcm, "<i2").reshape(-1, 2).T.astype("<f4") / 32768
    encoder = av.CodecContext.create("aac", "w")
    encoder.sample_rate = RATE
    encoder.layout = "stereo"
    encoder.format = "fltp"
    encoder.bit_rate = 192_000
    coded = []
    for at in range(0, signal.shape[1] - 1024, 1024):
        block = np.ascontiguousarray(signal[:, at : at + 1024])
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts = RATE, at
        coded += encoder.encode(frame)
    first = world.packets["mic"][0]
    schema = world.schemas["mic"] = replace(
        world.schemas["mic"], payload=PayloadKind.AAC_ADTS, nominal_hz=RATE / 1024
    )
    fields = np.array([(1024,)], schema.dtype).tobytes()
    packets = []
    for seq, packet in enumerate(coded):
        data = bytes(packet)
        length = len(data) + 7
        header = bytes(
            [0xFF, 0xF1, 0x4C, 0x80 | length >> 11, length >> 3 & 255, (length & 7) << 5 | 31, 252]
        )
        # The encoder's first packet bears the time of 1024 samples before the first one.
        ahead_ns = round((seq - 1) * 1024e9 / RATE)
        packets.append(
            replace(
                first,
                seq=seq,
                device_ns=first.device_ns + ahead_ns,
                arrival_ns=first.arrival_ns + ahead_ns + 30_000_000,
                fields=fields,
                payload=header + data,
                flags=PacketFlags.NONE,
            )
        )
    world.packets["mic"] = packets


def test_coded_sound_is_decoded_in_time(tmp_path: Path) -> None:
    world = small_world(3.0, streams=["mic"])
    as_aac(world)
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        heard = clicks(recording.audio.samples(0.0, 3.2))
        late = clicks(recording.audio.samples(1.9, 2.1))
    assert heard == pytest.approx(world.click_s[: len(heard)], abs=0.001)
    assert late == pytest.approx([0.1], abs=0.001)


def test_a_stream_that_is_no_sound_says_so(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", seconds=0.5, streams=["si"])
    with opened(tmp_path / "s") as recording, pytest.raises(RecordingError, match="no sound"):
        recording.sound("si", 0.0, 1.0)


def test_a_long_stretch_follows_a_crystal_that_changes_its_mind() -> None:
    counts = np.full(6000, 768, np.int64)
    even = np.cumsum(np.concatenate(([0.0], counts[:-1] / RATE)))
    true = np.asarray(
        even + 0.004 * np.sin(even / 15.0), np.float64
    )  # as much as some 270 ppm, changing over a minute
    (stretch,) = stretches(true, counts, np.zeros(6000, np.uint32), float(RATE))
    samples = np.arange(6000, dtype=np.float64) * 768
    assert np.abs(stretch.time_of(samples) - true).max() < 0.0005
    np.testing.assert_allclose(stretch.sample_at(stretch.time_of(samples)), samples, atol=0.01)
