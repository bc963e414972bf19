"""WAV: sound from the start of the session to its end; what is missing is silent, and listed."""

import csv
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

import numpy as np

from firsthand.api import (
    Exporter,
    PayloadKind,
    PluginConfig,
    Progress,
    RecordingError,
    RecordingView,
    StreamRole,
    StreamSchema,
)

_BLOCK_S: Final = 10
_UNKNOWN: Final = 0xFFFFFFFF
_PCM: Final = 1
_FLOAT: Final = 3
_LISTED_S: Final = 0.0005


class WavConfig(PluginConfig):
    """Nothing to set: every microphone becomes a file."""


class WavExporter(Exporter):
    """Writes ``<stream>.wav`` per microphone, and ``<stream>-holes.csv``: seconds at which nothing
    was recorded. Sample 0 is the start of the session; the microphone's drift is taken out."""

    name: ClassVar[str] = "wav"
    title: ClassVar[str] = "WAV: sound, whole and in time"
    Config: ClassVar[type[PluginConfig]] = WavConfig
    config: WavConfig

    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        microphones = [
            schema
            for schema in recording.schemas.values()
            if schema.role is StreamRole.MICROPHONE and len(recording.times_s(schema.name))
        ]
        if not microphones:
            raise RecordingError("The recording has no sound.")
        written: list[Path] = []
        for number, schema in enumerate(microphones):
            path = out / f"{schema.name}.wav"
            holes = _write(path, recording, schema, progress, number, len(microphones))
            listed = out / f"{schema.name}-holes.csv"
            with listed.open("w", newline="", encoding="utf-8") as file:
                rows = csv.writer(file, lineterminator="\n")
                rows.writerow(["start_s", "stop_s"])
                rows.writerows((f"{start:.6f}", f"{stop:.6f}") for start, stop in holes)
            written += [path, listed]
        progress(1.0, "done")
        return written


def _write(
    path: Path,
    recording: RecordingView,
    schema: StreamSchema,
    progress: Progress,
    number: int,
    of: int,
) -> list[tuple[float, float]]:
    """Write one file; give its holes in seconds."""
    rate = round(schema.sample_hz)
    whole = schema.payload is not PayloadKind.PCM_F32
    end_s = max(
        recording.duration_s,
        float(recording.times_s(schema.name).max()) + 1.0 / max(schema.nominal_hz, 1.0),
    )
    count = int(end_s * rate)
    holes: list[tuple[float, float]] = []
    with path.open("xb") as file:
        _header(file, schema, count, whole=whole)
        for at in range(0, count, _BLOCK_S * rate):
            size = min(_BLOCK_S * rate, count - at)
            sound = recording.sound(schema.name, at / rate, (at + size) / rate)
            samples = sound.samples
            if whole:
                file.write(
                    np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes()
                )
            else:
                file.write(samples.astype("<f4").tobytes())
            _collect(holes, sound.present, at, rate)
            progress((number + (at + size) / count) / of, f"writing {path.name}")
    return [hole for hole in holes if hole[1] - hole[0] > _LISTED_S]


def _collect(
    holes: list[tuple[float, float]],
    present: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    at: int,
    rate: int,
) -> None:
    """Add stretches that are not present; one that goes on from the last block is made longer."""
    missing = np.concatenate(([0], (~present).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(missing))
    for start, stop in edges.reshape(-1, 2) + at:
        if holes and abs(holes[-1][1] - start / rate) < 0.5 / rate:
            holes[-1] = (holes[-1][0], stop / rate)
        else:
            holes.append((start / rate, stop / rate))


def _header(file: BinaryIO, schema: StreamSchema, count: int, *, whole: bool) -> None:
    """A RIFF header, or RF64 (EBU Tech 3306) above 4 GB."""
    size = 2 if whole else 4
    channels, rate = schema.channels, round(schema.sample_hz)
    data = count * channels * size
    form = struct.pack(
        "<4sIHHIIHH",
        b"fmt ",
        16,
        _PCM if whole else _FLOAT,
        channels,
        rate,
        rate * channels * size,
        channels * size,
        size * 8,
    )
    riff = 4 + len(form) + 8 + data
    if riff <= _UNKNOWN - 8:
        file.write(struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + form)
        file.write(struct.pack("<4sI", b"data", data))
        return
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, riff + 36, data, count, 0)
    file.write(struct.pack("<4sI4s", b"RF64", _UNKNOWN, b"WAVE") + sizes + form)
    file.write(struct.pack("<4sI", b"data", _UNKNOWN))
