"""Joins the segments of a session's log into one run of packets, and accounts for what is missing.

Three things happen between segments: entries that may not have reached the disk stand in the next
one again (``continues``: the same packets are taken once), a recorder began anew (its counts start
at 0, and what it did not see is a gap), or the computer itself was started again (its clock too).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from firsthand.api import (
    Clock,
    ClockPair,
    GapCause,
    GapRow,
    Packet,
    PacketFlags,
    StreamSchema,
)
from firsthand.recording.finalise_build import FileBuilder, Start
from firsthand.recording.finalise_clocks import EpochNumbers
from firsthand.recording.finalise_repeats import Repeats
from firsthand.recording.packetlog import (
    CalibrationEntry,
    ClockEntry,
    Damage,
    EndEntry,
    EpochEntry,
    GapEntry,
    HealthEntry,
    LogEntry,
    NoteEntry,
    PacketEntry,
    SessionEntry,
    StateEntry,
    StreamEntry,
    read_log,
)
from firsthand.streams.clock import Epoch
from firsthand.streams.gaps import GapTracker
from firsthand.streams.recount import Recount

_REMEMBER: Final = 32
"""Packets before a restart that tell the phase a stream had."""
_OURS: Final = {GapCause.WRITER_BEHIND.value, GapCause.DISK.value}
"""Causes of holes in ``seq``: packets that the device handed over and that were not stored."""
_CLOCK_JUMP_NS: Final = 5_000_000_000


@dataclass(slots=True)
class _Stream:
    """What is known of a stream while it is joined."""

    name: str
    schema: StreamSchema
    base: int = 0
    """Added to ``seq`` of the present recorder."""
    last: int = -1
    """Last ``seq`` in the file's counting."""
    began: bool = True
    """Whether the present recorder has begun anew and nothing of the stream came since."""
    recent: deque[Packet] = field(default_factory=lambda: deque(maxlen=_REMEMBER))
    restart: GapTracker | None = None
    """Measures the hole over a restart of the recorder, as long as it is undecided."""
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    """Holes in ``seq`` of the present recorder: device times around it, packets."""
    ours: list[GapRow] = field(default_factory=list)
    recount: Recount | None = None
    """Finds what a killed recorder had not yet decided; for streams of a wall clock."""

    def count_again(self) -> None:
        """Begin with the packets of another recorder."""
        wall = self.schema.clock is Clock.DEVICE_WALL
        self.recount = Recount(self.schema) if wall else None


@dataclass(slots=True)
class Joined:
    """What joining found out, for the manifest."""

    session: dict[str, Any] = field(default_factory=dict)
    start: Start = field(default_factory=Start)
    last_host_ns: int = 0
    ended: str | None = None
    """Why the last segment ended; None where nobody wrote its end."""
    restarts: int = 0
    damages: list[tuple[str, Damage]] = field(default_factory=list)
    unfit: int = 0
    """Packets that did not fit what their stream declared."""


