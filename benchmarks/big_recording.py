"""Recordings of real size for measurements: 1080p video as a headset codes it, and its streams."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext

from firsthand.api import Packet, PacketFlags
from firsthand.recording.finalise import finalise
from firsthand.recording.packetlog import LogWriter
from firsthand.testing.recorded_words import EET, MIC, SI, pv_schema
from firsthand.testing.recordings import (
    DEVICE_AHEAD_NS,
    START_HOST_NS,
    World,
    small_world,
    write_log,
    write_manifest,
)

SIZE = (1920, 1080)
BIT_RATE = 10_000_000
GOP = 15


def coded(count: int, codec: str) -> Iterator[tuple[bytes, bool]]:
    """1080p pictures of a moving textured scene with noise, coded at 10 Mbit/s, GOP 15.

    The rate is held over a fifth of a second, as an encoder for live use does, so key frames do
    not swallow what the others should have.
    """
    name, options = {
        "h264": ("libx264", {"preset": "superfast", "tune": "zerolatency", "aud": "1"}),
        "hevc": ("libx265", {"preset": "ultrafast", "tune": "zerolatency"}),
    }[codec]
    kbit = BIT_RATE // 1000
    more = f"keyint={GOP}:scenecut=0:vbv-maxrate={kbit}:vbv-bufsize={kbit // 5}"
    if codec == "hevc":
        more += ":log-level=none"
    context: Any = VideoCodecContext.create(name, "w")
    context.width, context.height = SIZE
    context.pix_fmt = "yuv420p"
    context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
    context.bit_rate = BIT_RATE
    context.gop_size = GOP
    context.max_b_frames = 0
    context.options = options | {"x264-params" if codec == "h264" else "x265-params": more}
    random = np.random.default_rng(3)
    scene = random.integers(40, 215, (SIZE[1] // 8 + 40, SIZE[0] // 8 + 400, 3), np.uint8)
    scene = np.kron(scene, np.ones((8, 8, 1), np.uint8))
    grain = random.integers(-6, 6, (SIZE[1] * 3, SIZE[0] + 64, 1), np.int8)
    for number in range(count):
        x, y = number * 4 % 3000, number % 300
        picture = scene[y : y + SIZE[1], x : x + SIZE[0]].astype(np.int16)
        gx, gy = random.integers(0, 64), random.integers(0, SIZE[1] * 2)
        picture += grain[gy : gy + SIZE[1], gx : gx + SIZE[0]]
        frame = av.VideoFrame.from_ndarray(
            np.clip(picture, 0, 255).astype(np.uint8), format="rgb24"
        )
        frame.pts = number
        for packet in context.encode(frame):
            yield bytes(packet), bool(packet.is_keyframe)
    for packet in context.encode(None):
        yield bytes(packet), bool(packet.is_keyframe)


def nobody(done: float, words: str = "") -> None:
    """Progress that nobody watches."""
    del done, words


def recording(folder: Path, seconds: float, codec: str = "h264", *, repeat: int = 1) -> World:
    """A finished recording of 1080p30 video with gaze, hands and sound.

    With ``repeat`` the coded pictures stand in it so many times, for a long recording of which a
    part had to be coded.
    """
    world = small_world(seconds * repeat, streams=("eet", "si", "mic"))
    schema = world.schemas["pv"] = pv_schema(codec, SIZE, 30.0)
    record = np.zeros(1, schema.dtype)
    record["focal_length"], record["principal_point"] = 1450.0, (960.0, 540.0)
    record["resolution"], record["pose"] = SIZE, np.eye(4)
    fields = record.tobytes()
    pictures = list(coded(round(seconds * 30), codec)) * repeat
    packets = []
    for seq, (data, key) in enumerate(pictures):
        host_ns = START_HOST_NS + 200_000_000 + round(seq * 1e9 / 30)
        flags = PacketFlags.KEY_FRAME if key else PacketFlags.NONE
        if seq == 0:
            flags |= PacketFlags.NEW_CONNECTION
        device_ns = host_ns + DEVICE_AHEAD_NS
        packets.append(Packet("pv", seq, device_ns, host_ns + 4_000_000, fields, data, flags))
    world.packets["pv"] = packets
    noise = np.random.default_rng(4)
    speech = [noise.normal(0, 1500, (768, 2)).astype("<i2").tobytes() for _ in range(64)]
    world.packets["mic"] = [replace(p, payload=speech[p.seq % 64]) for p in world.packets["mic"]]
    write_log(folder, world)
    write_manifest(folder)
    finalise(folder)
    return world


def core_set_log(folder: Path, seconds: float) -> int:
    """The log of a session of the core set (1.5 MB/s), made without coding; gives its size."""
    folder.mkdir(parents=True)
    path = folder / "packets.log"
    writer = LogWriter(path, {"start": {"host_ns": START_HOST_NS, "utc_ns": 0}})
    streams = (
        (pv_schema("h264", SIZE, 30.0), 41_000),
        (EET, 0),
        (SI, 0),
        (MIC, 3_072),
    )
    noise = np.random.default_rng(5).bytes(1_000_000)
    due: list[tuple[int, str, int, bytes, int]] = []
    for schema, size in streams:
        writer.declare(schema)
        fields = bytes(schema.dtype.itemsize)
        due += [
            (round(seq * 1e9 / schema.nominal_hz), schema.name, seq, fields, size)
            for seq in range(int(seconds * schema.nominal_hz))
        ]
    due.sort()
    for number, (at_ns, name, seq, fields, size) in enumerate(due):
        start = number * 997 % (len(noise) - 41_000)
        host_ns = START_HOST_NS + at_ns
        writer.packet(Packet(name, seq, at_ns, host_ns, fields, noise[start : start + size]))
        if number % 256 == 0:
            writer.flush()
            writer.sync()
    writer.end("stopped", START_HOST_NS + round(seconds * 1e9))
    writer.flush()
    writer.sync()
    writer.close()
    return path.stat().st_size
