"""The bytes of a packet log: a file header, then frames.

A file begins with ``FILE_MAGIC`` (12 bytes) and a random log id (4 bytes). Every frame has a head
of ``HEAD_BYTES`` and a body of ``fields`` (a packet's record, or JSON in UTF-8) and ``payload``:

    magic 4s · log id u4 · sequence u4 · kind u1 · version u1 · stream u2 · fields length u4 ·
    payload length u4 · seq u4 · flags u4 · device_ns i8 · host_ns i8 · body crc32 u4 ·
    head crc32 u4

all little-endian. The head has a checksum of its own, so a length is believed only after it has
proved right: a forged or damaged one never allocates and never leads astray. The body's checksum is
the record's (``record_crc32``), computed once and carried along into the file and every export. The
log id keeps frames apart that another log left in the same disk blocks, or that lie in a payload.

``sequence`` counts entries from 1, over all segments that one recorder process writes.
Declarations (session, streams) carry 0: they are repeated now and then, lest one damaged page
makes a stream's packets unreadable.
"""

import json
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple
from zlib import crc32

FILE_MAGIC: Final = b"\x89FHPLOG1\r\n\x1a\n"
FILE_HEADER: Final = struct.Struct("<12sI")
MAGIC: Final = b"\xf5FH\n"
VERSION: Final = 1
HEAD: Final = struct.Struct("<4sIIBBHIIIIqqI")
CRC: Final = struct.Struct("<I")
HEAD_BYTES: Final = HEAD.size + CRC.size
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Largest body of a frame. A raw picture of the largest camera has 8 MB."""

Pieces = tuple[bytes | memoryview, ...]


class Kind(IntEnum):
    """What a frame holds."""

    SESSION = 1
    STREAM = 2
    PACKET = 3
    GAP = 4
    CLOCK = 5
    EPOCH = 6
    CALIBRATION = 7
    NOTE = 8
    STATE = 9
    HEALTH = 10
    END = 11


DECLARATIONS: Final = frozenset({Kind.SESSION, Kind.STREAM})


class Head(NamedTuple):
    """A frame's head, its checksum already proved."""

    sequence: int
    kind: int
    stream: int
    fields_bytes: int
    payload_bytes: int
    seq: int
    flags: int
    device_ns: int
    host_ns: int
    body_crc32: int

    @property
    def body_bytes(self) -> int:
        return self.fields_bytes + self.payload_bytes


def record_crc32(fields: bytes, payload: bytes | memoryview) -> int:
    """The checksum of a packet's record, the same in log, file and exports."""
    return crc32(payload, crc32(fields))


def frame(
    log_id: int,
    sequence: int,
    kind: int,
    host_ns: int,
    fields: bytes,
    payload: bytes | memoryview = b"",
    *,
    stream: int = 0,
) -> Pieces:
    """One frame of an entry other than a packet, as pieces to be written one after the other; the
    payload is not copied.

    Raises ``struct.error`` where a number does not fit.
    """
    head = HEAD.pack(
        MAGIC,
        log_id,
        sequence,
        kind,
        VERSION,
        stream,
        len(fields),
        len(payload),
        0,
        0,
        0,
        host_ns,
        crc32(payload, crc32(fields)),
    )
    proved = head + CRC.pack(crc32(head)) + fields
    return (proved, payload) if payload else (proved,)


def parse_head(raw: bytes, log_id: int | None) -> Head | None:
    """The head in ``raw``, or None where it is none, is damaged or belongs to another log."""
    if len(raw) < HEAD_BYTES or not raw.startswith(MAGIC):
        return None
    if CRC.unpack_from(raw, HEAD.size)[0] != crc32(raw[: HEAD.size]):
        return None
    _, of, sequence, kind, version, stream, fields, payload, *rest = HEAD.unpack_from(raw)
    if version != VERSION or (log_id is not None and of != log_id):
        return None
    if fields + payload > MAX_BODY_BYTES:
        return None
    seq, flags, device_ns, host_ns, body_crc = rest
    return Head(sequence, kind, stream, fields, payload, seq, flags, device_ns, host_ns, body_crc)


def head_log_id(raw: bytes) -> int:
    """The id of the log that a proved head belongs to."""
    return int(CRC.unpack_from(raw, len(MAGIC))[0])


def to_json(about: Mapping[str, Any]) -> bytes:
    """JSON as it stands in a frame. Raises ``TypeError`` or ``ValueError`` for other than JSON."""
    return json.dumps(dict(about), separators=(",", ":"), ensure_ascii=False).encode()
