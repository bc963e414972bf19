"""Poses, rays and pixels: against OpenCV, against cases worked out by hand, and never clamped."""

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.streams.geometry import (
    along,
    epipolar_segment,
    invert_pose,
    located,
    points_to_sensor,
    points_to_world,
    project,
    project_points,
    rays_to_world,
    rigid,
)

pytestmark = pytest.mark.unit

Array = npt.NDArray[np.float64]
HD = (1920, 1080)
FOCAL = (1453.77, 1455.95)
PRINCIPAL = (945.22, 510.87)
AT_ORIGIN = np.eye(4)


def pose(axis: tuple[float, float, float], angle: float, t: tuple[float, float, float]) -> Array:
    """A pose turned by ``angle`` about ``axis`` (Rodrigues), as row vectors."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turn = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)
    result = np.eye(4)
    result[:3, :3] = turn.T
    result[3, :3] = t
    return result


def floats(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_subnormal=False)


axes = st.tuples(floats(-1, 1), floats(-1, 1), floats(-1, 1)).filter(
    lambda axis: bool(np.linalg.norm(axis) > 0.1)
)
places = st.tuples(floats(-5, 5), floats(-5, 5), floats(-5, 5))
poses = st.builds(pose, axes, floats(-3.1, 3.1), places)


@pytest.mark.parametrize(
    ("point", "pixel"),
    [
        # Straight ahead: the principal point. One metre ahead: f times the offset in metres.
        ((0.0, 0.0, -1.0), (945.22, 510.87)),
        ((0.1, 0.0, -1.0), (1090.597, 510.87)),
        ((0.0, 0.1, -1.0), (945.22, 365.275)),
        ((-0.2, -0.1, -2.0), (799.843, 583.6675)),
        # Behind the camera, in its plane, and out of the picture on each side.
        ((0.0, 0.0, 1.0), None),
        ((0.1, 0.1, 0.0), None),
        ((1.0, 0.0, -1.0), None),
        ((-1.0, 0.0, -1.0), None),
        ((0.0, 1.0, -1.0), None),
        ((0.0, -1.0, -1.0), None),
        ((np.nan, 0.0, -1.0), None),
    ],
)
def test_points_before_a_camera_at_the_origin(
    point: tuple[float, float, float], pixel: tuple[float, float] | None
) -> None:
    found = project_points([point], AT_ORIGIN, FOCAL, PRINCIPAL, HD)[0]
    if pixel is None:
        assert np.isnan(found).all()
    else:
        assert found == pytest.approx(pixel, abs=1e-9)


def test_a_camera_that_was_moved_and_turned_to_the_left() -> None:
    """At (1, 2, 3), turned 90° to the left about +y: its −z is the world's −x."""
    m = np.array([[0, 0, -1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 2, 3, 1]], dtype=np.float64)
    # Two metres to the world's left, 0.4 m up, 0.2 m towards the wearer's old back (+z: left).
    found = project_points([[-1.0, 2.4, 3.2]], m, (1000.0, 1000.0), (960.0, 540.0), HD)
    assert found[0] == pytest.approx((860.0, 340.0))


def test_the_edges_belong_to_the_picture_on_the_upper_left_only() -> None:
    corners = [[-1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, -1.0], [0.9999, -0.9999, -1.0]]
    found = project_points(corners, AT_ORIGIN, (50.0, 50.0), (50.0, 50.0), (100, 100))
    assert found[0] == pytest.approx((0.0, 0.0))
    assert np.isnan(found[1:3]).all()
    assert found[3] == pytest.approx((99.995, 99.995))


@settings(deadline=None)
@given(
    pose=poses,
    points=st.lists(
        st.tuples(floats(-2, 2), floats(-2, 2), floats(-8, 8)), min_size=1, max_size=20
    ),
    focal=st.tuples(floats(300, 2000), floats(300, 2000)),
    principal=st.tuples(floats(100, 1800), floats(100, 1000)),
    single=st.booleans(),
)
def test_projection_agrees_with_opencv_and_with_the_matrix_form(
    pose: Array,
    points: list[tuple[float, float, float]],
    focal: tuple[float, float],
    principal: tuple[float, float],
    single: bool,
) -> None:
    """Within 0.001 px, also when the pose went through the headset's float32."""
    if single:
        pose = pose.astype(np.float32).astype(np.float64)
    world = np.array(points) @ pose[:3, :3] + pose[3, :3]  # about the camera, on both sides
    found = project_points(world, pose, focal, principal, HD)

    # OpenCV's camera has +z ahead and +y down, and takes column vectors: x_cam = R x + t.
    inverse = np.linalg.inv(pose)
    flip = np.diag([1.0, -1.0, -1.0])
    turn, shift = flip @ inverse[:3, :3].T, flip @ inverse[3, :3]
    matrix = np.array([[focal[0], 0, principal[0]], [0, focal[1], principal[1]], [0, 0, 1.0]])
    projected, _ = cv2.projectPoints(world, cv2.Rodrigues(turn)[0], shift, matrix, None)
    by_opencv = np.asarray(projected, dtype=np.float64).reshape(-1, 2)

    k = np.array(
        [
            [-focal[0], 0, 0, 0],
            [0, focal[1], 0, 0],
            [principal[0], principal[1], 1, 0],
            [0, 0, 0, 1.0],
        ]
    )
    homogeneous = np.column_stack((world, np.ones(len(world)))) @ inverse @ k
    for n, z in enumerate((np.column_stack((world, np.ones(len(world)))) @ inverse)[:, 2]):
        u, v = by_opencv[n]
        if z < -1e-3:
            # Far outside the picture the float32 of the pose counts by the distance.
            by_matrix = homogeneous[n, :2] / homogeneous[n, 2]
            assert by_matrix == pytest.approx(by_opencv[n], abs=1e-2, rel=1e-5)
            if 0.01 < u < HD[0] - 0.01 and 0.01 < v < HD[1] - 0.01:
                assert found[n] == pytest.approx(by_opencv[n], abs=1e-3)
            elif not (-0.01 <= u <= HD[0] + 0.01 and -0.01 <= v <= HD[1] + 0.01):
                assert np.isnan(found[n]).all()
        elif z >= 0:
            assert np.isnan(found[n]).all()


