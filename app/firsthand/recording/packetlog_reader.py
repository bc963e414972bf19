"""Reads a packet log, whatever has happened to it.

Memory is bounded by the largest frame. A length is believed only when the head's checksum is
right and the file is long enough. After damage the next frame is looked for byte by byte, by its
magic and its checksums, so shifted, swapped or lost blocks cost the frames they touch and no more.
"""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

import numpy as np

from firsthand.api import (
    Clock,
    ClockPair,
    DamagedError,
    GapRow,
    Packet,
    PacketFlags,
    StorageError,
    StreamSchema,
    StreamState,
)
from firsthand.recording.packetlog_entries import (
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
)
from firsthand.recording.packetlog_frames import (
    DECLARATIONS,
    FILE_HEADER,
    FILE_MAGIC,
    HEAD_BYTES,
    MAGIC,
    Head,
    Kind,
    head_log_id,
    parse_head,
)
from firsthand.streams.clock import Epoch

_BUFFER: Final = 1024 * 1024
_log = logging.getLogger(__name__)

OnDamage = Callable[[Damage], None]


def read_log(path: Path, on_damage: OnDamage | None = None) -> Iterator[LogEntry]:
    """Every entry of one segment whose checksums hold, in the order written.

    ``on_damage`` is told of every stretch that no good frame covers. The session and each stream
    are given once, before what refers to them. Raises ``StorageError`` where the file cannot be
    read, ``DamagedError`` where it is something other than a packet log.
    """
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            yield from _LogReader(path, file, on_damage or _ignore).entries()
    except OSError as error:
        raise StorageError(
            f"The packet log {path} could not be read: {error.strerror or error}.",
            try_this="Check that the disk is there and that you may read the file.",
        ) from error


def _ignore(_: Damage) -> None:
    pass


class _LogReader:
    def __init__(self, path: Path, file: BinaryIO, on_damage: OnDamage) -> None:
        self._path = path
        self._file = file
        self._size = file.seek(0, 2)
        self._on_damage = on_damage
        self._log_id: int | None = None
        self._streams: dict[int, StreamSchema] = {}
        self._unknown: set[int] = set()
        self._session_given = False
        self._last: int | None = None

    def entries(self) -> Iterator[LogEntry]:
        offset = self._start()
        while offset < self._size:
            good = self._frame(offset)
            if good is None:
                after, found = self._next_good(offset)
                self._tell(offset, after, found)
                offset = after
                continue
            head, fields, payload = good
            length = HEAD_BYTES + head.body_bytes
            if head.sequence:
                self._last = head.sequence
            try:
                if not self._session_given and head.kind != Kind.SESSION:
                    yield from self._missed_session(offset)
                yield from self._decoded(head, fields, payload, offset)
            except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
                reason = f"an entry that makes no sense ({type(error).__name__})"
                self._on_damage(Damage(offset, length, reason, 1))
            offset += length

    def _start(self) -> int:
        """Find out which log this is; give the offset of the first frame."""
        raw = self._read(0, FILE_HEADER.size)
        if len(raw) < FILE_HEADER.size and FILE_MAGIC.startswith(raw[: len(FILE_MAGIC)]):
            return 0  # killed while writing the very first bytes: torn
        if raw.startswith(FILE_MAGIC):
            self._log_id = FILE_HEADER.unpack(raw)[1]
            if self._size == len(raw) or self._next_good(len(raw) - 1)[1] is not None:
                return len(raw)
        # The header is damaged, or nothing else is whole: the first good frame tells.
        self._log_id = None
        after, found = self._next_good(-1)
        if found is not None:
            self._log_id = head_log_id(self._read(after, HEAD_BYTES))
        elif not raw.startswith(FILE_MAGIC) and any(raw):
            raise DamagedError(f"{self._path} is not a packet log of Firsthand.")
        return 0

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size)

    def _frame(self, offset: int) -> tuple[Head, bytes, bytes] | None:
        """The frame at ``offset`` if it is whole."""
        head = parse_head(self._read(offset, HEAD_BYTES), self._log_id)
        if head is None or offset + HEAD_BYTES + head.body_bytes > self._size:
            return None
        fields = self._file.read(head.fields_bytes)
        payload = self._file.read(head.payload_bytes)
        if crc32(payload, crc32(fields)) != head.body_crc32:
            return None
        return head, fields, payload

    def _next_good(self, offset: int) -> tuple[int, Head | None]:
        """Where the next whole frame after ``offset`` begins, or the file's end."""
        at = offset + 1
        while at < self._size:
            block = self._read(at, _BUFFER)
            if not block:
                break
            found = block.find(MAGIC)
            while found >= 0:
                good = self._frame(at + found)
                if good is not None:
                    return at + found, good[0]
                found = block.find(MAGIC, found + 1)
            if at + len(block) >= self._size:
                break
            at += len(block) - len(MAGIC) + 1
        return self._size, None

    def _tell(self, offset: int, after: int, found: Head | None) -> None:
        torn = after >= self._size
        # Declarations do not count, so the number after the damage may belong to a later frame.
        missing = -1
        if found is not None and found.sequence and self._last is not None:
            missing = found.sequence - self._last - 1
        reason = "the end is torn off" if torn else "bytes are damaged"
        self._on_damage(Damage(offset, after - offset, reason, max(missing, -1), torn))

    # -- from frames to entries ------------------------------------------------------------------

    def _decoded(
        self, head: Head, fields: bytes, payload: bytes, offset: int
    ) -> Iterator[LogEntry]:
        if head.kind == Kind.PACKET:
            schema = self._streams.get(head.stream)
            if schema is None:
                schema = self._look_ahead_for_stream(head.stream, offset)
                if schema is None:
                    raise KeyError(head.stream)
                yield StreamEntry(schema)
            yield PacketEntry(
                Packet(
                    schema.name,
                    head.seq,
                    head.device_ns,
                    head.host_ns,
                    fields,
                    payload,
                    PacketFlags(head.flags),
                ),
                head.body_crc32,
            )
            return
        about = json.loads(fields)
        if not isinstance(about, dict):
            raise TypeError("not a JSON object")
        if head.kind == Kind.SESSION:
            if not self._session_given:
                self._session_given = True
                yield SessionEntry(about)
        elif head.kind == Kind.STREAM:
            if head.stream not in self._streams:
                self._streams[head.stream] = schema = StreamSchema.from_json(about)
                yield StreamEntry(schema)
        else:
            entry = _decode_other(head, about, payload)
            if entry is not None:
                yield entry

    def _missed_session(self, offset: int) -> Iterator[LogEntry]:
        """The session's entry from a later repetition, where the first one is damaged."""
        self._session_given = True
        for _, fields in self._declarations_after(offset, Kind.SESSION):
            yield SessionEntry(json.loads(fields))
            return

    def _look_ahead_for_stream(self, number: int, offset: int) -> StreamSchema | None:
        if number not in self._unknown:
            for head, fields in self._declarations_after(offset, Kind.STREAM):
                if head.stream == number:
                    self._streams[number] = schema = StreamSchema.from_json(json.loads(fields))
                    return schema
            self._unknown.add(number)
        return None

    def _declarations_after(self, offset: int, kind: Kind) -> Iterator[tuple[Head, bytes]]:
        """Declarations later in the file; heads alone are read on the way."""
        while offset < self._size:
            head = parse_head(self._read(offset, HEAD_BYTES), self._log_id)
            if head is None or (head.kind in DECLARATIONS and self._frame(offset) is None):
                offset, found = self._next_good(offset)
                if found is None:
                    return
                head = found
            if head.kind == kind:
                yield head, self._read(offset + HEAD_BYTES, head.fields_bytes)
            offset += HEAD_BYTES + head.body_bytes


