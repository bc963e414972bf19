"""What the simulated microphone sends is what was heard at the times it stamps."""

import json
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from firsthand.testing.raw_peer import RawPeer
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig
from firsthand_hl2ss.simulator.sources import open_source

pytestmark = pytest.mark.process

HOST = "127.0.12.31"
RATE = 48_000
F4 = npt.NDArray[np.float32]


def pcm(payloads: list[bytes]) -> F4:
    whole = np.frombuffer(b"".join(payloads), "<i2")[::2]
    return (whole / 32_767).astype(np.float32)


def array(payloads: list[bytes]) -> F4:
    return np.frombuffer(b"".join(payloads), "<f4")[::5]


def aac(payloads: list[bytes]) -> F4:
    decoder = av.CodecContext.create("aac", "r")
    assert isinstance(decoder, av.AudioCodecContext)
    frames = [frame for each in payloads for frame in decoder.decode(av.Packet(each))]
    assert [frame.samples for frame in frames] == [1024] * len(payloads)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def lag(heard: F4, said: F4) -> int:
    """By how many samples ``heard`` is later than ``said``."""
    size = 2 * len(said)
    both = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size))
    at = int(np.argmax(np.fft.irfft(both, size)))
    return at if at < size // 2 else at - size


@pytest.mark.parametrize(
    ("request_", "count", "decode"),
    [
        (b"\xff\x00", 100, pcm),
        (b"\xff\x2b", 100, array),
        (b"\x00\x29", 75, aac),
        (b"\x03\x29", 75, aac),
    ],
    ids=["pcm", "array", "aac-96", "aac-192"],
)
def test_sound_is_in_step_with_its_stamps(
    tmp_path: Path, request_: bytes, count: int, decode: Callable[[list[bytes]], F4]
) -> None:
    config = SimulatorConfig(host=HOST, base_port=0, voice=False, truth_folder=tmp_path)
    with Hl2ssSimulator(config) as simulator:
        stamps, payloads = [], []
        with RawPeer(HOST, int(simulator.device_settings()["base_port"]) + 11) as client:
            client.send(request_)
            for _ in range(count):
                stamp, length = client.unpack("<QI")
                stamps.append(int(stamp))
                payloads.append(client.read(int(length)))
    clock = json.loads((tmp_path / "utterances.json").read_text())["clock"]
    started_ns = clock["started_device_ns"]
    heard = decode(payloads)
    # Past the encoder's first frames, which decode to silence.
    skip = 4096
    first_s = (stamps[0] * 100 - started_ns) / 1e9
    source = open_source(config)
    said = source.sound(round(first_s * RATE) + skip, len(heard) - skip)
    assert np.abs(said).max() > 0.05, "nothing is said in this stretch"
    assert abs(lag(heard[skip:], said)) <= 1
    assert np.corrcoef(heard[skip:], said)[0, 1] > 0.95
