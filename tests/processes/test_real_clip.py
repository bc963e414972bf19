"""A real clip and real speech through the simulated headset: recorded, checked, exported, played.

Truth is the source files themselves, decoded here, at the moments that the simulator's clock gives.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import firsthand
from firsthand.recording.check import check
from firsthand.recording.check_report import Verdict
from firsthand.recording.export import export
from firsthand_hl2ss.simulator import Hl2ssSimulator
from firsthand_hl2ss.simulator.counter import read_counter

pytestmark = pytest.mark.process

F4 = npt.NDArray[np.float32]
F8 = npt.NDArray[np.float64]
RATE: Final = 48_000
STREAMS: Final = {
    "pv": {"width": 424, "height": 240, "fps": 15, "gop": 15},
    "eet": {"fps": 30},
    "si": {},
    "mic": {},
}
INNER: Final = slice(52, 372)
"""Columns of a 424×240 picture in which a 4:3 clip lies; bars beside it."""


def shared_data() -> Path:
    """The folder of real recordings: beside the project, or named by FIRSTHAND_SHARED."""
    named = os.environ.get("FIRSTHAND_SHARED")
    if named:
        places = [Path(named) / "data"]
    else:
        places = [above / "shared" / "data" for above in Path(__file__).resolve().parents]
    for place in places:
        if place.is_dir():
            return place
    pytest.skip("the shared folder with real recordings is not on this computer")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A folder with a head camera's video, and somebody's speech in a file of its own."""
    data = shared_data()
    parts = (
        data / "egocentric-clip-outdoor" / "test_lp_video.mp4",
        data / "speech" / "whisper" / "jfk.flac",
    )
    folder = tmp_path / "clip"
    folder.mkdir()
    for part in parts:
        if not part.is_file():
            pytest.skip(f"{part.name} is not among the shared recordings")
        shutil.copy(part, folder)
    return folder


@dataclass(frozen=True)
class Scene:
    """When it was, by the simulator: host time of the scene's second 0, and how fast it ran."""

    host_ns: int
    ppm: float

    @classmethod
    def of(cls, headset: Hl2ssSimulator) -> "Scene":
        clock = headset.clock
        return cls(clock.host_ns_at(clock.boot_qpc_hns), headset.config.drift_ppm)

    def at(self, session_s: F8, start_host_ns: int) -> F8:
        """The scene's seconds at moments of the session."""
        host_s = session_s + (start_host_ns - self.host_ns) / 1e9
        return np.asarray(host_s * (1 + self.ppm * 1e-6))


def source_sound(path: Path) -> F4:
    """A sound file as mono at 48 kHz."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
    with av.open(str(path)) as container:
        parts = [
            piece.to_ndarray().reshape(-1)
            for frame in container.decode(audio=0)
            for piece in resampler.resample(frame)
        ]
    return np.concatenate(parts).astype(np.float32)


def source_pictures(path: Path) -> tuple[F8, list[F4]]:
    """Times of a video's pictures from its first one, and the pictures small, grey, and flat."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    times = np.array([frame.time for frame in frames], np.float64)
    return times - times[0], [small(frame.to_ndarray(format="gray")) for frame in frames]


