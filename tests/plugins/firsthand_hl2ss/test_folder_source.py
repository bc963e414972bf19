"""Recorded video, gaze, hands and sound shown as a headset's senses."""

import os
import shutil
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from firsthand.api import SettingsError
from firsthand_hl2ss.simulator.counter import read_counter
from firsthand_hl2ss.simulator.folder_source import FolderSource
from firsthand_hl2ss.simulator.folder_tracks import read_aria, read_hands, read_neon
from firsthand_hl2ss.simulator.folder_video import Letterbox
from firsthand_hl2ss.simulator.source import SOUND_HZ, SensorSource

pytestmark = pytest.mark.unit

SIZES = [(1920, 1080), (760, 428), (500, 282)]


def shared() -> Path | None:
    """The folder of data shared between projects, which is not part of this one."""
    if "FIRSTHAND_SHARED" in os.environ:
        return Path(os.environ["FIRSTHAND_SHARED"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "data").is_dir():
            return folder / "shared" / "data"
    return None


def data(name: str) -> Path:
    folder = shared()
    path = folder / name if folder else None
    if path is None or not path.exists():
        pytest.skip(f"shared data {name} is not here; FIRSTHAND_SHARED names its folder")
    return path


LEVELS = (40, 90, 140, 190, 230)


def make_video(path: Path, size: tuple[int, int] = (320, 240), rate: int = 10) -> None:
    """A second and a half of even grey, another level every three pictures."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "5", "x264-params": "bframes=0"}
        stream.codec_context.color_range = 2
        for i in range(15):
            grey = np.full((size[1], size[0], 3), LEVELS[i // 3], np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="rgb24")
            frame = frame.reformat(format="yuv420p", dst_color_range=2)
            frame.pts, frame.time_base = i, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def make_wav(path: Path, seconds: float, onset_s: float) -> None:
    rate = 16_000
    t = np.arange(round(seconds * rate)) / rate
    tone = np.where(t >= onset_s, 0.4 * np.sin(2 * np.pi * 700 * (t - onset_s)), 0.0)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((tone * 32767).astype("<i2").tobytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_video(tmp_path / "clip.mp4")
    rows = "".join(f"{i / 60},{20 + 3 * i},{30 + 2 * i}\n" for i in range(90))
    (tmp_path / "gaze.csv").write_text("time_s,x_px,y_px\n" + rows + "1.51,,\n")
    make_wav(tmp_path / "voice.wav", 2.0, 0.5)
    return tmp_path


@pytest.fixture
def told(folder: Path) -> "FolderSource":
    return FolderSource(folder)


def test_a_folder_is_a_sensor_source(told: FolderSource) -> None:
    source: SensorSource = told
    assert "clip.mp4 is shown with gaze and sound" in source.words()
    assert source.duration_s == pytest.approx(1.5, abs=0.01)
    told.close()
    told.close()


def test_each_moment_shows_the_picture_of_its_time(told: FolderSource) -> None:
    for t_s, level in ((0.0, 0), (0.25, 0), (0.31, 1), (1.45, 4), (0.65, 2), (1.5 + 0.35, 1)):
        nv12 = told.frame(t_s, 77, 760, 428)
        assert abs(int(nv12[300, 380]) - LEVELS[level]) < 6
        assert read_counter(nv12[:428]) == 77
    told.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_picture_keeps_its_shape_between_bars(
    told: FolderSource, size: tuple[int, int]
) -> None:
    luma = told.frame(1.4, 0, *size)[: size[1]]
    middle = luma[size[1] // 2]
    lit = np.flatnonzero(middle > 100)
    assert abs(len(lit) - size[1] * 4 / 3) <= 3
    assert abs(lit[0] - (size[0] - 1 - lit[-1])) <= 3
    told.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_gaze_ray_projects_to_the_recorded_pixel(
    told: FolderSource, size: tuple[int, int]
) -> None:
    metadata = told.pv_metadata(0.0, *size)
    box = Letterbox((320, 240), size)
    for i in range(0, 90, 7):
        t_s = i / 60
        sample = told.eye(t_s)
        pose = told.pv_pose(t_s).astype(float)
        tracker = sample.pose.astype(float)
        for depth in (0.4, 3.0):
            local = sample.combined.origin + depth * sample.combined.direction
            world = local @ tracker[:3, :3] + tracker[3, :3]
            c = (world - pose[3, :3]) @ pose[:3, :3].T
            u = metadata.principal_point[0] + metadata.focal_length[0] * c[0] / -c[2]
            v = metadata.principal_point[1] - metadata.focal_length[1] * c[1] / -c[2]
            assert (u, v) == pytest.approx(box.pixel(20 + 3 * i, 30 + 2 * i), abs=0.05)
    told.close()


def test_gaze_that_was_not_measured_is_not_valid(folder: Path) -> None:
    rows = [f"{i / 50},100,100" for i in range(60) if not 20 <= i < 40]
    rows[10] = f"{10 / 50},,"
    (folder / "gaze.csv").write_text("time_s,x_px,y_px\n" + "\n".join(rows) + "\n")
    told = FolderSource(folder)
    seen = {t_s: told.eye(t_s).combined.valid for t_s in (0.1, 0.2, 0.38, 0.6, 0.9, 1.4)}
    assert seen == {0.1: True, 0.2: False, 0.38: True, 0.6: False, 0.9: True, 1.4: False}
    assert not told.spatial(0.6).eye.valid
    told.close()


def test_a_hand_stands_where_its_file_says(folder: Path) -> None:
    names = [
        f"t{a}_{s}_{p}_device" for s in ("left", "right") for p in ("wrist", "palm") for a in "xyz"
    ]
    heading = ["tracking_timestamp_us", "left_tracking_confidence", "right_tracking_confidence"]
    lines = [",".join([*heading, *names])]
    for i in range(10):
        values = [5_000_000 + 100_000 * i, -1, 0.9 if i < 5 else -1, *[0] * 6]
        lines.append(",".join(map(str, [*values, 0.30, -0.30, 0.25, 0.27, -0.28, 0.30])))
    (folder / "wrist_and_palm_poses.csv").write_text("\n".join(lines) + "\n")
    told = FolderSource(folder)
    hand = told.spatial(0.2).right
    assert hand.valid
    assert not told.spatial(0.2).left.valid
    assert not told.spatial(0.9).right.valid
    palm, wrist = hand.position[0], hand.position[1]
    assert palm[1] < -0.2  # below the eyes
    assert palm[2] < -0.3  # ahead
    assert np.linalg.norm(palm - wrist) == pytest.approx(
        np.linalg.norm([0.03, 0.02, 0.05]), abs=1e-3
    )
    told.close()


def test_a_sound_file_is_heard_in_its_time_and_begins_anew(told: FolderSource) -> None:
    sound = told.sound(0, 2 * SOUND_HZ)
    onset = int(np.flatnonzero(np.abs(sound) > 0.1)[0])
    assert abs(onset - 0.5 * SOUND_HZ) < 48
    again = told.sound(2 * SOUND_HZ, SOUND_HZ)
    assert np.allclose(again, sound[:SOUND_HZ], atol=1e-6)
    assert not told.sound(-1000, 1000).any()
    told.close()


def test_without_looping_the_last_picture_stays_and_sound_ends(folder: Path) -> None:
    told = FolderSource(folder, loop=False)
    assert abs(int(told.frame(9.0, 0, 424, 240)[200, 212]) - LEVELS[4]) < 6
    assert not told.sound(10 * SOUND_HZ, 100).any()
    told.close()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("clip.mp4", b"this is no video at all", "could not be read"),
        ("notes.txt", b"nothing here", "no video"),
        ("clip.avi", b"", "could not be read"),
    ],
)
def test_what_cannot_be_read_is_told_in_words(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=words) as caught:
        FolderSource(tmp_path)
    assert caught.value.try_this


def test_a_missing_path_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing at"):
        FolderSource(tmp_path / "absent")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", "no rows"),
        ("0.0,1\n", "no column 'y_px'"),
        ("0.0,a,2\n", "not every cell"),
        ("1.0,1,2\n0.5,1,2\n", "do not go forward"),
    ],
)
def test_gaze_that_cannot_be_used_is_told_in_words(folder: Path, rows: str, words: str) -> None:
    heading = "time_s,x_px\n" if "no column" in words else "time_s,x_px,y_px\n"
    (folder / "gaze.csv").write_text(heading + rows)
    with pytest.raises(SettingsError, match=words):
        FolderSource(folder)


def test_neon_gaze_goes_with_its_times(tmp_path: Path) -> None:
    make_video(tmp_path / "scene.mp4", (400, 300))
    pixels = np.array([[800, 600], [400, 300], [np.nan, np.nan]], "<f4")
    pixels.tofile(tmp_path / "gaze ps1.raw")
    np.array([5_000_000_000, 5_100_000_000, 5_200_000_000], "<i8").tofile(
        tmp_path / "gaze ps1.time"
    )
    np.array([255, 0, 255], "u1").tofile(tmp_path / "worn ps1.raw")
    told = FolderSource(tmp_path)
    first = told.eye(0.0)
    assert first.combined.valid
    assert np.abs(first.combined.direction[:2]).max() < 0.002  # the picture's middle
    assert not told.eye(0.1).worn
    assert not told.eye(0.2).combined.valid
    assert not told.eye(0.9).combined.valid
    told.close()
    (tmp_path / "gaze ps1.time").write_bytes(b"\0" * 8)
    with pytest.raises(SettingsError, match="does not go with"):
        FolderSource(tmp_path)


def test_a_real_neon_recording_is_read() -> None:
    gaze = read_neon(data("neon-recording-no-video") / "gaze ps1.raw")
    assert len(gaze.times_s) == 1788
    assert gaze.times_s[-1] - gaze.times_s[0] == pytest.approx(8.96, abs=0.05)
    assert gaze.worn.all()


def test_real_aria_gaze_and_hands_are_read() -> None:
    sample = data("aria-mps-sample")
    gaze = read_aria(sample / "eye_gaze" / "eyegaze.csv")
    assert len(gaze.times_s) == 123
    assert (gaze.values[:, 2] < 0).all()  # ahead
    assert gaze.values[0, 0] < -0.7  # first far to the left
    hands = read_hands(sample / "hand_tracking" / "wrist_and_palm_poses.csv")
    palms = hands["right"].palm
    seen = palms[np.isfinite(palms).all(axis=1)]
    assert len(seen) == 6
    assert (seen[:, 1] < -0.1).all()  # below the eyes
    assert (seen[:, 0] > 0.05).all()  # to the right
    assert not np.isfinite(hands["left"].palm).any()


def test_a_real_clip_is_shown_with_gaze_and_hands_of_others(tmp_path: Path) -> None:
    clip = data("egocentric-clip-outdoor/test_lp_video.mp4")
    sample = data("aria-mps-sample")
    told = FolderSource(
        clip,
        gaze=data("neon-recording-no-video") / "gaze ps1.raw",
        hands=sample / "hand_tracking" / "wrist_and_palm_poses_v2.csv",
    )
    try:
        assert told.duration_s == pytest.approx(2.4, abs=0.01)
        one, two = (told.frame(t, i, 760, 428) for i, t in enumerate((0.05, 1.25)))
        assert np.abs(one.astype(int) - two).mean() > 2
        assert [read_counter(p[:428]) for p in (one, two)] == [0, 1]
        assert np.abs(told.sound(0, SOUND_HZ)).max() > 0.001
        assert told.eye(1.0).combined.valid
        assert told.spatial(1.0).left.position.shape == (26, 3)
    finally:
        told.close()


def test_real_speech_is_heard_beside_a_clip(tmp_path: Path) -> None:
    make_video(tmp_path / "clip.mp4")
    shutil.copy(data("speech/whisper/jfk.flac"), tmp_path / "jfk.flac")
    told = FolderSource(tmp_path)
    try:
        assert np.abs(told.sound(3 * SOUND_HZ, SOUND_HZ)).max() > 0.05
        assert told.truth().source["files"]["sound"] == "jfk.flac"
    finally:
        told.close()
