"""Datasets that grow: rows and bytes are gathered and written in whole chunks."""

import json
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.recording.layout import (
    BLOB_CHUNK_BYTES,
    Field,
    chunk_rows,
    table_dtype,
    text_dtype,
)

_BLOB_BATCH_BYTES = 4 * BLOB_CHUNK_BYTES
_TABLE_BATCH_CHUNKS = 4
ATTRIBUTE_LIMIT_BYTES = 32 * 1024


def set_text(node: h5py.Group | h5py.Dataset, name: str, text: str) -> None:
    """Set an attribute to text of fixed length, which lies under the metadata's checksum."""
    raw = text.encode()
    node.attrs.create(name, np.array(raw, f"S{max(1, len(raw))}"), dtype=text_dtype(len(raw)))


def describe(dataset: h5py.Dataset, description: str, units: str | Mapping[str, str]) -> None:
    """Give a dataset its ``description`` and ``units``: one unit, or JSON of one per field."""
    set_text(dataset, "description", description)
    words = units if isinstance(units, str) else json.dumps(dict(units), separators=(",", ":"))
    set_text(dataset, "units", words)


def make_dataset(
    group: h5py.Group, name: str, dtype: Any, *, row_shape: tuple[int, ...] = (), chunk: int
) -> h5py.Dataset:
    """An empty dataset without a limit, with Fletcher-32 and no filter else."""
    return group.create_dataset(
        name,
        shape=(0, *row_shape),
        maxshape=(None, *row_shape),
        dtype=dtype,
        chunks=(chunk, *row_shape),
        fletcher32=True,
    )


def text_dataset(group: h5py.Group, name: str, text: str, description: str) -> None:
    """A dataset of one text: for what is too long for an attribute."""
    raw = text.encode()
    dtype = text_dtype(len(raw))
    data = np.array([raw], dtype)
    describe(
        group.create_dataset(name, data=data, dtype=dtype, chunks=(1,), fletcher32=True),
        description,
        "1",
    )


class Table:
    """A dataset of rows (a compound, or an array per row)."""

    def __init__(
        self,
        group: h5py.Group,
        name: str,
        dtype: np.dtype[Any],
        description: str,
        units: str | Mapping[str, str],
        row_shape: tuple[int, ...] = (),
    ) -> None:
        size = dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
        self._chunk = max(1, chunk_rows(dtype) * dtype.itemsize // max(1, size))
        self.dataset = make_dataset(group, name, dtype, row_shape=row_shape, chunk=self._chunk)
        describe(self.dataset, description, units)
        self._waiting: list[npt.NDArray[Any]] = []
        self._rows_waiting = 0
        self._written = 0

    def __len__(self) -> int:
        return self._written + self._rows_waiting

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows; written once some chunks are full."""
        if len(rows):
            self._waiting.append(rows)
            self._rows_waiting += len(rows)
        if self._rows_waiting >= _TABLE_BATCH_CHUNKS * self._chunk:
            self._write(self._rows_waiting - self._rows_waiting % self._chunk)

    def finish(self) -> None:
        """Write what is left."""
        self._write(self._rows_waiting)

    def _write(self, count: int) -> None:
        if not count:
            return
        rows = np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        self.dataset.resize(self._written + count, axis=0)
        self.dataset[self._written : self._written + count] = rows[:count]
        self._written += count
        self._waiting = [rows[count:]] if count < len(rows) else []
        self._rows_waiting = len(rows) - count


class Blob:
    """A dataset of bytes, one payload behind the other."""

    def __init__(self, group: h5py.Group, name: str, description: str) -> None:
        self.dataset = make_dataset(group, name, "u1", chunk=BLOB_CHUNK_BYTES)
        describe(self.dataset, description, "byte")
        self._waiting: list[bytes | memoryview] = []
        self._bytes_waiting = 0
        self._written = 0

    def __len__(self) -> int:
        return self._written + self._bytes_waiting

    def append(self, data: bytes | memoryview) -> int:
        """Add bytes; give where they begin."""
        offset = self._written + self._bytes_waiting
        if len(data):
            self._waiting.append(data)
            self._bytes_waiting += len(data)
        if self._bytes_waiting >= _BLOB_BATCH_BYTES:
            self._write(self._bytes_waiting - self._bytes_waiting % BLOB_CHUNK_BYTES)
        return offset

    def finish(self) -> None:
        """Write what is left."""
        self._write(self._bytes_waiting)

    def _write(self, count: int) -> None:
        if not count:
            return
        joined = b"".join(self._waiting)
        self.dataset.resize(self._written + count, axis=0)
        self.dataset[self._written : self._written + count] = np.frombuffer(joined, "u1", count)
        self._written += count
        rest = joined[count:]
        self._waiting = [rest] if rest else []
        self._bytes_waiting = len(rest)


class Rows:
    """A small table whose text fields are as wide as its longest text: kept until the end."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._rows: list[tuple[Any, ...]] = []

    def append(self, *values: Any) -> None:
        self._rows.append(
            tuple(
                cut(value, int(field.dtype[1:] or 0)) if isinstance(value, str) else value
                for field, value in zip(self._fields, values, strict=True)
            )
        )

    def write(self, group: h5py.Group, name: str, description: str) -> None:
        """Make the dataset ``name`` of all rows."""
        free = [i for i, field in enumerate(self._fields) if field.dtype == "S"]
        width = max((len(row[i]) for row in self._rows for i in free), default=1)
        dtype = table_dtype(self._fields, width)
        table = Table(group, name, dtype, description, units_of(self._fields))
        table.append(np.array(self._rows, dtype))
        table.finish()


def units_of(fields: tuple[Field, ...]) -> dict[str, str]:
    return {field.name: field.unit for field in fields}


def cut(text: str, width: int) -> bytes:
    """Text as UTF-8 of at most ``width`` bytes (0: as long as it is), never half a character.

    Zero characters end a fixed-length text in HDF5 and are therefore left out.
    """
    raw = text.replace("\0", "").encode(errors="replace")
    return raw if not width or len(raw) <= width else raw[:width].decode(errors="ignore").encode()
