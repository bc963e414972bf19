"""Small true recordings: numbered pictures, gaze, hands and clicks, through the real log.

``make_recording`` leaves a finished session folder; ``small_world`` gives what would go into one,
to be changed before ``write_log``. Everything that a test may ask about stands in ``World``.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from firsthand.api import Clock, ClockPair, Packet, StreamSchema
from firsthand.recording.manifest import LogSegment, Moment, RecordingState, new_manifest
from firsthand.recording.manifest import write_manifest as _write_manifest
from firsthand.recording.packetlog import LogWriter
from firsthand.recording.session_folder import segment_name
from firsthand.streams.clock import Epoch
from firsthand.streams.gaps import GapTracker
from firsthand.testing.recorded_signals import click_times, gaze, hands, motion, sound
from firsthand.testing.recorded_video import encode
from firsthand.testing.recorded_words import EET, IMU, MIC, SI, pv_schema

START_HOST_NS: Final = 5_000_000_000_000
START_UTC_NS: Final = 1_760_000_000_000_000_000
DEVICE_AHEAD_NS: Final = 77_000_000_000_000
"""Device clock less host clock."""
DELAY_NS: Final = 4_000_000
FIRST_PACKET_NS: Final = 200_000_000
"""From the session's start to the first packets."""


@dataclass(slots=True)
class World:
    """What goes into a recording, and what is true of it."""

    seconds: float
    schemas: dict[str, StreamSchema]
    packets: dict[str, list[Packet]]
    pairs: list[ClockPair]
    epochs: list[Epoch] = field(default_factory=list)
    click_s: list[float] = field(default_factory=list)
    """Seconds from the session's start at which clicks are to be heard."""
    gaze_target_px: tuple[float, float] = (0.0, 0.0)
    """Where the wearer looks, in the picture, all the time."""
    joint_px: tuple[float, float] = (0.0, 0.0)
    """Where joint 0 of the right hand is in the picture, all the time."""

    @property
    def all_packets(self) -> list[Packet]:
        """Every packet in the order of arrival."""
        return sorted((p for ps in self.packets.values() for p in ps), key=lambda p: p.arrival_ns)


def small_world(
    seconds: float = 2.0,
    *,
    codec: str = "h264",
    size_px: tuple[int, int] = (320, 240),
    hz: float = 30.0,
    gop: int = 15,
    streams: Iterable[str] = ("pv", "eet", "si", "mic"),
    bit_rate: int = 600_000,
    drift_ppm: float = 0.0,
    wall_step_ns: int = 0,
    wall_step_s: float = 1.0,
    mic_ppm: float = 0.0,
) -> World:
    """A wearer who looks at one place: pictures numbered from 0, a click every half second.

    ``drift_ppm`` is by how much the device's clock runs fast against the host's, ``wall_step_ns``
    by how much the headset's wall clock (and so the gaze) is stepped after ``wall_step_s``,
    ``mic_ppm`` by how much the microphone's crystal runs fast against the device's clock.
    """
    wanted = set(streams)
    rate = 1.0 + drift_ppm * 1e-6

    def device(host_ns: int) -> int:
        return DEVICE_AHEAD_NS + START_HOST_NS + round((host_ns - START_HOST_NS) * rate)

    first = START_HOST_NS + FIRST_PACKET_NS
    world = World(seconds, {}, {}, [])
    if "pv" in wanted:
        world.schemas["pv"] = pv_schema(codec, size_px, hz)
        world.packets["pv"] = encode(world.schemas["pv"], seconds, gop, bit_rate, first, device)
    if "eet" in wanted:
        world.schemas["eet"] = EET
        step_at = START_HOST_NS + round(wall_step_s * 1e9)

        def wall(host_ns: int) -> int:
            return device(host_ns) + (wall_step_ns if host_ns >= step_at else 0)

        world.packets["eet"] = gaze(EET, seconds, first, wall)
        if wall_step_ns:
            world.epochs.append(Epoch(Clock.DEVICE_WALL, 1, step_at, "The wall clock was set."))
    if "si" in wanted:
        world.schemas["si"] = SI
        world.packets["si"] = hands(SI, seconds, first, device)
    if "imu" in wanted:
        world.schemas["imu"] = IMU
        world.packets["imu"] = motion(IMU, seconds, first, device)
    if "mic" in wanted:
        world.schemas["mic"] = MIC
        world.packets["mic"] = sound(MIC, seconds, first, device, mic_ppm)
        world.click_s = click_times(seconds)
    world.gaze_target_px = (0.625 * size_px[0], 0.375 * size_px[1])
    world.joint_px = (0.25 * size_px[0], 0.75 * size_px[1])
    world.pairs = _pairs(seconds, device, wall_step_ns, wall_step_s)
    return world


