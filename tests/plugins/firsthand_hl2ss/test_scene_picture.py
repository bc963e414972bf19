"""The scene's picture, poses, gaze and hands agree with each other."""

from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from firsthand_hl2ss.simulator.render import LOOKS
from firsthand_hl2ss.simulator.render_canvas import to_yuv
from firsthand_hl2ss.simulator.scene import SceneSource
from firsthand_hl2ss.simulator.scene_world import BY_ID

pytestmark = pytest.mark.unit

SIZES = [(1920, 1080), (1280, 720), (760, 428)]
Array = npt.NDArray[Any]


@cache
def source(scene: str) -> SceneSource:
    return SceneSource(scene, seed=3, voice=False)


def project(scene: SceneSource, point: Array, t_s: float, size: tuple[int, int]) -> Array | None:
    """The protocol's formula, written out here once more."""
    pose = scene.pv_pose(t_s).astype(float)
    metadata = scene.pv_metadata(t_s, *size)
    c = (point - pose[3, :3]) @ pose[:3, :3].T
    if c[2] >= 0:
        return None
    u = metadata.principal_point[0] + metadata.focal_length[0] * c[0] / -c[2]
    v = metadata.principal_point[1] - metadata.focal_length[1] * c[1] / -c[2]
    return np.array([u, v])


def mark_at(luma: Array, pixel: Array, reach: int) -> Array | None:
    """Middle of the light disc that covers a pixel; None if something else is there."""
    x, y = (round(float(c)) for c in pixel)
    part = luma[y - reach : y + reach + 1, x - reach : x + reach + 1]
    if part.shape != (2 * reach + 1, 2 * reach + 1) or part[reach, reach] < 190:
        return None
    _, labels, stats, _ = cv2.connectedComponentsWithStats((part > 150).astype(np.uint8))
    label = labels[reach, reach]
    left, top, width, height, _ = stats[label]
    whole = left > 0 and top > 0 and left + width < 2 * reach and top + height < 2 * reach
    if not whole or not 0.6 < width / height < 1.7:
        return None
    weight = np.where(labels == label, part.astype(float), 0.0)
    rows, columns = np.mgrid[: 2 * reach + 1, : 2 * reach + 1]
    middle: Array = np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum()
    whole_picture: Array = middle + np.array([x - reach, y - reach])
    return whole_picture


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scene", ["demonstration", "replication"])
def test_marks_are_drawn_where_pose_and_intrinsics_say(scene: str, size: tuple[int, int]) -> None:
    told = source(scene)
    width, height = size
    reach = max(8, width // 50)
    found, expected = 0, 0
    for t_s in np.arange(0.7, told.duration_s, 3.1):
        luma = told.frame(t_s, 0, width, height)[:height]
        for thing in BY_ID:
            pixel = project(told, told.wearer.mark(thing, t_s), t_s, size)
            if pixel is None or not (
                0.05 * width < pixel[0] < 0.95 * width and 0.12 * height < pixel[1] < 0.95 * height
            ):
                continue
            expected += 1
            seen = mark_at(luma, pixel, reach)
            if seen is not None:
                found += 1
                assert np.abs(seen - pixel).max() <= 1.0, (thing, t_s, seen, pixel)
    assert expected > 15
    assert found > 0.7 * expected  # the rest is behind hands, boards or other things


@pytest.mark.parametrize("scene", ["demonstration", "replication"])
def test_the_gaze_ray_passes_through_what_is_fixated(scene: str) -> None:
    told = source(scene)
    checked = 0
    for fixation in told.script.fixations:
        t_s = (fixation.start_s + fixation.stop_s) / 2
        sample = told.eye(t_s)
        if told.wearer.blinking(t_s):
            assert not sample.combined.valid
            continue
        pose = sample.pose.astype(float)
        aim = told.wearer.aim(fixation, t_s)
        for ray in (sample.combined, sample.left, sample.right):
            origin = ray.origin @ pose[:3, :3] + pose[3, :3]
            direction = ray.direction @ pose[:3, :3]
            assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-5)
            along = (aim - origin) @ direction
            assert along > 0.3
            assert np.linalg.norm(origin + along * direction - aim) < 0.012
        checked += 1
    assert checked > 40


def test_the_eye_ray_of_spatial_input_leads_to_the_same_point() -> None:
    told = source("demonstration")
    fixation = next(f for f in told.script.fixations if f.stop_s - f.start_s > 0.8)
    t_s = fixation.stop_s - 0.1
    ray = told.spatial(t_s).eye
    aim = told.wearer.aim(fixation, t_s)
    along = (aim - ray.origin) @ ray.direction
    assert np.linalg.norm(ray.origin + along * ray.direction - aim) < 0.012


