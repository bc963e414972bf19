"""What is stored of a packet, and what is refused."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import PacketFlags
from firsthand_hl2ss import parsers
from firsthand_hl2ss.config import Hl2ssConfig, ImuConfig
from firsthand_hl2ss.framing import Damaged, RawPacket
from firsthand_hl2ss.plan import StreamPlan, plans
from firsthand_hl2ss.wire import VideoProfile
from firsthand_hl2ss.wire_data import IMU_READING, SI

pytestmark = pytest.mark.unit

POSE = np.eye(4, dtype="<f4")
POSE[3, :3] = (1.5, -0.25, 2.0)
AUD = bytes.fromhex("00000001 0910")
SPS_PPS = bytes.fromhex("00000001 67640028 00000001 68ee3cb0")
IDR = bytes.fromhex("00000001 65888480")
P_SLICE = bytes.fromhex("00000001 419a2402")


def raw(payload: bytes, pose: bytes = b"") -> RawPacket:
    return RawPacket(1_000, memoryview(payload), memoryview(pose))


def plan_of(stream: str) -> StreamPlan:
    config = Hl2ssConfig(host="127.0.0.1", imu=ImuConfig())
    return next(plan for plan in plans(config) if plan.name == stream)


def record(stream: str, fields: bytes) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    return np.frombuffer(fields, plan_of(stream).schema.dtype)


def pv_tail(width: int = 1920, height: int = 1080) -> bytes:
    """The metadata of the protocol document's real sample."""
    return struct.pack(
        "<4f Q 2Q 4I 5f 2H",
        *(1453.77, 1455.95, 945.22, 510.87),
        326_610,
        *(1, 110 << 32),
        *(2145, 3, 3200, 2122),
        *(31.84, 2.05, 1.00, 1.16, 3.95),
        *(width, height),
    )


def test_a_picture_keeps_its_bytes_and_every_number_of_its_metadata() -> None:
    picture = AUD + SPS_PPS + IDR
    parsed = plan_of("pv").parse(raw(picture + pv_tail(), POSE.tobytes()))
    assert parsed is not None
    assert parsed.payload == picture
    assert parsed.flags == PacketFlags.KEY_FRAME
    (row,) = record("pv", parsed.fields)
    np.testing.assert_allclose(row["focal_length"], [1453.77, 1455.95])
    np.testing.assert_allclose(row["principal_point"], [945.22, 510.87])
    assert row["exposure_ns"] == 32_661_000
    assert row["exposure_compensation"].tolist() == [1, 110 << 32]
    assert (row["lens_position"], row["focus_state"]) == (2145, 3)
    assert (row["iso"], row["white_balance_k"]) == (3200, 2122)
    np.testing.assert_allclose(row["iso_gains"], [31.84, 2.05])
    np.testing.assert_allclose(row["white_balance_gains"], [1.0, 1.16, 3.95])
    assert row["resolution"].tolist() == [1920, 1080]
    np.testing.assert_array_equal(row["pose"], POSE)


def test_a_picture_without_content_is_nothing_to_store() -> None:
    assert plan_of("pv").parse(raw(pv_tail(), POSE.tobytes())) is None


def test_metadata_of_another_size_is_damage_unless_the_camera_is_shared() -> None:
    packet = raw(IDR + pv_tail(1280, 720), POSE.tobytes())
    with pytest.raises(Damaged, match="size"):
        plan_of("pv").parse(packet)
    shared = parsers.pv_parser(VideoProfile.H264_MAIN, None)
    assert shared(packet) is not None


@pytest.mark.parametrize(
    ("at", "value"), [(0, math.nan), (4, math.inf), (12, 1e30)], ids=["nan", "infinite", "huge"]
)
def test_an_impossible_lens_is_damage(at: int, value: float) -> None:
    tail = bytearray(pv_tail())
    struct.pack_into("<f", tail, at, value)
    with pytest.raises(Damaged, match="lens"):
        plan_of("pv").parse(raw(IDR + bytes(tail), POSE.tobytes()))


