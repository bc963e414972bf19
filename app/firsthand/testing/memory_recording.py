"""A finished recording that lives in memory, for tests of what takes a ``RecordingView``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firsthand.api import (
    Clock,
    Column,
    GapRow,
    Packet,
    PacketFlags,
    Sound,
    StreamRole,
    StreamSchema,
)

SECOND_NS = 1_000_000_000
START_UTC_NS = 1_800_000_000 * SECOND_NS


class MemoryRecording:
    """Holds what it is given. Its clocks agree: device times are host times since the start."""

    def __init__(
        self,
        folder: Path,
        streams: Mapping[StreamSchema, Sequence[Packet]] | Iterable[tuple[StreamSchema, Any]] = (),
        *,
        gaps: Sequence[GapRow] = (),
        manifest: Mapping[str, Any] | None = None,
    ) -> None:
        pairs = list(streams.items() if isinstance(streams, Mapping) else streams)
        self._folder = folder
        self._schemas = {schema.name: schema for schema, _ in pairs}
        self._packets: dict[str, list[Packet]] = {s.name: list(p) for s, p in pairs}
        self._gaps = list(gaps)
        self._manifest = dict(manifest or {"format": "firsthand-recording", "format_version": 1})
        times = [packet.device_ns for packets in self._packets.values() for packet in packets]
        self._start_ns = min(times, default=0)
        self._stop_ns = max(times, default=0)

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self._manifest

    @property
    def schemas(self) -> Mapping[str, StreamSchema]:
        return self._schemas

    @property
    def duration_s(self) -> float:
        return (self._stop_ns - self._start_ns) / 1e9

    @property
    def start_utc_ns(self) -> int:
        return START_UTC_NS

    def times_s(self, stream: str) -> npt.NDArray[np.float64]:
        schema = self._schemas[stream]
        if schema.row_time is not None:
            times = self.records(stream)[schema.row_time].astype(np.int64)
        else:
            times = np.array([p.device_ns for p in self._packets[stream]], np.int64)
        return np.asarray((times - self._start_ns) / 1e9, np.float64)

    def records(self, stream: str) -> npt.NDArray[np.void]:
        joined = b"".join(packet.fields for packet in self._packets[stream])
        dtype = self._schemas[stream].dtype
        if not dtype.itemsize:
            return np.zeros(len(self._packets[stream]), dtype)
        return np.frombuffer(joined, dtype)

    def flags(self, stream: str) -> npt.NDArray[np.uint32]:
        return np.array([int(packet.flags) for packet in self._packets[stream]], np.uint32)

    def packets(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Packet]:
        return iter(self._packets[stream][start:stop])

    def gaps(self, stream: str) -> Sequence[GapRow]:
        return [gap for gap in self._gaps if gap.stream == stream]

    def gaps_s(self, stream: str) -> npt.NDArray[np.float64]:
        bounds = [(gap.start_ns, gap.stop_ns) for gap in self.gaps(stream)]
        return (np.array(bounds, np.int64).reshape(-1, 2) - self._start_ns) / 1e9

    def sound(self, stream: str, start_s: float, stop_s: float) -> Sound:
        """Each ``PCM_S16`` packet at its own time."""
        schema = self._schemas[stream]
        rate = schema.sample_hz
        count = max(round((stop_s - start_s) * rate), 0)
        samples = np.zeros((count, schema.channels), np.float32)
        present = np.zeros(count, np.bool_)
        for packet, at_s in zip(self._packets[stream], self.times_s(stream), strict=True):
            pcm = np.frombuffer(packet.payload, "<i2").reshape(-1, schema.channels) / 32768
            places = np.arange(len(pcm)) + round((float(at_s) - start_s) * rate)
            inside = (places >= 0) & (places < count)
            samples[places[inside]] = pcm[inside]
            present[places[inside]] = True
        return Sound(start_s, rate, samples, present)

    def gaze_pixels(self) -> npt.NDArray[np.float64]:
        """Nowhere: this recording knows no camera."""
        gaze = [s.name for s in self._schemas.values() if s.role is StreamRole.GAZE]
        return np.full((sum(len(self.records(name)) for name in gaze), 2), np.nan)


GAZE = StreamSchema(
    name="gaze",
    title="Gaze",
    columns=(
        Column("valid", "?"),
        Column("calibrated", "?"),
        Column("origin", "<f4", (3,), unit="m"),
        Column("direction", "<f4", (3,)),
        Column("pose", "<f4", (4, 4)),
    ),
    role=StreamRole.GAZE,
    nominal_hz=30.0,
    clock=Clock.DEVICE,
)


def gaze_recording(folder: Path, seconds: float = 1.0) -> MemoryRecording:
    """A small recording of gaze alone: straight ahead, with its tenth packet lost."""
    packets: list[Packet] = []
    count = round(seconds * GAZE.nominal_hz)
    slots = [slot for slot in range(count) if slot != 9]
    for seq, slot in enumerate(slots):
        record = np.zeros((), GAZE.dtype)
        record["valid"] = record["calibrated"] = True
        record["direction"] = (0.0, 0.0, -1.0)
        record["pose"] = np.eye(4)
        at = SECOND_NS + slot * GAZE.period_ns
        flags = PacketFlags.FIRST_AFTER_GAP if slot == 10 else PacketFlags.NONE
        packets.append(Packet("gaze", seq, at, at, record.tobytes(), b"", flags))
    gap = GapRow(
        "gaze",
        SECOND_NS + 8 * GAZE.period_ns,
        SECOND_NS + 10 * GAZE.period_ns,
        "device_dropped",
        1,
    )
    gaps = [gap] if count > 10 else []
    return MemoryRecording(folder, [(GAZE, packets)], gaps=gaps)
