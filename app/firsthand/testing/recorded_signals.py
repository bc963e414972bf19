"""Gaze, hands, motion and sound of the small recordings, with values that tests can foretell."""

from collections.abc import Callable
from typing import Final

import numpy as np

from firsthand.api import Packet, PacketFlags, StreamSchema

DELAY_NS: Final = 4_000_000
_FOCAL: Final = 0.9
CLICK_EVERY_S: Final = 0.5
CLICK_SAMPLES: Final = 48
PACKET_SAMPLES: Final = 768
_FIRST_S: Final = 0.2

Clock = Callable[[int], int]


def gaze(schema: StreamSchema, seconds: float, first_ns: int, wall: Clock) -> list[Packet]:
    """Somebody who looks, from 5 cm above the camera, at a place 1 m ahead of it."""
    record = np.zeros(1, schema.dtype)
    pose = np.eye(4, dtype="<f4")
    pose[3, :3] = (0.0, 0.05, 0.0)
    # Picture (0.625, 0.375) of a 4:3 picture, at a distance of 1 m from the eye along the ray.
    ahead = np.array([0.125 / _FOCAL, 0.125 * 0.75 / _FOCAL, -1.0])
    eye = np.array([0.0, 0.05, 0.0])
    scale = _scale_to_distance(ahead, eye, 1.0)
    direction = ahead * scale - eye
    record["valid"] = record["calibrated"] = True
    record["direction"] = direction / np.linalg.norm(direction)
    record["pose"] = pose
    return _steady(schema, seconds, first_ns, wall, lambda _: record.tobytes())


def hands(schema: StreamSchema, seconds: float, first_ns: int, device: Clock) -> list[Packet]:
    """A right hand held still 0.5 m ahead; no left hand."""
    record = np.zeros(1, schema.dtype)
    record["head_valid"] = record["right_valid"] = True
    record["head_forward"] = (0.0, 0.0, -1.0)
    record["left_position"] = np.nan
    joint = np.array([-0.25 / _FOCAL, -0.25 * 0.75 / _FOCAL, -1.0]) * 0.5
    record["right_position"] = joint + np.arange(26)[:, None] * np.array([0.001, 0.0, 0.0])
    return _steady(schema, seconds, first_ns, device, lambda _: record.tobytes())


def motion(schema: StreamSchema, seconds: float, first_ns: int, device: Clock) -> list[Packet]:
    """Batches of 93 readings whose first value counts them."""
    packets = []
    rows = 93
    spacing_ns = round(1e9 / schema.nominal_hz / rows)
    for seq in range(int(seconds * schema.nominal_hz)):
        host_ns = first_ns + seq * rows * spacing_ns
        record = np.zeros(rows, schema.dtype)
        device_ns = device(host_ns)
        record["time_ns"] = device_ns + np.arange(rows) * spacing_ns
        record["value"][:, 0] = seq * rows + np.arange(rows)
        packets.append(
            Packet(schema.name, seq, device_ns, host_ns + DELAY_NS, record.tobytes(), b"")
        )
    return packets


def click_times(seconds: float) -> list[float]:
    """Seconds from the session's start at which ``sound`` clicks."""
    ends_s = _FIRST_S + seconds - 0.05
    return [at * CLICK_EVERY_S for at in range(1, int(ends_s / CLICK_EVERY_S) + 1)]


def sound(
    schema: StreamSchema, seconds: float, first_ns: int, device: Clock, ppm: float = 0.0
) -> list[Packet]:
    """Silence with clicks at ``click_times``, from a crystal that is ``ppm`` fast. The first sample
    is heard 0.2 s after the session's start."""
    rate = schema.sample_hz * (1.0 + ppm * 1e-6)
    count = int(seconds * rate / PACKET_SAMPLES)
    samples = np.zeros((count * PACKET_SAMPLES, schema.channels), "<i2")
    click = np.round(20000 * np.hanning(CLICK_SAMPLES + 1)[:-1]).astype("<i2")
    for click_s in click_times(seconds):
        begin = round((click_s - _FIRST_S) * rate) - CLICK_SAMPLES // 2  # centred on the moment
        room = samples[begin : begin + CLICK_SAMPLES]
        room[:] = click[: len(room), None]
    packets = []
    record = np.zeros(1, schema.dtype)
    record["samples"] = PACKET_SAMPLES
    for seq in range(count):
        host_ns = first_ns + round(seq * PACKET_SAMPLES * 1e9 / rate)
        payload = samples[seq * PACKET_SAMPLES : (seq + 1) * PACKET_SAMPLES].tobytes()
        flags = PacketFlags.NEW_CONNECTION if seq == 0 else PacketFlags.NONE
        arrival_ns = host_ns + DELAY_NS + 16_000_000
        device_ns = device(host_ns) // 100 * 100
        packets.append(
            Packet(schema.name, seq, device_ns, arrival_ns, record.tobytes(), payload, flags)
        )
    return packets


def _steady(
    schema: StreamSchema,
    seconds: float,
    first_ns: int,
    clock: Clock,
    fields: Callable[[int], bytes],
) -> list[Packet]:
    packets = []
    for seq in range(round(seconds * schema.nominal_hz)):
        host_ns = first_ns + round(seq * 1e9 / schema.nominal_hz)
        device_ns = clock(host_ns) // 100 * 100
        packets.append(Packet(schema.name, seq, device_ns, host_ns + DELAY_NS, fields(seq)))
    return packets


def _scale_to_distance(
    ahead: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    eye: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    distance_m: float,
) -> float:
    """How far along ``ahead`` from the camera a point lies ``distance_m`` from the eye."""
    a = float(ahead @ ahead)
    b = -2.0 * float(ahead @ eye)
    c = float(eye @ eye) - distance_m**2
    return float((-b + np.sqrt(b * b - 4 * a * c)) / (2 * a))