def _decode_other(head: Head, about: dict[str, Any], payload: bytes) -> LogEntry | None:
    """Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what the writer never wrote."""
    at_ns = head.host_ns
    match head.kind:
        case Kind.GAP:
            return GapEntry(GapRow(**about))
        case Kind.CLOCK:
            return ClockEntry(ClockPair(**{**about, "clock": Clock(about["clock"])}))
        case Kind.EPOCH:
            clock = Clock(about["clock"])
            return EpochEntry(Epoch(clock, int(about["epoch"]), at_ns, str(about["reason"])))
        case Kind.CALIBRATION:
            values = _arrays(about["arrays"], payload)
            return CalibrationEntry(about["name"], values, about["about"], at_ns)
        case Kind.NOTE:
            return NoteEntry(about["kind"], about["about"], at_ns)
        case Kind.STATE:
            state = StreamState(about["state"])
            return StateEntry(about["stream"], state, about["reason"], at_ns)
        case Kind.HEALTH:
            return HealthEntry(tuple(about["rows"]), at_ns)
        case Kind.END:
            return EndEntry(about["reason"], at_ns)
        case _:
            _log.warning("a log holds an entry of a kind that this version does not know")
            return None


def _arrays(listed: list[Any], body: bytes) -> dict[str, "np.typing.NDArray[np.generic]"]:
    arrays: dict[str, np.typing.NDArray[np.generic]] = {}
    at = 0
    for name, dtype, shape in listed:
        kind = np.dtype(str(dtype))
        if kind.hasobject or any(int(n) < 0 for n in shape):
            raise ValueError("an array that is not plain numbers")
        count = 1
        for n in shape:
            count *= int(n)
        if count * kind.itemsize > len(body) - at:
            raise ValueError("an array longer than its frame")
        array = np.frombuffer(body, kind, count, at).reshape([int(n) for n in shape])
        arrays[str(name)] = array
        at += count * kind.itemsize
    return arrays
