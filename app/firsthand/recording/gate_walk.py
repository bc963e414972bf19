"""Looks a file's structure over without reading its data or following anything out of it.

Runs in the limited child of ``gate``. Whatever the reader is going to ask HDF5 about the structure
is asked here first, so that a file made to break the library breaks the child.
"""

import json
import struct
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d, h5l, h5o, h5t, h5z

from firsthand.api import Column, StreamSchema
from firsthand.recording import layout

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_SUPERBLOCK: Final = struct.Struct("<8sBBBBQQQQI")
_UNDEFINED: Final = 2**64 - 1
_MOST_OBJECTS: Final = 20_000
_DEEPEST: Final = 4
_MOST_ATTRIBUTES: Final = 64
_LARGEST_ATTRIBUTE: Final = 64 * 1024
_LARGEST_CHUNK: Final = 32 * 1024 * 1024
_MOST_DIMENSIONS: Final = 8
_MOST_MEMBERS: Final = 1000
_PLAIN: Final = {h5t.INTEGER, h5t.FLOAT, h5t.ENUM}


class Refused(Exception):  # noqa: N818  (a verdict)
    """The file is not to be read; the words are for people."""


def look_over(path: Path) -> dict[str, Any]:
    """What is in the file, counted. Raises ``Refused``."""
    size = path.stat().st_size
    _superblock(path, size)
    try:
        with h5py.File(path, "r", locking=False) as file:
            walk = _Walk(size)
            walk.group(file.id, "/", 0)
            if walk.stored > size:
                raise Refused("it claims to hold more than its own size.")
            streams = _streams(file)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise Refused(f"its structure is damaged ({_short(error)}).") from error
    return {"objects": walk.objects, "bytes": size, "streams": streams}


def _superblock(path: Path, size: int) -> None:
    with path.open("rb") as file:
        raw = file.read(_SUPERBLOCK.size)
    if not raw.startswith(_SIGNATURE):
        raise Refused("it is no HDF5 file.")
    if len(raw) < _SUPERBLOCK.size:
        raise Refused("it is cut off within its first bytes.")
    _, version, offsets, lengths, flags, base, extension, end, _, _ = _SUPERBLOCK.unpack(raw)
    if version != 3 or (offsets, lengths) != (8, 8) or base != 0 or extension != _UNDEFINED:
        raise Refused("it was not written by Firsthand (its kind of HDF5 is another one).")
    if flags:
        raise Refused("whoever wrote it did not close it.")
    if size < end:
        raise Refused(f"it is cut off: {size} of {end} bytes are there.")


