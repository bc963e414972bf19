"""MP4, WAV and CSV say what the recording says, at the same times."""

import csv
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

import firsthand
from firsthand.api import Exporter, FirsthandError, PayloadKind, RecordingError
from firsthand.recording.reader.recording import Recording
from firsthand.testing.recorded_video import read_number
from firsthand.testing.recordings import make_recording, small_world, without
from firsthand_exports import CsvExporter, Mp4Exporter, WavExporter, firsthand_exporters

pytestmark = pytest.mark.unit
RATE = 48_000


def nobody(done: float, words: str = "") -> None:
    assert 0.0 <= done <= 1.0


def export(kind: type[Exporter], recording: Recording, out: Path, **settings: Any) -> list[Path]:
    out.mkdir(exist_ok=True)
    return list(kind(kind.Config(**settings)).export(recording, out, nobody))


@pytest.fixture
def recording(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Recording]:
    asked = {"seconds": 4.0, **getattr(request, "param", {})}
    make_recording(tmp_path / "s", **asked)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        yield recording


def shown(path: Path) -> list[tuple[float, int]]:
    """Seconds and number of every picture of a file."""
    with av.open(str(path)) as movie:
        stream = movie.streams.video[0]
        assert stream.time_base is not None
        return [
            (
                float((f.pts or 0) * stream.time_base),
                read_number(np.asarray(f.to_ndarray(format="rgb24"), np.uint8)),
            )
            for f in movie.decode(stream)
        ]


def heard(path: Path) -> list[float]:
    """Seconds of the clicks in a file, to a part of a sample."""
    return clicks(decoded(path))


def decoded(path: Path) -> npt.NDArray[np.float32]:
    """The sound of a file, each sample at its time."""
    sound = np.zeros(RATE * 60, np.float32)
    with av.open(str(path)) as movie:
        for frame in movie.decode(movie.streams.audio[0]):
            assert frame.pts is not None
            assert frame.time_base is not None
            at = round(frame.pts * frame.time_base * RATE)
            block = frame.to_ndarray()[0][max(0, -at) :]
            sound[max(0, at) : max(0, at) + len(block)] = block
    return sound


def clicks(sound: npt.NDArray[np.floating[Any]]) -> list[float]:
    found = []
    at = 0
    while len(rest := np.flatnonzero(np.abs(sound[at:]) > 0.3)):
        first = at + int(rest[0])
        window = np.abs(sound[max(0, first - 60) : first + 120])
        window = np.where(window > 0.05, window, 0.0)
        middle = float((np.arange(len(window)) * window).sum() / window.sum())
        found.append((max(0, first - 60) + middle) / RATE)
        at = first + 2400
    return found


