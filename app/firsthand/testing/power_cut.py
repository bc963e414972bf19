"""Files as a power cut leaves them: what was synced is there, of the rest any pages may be missing.

A ``WatchedDisk`` notes everything that a log does to its files. An image taken at any moment holds
all that was synced before it; each 4 KiB page written since is there or not, by chance, and the
file is as long as any of those writes could have made it. Harsher than ext4's ordered mode.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Operation:
    """A write (``data``) or a finished sync (None) of the file ``path``, when it came back."""

    path: Path
    at_ns: int
    data: bytes | None = None


@dataclass(slots=True)
class WatchedDisk:
    """Opens files that note what is done to them; give ``open`` as a log's ``opener``."""

    operations: list[Operation] = field(default_factory=list)

    def open(self, path: Path) -> "WatchedFile":
        return WatchedFile(path, self.operations)

    def images(self, chance: random.Random, count: int) -> Iterator[tuple[int, dict[Path, bytes]]]:
        """``count`` power cuts at moments chosen by ``chance``: number of operations done until
        then, and what each file holds afterwards."""
        for _ in range(count):
            done = chance.randint(1, len(self.operations))
            yield done, self.image(chance, done)

    def image(self, chance: random.Random, done: int) -> dict[Path, bytes]:
        """The files after a power cut that came when ``done`` operations had come back."""
        synced: dict[Path, bytes] = {}
        now: dict[Path, bytearray] = {}
        for operation in self.operations[:done]:
            content = now.setdefault(operation.path, bytearray())
            if operation.data is None:
                synced[operation.path] = bytes(content)
            else:
                content += operation.data
        return {
            path: _torn(chance, synced.get(path, b""), bytes(content))
            for path, content in now.items()
            if path in synced or chance.random() < 0.5  # a name that was never synced
        }


class WatchedFile:
    """A ``LogFile`` in memory that notes what is done to it."""

    def __init__(self, path: Path, operations: list[Operation]) -> None:
        self._path = path
        self._operations = operations

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._operations.append(Operation(self._path, time.perf_counter_ns(), b"".join(pieces)))

    def sync(self) -> None:
        self._operations.append(Operation(self._path, time.perf_counter_ns()))

    def close(self) -> None:
        pass


def _torn(chance: random.Random, synced: bytes, written: bytes) -> bytes:
    length = chance.randint(len(synced), len(written))
    image = bytearray(synced.ljust(length, b"\0"))
    first = len(synced) // PAGE_BYTES * PAGE_BYTES
    for page in range(first, length, PAGE_BYTES):
        if chance.random() < 0.5:
            stop = min(page + PAGE_BYTES, length)
            image[page:stop] = written[page:stop]
    return bytes(image)
