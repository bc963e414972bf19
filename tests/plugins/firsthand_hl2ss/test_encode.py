"""One access unit per picture, in order, at once; numbers readable after every codec."""

from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
from av.video.codeccontext import VideoCodecContext
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import DeviceError
from firsthand_hl2ss.simulator.counter import LIMIT, draw_counter, read_counter
from firsthand_hl2ss.simulator.encode import AAC_SAMPLES, AacEncoder, VideoEncoder
from firsthand_hl2ss.simulator.encode_ahead import PreEncoded
from firsthand_hl2ss.simulator.scene import SceneSource
from firsthand_hl2ss.simulator.source import SOUND_HZ
from firsthand_hl2ss.wire import VideoProfile

pytestmark = pytest.mark.unit

FPS = Fraction(30)
H264 = (VideoProfile.H264_BASELINE, VideoProfile.H264_MAIN, VideoProfile.H264_HIGH)


@cache
def source() -> SceneSource:
    return SceneSource("demonstration", seed=2, voice=False)


def encoded(
    profile: VideoProfile, size: tuple[int, int], count: int, *, bitrate: int, gop: int = 15
) -> list[bytes]:
    encoder = VideoEncoder(profile, *size, FPS, bitrate=bitrate, gop=gop)
    try:
        return [encoder.encode(source().frame(6 + i / 30, 1000 + i, *size)) for i in range(count)]
    finally:
        encoder.close()


def decoded(profile: VideoProfile, units: list[bytes]) -> list[Any]:
    """Each unit given to the decoder as one packet, without a parser."""
    name = "hevc" if profile is VideoProfile.HEVC_MAIN else "h264"
    decoder = av.CodecContext.create(name, "r")
    assert isinstance(decoder, VideoCodecContext)
    frames = []
    for unit in units:
        given_back = decoder.decode(av.Packet(unit))
        assert len(given_back) == 1
        frames.append(given_back[0])
    return frames


def nal_types(unit: bytes, profile: VideoProfile) -> list[int]:
    hevc = profile is VideoProfile.HEVC_MAIN
    parts = unit.split(b"\x00\x00\x00\x01")
    assert parts[0] == b""
    return [part[0] >> 1 & 0x3F if hevc else part[0] & 0x1F for part in parts[1:]]


@pytest.mark.parametrize(
    ("profile", "size", "bitrate", "count"),
    [
        (VideoProfile.H264_BASELINE, (1920, 1080), 9_953_280, 8),
        (VideoProfile.H264_HIGH, (760, 428), 1_561_344, 40),
        (VideoProfile.H264_MAIN, (424, 240), 240_000, 40),
        (VideoProfile.HEVC_MAIN, (1920, 1080), 4_976_640, 4),
        (VideoProfile.HEVC_MAIN, (760, 428), 780_672, 20),
        (VideoProfile.HEVC_MAIN, (424, 240), 244_224, 40),
        (VideoProfile.H264_MAIN, (500, 282), 600_000, 20),
    ],
)
def test_picture_n_comes_from_packet_n(
    profile: VideoProfile, size: tuple[int, int], bitrate: int, count: int
) -> None:
    frames = decoded(profile, encoded(profile, size, count, bitrate=bitrate))
    numbers = [read_counter(frame.to_ndarray(format="rgb24")) for frame in frames]
    assert numbers == list(range(1000, 1000 + count))


@pytest.mark.parametrize("profile", [*H264, VideoProfile.HEVC_MAIN])
def test_key_frames_come_as_asked_with_their_headers(profile: VideoProfile) -> None:
    units = encoded(profile, (424, 240), 25, bitrate=400_000, gop=10)
    for i, unit in enumerate(units):
        kinds = nal_types(unit, profile)
        if profile is VideoProfile.HEVC_MAIN:
            is_key = bool({16, 17, 18, 19, 20, 21} & set(kinds))
            headers = {32, 33, 34} <= set(kinds)
        else:
            assert unit[:5] == b"\x00\x00\x00\x01\x09"
            assert unit[6:10] == b"\x00\x00\x00\x01"  # the delimiter is six bytes
            is_key, headers = 5 in kinds, {7, 8} <= set(kinds)
        assert is_key == (i % 10 == 0)
        assert headers == is_key


@pytest.mark.parametrize(("profile", "number"), list(zip(H264, (66, 77, 100), strict=True)))
def test_the_profile_asked_for_stands_in_the_stream(profile: VideoProfile, number: int) -> None:
    unit = encoded(profile, (424, 240), 1, bitrate=400_000)[0]
    sequence = unit[unit.index(b"\x00\x00\x00\x01\x67") :]
    assert sequence[5] == number


def test_the_bitrate_is_about_what_was_asked() -> None:
    sizes = [len(u) for u in encoded(VideoProfile.H264_HIGH, (760, 428), 45, bitrate=1_000_000)]
    rate = sum(sizes) * 8 / (45 / 30)
    assert 0.5e6 < rate < 1.5e6


def test_the_colours_are_signalled_as_the_camera_has_them() -> None:
    frame = decoded(
        VideoProfile.H264_MAIN, encoded(VideoProfile.H264_MAIN, (424, 240), 1, bitrate=400_000)
    )[0]
    assert frame.color_range == 2
    assert frame.colorspace == 6


