"""The simulated headset's sensors agree on where they are and what they see, judged from bytes:
each sensor's place by its calibration (rig to sensor) and the rig's pose that travels with it."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from firsthand.testing.raw_peer import RawPeer
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process

HOST: Final = "127.0.31.2"
Array = npt.NDArray[Any]
READING: Final = np.dtype(
    [("sensor", "<u8"), ("host", "<u8"), ("xyz", "<f4", (3,)), ("temperature", "<f4")]
)


@dataclass(frozen=True)
class Told:
    objects: list[dict[str, Any]]
    started_ns: int

    def standing(self, hns: int) -> dict[str, Array]:
        """Where the marks are of what nobody holds at a moment."""
        now_s = (hns * 100 - self.started_ns) / 1e9
        return {
            thing["id"]: np.array(stay["position_m"])
            for thing in self.objects
            for stay in thing["stays"]
            if stay["from_s"] <= now_s < stay.get("until_s", np.inf)
        }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    truth: Path = tmp_path_factory.mktemp("truth")
    with Hl2ssSimulator(SimulatorConfig(host=HOST, voice=False, truth_folder=truth)):
        about = json.loads((truth / "objects.json").read_text(encoding="utf-8"))
        yield Told(about["objects"], about["clock"]["started_device_ns"])


def packets(port: int, request: bytes, count: int) -> list[tuple[int, bytes, Array]]:
    out = []
    with RawPeer(HOST, port) as client:
        client.send(request)
        for _ in range(count):
            timestamp, length = client.unpack("<QI")
            payload = client.read(int(length))
            pose = np.frombuffer(client.read(64), "<f4").reshape(4, 4)
            out.append((int(timestamp), payload, pose.astype(float)))
    return out


def calibration(port: int) -> Array:
    with RawPeer(HOST, port) as client:
        client.send(b"\x02")
        return np.frombuffer(client.rest(), "<f4")


def rig_to_sensor(port: int, cells: int) -> Array:
    return calibration(port)[2 * cells : 2 * cells + 16].reshape(4, 4).astype(float)


def to_picture(port: int, points: Array) -> Array:
    """Points ahead of a sensor, in its frame, to its pixels, as remote configuration maps them."""
    plane = (points[:, :2] / points[:, 2:3]).astype("<f4")
    with RawPeer(HOST, 3809) as client:
        client.send(struct.pack("<BIII", 0x16, port, 1, len(plane)) + plane.tobytes())
        data = client.read(8 * len(plane))
    return np.frombuffer(data, "<f4").reshape(-1, 2)


def rig_poses(times: list[int]) -> Array:
    with RawPeer(HOST, 3809) as client:
        client.send(struct.pack(f"<BI{len(times)}Q", 0x17, len(times), *times))
        data = client.read(64 * len(times))
    return np.frombuffer(data, "<f4").reshape(-1, 4, 4).astype(float)


def in_sensor(points: Array, pose: Array, from_rig: Array) -> Array:
    """From the world to a sensor: ``p_world = p_sensor · E⁻¹ · Pose``."""
    whole = np.column_stack([points, np.ones(len(points))])
    moved: Array = (whole @ np.linalg.inv(pose) @ from_rig)[:, :3]
    return moved


def seen(
    told: Told, port: int, hns: int, pose: Array, from_rig: Array, size: tuple[int, int]
) -> Iterator[tuple[Array, float]]:
    """Pixel and distance in metres of each mark that is well inside a sensor's picture."""
    points = in_sensor(np.array(list(told.standing(hns).values())), pose, from_rig)
    ahead = points[points[:, 2] > 0.2]
    for pixel, point in zip(to_picture(port, ahead), ahead, strict=True):
        if (pixel > 16).all() and (pixel < np.array(size) - 16).all():
            yield pixel, float(np.linalg.norm(point))


def far_depth(payload: bytes) -> Array:
    bgra = cv2.imdecode(np.frombuffer(payload[:-8], np.uint8), cv2.IMREAD_UNCHANGED)
    assert bgra is not None
    planes = np.frombuffer(bgra.tobytes(), "<u2").reshape(2, 288, 320)
    depth: Array = planes[0].astype(int)
    return depth


def near_depth(payload: bytes) -> Array:
    planes = np.frombuffer(payload[8:-8], "<u2").reshape(2, 512, 512)
    depth: Array = planes[0].astype(int)
    return depth


