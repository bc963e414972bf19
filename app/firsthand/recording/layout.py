"""How ``raw.h5`` is laid out, spelt once: finaliser, reader, gate and documentation use this.

``docs/file-format.md`` tells the same in words, and a test compares the two.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api import POSE, Column, Packet, PayloadKind, StreamSchema
from firsthand.recording.names import FORMAT as FORMAT
from firsthand.recording.names import FORMAT_VERSION as FORMAT_VERSION
from firsthand.recording.names import MANIFEST as MANIFEST
from firsthand.recording.names import PARTIAL as PARTIAL
from firsthand.recording.names import RAW as RAW

LIBVER: Final = ("v110", "v110")
"""What HDF5 1.10 and everything since can open; superblock 3, so that metadata have checksums."""

BLOB_CHUNK_BYTES: Final = 256 * 1024
TABLE_CHUNK_BYTES: Final = 64 * 1024
NAME_BYTES: Final = 64
WORD_BYTES: Final = 32

STREAMS: Final = "streams"
CLOCK: Final = "clock"
EPOCHS: Final = "epochs"
CALIBRATION: Final = "calibration"
HEALTH: Final = "health"
STATES: Final = "states"
NOTES: Final = "notes"
SESSION: Final = "session"
INDEX: Final = "index"
BLOB: Final = "blob"
SAMPLES: Final = "samples"
FRAME: Final = "frame"
GAPS: Final = "gaps"
TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table: numpy type (``S`` is UTF-8 text), unit and meaning."""

    name: str
    dtype: str
    unit: str
    description: str


DEVICE_NS = Field("device_ns", "<i8", "ns", "time by the stream's own clock")
ARRIVAL_NS = Field("arrival_ns", "<i8", "ns", "host clock when the packet had arrived")
SEQ = Field("seq", "<u4", "1", "count of the stream's packets, from 0, without holes")
CRC32 = Field("crc32", "<u4", "1", "CRC-32 of the packet's record followed by its payload")
FLAGS = Field("flags", "<u4", "1", "1 key frame, 2 first after a gap, 4 time went back, 8 new link")
OFFSET = Field("offset", "<u8", "byte", "where the payload begins in blob")
LENGTH = Field("length", "<u4", "byte", "length of the payload")
ROW = Field("row", "<u8", "1", "where the packet's rows begin in samples")
ROWS = Field("rows", "<u4", "1", "number of the packet's rows")
HOST_NS = Field("host_ns", "<i8", "ns", "host clock")

GAP_FIELDS: Final = (
    Field("start_ns", "<i8", "ns", "stream's clock: last packet before the gap"),
    Field("stop_ns", "<i8", "ns", "stream's clock: first packet after the gap"),
    Field("cause", f"S{WORD_BYTES}", "1", "why packets are missing"),
    Field("packets_lost", "<i8", "1", "packets that are missing, -1 where it cannot be known"),
)
PAIR_FIELDS: Final = (
    Field("host_before_ns", "<i8", "ns", "host clock just before the other clock was read"),
    Field("host_after_ns", "<i8", "ns", "host clock just after the other clock was read"),
    Field("device_ns", "<i8", "ns", "reading of the other clock"),
    Field("epoch", "<i4", "1", "stretch in which the clock ran steadily"),
)
EPOCH_FIELDS: Final = (
    Field("clock", f"S{WORD_BYTES}", "1", "which clock"),
    Field("epoch", "<i4", "1", "number of the stretch that begins"),
    HOST_NS,
    Field("reason", "S", "1", "why a new stretch begins"),
)
STATE_FIELDS: Final = (
    HOST_NS,
    Field("stream", f"S{NAME_BYTES}", "1", "which stream"),
    Field("state", f"S{WORD_BYTES}", "1", "where the stream stands from now on"),
    Field("reason", "S", "1", "in words, for the administrator"),
)
NOTE_FIELDS: Final = (
    HOST_NS,
    Field("kind", f"S{NAME_BYTES}", "1", "what the note is about"),
    OFFSET,
    LENGTH,
)
HEALTH_FIELDS: Final = (
    HOST_NS,
    Field("stream", f"S{NAME_BYTES}", "1", "which stream"),
    Field("state", f"S{WORD_BYTES}", "1", "where the stream stands"),
    Field("word", f"S{WORD_BYTES}", "1", "good, degraded, poor or silent"),
    Field("rate_hz", "<f8", "Hz", "packets per second of late"),
    Field("silence_s", "<f8", "s", "time since the last packet"),
    Field("age_ms", "<f8", "ms", "age of packets at arrival"),
    Field("drop_ratio", "<f8", "1", "share of packets lost so far"),
    Field("longest_drop_s", "<f8", "s", "longest gap so far"),
    Field("dropped", "<i8", "1", "packets lost so far"),
    Field("bad_times", "<i8", "1", "packets whose time went back so far"),
    Field("packets", "<i8", "1", "packets stored so far"),
    Field("bytes", "<i8", "byte", "bytes stored so far"),
)


def text_dtype(width: int) -> np.dtype[Any]:
    """UTF-8 text of at most ``width`` bytes. Fixed length: variable text has no checksum."""
    import h5py

    dtype: np.dtype[Any] = h5py.string_dtype("utf-8", max(1, width))
    return dtype


