"""The scene's story: what is said, done and looked at, and the files that tell of it."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from firsthand.api import SettingsError, StorageError
from firsthand_hl2ss.simulator.scene import SceneSource
from firsthand_hl2ss.simulator.scene_script import Scene, write_script
from firsthand_hl2ss.simulator.source import SOUND_HZ, GreyCamera, Motion, SensorSource
from firsthand_hl2ss.simulator.truth import write_truth

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def told() -> SceneSource:
    return SceneSource("demonstration", seed=1, voice=False)


def test_a_scene_is_a_sensor_source(told: SceneSource) -> None:
    source: SensorSource = told
    assert source.words().endswith(".")


def test_the_demonstration_thinks_aloud_and_ends_by_saying_so() -> None:
    script = write_script(Scene.DEMONSTRATION, 1)
    assert 40 <= script.duration_s <= 60
    assert script.lines[-1].text == "Task complete."
    assert len(script.moves) >= 5
    assert script.segments[0].kind == "introduction"
    assert script.segments[-1].kind == "closing"


def test_the_replication_asks_before_it_acts() -> None:
    script = write_script(Scene.REPLICATION, 1)
    assert 40 <= script.duration_s <= 60
    calls = [line.start_s for line in script.lines if line.text == "Hey agent."]
    assert len(calls) == len(script.moves) >= 3
    for call, move in zip(calls, script.moves, strict=True):
        assert call + 4 < move.grasp_s
        looked = [f for f in script.fixations if f.start_s < call and f.target == move.thing]
        assert looked  # only what is looked at before the word is seen by the assistant


@pytest.mark.parametrize("scene", list(Scene))
@pytest.mark.parametrize("duration_s", [6.0, 20.0, 60.0, 200.0])
def test_a_story_lasts_as_long_as_asked_without_holes(scene: Scene, duration_s: float) -> None:
    script = write_script(scene, 2, duration_s)
    assert script.duration_s >= duration_s
    assert script.duration_s <= max(duration_s, 9.0) + 0.01
    edges = [(s.start_s, s.stop_s) for s in script.segments]
    assert edges[0][0] == 0
    for (_, stop), (start, _) in pairwise(edges):
        assert start == pytest.approx(stop, abs=0.002)
    assert all(f.stop_s - f.start_s <= 2.0 for f in script.fixations)
    long_enough = [f.stop_s - f.start_s >= 0.3 for f in script.fixations]
    assert np.mean(long_enough) > 0.95
    for one, two in pairwise(script.fixations):
        assert one.stop_s <= two.start_s
    for first, second in pairwise(script.moves):
        assert first.rest_s <= second.reach_s


def test_nothing_is_put_where_something_stands() -> None:
    script = write_script(Scene.DEMONSTRATION, 5, 300.0)
    where = dict(script.start)
    for move in script.moves:
        assert where[move.thing] == move.start
        where[move.thing] = move.stop
        assert len(set(where.values())) == len(where)


def test_a_scene_too_short_for_a_story_is_refused() -> None:
    with pytest.raises(SettingsError, match="too short"):
        write_script(Scene.DEMONSTRATION, 0, 2.0)


def test_there_are_things_of_all_task_families(told: SceneSource) -> None:
    objects = told.truth().objects
    assert len(objects) >= 8
    families = {thing["family"] for thing in objects}
    assert families == {"organize_room", "shopping", "morning_routine"}


def test_speech_is_heard_when_the_truth_says_so(told: SceneSource) -> None:
    for said in told.truth().utterances:
        start, stop = (round(said[k] * SOUND_HZ) for k in ("start_s", "stop_s"))
        inside = told.sound(start, stop - start)
        assert np.sqrt(np.mean(inside**2)) > 0.02
        assert not said["words"]
        before = told.sound(start - 4000, 3000)
        assert np.sqrt(np.mean(before**2)) < 0.25 * np.sqrt(np.mean(inside**2))


def test_a_thing_is_heard_the_moment_it_is_put_down(told: SceneSource) -> None:
    speech = [(u["start_s"], u["stop_s"]) for u in told.truth().utterances]
    checked = 0
    for sound in told.truth().sounds:
        at_s = sound["at_s"]
        if any(start - 0.1 < at_s < stop + 0.1 for start, stop in speech):
            continue
        at = round(at_s * SOUND_HZ)
        around = np.abs(told.sound(at - 2400, 4800))
        onset = int(np.flatnonzero(around > 0.03)[0]) + at - 2400
        assert abs(onset - at) < 24  # half a millisecond
        checked += 1
    assert checked >= 2


def test_sound_in_pieces_is_the_same_as_in_one(told: SceneSource) -> None:
    whole = told.sound(-500, 30_000)
    pieces = [told.sound(-500 + i, min(768, 30_000 - i)) for i in range(0, 30_000, 768)]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert not whole[:500].any()


def test_a_looping_scene_begins_again() -> None:
    looped = SceneSource("demonstration", seed=1, duration_s=10.0, loop=True, voice=False)
    length = looped.duration_s
    assert np.allclose(looped.pv_pose(1.5 + length), looped.pv_pose(1.5), atol=1e-6)
    samples = round(length * SOUND_HZ)
    over = looped.sound(samples - 100, 300)
    assert np.array_equal(over[100:], looped.sound(0, 200))


def test_the_wearer_stays_after_the_end(told: SceneSource) -> None:
    late = told.duration_s + 100.0
    assert np.isfinite(told.pv_pose(late)).all()
    assert told.eye(late).worn
    assert told.sound(round(late * SOUND_HZ), 100).shape == (100,)
    assert told.frame(late, 1, 424, 240).shape == (360, 424)


def test_motion_sensors_feel_gravity_and_turning(told: SceneSource) -> None:
    felt = told.motion(Motion.ACCELEROMETER, 0.0, 20.0)
    assert np.linalg.norm(felt.values, axis=1).mean() == pytest.approx(9.81, abs=0.15)
    turned = told.motion(Motion.GYROSCOPE, 2.0, 10.0)
    step = np.diff(turned.times_s, append=10.0)
    speeds = np.linalg.norm(turned.values, axis=1)
    assert 5 < speeds.max() < 400
    assert (speeds * step).sum() > 10  # it looked about


def test_abutting_intervals_give_each_reading_once(told: SceneSource) -> None:
    edges = np.arange(0, 2.0, 0.085)
    parts = [
        told.motion(Motion.ACCELEROMETER, float(a), float(b)).times_s for a, b in pairwise(edges)
    ]
    whole = told.motion(Motion.ACCELEROMETER, 0.0, float(edges[-1])).times_s
    assert np.array_equal(np.concatenate(parts), whole)


def test_depth_is_that_of_the_things_ahead(told: SceneSource) -> None:
    far = told.depth_long_throw(3.0)
    assert far.depth.shape == far.brightness.shape == (288, 320)
    assert far.depth.dtype == np.uint16
    inside = far.depth[far.depth > 0]
    assert inside.size > 0.9 * far.depth.size
    assert 300 < inside.min() < 1500
    assert inside.max() < 7600
    near = told.depth_ahat(3.0)
    assert near.depth.shape == (512, 512)
    assert near.depth.max() < 1055


def test_depth_where_the_eyes_rest_is_the_distance_of_the_thing(told: SceneSource) -> None:
    checked = 0
    for fixation in told.script.fixations:
        t_s = fixation.stop_s - 0.05
        held = any(m.reach_s < t_s < m.rest_s for m in told.script.moves)
        if held or fixation.target.startswith(("shelf", "table")):
            continue
        aim = told.wearer.aim(fixation, t_s)
        pose = told.rig_pose(t_s).astype(float)
        distance = np.linalg.norm(aim - pose[3, :3]) * 1000
        depth = told.depth_long_throw(t_s).depth.astype(int)
        assert np.abs(depth - distance).min() < 60
        checked += 1
    assert checked >= 5


def test_grey_cameras_see_different_parts_of_the_room(told: SceneSource) -> None:
    pictures = {camera: told.grey(camera, 4.0) for camera in GreyCamera}
    for picture in pictures.values():
        assert picture.shape == (480, 640)
        assert picture.std() > 5
    left, right = pictures[GreyCamera.LEFT_LEFT], pictures[GreyCamera.RIGHT_RIGHT]
    assert np.abs(left.astype(int) - right).mean() > 5


def test_the_truth_lies_in_files_beside_the_recording(told: SceneSource, tmp_path: Path) -> None:
    written = write_truth(tmp_path / "truth", told, {"started_device_ns": 123})
    assert {path.name for path in written} == {
        "objects.json",
        "segments.json",
        "utterances.json",
        "fixations.json",
        "sounds.json",
    }
    for path in written:
        whole = json.loads(path.read_text(encoding="utf-8"))
        assert whole["clock"] == {"started_device_ns": 123}
        assert whole["source"]["scene"] == "demonstration"
        assert whole[path.stem]
    blinks = json.loads((tmp_path / "truth" / "fixations.json").read_text())["blinks"]
    middle = (blinks[0]["start_s"] + blinks[0]["stop_s"]) / 2
    assert not told.eye(middle).combined.valid


def test_truth_that_cannot_be_written_is_told_in_words(told: SceneSource, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match="could not be written"):
        write_truth(tmp_path / "taken", told)