@pytest.mark.parametrize(
    ("port", "request_", "size", "wrap"),
    [
        (3805, struct.pack("<BBI", 1, 1, 0), (320, 288), None),
        (3804, struct.pack("<BBBBBIB", 1, 9, 0, 255, 255, 1, 0), (512, 512), 1055),
    ],
)
def test_depth_where_a_thing_stands_is_the_way_to_it(
    told: Told, port: int, request_: bytes, size: tuple[int, int], wrap: int | None
) -> None:
    from_rig = rig_to_sensor(port, size[0] * size[1])
    off = []
    for hns, payload, pose in packets(port, request_, 4):
        depth = near_depth(payload) if wrap else far_depth(payload)
        for (u, v), metres in seen(told, port, hns, pose, from_rig, size):
            error = depth[round(v), round(u)] - metres * 1000
            off.append((error + wrap / 2) % wrap - wrap / 2 if wrap else error)
    # A thing is a box to these sensors, as near as its nearest side; some are hidden.
    fits = np.mean([-110 < error < 30 for error in off])
    assert len(off) >= 12
    assert fits > 0.7


def still(times: list[int]) -> list[bool]:
    """Whether the head hardly turned in the last eighth of a second before each time."""
    now, before = rig_poses(times), rig_poses([t - 1_250_000 for t in times])
    return [
        bool(np.abs(a[:3, :3] - b[:3, :3]).max() < 0.004) for a, b in zip(now, before, strict=True)
    ]


@pytest.mark.parametrize("port", [3800, 3802])
def test_a_grey_picture_shows_marks_where_its_calibration_says(told: Told, port: int) -> None:
    from_rig = rig_to_sensor(port, 640 * 480)
    got = packets(port, struct.pack("<BBBBIB", 1, 3, 255, 255, 1, 0), 30)
    lit, marks = 0, 0
    # Between drawings, ten a second, a picture stays as it was.
    for (hns, payload, pose), quiet in zip(got, still([hns for hns, _, _ in got]), strict=True):
        picture = np.frombuffer(payload[:307_200], np.uint8).reshape(480, 640)
        for (u, v), _ in seen(told, port, hns, pose, from_rig, (640, 480)) if quiet else ():
            x, y = round(u), round(v)
            marks += 1
            lit += bool(picture[y - 2 : y + 3, x - 2 : x + 3].max() > 225)
    assert marks >= 12
    assert lit > 0.6 * marks, (lit, marks)  # others are hidden


def test_the_room_stands_on_its_side_in_front_pictures(told: Told) -> None:
    """Up in the world is to the left of the left picture, and to the right of the right one."""
    for port, sign in ((3800, -1), (3802, 1)):
        from_rig = rig_to_sensor(port, 640 * 480)
        (_, _, pose), *_ = packets(port, struct.pack("<BBBBIB", 1, 1, 255, 255, 1, 0), 1)
        to_world = np.linalg.inv(from_rig) @ pose
        assert sign * to_world[0, 1] > 0.7


@pytest.mark.parametrize("port", [3806, 3807])
def test_motion_is_felt_in_the_frame_that_the_calibration_tells(told: Told, port: int) -> None:
    assert told.objects
    to_rig = np.linalg.inv(calibration(port).reshape(4, 4).astype(float))
    readings = np.concatenate(
        [np.frombuffer(payload, READING) for _, payload, _ in packets(port, b"\x01", 24)]
    )
    step = 1 << 6
    at = [int(hns) for hns in readings["host"][::step]]
    axes = (to_rig @ rig_poses(at))[:, :3, :3]
    if port == 3806:
        felt = readings["xyz"][::step].astype(float)
        up = np.einsum("ni,nij->nj", felt, axes).mean(axis=0)
        assert up == pytest.approx([0, 9.81, 0], abs=0.4)
        return
    turned = []
    for before, after, start, stop in zip(axes, axes[1:], at, at[1:], strict=False):
        vector, _ = cv2.Rodrigues(before @ after.T)
        turned.append(np.degrees(vector.ravel()) / ((stop - start) / 1e7))
    felt = readings["xyz"][: step * len(turned)].reshape(len(turned), step, 3).mean(axis=1)
    assert np.abs(np.array(turned)).max() > 1.0
    assert felt == pytest.approx(np.array(turned), abs=1.5)