def table_dtype(fields: tuple[Field, ...], text_width: int = 1) -> np.dtype[np.void]:
    """The compound of a table; ``text_width`` is the width of fields declared as plain ``S``."""
    parts: list[tuple[str, Any]] = []
    for field in fields:
        if field.dtype.startswith("S"):
            parts.append((field.name, text_dtype(int(field.dtype[1:] or text_width))))
        else:
            parts.append((field.name, field.dtype))
    return np.dtype(parts)


def group_name(stream: str) -> str:
    """The name of a stream's group: slashes and a leading dot would mean something to HDF5."""
    name = "".join("_" if c == "/" or not c.isprintable() else c for c in stream)
    return "_" + name.lstrip(".") if name.startswith(".") or not name else name


def chunk_rows(dtype: np.dtype[Any]) -> int:
    """Rows of a table that make a chunk of about ``TABLE_CHUNK_BYTES``."""
    return max(1, TABLE_CHUNK_BYTES // max(1, dtype.itemsize))


HEADER_FIELDS: Final = (DEVICE_NS, ARRIVAL_NS, SEQ, CRC32, FLAGS)
"""What every stored packet has, in whatever shape its stream is."""
HEADER_DTYPE: Final = table_dtype(HEADER_FIELDS)


class StreamLayout:
    """Where the parts of one stream's packets go, and how they come back together.

    Three shapes: ``index`` + ``blob`` (+ ``frame``) for streams with a payload; ``samples`` alone
    for one record per packet; ``index`` + ``samples`` for packets of many rows. A pose column goes
    into a dataset ``pose`` of its own, row by row beside ``frame`` or ``samples``.
    """

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self.has_blob = schema.payload is not PayloadKind.NONE
        self.has_rows = schema.row_time is not None
        self.has_index = self.has_blob or self.has_rows
        self.has_pose = any(c.name == POSE and c.shape == (4, 4) for c in schema.columns)
        self.columns: tuple[Column, ...] = tuple(
            c for c in schema.columns if not (self.has_pose and c.name == POSE)
        )
        self.index_fields: tuple[Field, ...] = ()
        if self.has_index:
            where = ((OFFSET, LENGTH) if self.has_blob else ()) + (
                (ROW, ROWS) if self.has_rows else ()
            )
            self.index_fields = (DEVICE_NS, ARRIVAL_NS, *where, SEQ, CRC32, FLAGS)
        self.header_fields = () if self.has_index else HEADER_FIELDS
        self.table = FRAME if self.has_blob and not self.has_rows else SAMPLES
        """Name of the dataset that holds the columns."""
        self.has_table = bool(self.columns) or not self.has_index

    def stored_name(self, column: str) -> str:
        """The column's name in ``samples``: one that a header field bears gets an underscore."""
        taken = {field.name for field in self.header_fields}
        while column in taken:
            column += "_"
        return column

    @property
    def index_dtype(self) -> np.dtype[np.void]:
        return table_dtype(self.index_fields)

    @property
    def table_dtype(self) -> np.dtype[np.void]:
        parts: list[tuple[Any, ...]] = [(f.name, f.dtype) for f in self.header_fields]
        parts += [(self.stored_name(c.name), c.dtype, c.shape) for c in self.columns]
        return np.dtype(parts)

    @property
    def table_units(self) -> dict[str, str]:
        units = {f.name: f.unit for f in self.header_fields}
        return units | {self.stored_name(c.name): c.unit for c in self.columns}

    def fits(self, packet: Packet) -> bool:
        """Whether a packet has the bytes that the schema promises."""
        size = self.schema.dtype.itemsize
        length = len(packet.fields)
        whole = size > 0 and length % size == 0 if self.has_rows else length == size
        return whole and (self.has_blob or len(packet.payload) == 0)

    def datasets(self) -> tuple[str, ...]:
        """Names of the stream's datasets, in the order in which they are made."""
        names = []
        if self.has_index:
            names.append(INDEX)
        if self.has_blob:
            names.append(BLOB)
        if self.has_table:
            names.append(self.table)
        if self.has_pose:
            names.append(POSE)
        return (*names, GAPS)

    def split(
        self, records: npt.NDArray[np.void], header: npt.NDArray[np.void] | None
    ) -> tuple[npt.NDArray[np.void], npt.NDArray[np.float32] | None]:
        """Records of the schema's ``dtype`` as rows of the table, and poses (n, 4, 4)."""
        rows = np.zeros(len(records), self.table_dtype)
        if header is not None:
            for field in self.header_fields:
                rows[field.name] = header[field.name]
        for column in self.columns:
            rows[self.stored_name(column.name)] = records[column.name]
        return rows, (records[POSE] if self.has_pose else None)

    def join(
        self, rows: npt.NDArray[np.void] | None, poses: npt.NDArray[np.float32] | None, count: int
    ) -> npt.NDArray[np.void]:
        """The inverse of ``split``: ``count`` records of the schema's ``dtype``, bit for bit."""
        records = np.zeros(count, self.schema.dtype)
        if rows is not None:
            for column in self.columns:
                records[column.name] = rows[self.stored_name(column.name)]
        if poses is not None:
            records[POSE] = poses
        return records
