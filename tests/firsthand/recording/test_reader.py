"""What ``firsthand.open`` gives: the right picture, sound, gaze and hands for each moment."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import h5py
import numpy as np
import pytest

import firsthand
from firsthand.api import (
    DamagedError,
    PacketFlags,
    PayloadKind,
    RecordingError,
    RecordingView,
)
from firsthand.recording.reader.decoder import parameter_sets
from firsthand.recording.reader.recording import Recording
from firsthand.testing.recorded_video import encode_b_pictures, picture, read_number
from firsthand.testing.recordings import (
    START_HOST_NS,
    START_UTC_NS,
    World,
    make_recording,
    small_world,
    without,
    write_log,
)

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module", params=["h264", "hevc"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "s"
    make_recording(folder, codec=request.param, seconds=3.0)
    return folder


@pytest.fixture
def recording(made: Path) -> Iterator[Recording]:
    with firsthand.open(made, trusted=True) as recording:
        yield recording


def opened(folder: Path) -> Recording:
    return firsthand.open(folder, trusted=True)


# -- pictures ------------------------------------------------------------------------------------


def test_each_index_gives_its_own_picture_in_any_order(recording: Recording) -> None:
    order = list(range(90)) * 2
    random.Random(1).shuffle(order)
    for index in order[:60]:
        frame = recording.video.frame(index)
        assert read_number(frame.rgb) == index
        assert frame.index == index
        assert int(frame.fields["exposure_ns"]) == index


def test_all_pictures_come_in_order(recording: Recording) -> None:
    frames = list(recording.video.frames())
    assert [read_number(frame.rgb) for frame in frames] == list(range(90))
    assert [frame.index for frame in frames if frame.is_key] == list(range(0, 90, 15))


def test_looking_elsewhere_does_not_disturb_who_reads_on(recording: Recording) -> None:
    frames = recording.video.frames()
    seen = []
    for step in range(90):
        seen.append(read_number(next(frames).rgb))
        assert read_number(recording.video.frame((step * 37) % 90).rgb) == (step * 37) % 90
    assert seen == list(range(90))


def test_a_moment_gives_the_latest_picture(recording: Recording) -> None:
    times = recording.video.times_s
    for index in (0, 1, 44, 89):
        assert recording.video.frame_at(float(times[index])).index == index
        assert recording.video.frame_at(float(times[index]) + 0.03).index == index
    assert recording.video.frame_at(0.0).index == 0
    assert recording.video.frame_at(1000.0).index == 89


def test_a_moment_may_be_a_time_of_day(recording: Recording) -> None:
    start = datetime.fromtimestamp(START_UTC_NS / 1e9, UTC)
    assert recording.start_utc == start
    at = start + timedelta(seconds=1.2)
    assert recording.video.frame_at(at).index == recording.video.frame_at(1.2).index
    with pytest.raises(RecordingError, match="time zone"):
        recording.video.frame_at(at.replace(tzinfo=None))


def test_the_nearest_key_frame_is_a_key_frame_and_near(recording: Recording) -> None:
    for moment in (0.0, 0.44, 0.46, 1.7, 99.0):
        frame = recording.video.frame_at(moment, nearest_key=True)
        keys = recording.video.times_s[recording.video.keys]
        assert frame.is_key
        assert abs(frame.time_s - moment) == pytest.approx(np.abs(keys - moment).min())


def test_a_stretch_in_steps_gives_the_latest_picture_at_each_step(recording: Recording) -> None:
    got = [frame.index for frame in recording.video.frames(1.0, 2.0, 0.25)]
    assert got == [recording.video.index_at(t) for t in (1.0, 1.25, 1.5, 1.75)]
    plain = [frame.index for frame in recording.video.frames(1.0, 1.5)]
    assert plain == list(range(24, 39))


def test_there_is_no_picture_outside(recording: Recording) -> None:
    assert recording.video.frame(-1).index == 89
    for index in (90, -91):
        with pytest.raises(IndexError):
            recording.video.frame(index)


def damage_payload(folder: Path, stream: str, index: int) -> None:
    """Flip one bit in a payload, as a failing disk does."""
    with h5py.File(folder / "raw.h5") as file:
        row = file["streams"][stream]["index"][index]
        payload = file["streams"][stream]["blob"][row["offset"] : row["offset"] + row["length"]]
    raw = bytearray((folder / "raw.h5").read_bytes())
    at = raw.index(payload.tobytes())
    raw[at + len(payload) // 2] ^= 4
    (folder / "raw.h5").write_bytes(raw)


def test_a_damaged_picture_costs_those_that_build_on_it_and_no_other(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", streams=["pv"])
    damage_payload(tmp_path / "s", "pv", 20)
    with opened(tmp_path / "s") as recording:
        video = recording.video
        assert [frame.index for frame in video.frames()] == [*range(20), *range(30, 60)]
        assert video.damaged == set(range(20, 30))
        assert read_number(video.frame(19).rgb) == 19
        assert read_number(video.frame(31).rgb) == 31
        for index in (20, 29):
            with pytest.raises(DamagedError, match=f"Picture {index}"):
                video.frame(index)
        with pytest.raises(DamagedError):
            list(recording.packets("pv"))


def test_after_a_packet_that_we_lost_pictures_are_absent_up_to_the_next_key_frame(
    tmp_path: Path,
) -> None:
    world = small_world(streams=["pv"])
    make_recording(tmp_path / "s", world, packets=[p for p in world.all_packets if p.seq != 35])
    with opened(tmp_path / "s") as recording:
        shown = [read_number(frame.rgb) for frame in recording.video.frames()]
    assert shown == [*range(35), *range(45, 60)]


def test_pictures_go_on_over_a_gap_that_arose_inside_the_device(tmp_path: Path) -> None:
    world = small_world(streams=["pv"])
    later = [
        replace(p, device_ns=p.device_ns + 10**9, arrival_ns=p.arrival_ns + 10**9)
        if p.seq >= 35
        else p
        for p in world.packets["pv"]
    ]
    make_recording(tmp_path / "s", world, packets=later)
    with opened(tmp_path / "s") as recording:
        assert recording.gaps("pv")[-1].packets_lost == 30
        assert [read_number(frame.rgb) for frame in recording.video.frames()] == list(range(60))


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_parameter_sets_may_come_once_per_connection(tmp_path: Path, codec: str) -> None:
    """Some encoders send them with the first key frame alone."""
    world = small_world(streams=["pv"], codec=codec)
    kind = PayloadKind(codec)
    bare = []
    for p in world.packets["pv"]:
        payload = bytes(p.payload)
        if p.flags & PacketFlags.KEY_FRAME and p.seq:
            for nal in parameter_sets(payload, kind).split(b"\0\0\0\1")[1:]:
                payload = payload.replace(b"\0\0\0\1" + nal, b"").replace(b"\0\0\1" + nal, b"")
            assert not parameter_sets(payload, kind)
        bare.append(replace(p, payload=payload))
    make_recording(tmp_path / "s", world, packets=bare)
    for wanted in (50, 16, 0, 59):
        with opened(tmp_path / "s") as recording:
            assert read_number(recording.video.frame(wanted).rgb) == wanted


def test_a_new_connection_may_bring_another_size(tmp_path: Path) -> None:
    world = small_world(1.0, streams=["pv"])
    other = small_world(1.0, streams=["pv"], size_px=(160, 120)).packets["pv"]
    more = [
        replace(p, seq=p.seq + 30, device_ns=p.device_ns + 10**9, arrival_ns=p.arrival_ns + 10**9)
        for p in other
    ]
    make_recording(tmp_path / "s", world, packets=[*world.packets["pv"], *more])
    with opened(tmp_path / "s") as recording:
        assert recording.video.frame(45).rgb.shape == (120, 160, 3)
        assert recording.video.frame(15).rgb.shape == (240, 320, 3)
        assert len(list(recording.video.frames())) == 60


def test_pictures_that_are_coded_out_of_order_still_find_their_packet(tmp_path: Path) -> None:
    world = small_world(1.0, streams=["pv"])
    packets, numbers = encode_b_pictures(world.packets["pv"], world.schemas["pv"])
    make_recording(tmp_path / "s", world, packets=packets)
    with opened(tmp_path / "s") as recording:
        for index in (0, 4, 7, 16, 3, len(packets) - 1):
            assert read_number(recording.video.frame(index).rgb) == numbers[index]


def raw_payload(kind: PayloadKind, number: int, size: tuple[int, int]) -> bytes:
    image = picture(number, size)
    grey = image[:, :, 0]
    if kind is PayloadKind.GRAY8:
        return grey.tobytes()
    stride = (size[0] + 63) // 64 * 64
    rows = np.full((size[1] * 3 // 2, stride), 128, np.uint8)
    rows[: size[1], : size[0]] = grey
    return rows.tobytes()


@pytest.mark.parametrize("kind", [PayloadKind.NV12, PayloadKind.GRAY8])
def test_pictures_that_are_not_coded_are_shown_as_well(tmp_path: Path, kind: PayloadKind) -> None:
    size = (80, 60)
    world = small_world(0.5, streams=["pv"], size_px=size)
    world.schemas["pv"] = replace(world.schemas["pv"], payload=kind)
    packets = [replace(p, payload=raw_payload(kind, p.seq, size)) for p in world.packets["pv"]]
    make_recording(tmp_path / "s", world, packets=packets)
    with opened(tmp_path / "s") as recording:
        assert [read_number(f.rgb) for f in recording.video.frames()] == list(range(15))
        assert read_number(recording.video.frame(7).rgb) == 7
        assert recording.video.frame(3).rgb.shape == (60, 80, 3)


def test_a_file_that_plain_h5py_holds_open_can_be_opened_beside_it(made: Path) -> None:
    with h5py.File(made / "raw.h5") as file, opened(made) as recording:
        assert len(recording.video) == len(file["streams/pv/index"])


# -- gaze and hands ------------------------------------------------------------------------------


def test_gaze_and_hands_fall_where_they_were_put(recording: Recording) -> None:
    assert recording.gaze_on_video(1.5) == pytest.approx((200.0, 90.0), abs=0.1)
    hands = recording.hands_on_video(1.5)
    assert hands.right[0] == pytest.approx((80.0, 180.0), abs=0.1)
    assert np.isnan(hands.left).all()
    pixels = recording.gaze_pixels()
    assert len(pixels) == len(recording.gaze.times_s)
    np.testing.assert_allclose(pixels, np.tile((200.0, 90.0), (len(pixels), 1)), atol=0.1)


@pytest.mark.parametrize("column", ["valid", "calibrated"])
def test_a_gaze_that_is_not_good_is_absent(tmp_path: Path, column: str) -> None:
    world = small_world(1.0, streams=["pv", "eet"])
    schema = world.schemas["eet"]
    for i, p in enumerate(world.packets["eet"]):
        record = np.frombuffer(p.fields, schema.dtype).copy()
        record[column] = False
        world.packets["eet"][i] = replace(p, fields=record.tobytes())
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        assert recording.gaze_on_video(0.7) is None
        assert np.isnan(recording.gaze_pixels()).all()


def test_a_gaze_long_ago_is_not_the_gaze_now(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["pv", "eet"])
    world.packets["eet"] = world.packets["eet"][:45]
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        assert recording.gaze_on_video(0.5) is not None
        assert recording.gaze_on_video(1.5) is None


@pytest.mark.parametrize("step_ms", [400, -400])
def test_a_step_of_the_wall_clock_does_not_part_gaze_and_video(
    tmp_path: Path, step_ms: int
) -> None:
    world = small_world(
        12.0, streams=["pv", "eet"], wall_step_ns=step_ms * 10**6, wall_step_s=6.0, bit_rate=100_000
    )
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        truth = np.array([p.arrival_ns - 4_000_000 - START_HOST_NS for p in world.packets["eet"]])
        off_ms = np.abs(recording.gaze.times_s - truth / 1e9) * 1e3
        assert off_ms.max() <= 5.0
        assert len(recording.clock) >= 2


def test_drift_between_the_clocks_is_taken_out(tmp_path: Path) -> None:
    world = small_world(20.0, streams=["si"], drift_ppm=200.0)
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        truth = np.array([p.arrival_ns - 4_000_000 - START_HOST_NS for p in world.packets["si"]])
        assert np.abs(recording.hands.times_s - truth / 1e9).max() < 0.001


# -- tables and the rest -------------------------------------------------------------------------


def test_tables_have_a_row_per_record_and_a_column_per_number(recording: Recording) -> None:
    gaze = recording.gaze.table()
    assert len(gaze) == 270
    assert gaze.index.name == "time_s"
    assert {"utc", "origin_x", "direction_z", "pose_3_1", "valid"} <= set(gaze.columns)
    hands = recording.hands.table()
    assert np.isnan(hands["left_position_25_z"]).all()
    assert hands["right_position_3_x"].iloc[0] == pytest.approx(
        float(recording.hands.records["right_position"][0, 3, 0])
    )


def test_rows_with_times_of_their_own_are_in_time(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", streams=["imu"])
    with opened(tmp_path / "s") as recording:
        stream = recording.streams["imu"]
        assert len(stream) == 24
        assert len(stream.times_s) == 24 * 93
        assert (np.diff(stream.times_s) > 0).all()
        assert stream.table()["value_x"].tolist() == list(range(24 * 93))
        assert [len(p.fields) for p in recording.packets("imu")] == [93 * 20] * 24


def test_a_recording_tells_what_it_is(recording: Recording) -> None:
    view: RecordingView = recording
    assert view.duration_s == pytest.approx(3.2, abs=0.1)
    assert view.start_utc_ns == START_UTC_NS
    assert set(view.schemas) == {"pv", "eet", "si", "mic"}
    assert recording.session["participant"] == "P01"
    assert recording.events == []
    assert "3.2 s" in repr(recording)
    assert [gap.cause for gap in recording.gaps()] == ["not_started"] * 4
    assert view.gaps_s("pv")[0] == pytest.approx((0.0, 0.2), abs=0.01)
    with pytest.raises(RecordingError, match="no stream 'nothing'"):
        recording.records("nothing")


def test_parts_of_the_packets_can_be_asked_for(recording: Recording, made: Path) -> None:
    part = list(recording.packets("mic", 3, 7))
    assert [p.seq for p in part] == [3, 4, 5, 6]
    with opened(made) as again:
        assert part == list(again.packets("mic"))[3:7]


def test_the_journal_is_read_and_a_torn_line_left_out(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", streams=["si"])
    (tmp_path / "s" / "journal.jsonl").write_text('{"event": "start"}\n{"event": "st')
    with opened(tmp_path / "s") as recording:
        assert recording.events == [{"event": "start"}]


def test_the_file_alone_can_be_opened(made: Path, tmp_path: Path) -> None:
    alone = tmp_path / "copy.h5"
    alone.write_bytes((made / "raw.h5").read_bytes())
    with firsthand.open(alone, trusted=True) as recording:
        assert recording.manifest["files"] == {}
        assert recording.duration_s == pytest.approx(3.2, abs=0.1)
        assert read_number(recording.video.frame(40).rgb) == 40


def test_what_is_not_there_is_said_by_name(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", streams=["si"])
    with opened(tmp_path / "s") as recording:
        for part in ("video", "audio", "gaze"):
            with pytest.raises(RecordingError, match="no stream for"):
                getattr(recording, part)
        with pytest.raises(RecordingError, match="holds no pictures"):
            recording.video_of("si")


def test_an_unfinished_recording_says_what_to_do(tmp_path: Path) -> None:
    write_log(tmp_path / "s", World(1.0, {}, {}, []))
    with pytest.raises(RecordingError, match="firsthand recover"):
        opened(tmp_path / "s")
    with pytest.raises(RecordingError, match="no recording at"):
        opened(tmp_path)


def test_losses_are_named_by_the_streams_that_had_them(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["pv", "si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 30 <= p.seq < 60)
    make_recording(tmp_path / "s", world)
    with opened(tmp_path / "s") as recording:
        (gap,) = [gap for gap in recording.gaps("si") if gap.packets_lost]
        assert gap.packets_lost == 30
        start_s, stop_s = recording.gaps_s("si")[-1]
        assert stop_s - start_s == pytest.approx(31 / 60, abs=1e-3)
