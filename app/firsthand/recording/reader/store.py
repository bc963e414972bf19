"""One stream's datasets, read by packet: headers, records, payloads, gaps."""

import logging
from collections.abc import Iterator
from typing import Any, Final

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.api import POSE, GapRow, StreamSchema
from firsthand.recording.layout import (
    BLOB,
    GAPS,
    HEADER_DTYPE,
    HEADER_FIELDS,
    INDEX,
    StreamLayout,
)

_log = logging.getLogger(__name__)
_BATCH_BYTES: Final = 4 * 1024 * 1024


class StreamStore:
    """Reads one stream of an open file. Headers are kept in memory, contents are not.

    A chunk whose Fletcher-32 does not hold is read as it stands: each packet's own checksum then
    tells which of them are damaged, and the others are not lost with it. ``damaged_chunks`` counts.
    """

    def __init__(self, group: h5py.Group, schema: StreamSchema) -> None:
        self.schema = schema
        self.layout = StreamLayout(schema)
        self.damaged_chunks = 0
        self._group = group
        self._index: npt.NDArray[np.void] | None = None
        self._header: npt.NDArray[np.void] | None = None
        # A look-up of a dataset by name costs more than reading a small slice of it.
        self._datasets: dict[str, h5py.Dataset] = {}

    def __len__(self) -> int:
        name = INDEX if self.layout.has_index else self.layout.table
        return int(self._dataset(name).shape[0])

    @property
    def rows(self) -> int:
        """Number of records: one per packet, or more where packets hold many rows."""
        if self.layout.has_rows:
            return int(self._dataset(self.layout.table).shape[0]) if self.layout.has_table else 0
        return len(self)

    @property
    def bytes(self) -> int:
        """Size of the stream's content, records and payloads together."""
        payload = int(self._dataset(BLOB).shape[0]) if self.layout.has_blob else 0
        return payload + self.rows * self.schema.dtype.itemsize

    @property
    def header(self) -> npt.NDArray[np.void]:
        """Times, count, checksum and marks of every packet (``HEADER_DTYPE``)."""
        if self._header is None:
            if self.layout.has_index:
                source = self.index
            else:
                names = [field.name for field in HEADER_FIELDS]
                dataset = self._dataset(self.layout.table)
                try:
                    source = dataset.fields(names)[:]
                except OSError:
                    source = self._slice(self.layout.table, 0, len(self))
            header = np.empty(len(source), HEADER_DTYPE)
            for field in HEADER_FIELDS:
                header[field.name] = source[field.name]
            self._header = header
        return self._header

    @property
    def index(self) -> npt.NDArray[np.void]:
        """The index, for streams that have one. Rows that cannot be true point to nothing."""
        if self._index is None:
            index = self._slice(INDEX, 0, len(self))
            if self.layout.has_blob:
                index = _plausible(index, "offset", "length", self._dataset(BLOB).shape[0])
            if self.layout.has_rows:
                index = _plausible(index, "row", "rows", self.rows)
            self._index = index
        return self._index

    def row_range(self, start: int, stop: int) -> tuple[int, int]:
        """Rows of the packets ``start`` to ``stop``."""
        if not self.layout.has_rows:
            return start, stop
        if start >= stop:
            return 0, 0
        part = self.index[start:stop]
        return int(part["row"].min()), int((part["row"] + part["rows"]).max())

    def records(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.void]:
        """Records ``start`` to ``stop`` (counted in rows) in the schema's ``dtype``."""
        stop = self.rows if stop is None else stop
        layout = self.layout
        rows = self._slice(layout.table, start, stop) if layout.columns else None
        poses = self._slice(POSE, start, stop) if layout.has_pose else None
        return layout.join(rows, poses, stop - start)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of all rows."""
        if name == POSE and self.layout.has_pose:
            return self._slice(POSE, 0, self.rows)
        stored = self.layout.stored_name(name)
        try:
            values: npt.NDArray[Any] = self._dataset(self.layout.table).fields(stored)[:]
        except OSError:
            values = self._slice(self.layout.table, 0, self.rows)[stored]
        return values

    def payloads(self, start: int, stop: int) -> list[memoryview]:
        """Payloads of the packets ``start`` to ``stop``, read in one go."""
        if not self.layout.has_blob or start >= stop:
            return [memoryview(b"")] * max(0, stop - start)
        offsets = self.index["offset"][start:stop].tolist()
        lengths = self.index["length"][start:stop].tolist()
        begin, end = min(offsets), max(map(sum, zip(offsets, lengths, strict=True)))
        view = self._slice(BLOB, begin, end).data.cast("B")
        return [
            view[offset - begin : offset - begin + length]
            for offset, length in zip(offsets, lengths, strict=True)
        ]

    def contents(self, start: int, stop: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Record bytes and payload of each packet from ``start`` to ``stop``, all read at once."""
        payloads = self.payloads(start, stop)
        if not self.schema.columns:
            for payload in payloads:
                yield memoryview(b""), payload
            return
        first, last = self.row_range(start, stop)
        size = self.schema.dtype.itemsize
        raw = self.records(first, last).view(np.uint8).data.cast("B")
        if self.layout.has_rows:
            starts = ((self.index["row"][start:stop].astype(np.int64) - first) * size).tolist()
            counts = (self.index["rows"][start:stop].astype(np.int64) * size).tolist()
        else:
            starts = range(0, (stop - start) * size, size)
            counts = [size] * (stop - start)
        for at, count, payload in zip(starts, counts, payloads, strict=True):
            yield raw[at : at + count], payload

    def batches(
        self, start: int, stop: int, packets: int = 1024, limit_bytes: int = _BATCH_BYTES
    ) -> Iterator[tuple[int, int]]:
        """Ranges of packets that together stay near ``packets`` and ``limit_bytes``."""
        if self.layout.has_blob:
            lengths = self.index["length"][start:stop].astype(np.int64)
        else:
            rows = self.index["rows"][start:stop] if self.layout.has_rows else 1
            lengths = np.zeros(stop - start, np.int64) + rows * self.schema.dtype.itemsize
        ends = np.cumsum(lengths)
        at = 0
        while at < stop - start:
            before = int(ends[at - 1]) if at else 0
            upto = int(np.searchsorted(ends, before + limit_bytes, "right"))
            upto = min(max(upto, at + 1), at + packets, stop - start)
            yield start + at, start + upto
            at = upto

    def gaps(self) -> list[GapRow]:
        """The stream's gaps, in the order in which they became known."""
        return [
            GapRow(self.schema.name, int(start), int(stop), cause.decode(), int(lost))
            for start, stop, cause, lost in self._slice(GAPS, 0, self._dataset(GAPS).shape[0])
        ]

    def _dataset(self, name: str) -> h5py.Dataset:
        found = self._datasets.get(name)
        if found is None:
            found = self._datasets[name] = self._group[name]
        return found

    def _slice(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        dataset = self._dataset(name)
        stop = min(stop, dataset.shape[0])
        try:
            values: npt.NDArray[Any] = dataset[start:stop]
        except OSError:
            return self._salvage(dataset, start, stop)
        return values

    def _salvage(self, dataset: h5py.Dataset, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows by chunk: one with a wrong checksum as it stands, one that is gone as zeros."""
        length = dataset.chunks[0]
        parts = []
        for at in range(start - start % length, stop, length):
            end = min(at + length, dataset.shape[0])
            try:
                rows = dataset[at:end]
            except OSError:
                self.damaged_chunks += 1
                rows = _unchecked(dataset, at)[: end - at]
            parts.append(rows[max(0, start - at) : min(length, stop - at)])
        _log.warning("%s: a chunk of %s is damaged", self.schema.name, dataset.name)
        return np.concatenate(parts)


def _plausible(
    index: npt.NDArray[np.void], offset: str, length: str, size: int
) -> npt.NDArray[np.void]:
    """The index with rows set to length 0 that reach outside or touch neither neighbour.

    Contents lie one behind the other, so a row agrees with the one before or the one after it.
    """
    starts = index[offset].astype(np.int64)
    ends = starts + index[length].astype(np.int64)
    touches = np.zeros(len(index) + 1, bool)
    touches[[0, -1]] = len(index) == 1
    touches[1:-1] = starts[1:] == ends[:-1]
    good = (touches[:-1] | touches[1:]) & (starts >= 0) & (ends <= size) & (ends >= starts)
    if good.all():
        return index
    index = index.copy()
    filled = np.maximum.accumulate(np.where(good, ends, 0))
    index[offset][~good] = filled[~good]
    index[length][~good] = 0
    return index


def _unchecked(dataset: h5py.Dataset, row: int) -> npt.NDArray[Any]:
    """One chunk of the file without its checksum's being asked."""
    blank = np.zeros(dataset.chunks, dataset.dtype)
    try:
        _, raw = dataset.id.read_direct_chunk((row, *[0] * (len(dataset.shape) - 1)))
    except OSError:
        return blank
    if len(raw) < blank.nbytes:
        return blank
    return np.frombuffer(raw, dataset.dtype, blank.size).reshape(dataset.chunks)