class Joiner:
    """Reads segments in order and hands everything to a builder, once."""

    def __init__(self, builder: FileBuilder, on_bytes: Callable[[int], None]) -> None:
        self.joined = Joined()
        self._builder = builder
        self._on_bytes = on_bytes
        self._streams: dict[str, _Stream] = {}
        self._epochs = EpochNumbers()
        self._repeats: Repeats = Repeats(None)
        self._shift_ns = 0
        self._first = True

    def segment(self, path: Path, following: Path | None) -> None:
        """Take one segment; ``following`` is the next, which may repeat what is damaged here."""
        name = path.name
        self._repeats.next_segment(following)
        self.joined.ended = None

        def damaged(damage: Damage) -> None:
            self.joined.damages.append((name, damage))

        for entry in read_log(path, damaged):
            if isinstance(entry, PacketEntry):
                self._packet_in_order(entry)
            else:
                self._other(entry)

    def finish(self) -> None:
        """Account for what is still open."""
        self._settle()
        for stream in self._streams.values():
            self._give_up_restart(stream)

    # -- packets -------------------------------------------------------------------------------

    def _packet_in_order(self, entry: PacketEntry) -> None:
        stream = self._streams[entry.packet.stream]
        seq = stream.base + entry.packet.seq
        if seq <= stream.last:
            return  # repeated by a segment that continues
        for missing in range(stream.last + 1, min(seq, stream.last + 1 + self._repeats.LIMIT)):
            found = self._repeats.find(entry.packet.stream, missing - stream.base)
            if found is not None:
                self._packet(stream, found)
        self._packet(stream, entry)

    def _packet(self, stream: _Stream, entry: PacketEntry) -> None:
        packet = entry.packet
        seq = stream.base + packet.seq
        if seq > stream.last + 1:
            before = stream.recent[-1].device_ns if stream.recent else packet.device_ns
            stream.holes.append((before, packet.device_ns, seq - stream.last - 1))
            packet = replace(packet, flags=packet.flags | PacketFlags.FIRST_AFTER_GAP)
        if stream.began and stream.recent:
            packet = replace(packet, flags=packet.flags | PacketFlags.FIRST_AFTER_GAP)
            self._over_restart(stream, packet)
        stream.began = False
        stream.last = seq
        arrival_ns = packet.arrival_ns + self._shift_ns
        self.joined.last_host_ns = max(self.joined.last_host_ns, arrival_ns)
        if not self._builder.writers[stream.name].layout.fits(packet):
            self.joined.unfit += 1
            before = stream.recent[-1].device_ns if stream.recent else packet.device_ns
            cause = GapCause.DAMAGED_PACKET.value
            self._builder.gap(stream.name, GapRow(stream.name, before, packet.device_ns, cause, 1))
            return
        stream.recent.append(packet)
        if stream.recount is not None:
            stream.recount.packet(packet)
        self._on_bytes(len(packet.fields) + len(packet.payload))
        self._builder.packet(stream.name, packet, seq, entry.crc32, arrival_ns)

    def _over_restart(self, stream: _Stream, packet: Packet) -> None:
        tracker = GapTracker(stream.schema, stream.recent[0].arrival_ns)
        for earlier in stream.recent:
            tracker.packet(earlier)
        tracker.interrupted(GapCause.RECORDER_DOWN, "the recorder began anew")
        _, rows = tracker.packet(packet)
        before_ns = stream.recent[-1].device_ns
        if not rows and not tracker.undecided and packet.device_ns <= before_ns:
            # The device's clock began anew meanwhile: that there is a hole is all that is known.
            cause = GapCause.RECORDER_DOWN.value
            rows = [GapRow(stream.name, before_ns, packet.device_ns, cause, -1)]
        self._rows(stream, rows)
        stream.restart = tracker if tracker.undecided else None

    def _give_up_restart(self, stream: _Stream) -> None:
        if stream.restart is not None:
            self._rows(stream, stream.restart.close())
            stream.restart = None

    def _rows(self, stream: _Stream, rows: Sequence[GapRow]) -> None:
        for row in rows:
            if row.cause != GapCause.NOT_STARTED.value:
                self._builder.gap(stream.name, replace(row, stream=stream.name))

    def _settle(self) -> None:
        """Holes in ``seq`` that no gap row of the recorder tells of were lost on the disk."""
        for stream in self._streams.values():
            for start_ns, stop_ns, packets in stream.holes:
                told = sum(
                    row.packets_lost
                    for row in stream.ours
                    if row.stop_ns >= start_ns and row.start_ns <= stop_ns
                )
                if packets > told:
                    cause = GapCause.DISK.value
                    row = GapRow(stream.name, start_ns, stop_ns, cause, packets - max(0, told))
                    self._builder.gap(stream.name, row)
                    if stream.recount is not None:
                        stream.recount.told(row)
            stream.holes, stream.ours = [], []
            if stream.recount is not None:
                self._rows(stream, stream.recount.missing())
                stream.count_again()

    # -- other entries ---------------------------------------------------------------------------

    def _other(self, entry: LogEntry) -> None:
        if self._repeats.seen(entry):
            return
        builder, shift_ns = self._builder, self._shift_ns
        match entry:
            case SessionEntry():
                self._session(entry.about)
            case StreamEntry():
                self._stream(entry.schema)
            case GapEntry():
                self._gap(entry.gap)
            case ClockEntry():
                self._clock(_shifted(entry.pair, shift_ns))
            case EpochEntry():
                for stream in self._streams.values():
                    if stream.recount is not None:
                        stream.recount.epoch(entry.epoch.clock, entry.epoch.epoch)
                moment = replace(entry.epoch, host_ns=entry.epoch.host_ns + shift_ns)
                self._began(self._epochs.epoch(moment))
            case CalibrationEntry():
                builder.calibration(entry)
            case NoteEntry():
                builder.note(entry, entry.host_ns + shift_ns)
            case StateEntry():
                builder.state(entry, entry.host_ns + shift_ns)
            case HealthEntry():
                builder.health(entry, entry.host_ns + shift_ns)
            case EndEntry():
                self.joined.ended = entry.reason
                end_ns = entry.host_ns + shift_ns
                self.joined.last_host_ns = max(self.joined.last_host_ns, end_ns)
            case _:
                pass

    def _session(self, about: dict[str, Any]) -> None:
        start = _start(about)
        if self._first:
            self._first = False
            self.joined.session = about
            if start is not None:
                self.joined.start = start
            return
        self._repeats.continues = bool(about.get("continues"))
        if self._repeats.continues:
            return
        self._settle()
        self.joined.restarts += 1
        self._epochs.restart()
        if start is not None and self.joined.start.utc_ns:
            first = self.joined.start
            off_ns = (start.utc_ns - first.utc_ns) - (start.host_ns - first.host_ns)
            # The host's clock is another one where it went back, or lost minutes: a reboot.
            jumped = start.host_ns < first.host_ns or abs(off_ns) > _CLOCK_JUMP_NS
            self._shift_ns = off_ns if jumped else 0
        for stream in self._streams.values():
            self._give_up_restart(stream)
            stream.base = stream.last + 1
            stream.began = True

    def _stream(self, schema: StreamSchema) -> None:
        known = self._streams.get(schema.name)
        if known is not None and _alike(known.schema, schema):
            return
        name, number = schema.name, 1
        while name in self._builder.writers:
            number += 1
            name = f"{schema.name}~{number}"
        schema_here = replace(schema, name=name)
        self._streams[schema.name] = _Stream(name, schema_here)
        self._streams[schema.name].count_again()
        self._builder.stream(name, schema_here)

    def _gap(self, gap: GapRow) -> None:
        stream = self._streams.get(gap.stream)
        if stream is None:
            return
        if gap.cause == GapCause.NOT_STARTED.value and stream.base > 0:
            return  # a recorder that began anew: that hole is measured from packets
        if gap.cause in _OURS:
            stream.ours.append(gap)
        if stream.recount is not None:
            stream.recount.told(gap)
        self._builder.gap(stream.name, replace(gap, stream=stream.name))

    def _clock(self, pair: ClockPair) -> None:
        numbered, epochs = self._epochs.pair(pair)
        self._began(epochs)
        self._builder.pair(numbered)
        for stream in self._streams.values():
            if stream.recount is not None:
                stream.recount.clock(pair)
            if stream.restart is not None:
                self._rows(stream, stream.restart.clock(numbered))
                if not stream.restart.undecided:
                    stream.restart = None

    def _began(self, epochs: Sequence[Epoch]) -> None:
        for epoch in epochs:
            self._builder.epoch(epoch)


def _alike(a: StreamSchema, b: StreamSchema) -> bool:
    """Whether packets of both belong into one group."""
    return (
        a.columns == b.columns
        and a.payload is b.payload
        and a.row_time == b.row_time
        and a.clock is b.clock
        and (a.sample_hz, a.channels) == (b.sample_hz, b.channels)
    )


def _shifted(pair: ClockPair, shift_ns: int) -> ClockPair:
    if not shift_ns or pair.clock is Clock.HOST:
        return pair
    return replace(
        pair,
        host_before_ns=pair.host_before_ns + shift_ns,
        host_after_ns=pair.host_after_ns + shift_ns,
    )


def _start(about: dict[str, Any]) -> Start | None:
    start = about.get("start")
    try:
        return Start(int(start["host_ns"]), int(start["utc_ns"])) if start else None
    except (KeyError, TypeError, ValueError):
        return None


def segments_with_next(paths: Sequence[Path]) -> Iterator[tuple[Path, Path | None]]:
    """Each path with its successor."""
    for i, path in enumerate(paths):
        yield path, paths[i + 1] if i + 1 < len(paths) else None
