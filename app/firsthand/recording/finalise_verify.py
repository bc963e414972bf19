"""Reads a built file back: every packet must be there, and hold what its checksum promises."""

from collections.abc import Callable, Mapping
from pathlib import Path
from zlib import crc32

import h5py

from firsthand.api import DamagedError
from firsthand.recording.finalise_streams import StreamWriter, header_digest
from firsthand.recording.layout import STREAMS, group_name
from firsthand.recording.reader.store import StreamStore

_BATCH_PACKETS = 2048
_BATCH_BYTES = 8 * 1024 * 1024


def verify(
    path: Path, writers: Mapping[str, StreamWriter], on_bytes: Callable[[int], None]
) -> None:
    """Compare the file with what went into it.

    Raises ``DamagedError`` naming stream and packet where anything differs: the log is then kept.
    """
    with h5py.File(path, "r", locking=False) as file:
        for name, writer in writers.items():
            store = StreamStore(file[STREAMS][group_name(name)], writer.schema)
            digest = 0
            if len(store) != writer.packets:
                raise DamagedError(
                    f"The file holds {len(store)} packets of {name}, the log {writer.packets}."
                )
            for start, stop in store.batches(0, len(store), _BATCH_PACKETS, _BATCH_BYTES):
                header = store.header[start:stop]
                digest = header_digest(header, digest)
                for i, (fields, payload) in enumerate(store.contents(start, stop), start):
                    on_bytes(len(fields) + len(payload))
                    if crc32(payload, crc32(fields)) != store.header["crc32"][i]:
                        raise DamagedError(f"Packet {i} of {name} came back different.")
            if digest != writer.digest:
                raise DamagedError(f"The index of {name} came back different.")
            if len(store.gaps()) != writer.gaps:
                raise DamagedError(f"The gaps of {name} came back different.")