class _Walk:
    def __init__(self, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._seen: set[int] = set()
        self.objects = 0
        self.stored = 0

    def group(self, group: Any, name: str, depth: int) -> None:
        self._object(group, name)
        if depth > _DEEPEST:
            raise Refused(f"{name} lies too deep.")
        if group.get_num_objs() > _MOST_OBJECTS:
            raise Refused(f"{name} holds too many things.")
        for raw in group:
            child = f"{name.rstrip('/')}/{raw.decode(errors='replace')}"
            if group.links.get_info(raw).type != h5l.TYPE_HARD:
                raise Refused(f"{child} is a link that leads elsewhere.")
            kind = h5o.get_info(group, raw).type
            if kind == h5o.TYPE_GROUP:
                self.group(h5o.open(group, raw), child, depth + 1)
            elif kind == h5o.TYPE_DATASET:
                self._dataset(h5o.open(group, raw), child)
            else:
                raise Refused(f"{child} is of a kind that has no business there.")

    def _object(self, thing: Any, name: str) -> None:
        address = h5o.get_info(thing).addr
        if address in self._seen:
            raise Refused(f"{name} stands in two places.")
        self._seen.add(address)
        self.objects += 1
        if self.objects > _MOST_OBJECTS:
            raise Refused("it holds too many things.")
        count = h5py.h5a.get_num_attrs(thing)
        if count > _MOST_ATTRIBUTES:
            raise Refused(f"{name} has too many attributes.")
        for i in range(count):
            attribute = h5py.h5a.open(thing, index=i)
            _type(attribute.get_type(), name)
            if attribute.get_storage_size() > _LARGEST_ATTRIBUTE:
                raise Refused(f"an attribute of {name} is too large.")

    def _dataset(self, dataset: Any, name: str) -> None:
        self._object(dataset, name)
        plist = dataset.get_create_plist()
        if plist.get_layout() != h5d.CHUNKED:
            raise Refused(f"{name} is stored in a way that can lead out of the file.")
        if plist.get_external_count():
            raise Refused(f"{name} keeps its data in another file.")
        filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
        if filters not in ([], [h5z.FILTER_FLETCHER32]):
            raise Refused(f"{name} is packed in a way that Firsthand does not use.")
        kind = dataset.get_type()
        _type(kind, name)
        space = dataset.get_space()
        if space.get_simple_extent_ndims() > _MOST_DIMENSIONS:
            raise Refused(f"{name} has too many dimensions.")
        item = kind.get_size()
        chunk = item
        for length in plist.get_chunk():
            chunk *= length
        if chunk > _LARGEST_CHUNK:
            raise Refused(f"{name} is cut into pieces that are too large.")
        declared = item
        for length in dataset.shape:
            declared *= length
        stored = dataset.get_storage_size()
        if declared > self._file_bytes or declared > stored:
            raise Refused(f"{name} claims {declared} bytes and holds {stored}.")
        self.stored += stored


def _type(kind: Any, name: str, depth: int = 0) -> None:
    what = kind.get_class()
    if what in _PLAIN:
        return
    if what == h5t.STRING and not kind.is_variable_str():
        return
    if depth < _DEEPEST and what == h5t.COMPOUND and kind.get_nmembers() <= _MOST_MEMBERS:
        for i in range(kind.get_nmembers()):
            _type(kind.get_member_type(i), name, depth + 1)
        return
    if depth < _DEEPEST and what == h5t.ARRAY:
        _type(kind.get_super(), name, depth + 1)
        return
    raise Refused(f"{name} holds values of a kind that Firsthand does not use.")


def _streams(file: h5py.File) -> list[str]:
    """Names of the streams, each laid out as its schema says."""
    if bytes(file.attrs.get("format", b"")) != layout.FORMAT.encode():
        raise Refused("it is no recording of Firsthand.")
    version = int(file.attrs["format_version"])
    if version > layout.FORMAT_VERSION:
        raise Refused(f"a newer Firsthand wrote it (format {version}); update to read it.")
    names = []
    for name, group in file[layout.STREAMS].items():
        schema = StreamSchema.from_json(json.loads(bytes(group.attrs["schema"])))
        for column in schema.columns:
            _column(column)
        _stream(group, layout.StreamLayout(schema), name)
        names.append(schema.name)
    if len(set(names)) != len(names):
        raise Refused("two streams bear one name.")
    return names


def _column(column: Column) -> None:
    dtype = np.dtype(column.dtype)
    size = dtype.itemsize
    for length in column.shape:
        size *= int(length) if int(length) > 0 else _LARGEST_CHUNK + 1
    plain = dtype.kind in "biufc" and dtype.subdtype is None and dtype.names is None
    if not plain or size > _LARGEST_CHUNK:
        raise Refused(f"the column {column.name} is of a kind that Firsthand does not use.")


def _stream(group: h5py.Group, wanted: layout.StreamLayout, name: str) -> None:
    for dataset in wanted.datasets():
        if dataset not in group:
            raise Refused(f"the stream {name} lacks its {dataset}.")
    expected: dict[str, np.dtype[Any]] = {layout.GAPS: layout.table_dtype(layout.GAP_FIELDS)}
    if wanted.has_index:
        expected[layout.INDEX] = wanted.index_dtype
    if wanted.has_blob:
        expected[layout.BLOB] = np.dtype("u1")
    if wanted.has_table:
        expected[wanted.table] = wanted.table_dtype
    if wanted.has_pose:
        expected["pose"] = np.dtype("<f4")
    for dataset, dtype in expected.items():
        if group[dataset].dtype != dtype:
            raise Refused(f"{dataset} of the stream {name} is not as its schema says.")
        dimensions = 3 if dataset == "pose" else 1
        if len(group[dataset].shape) != dimensions:
            raise Refused(f"{dataset} of the stream {name} has another shape than its schema says.")
    if wanted.has_pose and group["pose"].shape[1:] != (4, 4):
        raise Refused(f"the poses of the stream {name} are no 4 by 4 matrices.")
    rows = [group[d].shape[0] for d in expected if d in {wanted.table, "pose"}]
    if wanted.has_index and not wanted.has_rows:
        rows.append(group[layout.INDEX].shape[0])
    if len(set(rows)) > 1:
        raise Refused(f"the parts of the stream {name} are of different lengths.")


def _short(error: Exception) -> str:
    words = " ".join(str(error).split())
    return words[:160] or type(error).__name__