def test_what_cannot_be_encoded_is_refused_in_words() -> None:
    with pytest.raises(DeviceError, match="no video encoder"):
        VideoEncoder(VideoProfile.RAW, 424, 240, FPS, bitrate=1000, gop=15)
    encoder = VideoEncoder(VideoProfile.H264_MAIN, 424, 240, FPS, bitrate=400_000, gop=15)
    encoder.close()
    encoder.close()
    with pytest.raises(DeviceError, match="closed"):
        encoder.encode(np.zeros((360, 424), np.uint8))


@given(st.integers(0, 2**30), st.sampled_from([(1920, 1080), (760, 428), (424, 240), (500, 282)]))
def test_a_counter_is_read_as_it_was_drawn(number: int, size: tuple[int, int]) -> None:
    luma = np.full((size[1], size[0]), 77, np.uint8)
    draw_counter(luma, None, number)
    assert read_counter(luma) == number % LIMIT
    assert read_counter(np.dstack([luma] * 3)) == number % LIMIT


@given(st.integers(0, 2**24 - 1), st.integers(0, 35))
def test_a_counter_with_a_wrong_block_is_not_believed(number: int, block: int) -> None:
    luma = np.full((240, 424), 77, np.uint8)
    draw_counter(luma, None, number)
    row, column = divmod(block + 4, 20)
    x = round((0.012 + (column + 0.5) / 54) * 424)
    y = round((0.012 + (row + 0.5) / 30) * 240)
    luma[y - 4 : y + 4, x - 4 : x + 4] = 255 - luma[y, x]
    assert read_counter(luma) is None


@pytest.mark.parametrize("level", [0, 128, 255])
def test_an_even_picture_has_no_counter(level: int) -> None:
    assert read_counter(np.full((480, 640), level, np.uint8)) is None
    assert read_counter(np.zeros((4, 4), np.uint8)) is None


@pytest.mark.parametrize("bytes_per_s", [12_000, 16_000, 20_000, 24_000])
def test_aac_gives_a_frame_for_each_block_and_tells_its_delay(bytes_per_s: int) -> None:
    count = 30
    t = np.arange(count * AAC_SAMPLES) / SOUND_HZ
    sweep = (0.5 * np.sin(2 * np.pi * (200 * t + 900 * t * t))).astype(np.float32)
    stereo = np.repeat(sweep[:, None], 2, axis=1)
    encoder = AacEncoder(bytes_per_s)
    units = [encoder.encode(stereo[i * AAC_SAMPLES : (i + 1) * AAC_SAMPLES]) for i in range(count)]
    encoder.close()
    decoder = av.CodecContext.create("aac", "r")
    parts = []
    for unit in units:
        assert unit[:2] == b"\xff\xf1"
        assert (unit[3] & 3) << 11 | unit[4] << 3 | unit[5] >> 5 == len(unit)
        frames = decoder.decode(av.Packet(unit))
        assert [frame.samples for frame in frames] == [AAC_SAMPLES]
        parts.append(frames[0].to_ndarray()[0])
    out = np.concatenate(parts)
    delay = encoder.delay_samples
    heard, said = out[delay + 4000 :], sweep[4000 : len(out) - delay]
    assert np.corrcoef(heard, said)[0, 1] > 0.98
    rate = sum(map(len, units[3:])) / (count - 3) * SOUND_HZ / AAC_SAMPLES
    assert rate == pytest.approx(bytes_per_s, rel=0.25)


def test_encoding_ahead_gives_a_loop_that_joins_up() -> None:
    size, profile = (424, 240), VideoProfile.HEVC_MAIN
    ahead = PreEncoded(
        source(), profile, *size, FPS, bitrate=400_000, gop=5, pictures=13, phase_s=2.0, threads=1
    )
    try:
        assert ahead.unit(0) is None
        ahead.start()
        assert ahead.wait(ahead.count, 60)
        assert ahead.count == ahead.done == 13
        begin = ahead.first_key(24)
        assert begin == 26
        units = [ahead.unit(slot) or b"" for slot in range(begin, begin + 15)]
        numbers = [read_counter(f.to_ndarray(format="gray")) for f in decoded(profile, units)]
        assert numbers == [*range(13), 0, 1]
        assert [slot for slot in range(13, 27) if ahead.is_key(slot)] == [13, 18, 23, 26]
        assert ahead.scene_s(begin + 6) == pytest.approx(2.0 + 6 / 30)
    finally:
        ahead.close()
    assert ahead.unit(0) is None


def test_a_source_that_fails_ends_encoding_ahead_with_words() -> None:
    class Broken(SceneSource):
        def frame(self, *_: object) -> Any:
            raise ValueError("no picture")

    broken = Broken("demonstration", duration_s=6.0, voice=False)
    ahead = PreEncoded(
        broken, VideoProfile.H264_MAIN, 424, 240, FPS, bitrate=400_000, gop=5, pictures=5
    )
    try:
        ahead.start()
        with pytest.raises(DeviceError, match="no picture"):
            ahead.wait(1, 30)
    finally:
        ahead.close()
