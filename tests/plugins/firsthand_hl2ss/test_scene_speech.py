"""Speech for the scene, whatever synthesiser there is."""

import shutil
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand_hl2ss.simulator import speech
from firsthand_hl2ss.simulator.source import SOUND_HZ

pytestmark = pytest.mark.unit


def wav(samples: list[int], rate: int = 16_000, claimed: int | None = None) -> bytes:
    body = struct.pack(f"<{len(samples)}h", *samples)
    size = len(body) if claimed is None else claimed
    head = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", 0, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16
    )
    return head + struct.pack("<4sI", b"data", size) + body


def test_a_wav_with_a_wrong_length_is_read_to_its_end() -> None:
    samples, rate = speech.read_wav(wav([1, -2, 3], claimed=0x7FFF_FFFF))
    assert rate == 16_000
    assert (samples * 32768).tolist() == [1, -2, 3]


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_as_wav(data: bytes) -> None:
    with pytest.raises(ValueError, match="WAV"):
        speech.read_wav(data)


def test_resampling_keeps_a_tone_and_its_place() -> None:
    t = np.arange(16_000) / 16_000
    envelope = np.sin(np.pi * t) ** 2
    tone = (envelope * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
    out = speech.resample(tone, 16_000)
    t48 = np.arange(48_000) / SOUND_HZ
    expected = np.sin(np.pi * t48) ** 2 * np.sin(2 * np.pi * 440 * t48)
    assert out.shape == (48_000,)
    assert np.abs(out - expected).max() < 1e-3


def test_where_nothing_can_speak_a_murmur_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    speech.speak.cache_clear()
    said = speech.speak("Nobody can say this sentence here.", "slt")
    speech.speak.cache_clear()
    assert not said.words
    assert 0.5 < said.length_s < 4
    assert np.abs(said.samples).max() <= 0.5


@pytest.mark.skipif(
    shutil.which("flite") is None and shutil.which("espeak-ng") is None,
    reason="neither flite nor espeak-ng is installed",
)
def test_a_synthesiser_speaks_the_same_twice_and_without_silence_around() -> None:
    one = speech.speak("The blue box.", "rms")
    speech.speak.cache_clear()
    two = speech.speak("The blue box.", "rms")
    assert one.words
    assert np.array_equal(one.samples, two.samples)
    assert 0.4 < one.length_s < 3
    assert np.abs(one.samples[: SOUND_HZ // 20]).max() > 0.005