def small(grey: npt.NDArray[Any]) -> F4:
    """A picture without the strip that bears the counter: mean 0, length 1."""
    height, width = grey.shape
    inside = grey[height // 5 :, width // 20 : -width // 20].astype(np.float32)
    shrunk = np.asarray(cv2.resize(inside, (96, 72), interpolation=cv2.INTER_AREA), np.float32)
    flat = shrunk.reshape(-1) - shrunk.mean()
    return np.asarray(flat / np.linalg.norm(flat), np.float32)


@dataclass(frozen=True)
class Movie:
    """An MP4 as any player sees it."""

    picture_s: F8
    counters: list[int | None]
    pictures: list[F4]
    sound_start_s: float
    sound: F4

    @classmethod
    def play(cls, path: Path) -> "Movie":
        times, counters, pictures = [], [], []
        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                grey = frame.to_ndarray(format="gray")
                times.append(float(frame.time or 0.0))
                counters.append(read_counter(grey))
                pictures.append(small(grey[:, INNER]))
        with av.open(str(path)) as container:
            start_s: float | None = None
            end_s = 0.0
            parts: list[F4] = []
            for sound in container.decode(audio=0):
                time_s = float(sound.time or 0.0)
                start_s = time_s if start_s is None else start_s
                assert not parts or abs(time_s - end_s) < 1e-3, "the sound track has a hole"
                parts.append(sound.to_ndarray()[0])
                end_s = time_s + sound.samples / RATE
                assert sound.sample_rate == RATE
        assert start_s is not None
        heard = np.concatenate(parts).astype(np.float32)
        return cls(np.array(times), counters, pictures, start_s, heard)


def lag_s(heard: F4, meant: F4) -> tuple[float, float]:
    """By how much ``heard`` is late against ``meant``, within ± 50 ms, and how alike they are."""
    reach = RATE // 20
    middle = meant[reach:-reach]
    alike = [
        float(heard[reach + by : reach + by + len(middle)] @ middle)
        for by in range(-reach, reach + 1)
    ]
    best = int(np.argmax(alike))
    part = heard[best : best + len(middle)]
    likeness = alike[best] / float(np.linalg.norm(part) * np.linalg.norm(middle) + 1e-9)
    return (best - reach) / RATE, likeness


def test_a_recording_of_a_real_clip_plays_with_sound_in_step(
    clip: Path, tmp_path: Path, record_headset: Callable[..., Any]
) -> None:
    scenes: list[Scene] = []
    recorded = record_headset(
        seconds=6.0,
        streams=STREAMS,
        simulator={
            "source": str(clip),
            "loop": True,
            "drift_ppm": 80.0,
            "empty_pv_probability": 0.0,
            "empty_first_probability": 0.0,
            "queue_s": 20.0,
        },
        during=lambda headset: scenes.append(Scene.of(headset)),
    )
    (scene,) = scenes
    findings = check(recorded.folder).findings
    assert [finding for finding in findings if finding.verdict is Verdict.BAD] == []

    (mp4,) = export(recorded.folder, "mp4", tmp_path / "out")
    movie = Movie.play(mp4)
    with firsthand.open(recorded.folder) as recording:
        start_ns = recording.timeline.start_host_ns
        device_ns = recording.streams["pv"].device_ns
        told_s = recording.times_s("pv")

    # Every stored picture is there, at its own time, and is the picture of that moment.
    slots = {row.timestamp_hns: row.slot for row in recorded.ledger.sent("pv")}
    assert len(movie.picture_s) == len(device_ns) > 30
    assert movie.counters == [slots[int(ns) // 100] for ns in device_ns]
    np.testing.assert_allclose(movie.picture_s, told_s, rtol=0, atol=2e-6)
    spacing = np.diff(device_ns) / 1e9 / (1 + scene.ppm * 1e-6)
    np.testing.assert_allclose(np.diff(movie.picture_s), spacing, rtol=0, atol=1e-4)
    times, pictures = source_pictures(clip / "test_lp_video.mp4")
    length_s = float(times[-1] + np.median(np.diff(times)))
    shown_s = scene.at(told_s, start_ns)
    for at_s, picture in zip(shown_s % length_s, movie.pictures, strict=True):
        if np.abs(np.append(times, length_s) - at_s).min() < 0.005:
            continue  # on the edge between two: either is right
        alike = [float(picture @ other) for other in pictures]
        meant = int(np.searchsorted(times, at_s, side="right")) - 1
        assert max(alike) > 0.97
        assert alike[meant] > max(alike) - 0.002

    # What is heard at a time of the file is what was said at that moment.
    speech = source_sound(clip / "jfk.flac")
    heard_s = movie.sound_start_s + np.arange(len(movie.sound)) / RATE
    begin = int(np.argmax(heard_s >= movie.picture_s[0] + 0.3))
    lags = []
    for at in range(begin, len(heard_s) - RATE, RATE):
        part = slice(at, at + RATE)
        index = np.rint(scene.at(heard_s[part], start_ns) * RATE).astype(np.int64)
        late_s, likeness = lag_s(movie.sound[part], speech[index % len(speech)])
        assert likeness > 0.9
        lags.append(late_s)
    assert len(lags) >= 4
    assert max(map(abs, lags)) <= 0.001, lags
