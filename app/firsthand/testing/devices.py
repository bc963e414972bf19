"""A device that is a plugin like any other and delivers what can be told by heart.

Packet ``seq`` of a stream always has the same bytes and the same device time, so that a test knows
what must be in a recording. With ``ledger`` it also counts, in a file that outlives any kill, what
it has handed over. A recorder's process takes it with ``extra_plugins=[devices.MODULE]``.
"""

import contextlib
import mmap
import random
import struct
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from pydantic import Field

from firsthand.api import (
    Clock,
    ClockPair,
    Column,
    Device,
    DeviceError,
    DeviceSink,
    Packet,
    PayloadKind,
    PluginConfig,
    StreamSchema,
    StreamState,
    hookimpl,
)

MODULE: Final = "firsthand.testing.devices"
FIRST_NS: Final = 1_000_000_000_000
"""Device time of every stream's first packet."""
_SPREAD: Final = 4096
_NOISE: Final = random.Random(20).randbytes(1024 * 1024)  # noqa: S311  (the same each time)
_COUNT: Final = struct.Struct("<qq")


class FakeStream(PluginConfig):
    """One stream: records of ``record_bytes`` (8 at least) and payloads of ``payload_bytes``."""

    name: str
    hz: float = Field(default=30.0, gt=0)
    record_bytes: int = Field(default=8, ge=8)
    payload_bytes: int = Field(default=0, ge=0, le=len(_NOISE) - _SPREAD)

    def declared(self) -> StreamSchema:
        columns = [Column("number", "<u8", description="the packet's seq")]
        if self.record_bytes > 8:
            columns.append(Column("rest", "u1", (self.record_bytes - 8,)))
        return StreamSchema(
            name=self.name,
            title=f"Fake {self.name}",
            columns=tuple(columns),
            payload=PayloadKind.BYTES if self.payload_bytes else PayloadKind.NONE,
            nominal_hz=self.hz,
        )

    def device_ns(self, seq: int) -> int:
        return FIRST_NS + round(seq * 1e9 / self.hz)

    def fields(self, seq: int) -> bytes:
        at = seq % _SPREAD
        return seq.to_bytes(8, "little") + _NOISE[at : at + self.record_bytes - 8]

    def payload(self, seq: int) -> bytes:
        at = seq * 7 % _SPREAD
        return _NOISE[at : at + self.payload_bytes]

    def packet(self, seq: int, arrival_ns: int = 0) -> Packet:
        """The packet as handed over, but for its time of arrival."""
        device_ns = self.device_ns(seq)
        return Packet(self.name, seq, device_ns, arrival_ns, self.fields(seq), self.payload(seq))

    def crc32(self, seq: int) -> int:
        """The checksum of packet ``seq``."""
        return crc32(self.payload(seq), crc32(self.fields(seq)))


class FakeConfig(PluginConfig):
    """What the fake delivers, and what goes wrong with it."""

    streams: tuple[FakeStream, ...] = (
        FakeStream(name="fake_video", hz=30.0, payload_bytes=4000),
        FakeStream(name="fake_gaze", hz=90.0, record_bytes=100),
    )
    ledger: str | None = None
    """File to count in; see ``read_ledger``."""
    packets: int | None = None
    """Packets of each stream, after which it is silent."""
    seconds: float | None = None
    """Device time after which it is silent."""
    speed: float = Field(default=1.0, gt=0)
    """Deliver so many times as fast; device times stay on their grid."""
    flat_out: bool = False
    """Deliver as fast as it is taken; device times stay on their grid."""
    open_error: str | None = None
    """Words of the ``DeviceError`` that opening raises."""
    tell_modules: bool = False
    """Note, after the first packet, which modules the process has loaded."""
    breaks_after: int | None = None
    """Packets of the first stream after which its thread dies of a defect."""


class FakeDevice(Device):
    """Delivers its streams from a thread each."""

    name = "fake"
    title = "Fake device"
    Config = FakeConfig
    config: FakeConfig

    def __init__(self, config: FakeConfig) -> None:
        super().__init__(config)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ledger: Ledger | None = None

    def schemas(self) -> Sequence[StreamSchema]:
        return [stream.declared() for stream in self.config.streams]

    def open(self, sink: DeviceSink) -> None:
        if self.config.open_error is not None:
            raise DeviceError(self.config.open_error)
        if self.config.ledger is not None:
            self._ledger = Ledger(Path(self.config.ledger), len(self.config.streams))
        began_ns = time.perf_counter_ns()
        sink.clock(ClockPair(Clock.DEVICE, began_ns, began_ns + 1000, FIRST_NS + 500))
        self._threads = [
            threading.Thread(
                target=self._deliver, args=(sink, number, began_ns), name=f"fake-{stream.name}"
            )
            for number, stream in enumerate(self.config.streams)
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5.0)
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _deliver(self, sink: DeviceSink, number: int, began_ns: int) -> None:
        stream = self.config.streams[number]
        sink.state(stream.name, StreamState.LIVE)
        seq = 0
        while not self._done(stream, seq):
            if number == 0 and seq == self.config.breaks_after:
                raise ZeroDivisionError("the fake breaks, as it was told to")
            due_ns = began_ns + round((stream.device_ns(seq) - FIRST_NS) / self.config.speed)
            now_ns = time.perf_counter_ns()
            if not self.config.flat_out and due_ns > now_ns:
                if self._stop.wait((due_ns - now_ns) / 1e9):
                    return
                now_ns = time.perf_counter_ns()
            elif self._stop.is_set():
                return
            sink.packet(stream.packet(seq, now_ns))
            seq += 1
            if self.config.tell_modules and seq == 1:
                sink.note("modules", {"names": sorted(sys.modules)})
            if self._ledger is not None:
                self._ledger.count(number, seq, now_ns)

    def _done(self, stream: FakeStream, seq: int) -> bool:
        packets, seconds = self.config.packets, self.config.seconds
        return (packets is not None and seq >= packets) or (
            seconds is not None and seq >= int(seconds * stream.hz)
        )


class Ledger:
    """Counts in a file shared by memory: what was counted is there whoever is killed."""

    def __init__(self, path: Path, streams: int) -> None:
        size = streams * _COUNT.size
        with path.open("wb") as file:
            file.truncate(size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)

    def count(self, stream: int, packets: int, host_ns: int) -> None:
        _COUNT.pack_into(self._map, stream * _COUNT.size, packets, host_ns)

    def close(self) -> None:
        self._map.close()


def read_ledger(path: Path) -> list[tuple[int, int]]:
    """For each stream: packets handed over (and taken), and the host time of the last."""
    with contextlib.suppress(FileNotFoundError):
        return list(_COUNT.iter_unpack(path.read_bytes()))
    return []


@hookimpl
def firsthand_devices() -> Iterable[type[Device]]:
    return [FakeDevice]