@pytest.mark.parametrize("scene", ["demonstration", "replication"])
def test_hands_are_drawn_at_their_joints(scene: str) -> None:
    told = source(scene)
    _, *tone = to_yuv(LOOKS[scene][0])
    size = width, height = 1280, 720
    hits, checked = 0, 0
    for move in told.script.moves:
        t_s = (move.grasp_s + move.release_s) / 2
        frame = told.frame(t_s, 0, width, height)
        chroma = frame[height:].reshape(height // 2, width // 2, 2)
        spatial = told.spatial(t_s)
        hand = spatial.right if move.hand == "right" else spatial.left
        for joint in (0, 8, 9, 13, 14):
            pixel = project(told, hand.position[joint].astype(float), t_s, size)
            if pixel is None or not (0 <= pixel[0] < width and 90 <= pixel[1] < height):
                continue
            checked += 1
            u, v = chroma[int(pixel[1]) // 2, int(pixel[0]) // 2].astype(int)
            hits += abs(u - tone[0]) <= 4 and abs(v - tone[1]) <= 4
    assert checked >= 12
    assert hits >= 0.8 * checked


@pytest.mark.parametrize("scene", ["demonstration", "replication"])
def test_a_hand_is_tracked_while_it_carries_and_not_out_of_view(scene: str) -> None:
    told = source(scene)
    for move in told.script.moves:
        carrying = told.spatial((move.grasp_s + move.release_s) / 2)
        hand = carrying.right if move.hand == "right" else carrying.left
        assert hand.valid
    samples = [told.spatial(t_s) for t_s in np.arange(0.0, 40.0, 0.5)]
    for tracked in ([s.left.valid for s in samples], [s.right.valid for s in samples]):
        assert 0.2 < np.mean(tracked) < 0.9


def test_a_carried_thing_is_in_the_hand() -> None:
    told = source("demonstration")
    for move in told.script.moves:
        for share in (0.05, 0.5, 0.95):
            t_s = move.grasp_s + share * (move.release_s - move.grasp_s)
            spatial = told.spatial(t_s)
            hand = spatial.right if move.hand == "right" else spatial.left
            away = np.linalg.norm(hand.position[0] - told.wearer.mark(move.thing, t_s))
            assert away < 0.20
        before = told.wearer.mark(move.thing, move.grasp_s - 0.01)
        after = told.wearer.mark(move.thing, move.release_s + 0.01)
        assert np.linalg.norm(before - after) > 0.2


def test_hand_joints_follow_the_order_of_the_wire() -> None:
    hand = source("demonstration").spatial(6.9).left
    wrist = hand.position[1]
    for tip, knuckle in ((10, 7), (15, 12), (20, 17), (25, 22)):
        assert np.linalg.norm(hand.position[tip] - wrist) > np.linalg.norm(
            hand.position[knuckle] - wrist
        )
    assert np.allclose(np.linalg.norm(hand.orientation, axis=1), 1, atol=1e-5)
    across = hand.position[7] - hand.position[22]
    assert 0.04 < np.linalg.norm(across) < 0.09  # index knuckle to little knuckle


def test_orientations_turn_the_fingers_ahead_along_their_bones() -> None:
    hand = source("demonstration").spatial(6.9).right
    x, y, z, w = hand.orientation[8].astype(float)
    back = np.array([2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)])
    bone = (hand.position[8] - hand.position[7]).astype(float)
    assert -back @ bone / np.linalg.norm(bone) > 0.97


def test_poses_are_rigid_and_the_rig_is_five_centimetres_from_the_camera() -> None:
    told = source("replication")
    for t_s in (0.0, 11.3, 40.0, 90.0):
        for pose in (told.pv_pose(t_s), told.rig_pose(t_s), told.eye(t_s).pose):
            assert pose.dtype == np.float32
            assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-5)
            assert np.linalg.det(pose[:3, :3]) == pytest.approx(1, abs=1e-4)
            assert pose[3, 3] == 1
        away = told.rig_pose(t_s)[3, :3] - told.pv_pose(t_s)[3, :3]
        local = away @ told.pv_pose(t_s)[:3, :3].T
        assert local[0] == pytest.approx(-0.050, abs=0.002)  # to the left
        assert local[1] == pytest.approx(0.003, abs=0.002)
        assert local[2] == pytest.approx(0.014, abs=0.002)


def test_intrinsics_scale_with_the_size_and_breathe_with_the_focus() -> None:
    told = source("demonstration")
    large, small = told.pv_metadata(5.0, 1920, 1080), told.pv_metadata(5.0, 960, 540)
    assert large.focal_length[0] == pytest.approx(2 * small.focal_length[0])
    assert large.focal_length[0] == pytest.approx(1453.77, rel=0.01)
    values = {told.pv_metadata(t, 1920, 1080).focal_length for t in (0.0, 2.0, 4.0)}
    assert len(values) == 3


def test_the_same_seed_shows_the_same_and_another_does_not() -> None:
    again = SceneSource("demonstration", seed=3, voice=False)
    other = SceneSource("demonstration", seed=4, voice=False)
    told = source("demonstration")
    assert np.array_equal(again.frame(9.0, 5, 424, 240), told.frame(9.0, 5, 424, 240))
    assert np.array_equal(again.sound(40_000, 9000), told.sound(40_000, 9000))
    assert np.array_equal(again.eye(4.2).combined.direction, told.eye(4.2).combined.direction)
    assert not np.array_equal(other.frame(9.0, 5, 424, 240), told.frame(9.0, 5, 424, 240))
    assert told.truth() == again.truth()
