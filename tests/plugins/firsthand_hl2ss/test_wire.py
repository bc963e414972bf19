"""The protocol's literal bytes, offsets and numbers, spelt out here a second time on purpose."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand_hl2ss import wire, wire_config, wire_data
from firsthand_hl2ss.wire import AudioProfile, DepthProfile, Mode, PngFilter, Port, VideoProfile
from firsthand_hl2ss.wire_config import (
    AhatRequest,
    AudioRequest,
    Format,
    LongThrowRequest,
    MixedReality,
    PvRequest,
    Video,
    VlcRequest,
)

pytestmark = pytest.mark.unit


class Bytes:
    """Gives bytes out as a socket would; tells how many were left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __call__(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise EOFError
        self._at += count
        return self._data[self._at - count : self._at]

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def test_ports_are_those_of_a_headset() -> None:
    assert {port.name: port.on() for port in Port} == {
        "VLC_LEFT_FRONT": 3800,
        "VLC_LEFT_LEFT": 3801,
        "VLC_RIGHT_FRONT": 3802,
        "VLC_RIGHT_RIGHT": 3803,
        "DEPTH_AHAT": 3804,
        "DEPTH_LONG_THROW": 3805,
        "IMU_ACCELEROMETER": 3806,
        "IMU_GYROSCOPE": 3807,
        "IMU_MAGNETOMETER": 3808,
        "REMOTE_CONFIGURATION": 3809,
        "PERSONAL_VIDEO": 3810,
        "MICROPHONE": 3811,
        "SPATIAL_INPUT": 3812,
        "SPATIAL_MAPPING": 3813,
        "SCENE_UNDERSTANDING": 3814,
        "VOICE_INPUT": 3815,
        "MESSAGE_QUEUE": 3816,
        "EXTENDED_EYE_TRACKER": 3817,
        "EXTENDED_AUDIO": 3818,
        "EXTENDED_VIDEO": 3819,
        "GUEST_MESSAGE_QUEUE": 3820,
        "EXTENDED_DEPTH": 3821,
    }
    assert [p.on() for p in Port if p.needs_research_mode] == list(range(3800, 3809))


def test_a_packet_counts_its_payload_and_not_its_pose() -> None:
    data = wire.pack_packet(0x0102030405060708, b"abc", wire.pack_pose(np.eye(4)))
    assert data[:12].hex() == "0807060504030201" + "03000000"
    assert data[12:15] == b"abc"
    assert len(data) == 12 + 3 + 64


def test_a_pose_is_sixteen_floats_row_by_row_with_the_translation_last() -> None:
    pose = np.eye(4, dtype="<f4")
    pose[3, :3] = (1.0, 2.0, 3.0)
    data = wire.pack_pose(pose)
    assert struct.unpack("<16f", data)[12:] == (1.0, 2.0, 3.0, 1.0)
    moved = np.array([0, 0, 0, 1], "<f4") @ wire.parse_pose(data)
    assert moved.tolist() == [1.0, 2.0, 3.0, 1.0]


def test_no_pose_is_all_zero() -> None:
    assert wire.pack_pose(None) == b"\0" * 64


def test_the_stream_request_of_the_front_camera_is_the_documented_example() -> None:
    request = PvRequest(
        Format(1920, 1080, 30), Video(VideoProfile.HEVC_MAIN, 255, 5_000_000, ((10, 30),))
    )
    assert request.pack(Mode.DATA_AND_POSE).hex(" ", 1) == (
        "01 80 07 38 04 1e 01 03 ff 40 4b 4c 00 01 0a 00 00 00 00 00 00 00 1e 00 00 00 00 00 00 00"
    )


def test_the_camera_start_has_28_bytes_and_its_stop_one() -> None:
    data = wire_config.pack_camera_start(MixedReality())
    assert data.hex() == (
        "07"
        "00" "01" "00" "00" "00" "00" "00"
        "66" "66" "66" "3f"
        "00000000" "00000000" "00000000" "01000000"
    )  # fmt: skip
    assert len(data) == 28
    assert wire_config.CAMERA_STOP_REQUEST == b"\x0b"


def test_start_stream_and_stop_fit_into_one_mode_byte() -> None:
    assert wire_config.pack_mode(Mode.DATA_AND_POSE, start=True, stop=True) == b"\x0d"
    assert wire_config.read_mode(Bytes(b"\x0d")) == (Mode.DATA_AND_POSE, True, True)


def test_the_calibration_request_of_the_front_camera_has_six_bytes() -> None:
    assert wire_config.pack_pv_calibration(Format(1920, 1080, 30)).hex() == "02800738041e"


def test_the_microphone_is_asked_with_two_bytes() -> None:
    assert AudioRequest().pack() == b"\xff\x00"
    assert AudioRequest(AudioProfile.AAC_24000, 0x29).pack() == b"\x03\x29"
    assert AudioRequest(AudioProfile.RAW, 0x2B).is_array
    assert not AudioRequest(AudioProfile.AAC_12000, 0x2B).is_array


def test_the_eye_tracker_is_asked_with_its_rate() -> None:
    assert [wire_config.pack_eet(fps) for fps in (30, 60, 90)] == [b"\x1e", b"\x3c", b"\x5a"]


def test_research_mode_requests_have_their_documented_order() -> None:
    video = Video(VideoProfile.H264_MAIN, 255, 0x01020304, ())
    assert VlcRequest(video, 2).pack().hex() == "010201ff0403020100"
    assert LongThrowRequest(1, PngFilter.PAETH).pack().hex() == "010105000000"
    ahat = AhatRequest(video, 1, DepthProfile.ZDEPTH)
    assert ahat.pack(Mode.DATA).hex() == "00010101ff0403020100"
    assert wire_config.pack_imu() == b"\x00"


@pytest.mark.parametrize(
    ("layout", "size"),
    [
        (wire_data.PV_METADATA, 80),
        (wire_data.EET, 92),
        (wire_data.JOINT, 36),
        (wire_data.SI, 1936),
        (wire_data.VLC_METADATA, 24),
        (wire_data.IMU_READING, 32),
        (wire_data.PV_CALIBRATION, 208),
        (wire_data.VLC_CALIBRATION, 4_915_280),
        (wire_data.DEPTH_LONG_THROW_CALIBRATION, 1_474_644),
        (wire_data.DEPTH_AHAT_CALIBRATION, 4_194_392),
        (wire_data.IMU_CALIBRATION, 64),
    ],
)
def test_layouts_have_the_documented_sizes(layout: "np.dtype[np.void]", size: int) -> None:
    assert layout.itemsize == size


def offsets(layout: "np.dtype[np.void]") -> dict[str, int]:
    assert layout.fields is not None
    return {name: at for name, (_, at, *_) in layout.fields.items()}


def test_fields_lie_at_the_documented_offsets() -> None:
    assert offsets(wire_data.PV_METADATA) == {
        "focal_length": 0,
        "principal_point": 8,
        "exposure_hns": 16,
        "exposure_compensation": 24,
        "lens_position": 40,
        "focus_state": 44,
        "iso": 48,
        "white_balance_k": 52,
        "iso_gains": 56,
        "white_balance_gains": 64,
        "resolution": 76,
    }
    assert offsets(wire_data.EET) == {
        "reserved": 0,
        "origin": 4,
        "direction": 16,
        "left_origin": 28,
        "left_direction": 40,
        "right_origin": 52,
        "right_direction": 64,
        "left_openness": 76,
        "right_openness": 80,
        "vergence_m": 84,
        "validity": 88,
    }
    assert offsets(wire_data.SI) == {
        "validity": 0,
        "head_position": 4,
        "head_forward": 16,
        "head_up": 28,
        "eye_origin": 40,
        "eye_direction": 52,
        "left": 64,
        "right": 1000,
    }
    assert offsets(wire_data.JOINT) == {
        "orientation": 0,
        "position": 16,
        "radius": 28,
        "accuracy": 32,
    }
    assert offsets(wire_data.VLC_METADATA) == {
        "sensor_ticks": 0,
        "exposure_ns": 8,
        "gain": 16,
        "reserved": 20,
    }
    assert offsets(wire_data.IMU_READING) == {
        "sensor_ns": 0,
        "host_hns": 8,
        "value": 16,
        "temperature_c": 28,
    }
    calibration = {name: at // 4 for name, at in offsets(wire_data.PV_CALIBRATION).items()}
    assert calibration == {
        "focal_length": 0,
        "principal_point": 2,
        "radial_distortion": 4,
        "tangential_distortion": 7,
        "projection": 9,
        "extrinsics": 25,
        "raw_intrinsics": 41,
        "raw_translation": 45,
        "raw_rotation": 48,
    }


def test_the_real_calibration_of_the_document_puts_the_camera_at_the_origin() -> None:
    """T(−t) · R(q*): the camera's own place goes to 0, the left-front camera lies 5 cm to its left,
    0.3 cm above and 1.4 cm behind."""
    record = np.zeros((), wire_data.PV_CALIBRATION)
    t = np.array([0.00363, -0.04999, 0.01336])
    x, y, z, w = -np.array([0.71564, -0.69836, 0.00190, -0.01244])
    w = -w  # the conjugate
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)],
            [2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)],
            [2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    record["extrinsics"][:3, :3] = rotation
    record["extrinsics"][3, :3] = -t @ rotation
    record["extrinsics"][3, 3] = 1
    again = np.frombuffer(record.tobytes(), wire_data.PV_CALIBRATION)[0]["extrinsics"]
    np.testing.assert_allclose([*t, 1] @ again, [0, 0, 0, 1], atol=1e-6)
    rig_in_camera = ([0, 0, 0, 1] @ again)[:3]
    np.testing.assert_allclose(rig_in_camera, [-0.050, 0.003, 0.014], atol=0.001)


def test_the_default_bitrates_are_those_of_the_formula() -> None:
    assert wire.default_bitrate(1920, 1080, 30, VideoProfile.H264_MAIN) == 9_953_280
    assert wire.default_bitrate(1920, 1080, 30, VideoProfile.HEVC_MAIN) == 4_976_640
    assert wire.default_bitrate(760, 428, 30, VideoProfile.H264_MAIN) == 1_561_344
    assert wire.default_bitrate(760, 428, 30, VideoProfile.HEVC_MAIN) == 780_672
    assert wire.default_bitrate(424, 240, 15, VideoProfile.RAW) > 0


def test_raw_pictures_have_rows_padded_to_64() -> None:
    assert wire.nv12_stride(1920) == 1920
    assert wire.nv12_stride(760) == 768
    assert wire.nv12_bytes(760, 428) == 768 * 428 * 3 // 2


def test_the_camera_has_23_formats() -> None:
    assert len(wire.PV_FORMATS) == 23
    assert {(1504, 846, 5), (1504, 846, 60), (1952, 1100, 60)} <= wire.PV_FORMATS
    assert (1920, 1080, 60) not in wire.PV_FORMATS


def test_utc_is_qpc_plus_offset_counted_from_1970() -> None:
    assert wire.utc_ns(5, 116_444_736_000_000_000) == 500
    assert wire.utc_ns(0, 116_444_736_000_000_000 + 10_000_000) == 1_000_000_000


@pytest.mark.parametrize(
    ("sent", "read", "left"),
    [
        ("81073804 1e 01", PvRequest.read, 1),  # size: the divisor is left unread
        ("80073804 3c 01", PvRequest.read, 1),  # 1080p has no 60
        ("80073804 1e 00 01", PvRequest.read, 1),  # divisor 0
        ("80073804 1e 01 04ff01000000 00", PvRequest.read, 1),  # profile 4
        ("80073804 1e 01 00ff00000000 00", PvRequest.read, 1),  # bitrate 0
        ("0428", AudioRequest.read, 0),
        ("0028", AudioRequest.read, 0),
        ("1f", wire_config.read_eet, 0),
        ("00", VlcRequest.read, 0),
        ("0107000000", LongThrowRequest.read, 0),
        ("0102ff", AhatRequest.read, 1),
    ],
)  # fmt: skip
def test_what_the_app_refuses_is_refused_at_the_first_fault(
    sent: str, read: object, left: int
) -> None:
    data = Bytes(bytes.fromhex(sent))
    assert callable(read)
    with pytest.raises(wire.WireError):
        read(data)
    assert data.left == left


u8, u32, u64 = st.integers(1, 255), st.integers(1, 2**32 - 1), st.integers(0, 2**64 - 1)
videos = st.builds(
    Video,
    st.sampled_from(VideoProfile),
    st.integers(0, 255),
    u32,
    st.lists(st.tuples(u64, u64), max_size=5).map(tuple),
)


@given(st.sampled_from(sorted(wire.PV_FORMATS)), videos, u8)
def test_a_request_of_the_front_camera_reads_back(
    size: tuple[int, int, int], video: Video, divisor: int
) -> None:
    request = PvRequest(Format(*size), video, divisor)
    data = Bytes(request.pack())
    assert wire_config.read_mode(data) == (Mode.DATA_AND_POSE, False, False)
    assert PvRequest.read(data) == request
    assert data.left == 0


@given(videos, u8, st.sampled_from(DepthProfile), st.sampled_from(PngFilter))
def test_research_mode_requests_read_back(
    video: Video, divisor: int, depth: DepthProfile, png: PngFilter
) -> None:
    for request in (
        VlcRequest(video, divisor),
        AhatRequest(video, divisor, depth),
        LongThrowRequest(divisor, png),
    ):
        data = Bytes(request.pack(Mode.DATA))
        assert wire_config.read_mode(data)[0] is Mode.DATA
        assert type(request).read(data) == request
        assert data.left == 0


@given(st.booleans(), st.booleans(), st.integers(0, 1), st.integers(0, 2**32 - 1))
def test_how_a_camera_is_opened_reads_back(
    holograms: bool, shared: bool, perspective: int, length: int
) -> None:
    opening = MixedReality(
        holograms=holograms,
        shared=shared,
        opacity=0.5,
        perspective=perspective,
        stabilisation_length=length,
    )
    assert MixedReality.read(Bytes(opening.pack())) == opening