def wrong_pose(row: int, column: int, value: float) -> bytes:
    pose = POSE.copy()
    pose[row, column] = value
    return pose.tobytes()


@pytest.mark.parametrize(
    "pose",
    [
        wrong_pose(0, 3, 0.5),
        wrong_pose(3, 3, 0.0),
        wrong_pose(3, 3, 2.0),
        wrong_pose(0, 0, 3.0),
        wrong_pose(1, 1, math.nan),
        wrong_pose(3, 0, math.inf),
        wrong_pose(3, 1, 1e9),
    ],
)
def test_what_is_no_pose_is_damage(pose: bytes) -> None:
    with pytest.raises(Damaged, match="pose"):
        parsers.checked_pose(memoryview(pose))


def test_no_pose_at_all_is_good() -> None:
    assert parsers.checked_pose(memoryview(bytes(64))) == bytes(64)


def eet(validity: int) -> bytes:
    return struct.pack("<I 21f I", 0, *range(1, 22), validity)


def test_a_reading_of_the_eyes_has_every_field_in_its_place() -> None:
    parsed = plan_of("eet").parse(raw(eet(0b1111111), POSE.tobytes()))
    assert parsed is not None
    (row,) = record("eet", parsed.fields)
    assert all(row[name] for name in ("valid", "calibrated", "left_valid", "right_valid"))
    assert row["origin"].tolist() == [1, 2, 3]
    assert row["direction"].tolist() == [4, 5, 6]
    assert row["left_origin"].tolist() == [7, 8, 9]
    assert row["left_direction"].tolist() == [10, 11, 12]
    assert row["right_origin"].tolist() == [13, 14, 15]
    assert row["right_direction"].tolist() == [16, 17, 18]
    assert (row["left_openness"], row["right_openness"], row["vergence_m"]) == (19, 20, 21)
    assert row["validity"] == 0b1111111
    np.testing.assert_array_equal(row["pose"], POSE)


@given(st.integers(0, 127))
def test_what_the_eye_tracker_calls_invalid_is_not_a_number(validity: int) -> None:
    parsed = plan_of("eet").parse(raw(eet(validity), POSE.tobytes()))
    assert parsed is not None
    (row,) = record("eet", parsed.fields)
    assert row["calibrated"] == bool(validity & 1)
    assert row["valid"] == bool(validity & 2)
    for bit, names in (
        (2, ("origin", "direction")),
        (4, ("left_origin", "left_direction")),
        (8, ("right_origin", "right_direction")),
        (16, ("left_openness",)),
        (32, ("right_openness",)),
        (64, ("vergence_m",)),
    ):
        for name in names:
            assert np.isnan(row[name]).all() != bool(validity & bit), name


def si(validity: int) -> bytes:
    payload = np.zeros((), SI)
    payload["validity"] = validity
    payload["head_position"], payload["head_forward"] = (1, 2, 3), (4, 5, 6)
    payload["head_up"] = (7, 8, 9)
    payload["eye_origin"], payload["eye_direction"] = (10, 11, 12), (13, 14, 15)
    for side, base in (("left", 100), ("right", 10_000)):
        joint = base + 10 * np.arange(26)
        payload[side]["orientation"] = joint[:, None] + [0, 1, 2, 3]
        payload[side]["position"] = joint[:, None] + [4, 5, 6]
        payload[side]["radius"] = joint + 7
        payload[side]["accuracy"] = np.arange(26) % 2
    return payload.tobytes()