# -- MP4 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", [{"codec": "h264"}, {"codec": "hevc"}], indirect=True)
def test_an_mp4_shows_every_picture_at_its_time(recording: Recording, tmp_path: Path) -> None:
    (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    pictures = shown(path)
    assert [number for _, number in pictures] == list(range(120))
    times = np.array([time_s for time_s, _ in pictures])
    assert np.abs(times - recording.video.times_s).max() < 2e-6


def test_an_mp4_holds_the_pictures_as_they_were_coded(recording: Recording, tmp_path: Path) -> None:
    (path,) = export(Mp4Exporter, recording, tmp_path / "out", sound=False)
    with av.open(str(path)) as movie:
        assert not movie.streams.audio
        sizes = [p.size for p in movie.demux(movie.streams.video[0]) if p.size]
    sent = [len(p.payload) for p in recording.packets("pv")]
    # Start codes become lengths of about the same size; nothing else is changed.
    assert np.abs(np.array(sizes) - sent).max() < 32


@pytest.mark.parametrize(
    "recording",
    [
        {"seconds": 4.0},
        {"seconds": 20.0, "mic_ppm": 150.0, "drift_ppm": -60.0, "bit_rate": 60_000},
    ],
    indirect=True,
)
def test_the_sound_of_an_mp4_is_in_step(recording: Recording, tmp_path: Path) -> None:
    (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    got = np.array(heard(path))
    true = np.arange(1, len(got) + 1) * 0.5
    assert len(got) in {int(recording.duration_s * 2), int(recording.duration_s * 2) - 1}
    assert np.abs(got - true).max() < 0.001


def test_sound_that_is_coded_side_by_side_fits_together(tmp_path: Path) -> None:
    """A steady tone, over several places where one encoder hands over to the next."""
    world = small_world(18.0, bit_rate=30_000, streams=["pv", "mic"])
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(1200 * 768) / RATE)
    whole = np.round(tone * 32767).astype("<i2").repeat(2).reshape(-1, 768 * 2)
    world.packets["mic"] = [
        replace(p, payload=whole[i].tobytes()) for i, p in enumerate(world.packets["mic"])
    ]
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    sound = decoded(path)
    true = 0.3 * np.sin(2 * np.pi * 440 * (np.arange(17 * RATE) / RATE))
    start = round(0.2 * RATE)
    middle = slice(RATE, 17 * RATE - RATE)
    error = (sound[start : start + 17 * RATE] - true)[middle]
    assert np.abs(error).max() < 0.02


def test_a_hole_in_the_sound_moves_nothing_after_it(tmp_path: Path) -> None:
    world = small_world(4.0)
    world.packets["mic"] = without(world.packets["mic"], lambda p: 60 <= p.seq < 120)
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    assert heard(path) == pytest.approx([0.5, 1.0, 2.5, 3.0, 3.5, 4.0], abs=0.001)


def test_a_hole_in_the_video_leaves_the_times_after_it(tmp_path: Path) -> None:
    world = small_world(3.0)
    world.packets["pv"] = without(world.packets["pv"], lambda p: 30 <= p.seq < 60)
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    pictures = shown(path)
    assert [number for _, number in pictures] == [*range(30), *range(60, 90)]
    assert pictures[30][0] == pytest.approx(0.2 + 2.0, abs=1e-5)


def test_what_cannot_be_decoded_is_left_out_up_to_the_next_key_frame(tmp_path: Path) -> None:
    world = small_world(2.0)
    packets = [p for p in world.all_packets if p.stream != "pv" or p.seq != 20]
    make_recording(tmp_path / "s", world, packets=packets)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    assert [number for _, number in shown(path)] == [*range(20), *range(30, 60)]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_reconnection_stays_one_film(tmp_path: Path, codec: str) -> None:
    world = small_world(1.0, streams=["pv"], codec=codec)
    again = small_world(1.0, streams=["pv"], codec=codec).packets["pv"]
    later = [
        replace(
            p,
            seq=p.seq + 30,
            device_ns=p.device_ns + 2 * 10**9,
            arrival_ns=p.arrival_ns + 2 * 10**9,
        )
        for p in again
    ]
    make_recording(tmp_path / "s", world, packets=[*world.packets["pv"], *later])
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        (path,) = export(Mp4Exporter, recording, tmp_path / "out")
    assert [number for _, number in shown(path)] == [*range(30), *range(30)]


def test_pictures_that_are_not_coded_are_refused_with_words(tmp_path: Path) -> None:
    world = small_world(0.3, streams=["pv"], size_px=(80, 60))
    world.schemas["pv"] = replace(world.schemas["pv"], payload=PayloadKind.GRAY8)
    world.packets["pv"] = [replace(p, payload=bytes(4800)) for p in world.packets["pv"]]
    make_recording(tmp_path / "s", world)
    with (
        firsthand.open(tmp_path / "s", trusted=True) as recording,
        pytest.raises(FirsthandError, match="not coded"),
    ):
        export(Mp4Exporter, recording, tmp_path / "out")


@pytest.mark.parametrize("kind", [Mp4Exporter, WavExporter])
def test_a_recording_without_the_stream_says_so(tmp_path: Path, kind: type[Exporter]) -> None:
    make_recording(tmp_path / "s", seconds=0.3, streams=["si"])
    with (
        firsthand.open(tmp_path / "s", trusted=True) as recording,
        pytest.raises(RecordingError),
    ):
        export(kind, recording, tmp_path / "out")


# -- WAV -----------------------------------------------------------------------------------------


def test_a_wav_is_in_time_and_lists_its_holes(tmp_path: Path) -> None:
    world = small_world(4.0, streams=["mic"])
    world.packets["mic"] = without(world.packets["mic"], lambda p: 60 <= p.seq < 120)
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        path, holes = export(WavExporter, recording, tmp_path / "out")
        duration_s = recording.duration_s
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (2, RATE, 2)
        assert file.getnframes() == pytest.approx(duration_s * RATE, abs=800)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    assert clicks(samples[:, 0].astype(np.float32) / 32768) == pytest.approx(
        [0.5, 1.0, 2.5, 3.0, 3.5, 4.0], abs=0.0005
    )
    with holes.open() as lines:
        listed = [(float(row["start_s"]), float(row["stop_s"])) for row in csv.DictReader(lines)]
    assert listed[0] == pytest.approx((0.0, 0.2), abs=1e-3)
    assert listed[1] == pytest.approx((0.2 + 60 * 0.016, 0.2 + 120 * 0.016), abs=1e-3)


def test_a_wav_of_whole_numbers_holds_the_samples_as_they_were(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["mic"])
    noise = np.random.default_rng(5).integers(-32768, 32767, (125, 768 * 2)).astype("<i2")
    world.packets["mic"] = [
        replace(p, payload=noise[i].tobytes()) for i, p in enumerate(world.packets["mic"])
    ]
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        path, _ = export(WavExporter, recording, tmp_path / "out")
    with wave.open(str(path)) as file:
        file.setpos(round(0.2 * RATE))
        samples = np.frombuffer(file.readframes(125 * 768), "<i2")
    np.testing.assert_array_equal(samples, noise.reshape(-1))


def test_a_wav_of_an_array_is_of_floats(tmp_path: Path) -> None:
    world = small_world(1.0, streams=["mic"])
    world.schemas["mic"] = replace(world.schemas["mic"], payload=PayloadKind.PCM_F32, channels=5)
    block = np.full((768, 5), 0.25, "<f4").tobytes()
    world.packets["mic"] = [replace(p, payload=block) for p in world.packets["mic"]]
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        path, _ = export(WavExporter, recording, tmp_path / "out")
    with av.open(str(path)) as file:
        frames = list(file.decode(file.streams.audio[0]))
    assert frames[0].format.name == "flt"
    assert frames[-1].layout.nb_channels == 5
    assert np.concatenate([f.to_ndarray().reshape(-1) for f in frames]).max() == 0.25


# -- CSV -----------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "recording", [{"streams": ("pv", "eet", "si", "mic", "imu"), "seconds": 1.0}], indirect=True
)
def test_each_stream_becomes_a_table_with_units(recording: Recording, tmp_path: Path) -> None:
    paths = export(CsvExporter, recording, tmp_path / "out")
    assert {p.name for p in paths} == {
        *(f"{name}.csv" for name in ("pv", "eet", "si", "mic", "imu")),
        "gaps.csv",
    }
    gaze = rows_of(tmp_path / "out" / "eet.csv")
    assert len(gaze) == 90
    first = gaze[0]
    assert float(first["time_s"]) == pytest.approx(0.2)
    assert first["utc"].endswith("Z")
    assert (first["valid"], first["calibrated"]) == ("1", "1")
    assert float(first["origin_x [m]"]) == 0.0
    assert (float(first["video_x [px]"]), float(first["video_y [px]"])) == pytest.approx(
        (200.0, 90.0), abs=0.1
    )
    hands = rows_of(tmp_path / "out" / "si.csv")
    assert hands[0]["left_position_0_x [m]"] == ""
    assert float(hands[0]["right_position_5_y [m]"]) < 0
    motion = rows_of(tmp_path / "out" / "imu.csv")
    assert [float(row["value_x [m/s²]"]) for row in motion] == list(range(len(motion)))
    assert "focal_length_x [px]" in rows_of(tmp_path / "out" / "pv.csv")[0]


