"""An open recording: what ``firsthand.open`` gives."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.api import (
    Clock,
    ClockPair,
    DamagedError,
    GapRow,
    Packet,
    PacketFlags,
    RecordingError,
    Sound,
    StreamRole,
    StreamSchema,
)
from firsthand.recording import layout
from firsthand.recording.manifest import Manifest
from firsthand.recording.reader.audio import Audio
from firsthand.recording.reader.facts import Facts
from firsthand.recording.reader.on_picture import OnPicture
from firsthand.recording.reader.store import StreamStore
from firsthand.recording.reader.stream import Stream
from firsthand.recording.reader.timeline import Timeline
from firsthand.recording.reader.video import Video
from firsthand.streams.clock import ClockFit, ClockTable, Epoch

_log = logging.getLogger(__name__)


class Recording(OnPicture):
    """A finished recording, read only. Close it, or use it in a ``with`` block.

    Wherever a time is asked for or given it is in seconds from the start of the session (a float);
    asked for, it may also be a UTC ``datetime`` with its time zone. Clock drift and steps of the
    headset's wall clock are taken out by the measured pairs in the file (``clock``).

    ``streams`` holds every stream by name; ``video``, ``gaze``, ``hands`` and ``audio`` are those
    that the recording has in these roles.
    """

    def __init__(self, folder: Path, file: h5py.File, manifest: Manifest) -> None:
        self._folder = folder
        self._file = file
        self._manifest = manifest
        try:
            self._open()
        except (KeyError, TypeError, ValueError, AttributeError, OSError, RuntimeError) as error:
            raise DamagedError(
                f"{file.filename} is not laid out as a recording of Firsthand.",
                try_this="Run `firsthand check` on it to learn more.",
            ) from error

    def _open(self) -> None:
        attributes = self._file.attrs
        start_host_ns = int(attributes["start_host_ns"])
        self._start_utc_ns = int(attributes["start_utc_ns"])
        self.facts = Facts(self._file)
        self._stores: dict[str, StreamStore] = {}
        for group in self._file[layout.STREAMS].values():
            schema = StreamSchema.from_json(json.loads(bytes(group.attrs["schema"])))
            self._stores[schema.name] = StreamStore(group, schema)
        table = ClockTable(self.facts.pairs, self.facts.epochs)
        self.timeline = Timeline(table, start_host_ns, self._start_utc_ns)
        self._streams = {name: Stream(store, self.timeline) for name, store in self._stores.items()}
        self._videos: dict[str, Video] = {}
        self._audios: dict[str, Audio] = {}
        self._duration_s: float | None = None

    # -- what it is ----------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The session's folder."""
        return self._folder

    @property
    def filename(self) -> str:
        """The file that is open."""
        return str(self._file.filename)

    @property
    def manifest(self) -> Mapping[str, Any]:
        """``manifest.json`` as JSON types; empty where a file was opened that has none."""
        return self._manifest.model_dump(mode="json", exclude_none=True)

    @property
    def session(self) -> Mapping[str, Any]:
        """What the session told the recorder."""
        return self.facts.session

    @property
    def start_utc(self) -> datetime:
        """The start of the session."""
        return self.timeline.utc(0.0)

    @property
    def start_utc_ns(self) -> int:
        """The start of the session, nanoseconds since 1970-01-01 UTC."""
        return self._start_utc_ns

    @property
    def duration_s(self) -> float:
        """From the session's start to its stop, or to the last packet where no stop is known."""
        if self._duration_s is None:
            stop = self._manifest.stop
            if stop is not None and self._manifest.start is not None:
                self._duration_s = (stop.host_ns - self._manifest.start.host_ns) / 1e9
            else:
                ends = [s.times_s.max() for s in self._streams.values() if len(s)]
                self._duration_s = float(max(ends, default=0.0))
        return self._duration_s

    @property
    def bytes(self) -> int:
        """Size of all streams' content."""
        return sum(store.bytes for store in self._stores.values())

    # -- streams -------------------------------------------------------------------------------

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Every stream by name."""
        return self._streams

    @property
    def schemas(self) -> Mapping[str, StreamSchema]:
        """What each stream declared."""
        return {name: store.schema for name, store in self._stores.items()}

    def stream_of(self, role: StreamRole) -> Stream:
        """The first stream in a role. Raises ``RecordingError`` where there is none."""
        for stream in self._streams.values():
            if stream.schema.role is role:
                return stream
        raise RecordingError(f"This recording has no stream for {role.value}.")

    @property
    def video(self) -> Video:
        """The front camera. ``RecordingError`` where there is none, as with the others."""
        return self.video_of(self.stream_of(StreamRole.VIDEO).schema.name)

    @property
    def audio(self) -> Audio:
        """The microphone."""
        return self.audio_of(self.stream_of(StreamRole.MICROPHONE).schema.name)

    @property
    def gaze(self) -> Stream:
        """The eye tracker."""
        return self.stream_of(StreamRole.GAZE)

    @property
    def hands(self) -> Stream:
        """Hands (and head, where the device gives both in one stream)."""
        return self.stream_of(StreamRole.HANDS)

    def video_of(self, stream: str) -> Video:
        """The pictures of any stream that has some, grey cameras included."""
        if stream not in self._videos:
            self._videos[stream] = Video(self.store(stream), self.timeline)
        return self._videos[stream]

    def audio_of(self, stream: str) -> Audio:
        """The sound of any stream that has some."""
        if stream not in self._audios:
            self._audios[stream] = Audio(self.store(stream), self.timeline)
        return self._audios[stream]

    def times_s(self, stream: str) -> npt.NDArray[np.float64]:
        """Time of every packet of a stream; of every row where rows have times of their own."""
        self.store(stream)
        return self._streams[stream].times_s

    def records(self, stream: str) -> npt.NDArray[np.void]:
        """The stream's records, one per packet (or row), in the schema's ``dtype``."""
        return self.store(stream).records()

    def flags(self, stream: str) -> npt.NDArray[np.uint32]:
        """The marks of every packet (``PacketFlags``)."""
        flags: npt.NDArray[np.uint32] = self.store(stream).header["flags"]
        return flags

    def packets(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Packet]:
        """Stored packets by index, payload included, as they were received.

        Raises ``DamagedError`` on a packet whose checksum does not hold.
        """
        return self._streams_packets(self.store(stream), start, stop)

    def sound(self, stream: str, start_s: float, stop_s: float) -> Sound:
        """Sound of a microphone by the session's time, drift of its crystal taken out."""
        return self.audio_of(stream).sound(start_s, stop_s)

    def gaps(self, stream: str | None = None) -> Sequence[GapRow]:
        """Intervals in which a stream (or any) delivered nothing, times by the stream's clock."""
        if stream is not None:
            return self.store(stream).gaps()
        return [gap for store in self._stores.values() for gap in store.gaps()]

    def gaps_s(self, stream: str) -> npt.NDArray[np.float64]:
        """Start and stop of each of ``gaps`` in the session's time: (n, 2) seconds."""
        self.store(stream)
        return self._streams[stream].gaps_s

    # -- the rest ------------------------------------------------------------------------------

    @property
    def clock(self) -> Mapping[Clock, Sequence[ClockFit]]:
        """How each clock ran against the recording computer's, one fit per epoch."""
        clocks = {pair.clock for pair in self.facts.pairs}
        return {clock: self.timeline.table.fits(clock) for clock in sorted(clocks)}

    @property
    def clock_pairs(self) -> Sequence[ClockPair]:
        """The measured pairs."""
        return self.facts.pairs

    @property
    def epochs(self) -> Sequence[Epoch]:
        """Where clocks were stepped or began anew."""
        return self.facts.epochs

    @property
    def calibration(self) -> Mapping[str, Mapping[str, npt.NDArray[Any]]]:
        """Calibrations as downloaded: named arrays by name."""
        return self.facts.calibration

    @property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        """Facts told by devices: ``host_ns``, ``time_s``, ``kind``, ``about``."""
        start_ns = self.timeline.start_host_ns
        return [{**note, "time_s": (note["host_ns"] - start_ns) / 1e9} for note in self.facts.notes]

    @property
    def events(self) -> Sequence[Mapping[str, Any]]:
        """The session's journal: what was done, shown and said, in order. Empty without one."""
        path = self._folder / "journal.jsonl"
        if not path.is_file():
            return []
        found = []
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                _log.warning("a line of the journal cannot be read and is left out")
                continue
            if isinstance(event, dict):
                found.append(event)
        return found

    def close(self) -> None:
        """Give the file back. May be called twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self._streams)
        return f"<Recording {self._folder.name}: {self.duration_s:.1f} s; {names}>"

    def store(self, stream: str) -> StreamStore:
        """A stream's datasets packet by packet: for checks, below what others need."""
        try:
            return self._stores[stream]
        except KeyError:
            raise RecordingError(
                f"This recording has no stream {stream!r}.",
                try_this=f"It has {', '.join(self._stores) or 'none at all'}.",
            ) from None

    @staticmethod
    def _streams_packets(store: StreamStore, start: int, stop: int | None) -> Iterator[Packet]:
        from zlib import crc32

        count = len(store)
        begin, end, _ = slice(start, stop).indices(count)
        name = store.schema.name
        for first, last in store.batches(begin, end):
            headers = store.header[first:last].tolist()
            for header, (fields, payload) in zip(headers, store.contents(first, last), strict=True):
                device_ns, arrival_ns, seq, check, flags = header
                if crc32(payload, crc32(fields)) != check:
                    raise DamagedError(f"Packet {seq} of {name} is damaged.")
                yield Packet(
                    name, seq, device_ns, arrival_ns, bytes(fields), payload, PacketFlags(flags)
                )