def write_log(
    folder: Path,
    world: World,
    *,
    packets: Sequence[Packet] | None = None,
    segment: int = 0,
    end: str | None = "The session was stopped.",
    session: Mapping[str, Any] | None = None,
    tell_gaps: bool = True,
) -> Path:
    """Write a segment of a log, gaps counted as the recorder does it; give its path.

    Without ``tell_gaps`` losses are neither counted nor marked: something that must be noticed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_name(segment)
    about = {
        "id": folder.name,
        "participant": "P01",
        "segment": segment,
        "continues": False,
        "start": {"host_ns": START_HOST_NS, "utc_ns": START_UTC_NS},
        **(session or {}),
    }
    writer = LogWriter(path, about)
    trackers = {name: GapTracker(s, START_HOST_NS) for name, s in world.schemas.items()}
    for schema in world.schemas.values():
        writer.declare(schema)
    pairs, epochs = list(world.pairs), list(world.epochs)
    chosen = world.all_packets if packets is None else packets
    for packet in chosen:
        while pairs and pairs[0].host_after_ns <= packet.arrival_ns:
            _pair(writer, trackers, pairs.pop(0))
        while epochs and epochs[0].host_ns <= packet.arrival_ns:
            epoch = epochs.pop(0)
            writer.epoch(epoch)
        stored, rows = trackers[packet.stream].packet(packet)
        writer.packet(stored if tell_gaps else packet)
        for row in rows if tell_gaps else ():
            writer.gap(row)
    for pair in pairs:
        _pair(writer, trackers, pair)
    for tracker in trackers.values():
        for row in tracker.close() if tell_gaps else ():
            writer.gap(row)
    last_ns = max((p.arrival_ns for p in chosen), default=START_HOST_NS)
    if end is not None:
        writer.end(end, last_ns)
    writer.flush()
    writer.close()
    return path


def write_manifest(folder: Path, *, state: RecordingState = RecordingState.RECORDED) -> None:
    """The manifest that a recorder leaves beside the log's segments in ``folder``."""
    manifest = new_manifest(
        {"id": folder.name, "participant": "P01", "phase": "demonstration"},
        start=Moment(host_ns=START_HOST_NS, utc_ns=START_UTC_NS),
    )
    logs = sorted(folder.glob("packets*.log"), key=lambda path: (path.name != "packets.log", path))
    changes = {
        "state": state,
        "logs": [LogSegment(path=path.name, ended="The session was stopped.") for path in logs],
    }
    _write_manifest(folder, manifest.model_copy(update=changes))


def make_recording(
    folder: Path,
    world: World | None = None,
    *,
    packets: Sequence[Packet] | None = None,
    tell_gaps: bool = True,
    **asked: Any,
) -> World:
    """A finished session in ``folder``; ``asked`` goes to ``small_world``, the others to
    ``write_log``."""
    from firsthand.recording.finalise import finalise

    world = world or small_world(**asked)
    write_log(folder, world, packets=packets, tell_gaps=tell_gaps)
    write_manifest(folder)
    finalise(folder)
    return world


def without(packets: Iterable[Packet], lost: Callable[[Packet], bool]) -> list[Packet]:
    """Packets as stored when those that ``lost`` names never arrived: counted without holes."""
    left: list[Packet] = []
    for packet in packets:
        if not lost(packet):
            left.append(dataclasses.replace(packet, seq=len(left)))
    return left


def host_ns(time_s: float) -> int:
    """The host's clock at a time of the session."""
    return START_HOST_NS + round(time_s * 1e9)


def _pair(writer: LogWriter, trackers: Mapping[str, GapTracker], pair: ClockPair) -> None:
    writer.clock(pair)
    for tracker in trackers.values():
        for row in tracker.clock(pair):
            writer.gap(row)


def _pairs(
    seconds: float, device: Callable[[int], int], wall_step_ns: int, wall_step_s: float
) -> list[ClockPair]:
    pairs = []
    for i in range(int(2 * seconds) + 4):
        at = START_HOST_NS + i * 500_000_000
        # Never just at the step: as measured, a pair lies on one side of it.
        before, after = at + 60_000_000, at + 61_000_000
        middle = (before + after) // 2
        stepped = wall_step_ns != 0 and middle >= START_HOST_NS + round(wall_step_s * 1e9)
        wall = device(middle) + (wall_step_ns if stepped else 0)
        pairs += [
            ClockPair(Clock.DEVICE, before, after, device(middle)),
            ClockPair(Clock.DEVICE_WALL, before, after, wall, int(stepped)),
            ClockPair(Clock.UTC, middle, middle + 2, START_UTC_NS + middle + 1 - START_HOST_NS),
        ]
    return pairs