def test_every_joint_lies_in_its_place() -> None:
    parsed = plan_of("si").parse(raw(si(0b1111)))
    assert parsed is not None
    (row,) = record("si", parsed.fields)
    assert row["head_position"].tolist() == [1, 2, 3]
    assert row["head_up"].tolist() == [7, 8, 9]
    assert row["eye_direction"].tolist() == [13, 14, 15]
    for side, base in (("left", 100), ("right", 10_000)):
        joint = base + 10 * np.arange(26)
        np.testing.assert_array_equal(row[f"{side}_orientation"], joint[:, None] + [0, 1, 2, 3])
        np.testing.assert_array_equal(row[f"{side}_position"], joint[:, None] + [4, 5, 6])
        np.testing.assert_array_equal(row[f"{side}_radius"], joint + 7)
        np.testing.assert_array_equal(row[f"{side}_accuracy"], np.arange(26) % 2)


@given(st.integers(0, 15))
def test_stale_numbers_behind_cleared_bits_are_never_stored(validity: int) -> None:
    parsed = plan_of("si").parse(raw(si(validity)))
    assert parsed is not None
    (row,) = record("si", parsed.fields)
    assert row["validity"] == validity
    for bit, flag, names in (
        (1, "head_valid", ("head_position", "head_forward", "head_up")),
        (2, "eye_valid", ("eye_origin", "eye_direction")),
        (4, "left_valid", ("left_orientation", "left_position", "left_radius")),
        (8, "right_valid", ("right_orientation", "right_position", "right_radius")),
    ):
        assert row[flag] == bool(validity & bit)
        for name in names:
            if validity & bit:
                assert np.isfinite(row[name]).all()
            else:
                assert np.isnan(row[name]).all()
    if not validity & 4:
        assert (row["left_accuracy"] == -1).all()


@pytest.mark.parametrize(("stream", "payload"), [("si", si(16)), ("eet", eet(128))])
def test_unknown_validity_bits_are_damage(stream: str, payload: bytes) -> None:
    with pytest.raises(Damaged, match="bits"):
        plan_of(stream).parse(raw(payload, POSE.tobytes()))


def test_sound_counts_its_samples_from_its_length() -> None:
    sound = bytes(480 * 4)
    parsed = plan_of("mic").parse(raw(sound))
    assert parsed is not None
    assert parsed.payload == sound
    assert record("mic", parsed.fields)[0]["samples"] == 480


def adts(length: int, claimed: int) -> bytes:
    head = bytes(
        (0xFF, 0xF1, 0x4C, 0x80 | claimed >> 11, claimed >> 3 & 255, (claimed & 7) << 5, 0)
    )
    return head.ljust(length, b"\x21")


def test_aac_must_agree_with_its_own_header() -> None:
    parsed = parsers.parse_aac(raw(adts(300, 300)))
    assert parsed is not None
    assert parsed.payload == adts(300, 300)
    assert struct.unpack("<I", parsed.fields) == (1024,)
    with pytest.raises(Damaged, match="length"):
        parsers.parse_aac(raw(adts(300, 301)))
    with pytest.raises(Damaged, match="ADTS"):
        parsers.parse_aac(raw(bytes(300)))


def imu(host_hns: list[int]) -> bytes:
    batch = np.zeros(len(host_hns), IMU_READING)
    batch["sensor_ns"] = 5_000 + 1_000_000 * np.arange(len(host_hns))
    batch["host_hns"] = host_hns
    batch["value"] = np.arange(3 * len(host_hns)).reshape(-1, 3)
    return batch.tobytes()


