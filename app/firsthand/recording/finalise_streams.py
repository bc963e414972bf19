"""Writes one stream's packets into its datasets, batch by batch."""

import json
from zlib import crc32

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.api import POSE, GapRow, Packet, StreamSchema
from firsthand.recording.finalise_tables import Blob, Table, cut, set_text, units_of
from firsthand.recording.layout import (
    BLOB,
    GAP_FIELDS,
    GAPS,
    HEADER_DTYPE,
    HEADER_FIELDS,
    INDEX,
    WORD_BYTES,
    StreamLayout,
    group_name,
    table_dtype,
)

_BATCH_PACKETS = 512


class StreamWriter:
    """The datasets of one stream while the file is built.

    ``digest`` and ``packets`` sum up what was put in; the file is verified against them.
    """

    def __init__(self, streams: h5py.Group, name: str, schema: StreamSchema) -> None:
        self.name = name
        self.schema = schema
        self.layout = layout = StreamLayout(schema)
        self.packets = 0
        self.bytes = 0
        self.digest = 0
        self.gaps = 0
        self.lost = 0
        self._headers: list[tuple[int, ...]] = []
        self._fields: list[bytes] = []
        self._rows = 0
        group = streams.create_group(group_name(name))
        set_text(group, "title", schema.title)
        set_text(group, "description", schema.description or schema.title)
        set_text(group, "frame", schema.frame or "none")
        set_text(group, "clock", schema.clock.value)
        set_text(group, "payload", schema.payload.value)
        group.attrs["nominal_hz"] = float(schema.nominal_hz)
        set_text(group, "schema", json.dumps(schema.to_json(), separators=(",", ":")))
        self._index = (
            Table(
                group,
                INDEX,
                layout.index_dtype,
                "one row per packet: times, where its content lies, checksum, marks",
                units_of(layout.index_fields),
            )
            if layout.has_index
            else None
        )
        self._blob = (
            Blob(group, BLOB, f"payloads as received ({schema.payload.value}), one after another")
            if layout.has_blob
            else None
        )
        self._table = (
            Table(
                group,
                layout.table,
                layout.table_dtype,
                "the columns that the schema declares, one row per packet"
                if not layout.has_rows
                else "the columns that the schema declares, several rows per packet",
                layout.table_units,
            )
            if layout.has_table
            else None
        )
        self._pose = (
            Table(
                group,
                POSE,
                np.dtype("<f4"),
                "sensor to world, row vectors ([x y z 1] @ pose); all zeros: not located",
                "m",
                (4, 4),
            )
            if layout.has_pose
            else None
        )
        self._gaps = Table(
            group,
            GAPS,
            table_dtype(GAP_FIELDS),
            "intervals in which the stream delivered nothing",
            units_of(GAP_FIELDS),
        )

    def packet(self, packet: Packet, seq: int, checksum: int, arrival_ns: int) -> None:
        """Add a packet under a new ``seq``; it must fit the layout."""
        layout = self.layout
        header = [packet.device_ns, arrival_ns]
        if self._blob is not None:
            header += [self._blob.append(packet.payload), len(packet.payload)]
        if layout.has_rows:
            rows = len(packet.fields) // self.schema.dtype.itemsize
            header += [self._rows, rows]
            self._rows += rows
        header += [seq, checksum, int(packet.flags)]
        self._headers.append(tuple(header))
        if packet.fields:
            self._fields.append(packet.fields)
        self.packets += 1
        self.bytes += len(packet.fields) + len(packet.payload)
        if len(self._headers) >= _BATCH_PACKETS:
            self._flush()

    def gap(self, gap: GapRow) -> None:
        cause = cut(gap.cause, WORD_BYTES)
        row = (gap.start_ns, gap.stop_ns, cause, gap.packets_lost)
        self._gaps.append(np.array([row], table_dtype(GAP_FIELDS)))
        self.gaps += 1
        self.lost += max(0, gap.packets_lost)

    def finish(self) -> None:
        """Write everything that still waits."""
        self._flush()
        for part in (self._index, self._blob, self._table, self._pose, self._gaps):
            if part is not None:
                part.finish()

    def _flush(self) -> None:
        if not self._headers:
            return
        layout = self.layout
        header = np.array(self._headers, layout.index_dtype if layout.has_index else HEADER_DTYPE)
        content = b"".join(self._fields)
        self._headers, self._fields = [], []
        self.digest = header_digest(header, self.digest)
        if self._index is not None:
            self._index.append(header)
        if not self.schema.columns:
            if self._table is not None:
                self._table.append(header.astype(layout.table_dtype))
            return
        records = np.frombuffer(content, layout.schema.dtype)
        rows, poses = layout.split(records, None if layout.has_index else header)
        if self._table is not None:
            self._table.append(rows)
        if self._pose is not None and poses is not None:
            self._pose.append(poses)


def header_digest(header: npt.NDArray[np.void], before: int) -> int:
    """A running checksum over what identifies packets: times, count, content's checksum, marks."""
    packed = np.empty(len(header), HEADER_DTYPE)
    for field in HEADER_FIELDS:
        packed[field.name] = header[field.name]
    return crc32(packed.tobytes(), before)
