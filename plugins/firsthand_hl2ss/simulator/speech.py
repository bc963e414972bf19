"""Spoken sentences, by whatever synthesiser this computer has, else a murmur."""

import logging
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.source import F4, SOUND_HZ

_log = logging.getLogger(__name__)

_LIMIT_S: Final = 20.0
_LOUD: Final = 0.45
_EDGE_S: Final = 0.015
_WINDOWS: Final = (
    "Add-Type -AssemblyName System.Speech;"
    "$s = New-Object System.Speech.Synthesis.SpeechSynthesizer;"
    "$s.SetOutputToWaveFile($env:FIRSTHAND_SPEECH_FILE);"
    "$s.Speak([Console]::In.ReadToEnd())"
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence as sound: mono, 48 kHz. ``words`` is False where it is only a murmur."""

    samples: F4
    by: str
    words: bool

    @property
    def length_s(self) -> float:
        return len(self.samples) / SOUND_HZ


def read_wav(data: bytes) -> tuple[F4, int]:
    """First channel and rate of a 16-bit WAV whose lengths may be wrong, as from a pipe.

    Raises ``ValueError`` for anything else.
    """
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError("not a WAV file")
    at, channels, rate, bits = 12, 0, 0, 0
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        at += 8
        if name == b"fmt " and at + 16 <= len(data):
            _, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", data, at)
        elif name == b"data":
            if bits != 16 or not 1 <= channels <= 8 or not 4000 <= rate <= 192_000:
                break
            body = data[at : at + min(size, len(data) - at)]
            body = body[: len(body) // (2 * channels) * 2 * channels]
            samples = np.frombuffer(body, "<i2").reshape(-1, channels)[:, 0]
            return (samples / 32768).astype(np.float32), rate
        at += size + size % 2
    raise ValueError("a WAV file without 16-bit samples")


def resample(samples: F4, rate: int) -> F4:
    """To 48 kHz, by way of the spectrum: exact for sound that begins and ends in silence."""
    if rate == SOUND_HZ or not len(samples):
        return samples
    count = round(len(samples) * SOUND_HZ / rate)
    spectrum = np.fft.rfft(samples)
    out = np.zeros(count // 2 + 1, dtype=spectrum.dtype)
    keep = min(len(out), len(spectrum))
    out[:keep] = spectrum[:keep]
    return (np.fft.irfft(out, count) * (count / len(samples))).astype(np.float32)


def _trim(samples: F4) -> F4:
    """Without the silence around it, and as loud as all others."""
    peak = float(np.abs(samples).max(initial=0.0))
    if peak < 1e-4:
        raise ValueError("only silence")
    loud = np.flatnonzero(np.abs(samples) > 0.02 * peak)
    edge = round(_EDGE_S * SOUND_HZ)
    part = samples[max(0, int(loud[0]) - edge) : int(loud[-1]) + edge].copy()
    fade = np.linspace(0, 1, min(edge, len(part) // 2), dtype=np.float32)
    if len(fade):
        part[: len(fade)] *= fade
        part[-len(fade) :] *= fade[::-1]
    return part * np.float32(_LOUD / peak)


def _run(command: Sequence[str], text: str | None = None, file: Path | None = None) -> bytes:
    result = subprocess.run(
        command,
        input=None if text is None else text.encode(),
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        timeout=_LIMIT_S,
        check=True,
        env=None if file is None else {**os.environ, "FIRSTHAND_SPEECH_FILE": str(file)},
    )
    return result.stdout if file is None else file.read_bytes()


def _flite(text: str, voice: str, folder: Path) -> bytes:
    file = folder / "speech.wav"
    return _run(["flite", "-voice", voice, "-t", text, "-o", str(file)], file=file)


def _espeak(text: str, voice: str, _: Path) -> bytes:
    variant = {"slt": "en+f3", "rms": "en+m3"}.get(voice, "en+m1")
    return _run(["espeak-ng", "-v", variant, "-s", "160", "--stdout", text])


def _say(text: str, voice: str, folder: Path) -> bytes:
    file = folder / "speech.wav"
    name = {"slt": "Samantha", "rms": "Alex"}.get(voice, "Daniel")
    data_format = ["--file-format=WAVE", "--data-format=LEI16@22050"]
    return _run(["say", "-v", name, *data_format, "-o", str(file), text], file=file)


def _sapi(text: str, _: str, folder: Path) -> bytes:
    file = folder / "speech.wav"
    return _run(["powershell", "-NoProfile", "-Command", _WINDOWS], text, file)


_SYNTHESISERS: Final[tuple[tuple[str, str, Callable[[str, str, Path], bytes]], ...]] = (
    ("flite", "flite", _flite),
    ("espeak-ng", "espeak-ng", _espeak),
    ("say", "say", _say),
    ("sapi", "powershell", _sapi),
)


def murmur(text: str, voice: str) -> Spoken:
    """A voice-like sound with as many syllables as the text, where nothing can speak."""
    syllables = max(
        1,
        sum(a in "aeiouy" and b not in "aeiouy" for a, b in zip(text, text[1:] + " ", strict=True)),
    )
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    base = 190.0 if voice == "slt" else 115.0
    parts = []
    for _ in range(syllables):
        t = np.arange(round(SOUND_HZ * float(rng.uniform(0.13, 0.19)))) / SOUND_HZ
        pitch = base * float(rng.uniform(0.9, 1.15))
        formants = (float(rng.uniform(350, 800)), float(rng.uniform(1000, 2200)))
        wave = np.zeros_like(t)
        for k in range(1, 24):
            weight = sum(np.exp(-(((k * pitch - f) / 180.0) ** 2)) for f in formants) + 0.3 / k
            wave += weight * np.sin(2 * np.pi * k * pitch * t)
        parts += [wave * np.abs(np.sin(np.pi * t / t[-1])) ** 0.7, np.zeros(round(0.02 * SOUND_HZ))]
    return Spoken(_trim(np.concatenate(parts).astype(np.float32)), "murmur", words=False)


@lru_cache(maxsize=512)
def speak(text: str, voice: str) -> Spoken:
    """``text`` in a voice (``slt``, ``rms`` or ``awb``); kept, so the same is spoken only once."""
    for name, program, synthesise in _SYNTHESISERS:
        if shutil.which(program) is None:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                samples, rate = read_wav(synthesise(text, voice, Path(folder)))
            return Spoken(_trim(resample(samples, rate)), f"{name} {voice}", words=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _log.warning("speech synthesis with %s failed: %s", name, type(error).__name__)
    return murmur(text, voice)


def speak_all(texts: Sequence[str], voice: str) -> list[Spoken]:
    """Several sentences, two at a time."""
    with ThreadPoolExecutor(2, "speech") as pool:
        return list(pool.map(lambda text: speak(text, voice), texts))