def test_gaps_are_a_table_in_seconds(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 60 <= p.seq < 90)
    make_recording(tmp_path / "s", world)
    with firsthand.open(tmp_path / "s", trusted=True) as recording:
        export(CsvExporter, recording, tmp_path / "out")
    last = rows_of(tmp_path / "out" / "gaps.csv")[-1]
    assert (last["stream"], last["packets_lost"]) == ("si", "30")
    assert float(last["start_s"]) == pytest.approx(0.2 + 59 / 60, abs=1e-3)
    assert float(last["stop_s"]) == pytest.approx(0.2 + 90 / 60, abs=1e-3)


def test_only_streams_that_are_asked_for_become_tables(
    recording: Recording, tmp_path: Path
) -> None:
    paths = export(CsvExporter, recording, tmp_path / "out", streams=["eet"])
    assert [p.name for p in paths] == ["eet.csv", "gaps.csv"]
    typed = CsvExporter.Config.model_validate({"streams": "eet, si"})
    assert typed == CsvExporter.Config.model_validate({"streams": ["eet", "si"]})
    with pytest.raises(RecordingError, match="no stream 'gaze'"):
        export(CsvExporter, recording, tmp_path / "again", streams=["gaze"])


def test_the_hook_offers_all_three() -> None:
    assert {exporter.name for exporter in firsthand_exporters()} == {"mp4", "wav", "csv"}