def test_every_frame_has_its_own_pose_and_intrinsics() -> None:
    frames = 50
    rng = np.random.default_rng(5)
    many = np.array([pose((0, 1, 0), angle, (angle, 0, 0)) for angle in rng.normal(0, 0.3, frames)])
    focal = rng.uniform(900, 1500, (frames, 2))
    principal = rng.uniform(400, 600, (frames, 2))
    points = rng.normal(0, 0.3, (frames, 3)) + np.array([0, 0, -2])
    together = project(points, many, focal, principal, HD)
    one_by_one = [
        project_points(points[n : n + 1], many[n], focal[n], principal[n], HD)[0]
        for n in range(frames)
    ]
    np.testing.assert_allclose(together, one_by_one, atol=1e-9)
    assert np.isfinite(together).any()


def test_a_hand_in_many_frames_is_projected_at_once() -> None:
    joints = np.random.default_rng(2).normal(0, 0.1, (4, 26, 3)) + np.array([0, 0, -0.6])
    many = np.stack([AT_ORIGIN] * 4)[:, None]
    found = project(joints, many, np.full((4, 1, 2), 1450.0), np.full((4, 1, 2), 540.0), HD)
    assert found.shape == (4, 26, 2)
    assert found[2, 7] == pytest.approx(
        project_points(joints[2], AT_ORIGIN, (1450, 1450), (540, 540), HD)[7], nan_ok=True
    )


@settings(deadline=None)
@given(poses)
def test_a_pose_and_its_inverse_cancel_in_spite_of_float32(pose: Array) -> None:
    noisy = pose.astype(np.float32)
    inverse = invert_pose(noisy)
    np.testing.assert_allclose(noisy.astype(np.float64) @ inverse, np.eye(4), atol=5e-6)
    turn, _ = rigid(noisy)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(turn) == pytest.approx(1.0)
    points = np.random.default_rng(0).normal(0, 3, (10, 3))
    there_and_back = points_to_sensor(points_to_world(points, noisy), noisy)
    np.testing.assert_allclose(there_and_back, points, atol=1e-12)


def test_an_unlocated_pose_makes_everything_absent() -> None:
    nowhere = np.zeros((4, 4))
    assert located(np.stack([AT_ORIGIN, nowhere])).tolist() == [True, False]
    assert not invert_pose(nowhere).any()
    assert np.isnan(project_points([[0, 0, -1.0]], nowhere, FOCAL, PRINCIPAL, HD)).all()
    origin, direction = rays_to_world([0.0, 0, 0], [0.0, 0, -1], nowhere)
    assert np.isnan(origin).all()
    assert np.isnan(direction).all()
    broken = np.full((4, 4), np.nan)
    assert np.isnan(project_points([[0, 0, -1.0]], broken, FOCAL, PRINCIPAL, HD)).all()


def test_a_ray_goes_to_the_world_with_its_origin_moved_and_its_direction_only_turned() -> None:
    turned = pose((0, 1, 0), np.pi / 2, (1.0, 2.0, 3.0))
    origins, directions = rays_to_world(
        [[0.0, 0.0, 0.1], [0.0, 0.0, 0.0]], [[0.0, 0.0, -2.0], [0.0, 0.0, 0.0]], turned
    )
    np.testing.assert_allclose(origins[0], [1.1, 2.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(directions[0], [-1.0, 0.0, 0.0], atol=1e-12)
    assert np.isnan(origins[1]).all()
    assert np.isnan(directions[1]).all()
    np.testing.assert_allclose(along(origins, directions, [2.0, 2.0])[0], [-0.9, 2.0, 3.0])


def test_the_gaze_lies_on_its_epipolar_segment_at_every_distance() -> None:
    eye = np.array([0.0, 0.06, 0.0])
    ahead = np.array([0.1, -0.05, -1.0])
    ahead /= np.linalg.norm(ahead)
    segment = epipolar_segment(eye, ahead, AT_ORIGIN, FOCAL, PRINCIPAL, HD, steps=33)
    assert segment.shape == (33, 2)
    assert np.isfinite(segment).all()
    first, last = segment[0], segment[-1]
    for distance in (0.3, 0.5, 1.0, 3.0, 10.0):
        point = along(eye, ahead, distance)
        pixel = project_points(point[None], AT_ORIGIN, FOCAL, PRINCIPAL, HD)[0]
        way = last - first
        across = way[0] * (pixel - first)[1] - way[1] * (pixel - first)[0]
        assert abs(across / np.linalg.norm(way)) < 1e-6
    assert first == pytest.approx(
        project_points(along(eye, ahead, 0.3)[None], AT_ORIGIN, FOCAL, PRINCIPAL, HD)[0]
    )