def test_a_batch_of_motion_becomes_a_row_for_each_reading() -> None:
    parsed = plan_of("imu_accelerometer").parse(raw(imu([100, 110, 121])))
    assert parsed is not None
    rows = record("imu_accelerometer", parsed.fields)
    assert rows["time_ns"].tolist() == [10_000, 11_000, 12_100]
    assert rows["host_hns"].tolist() == [100, 110, 121]
    assert rows["value"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_batch_with_one_host_time_is_carried_on_by_the_sensors_clock() -> None:
    parsed = plan_of("imu_gyroscope").parse(raw(imu([100, 100, 100])))
    assert parsed is not None
    rows = record("imu_gyroscope", parsed.fields)
    assert rows["time_ns"].tolist() == [10_000, 1_010_000, 2_010_000]
    assert rows["host_hns"].tolist() == [100, 100, 100]


def test_a_grey_picture_keeps_its_sensor_time_exposure_and_gain() -> None:
    parse = parsers.vlc_parser(VideoProfile.RAW)
    tail = struct.pack("<QQII", 7, 8_000_000, 9, 0)
    parsed = parse(raw(bytes(640 * 480) + tail, POSE.tobytes()))
    assert parsed is not None
    assert len(parsed.payload) == 640 * 480
    assert struct.unpack("<QqI", parsed.fields[:20]) == (7, 8_000_000, 9)
    assert parsed.fields[20:] == POSE.tobytes()


def test_near_depth_keeps_both_parts_with_their_sizes() -> None:
    parse = parsers.ahat_parser(VideoProfile.RAW)
    stored = struct.pack("<II", 3, 5) + b"zzzrrrrr"
    parsed = parse(raw(stored + struct.pack("<Q", 42), POSE.tobytes()))
    assert parsed is not None
    assert parsed.payload == stored
    assert parsed.fields == struct.pack("<Q", 42) + POSE.tobytes()
    with pytest.raises(Damaged, match="add up"):
        parse(raw(stored + b"x" + struct.pack("<Q", 42), POSE.tobytes()))
    assert parse(raw(struct.pack("<IIQ", 0, 0, 42), POSE.tobytes())) is None


def test_far_depth_must_be_a_png() -> None:
    png = b"\x89PNG\r\n\x1a\nrest"
    parsed = parsers.parse_long_throw(raw(png + struct.pack("<Q", 3), POSE.tobytes()))
    assert parsed is not None
    assert parsed.payload == png
    with pytest.raises(Damaged, match="PNG"):
        parsers.parse_long_throw(raw(b"\x89PNX" + bytes(20), POSE.tobytes()))


@pytest.mark.parametrize(
    ("unit", "hevc", "key"),
    [
        (AUD + SPS_PPS + IDR, False, True),
        (AUD + P_SLICE, False, False),
        (AUD + bytes.fromhex("000001 06 0501ff80") + IDR, False, True),  # SEI in front
        (bytes.fromhex("00000001 2801af"), True, True),  # 0x28 >> 1 = 20: IDR_N_LP
        (bytes.fromhex("00000001 4001 00000001 4201 00000001 4401 00000001 2601af"), True, True),
        (bytes.fromhex("00000001 0201d0"), True, False),
        (bytes.fromhex("00000001 2a01"), True, True),  # CRA
        (b"", False, False),
        (b"no start code at all", True, False),
        (b"\0\0\1", False, False),
    ],
)
def test_key_frames_are_told_by_their_first_slice(unit: bytes, hevc: bool, key: bool) -> None:
    profile = VideoProfile.HEVC_MAIN if hevc else VideoProfile.H264_MAIN
    parsed = parsers.pv_parser(profile, None)(raw(unit + pv_tail(), POSE.tobytes()))
    if unit:
        assert parsed is not None
        assert (PacketFlags.KEY_FRAME in parsed.flags) is key
    else:
        assert parsed is None


@given(st.sampled_from(["pv", "eet", "si", "mic", "imu_gyroscope"]), st.data())
def test_noise_within_the_limits_is_stored_or_damage_and_nothing_else(
    stream: str, data: st.DataObject
) -> None:
    plan = plan_of(stream)
    limits = plan.limits
    length = data.draw(st.integers(0, min(limits.most - limits.least, 3000) // limits.step))
    payload = data.draw(st.binary(min_size=limits.least, max_size=limits.least))
    payload += bytes(length * limits.step)
    pose = data.draw(st.binary(min_size=limits.pose, max_size=limits.pose))
    try:
        parsed = plan.parse(raw(payload, pose))
    except Damaged:
        return
    size = plan.schema.dtype.itemsize
    assert parsed is None or (parsed.fields and len(parsed.fields) % size == 0)
