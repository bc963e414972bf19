"""Writes one segment of a packet log: queue, one batched write, one sync.

Entries are queued by any thread and reach the file with ``flush``. Nothing written is touched
again. After a write or sync that failed the file is never written or synced again: the kernel may
have dropped the pages of a failed sync and report the next one as good.
"""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from firsthand.api import (
    ClockPair,
    GapRow,
    Packet,
    RecordingError,
    StorageError,
    StreamSchema,
    StreamState,
)
from firsthand.recording.logfile import LogFile, open_log_file
from firsthand.recording.packetlog_frames import (
    FILE_HEADER,
    FILE_MAGIC,
    HEAD_BYTES,
    MAX_BODY_BYTES,
    Kind,
    frame,
    to_json,
)
from firsthand.streams.clock import Epoch

DECLARE_AGAIN_S: Final = 30.0
KEEP_UNSYNCED_BYTES: Final = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


class JsonRow(Protocol):
    """A row that knows its JSON: ``HealthSnapshot``."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a segment that failed leaves to the next: its id, count and streams, and once more
    every entry not known to be on disk, framed."""

    log_id: int
    sequence: int
    streams: dict[str, tuple[int, StreamSchema]]
    pieces: list[bytes | memoryview]


class LogWriter:
    """Appends entries to one segment.

    ``carry_on`` is what a segment that failed handed over. Bytes of a packet must not change
    after it was queued; a writable ``memoryview`` is copied for that reason.

    Raises ``StorageError`` where the file cannot be made; it must not exist.
    """

    def __init__(
        self,
        path: Path,
        session: Mapping[str, Any],
        *,
        carry_on: HandOver | None = None,
        opener: Callable[[Path], LogFile] = open_log_file,
        keep_unsynced_bytes: int = KEEP_UNSYNCED_BYTES,
    ) -> None:
        self.path = path
        self.log_id: Final = carry_on.log_id if carry_on else secrets.randbits(32)
        self._queue_lock = threading.Lock()
        self._file_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._queued: list[bytes | memoryview] = []
        # Batches written but not known to be on disk, each with the file's length after it.
        self._unsynced: deque[tuple[int, list[bytes | memoryview]]] = deque()
        self._keep_unsynced = keep_unsynced_bytes
        self.queued_bytes = 0
        self.written_bytes = 0
        self.synced_bytes = 0
        self.broken: StorageError | None = None
        self._sequence = carry_on.sequence if carry_on else 0
        self._streams = dict(carry_on.streams) if carry_on else {}
        self._session = dict(session)
        self._declared_s = time.monotonic()
        try:
            self._file = opener(path)
        except OSError as error:
            raise StorageError(
                f"The file {path} could not be made: {error.strerror or error}.",
                try_this="Choose a folder that exists, is not write-protected and has room.",
            ) from error
        self._queue([FILE_HEADER.pack(FILE_MAGIC, self.log_id)])
        self._queue_declarations()
        if carry_on:
            self._queue(carry_on.pieces)

    # -- entries -------------------------------------------------------------------------------

    def declare(self, schema: StreamSchema) -> None:
        """Announce a stream; its packets are refused before that."""
        if schema.name in self._streams:
            raise RecordingError(f"The stream {schema.name!r} is declared twice.")
        with self._queue_lock:
            number = len(self._streams)
            self._streams[schema.name] = (number, schema)
            self._put(Kind.STREAM, 0, to_json(schema.to_json()), stream=number)

    def packet(self, packet: Packet) -> None:
        """Queue a packet.

        Raises ``KeyError`` for a stream not declared, ``struct.error`` for times or numbers out of
        range, ``RecordingError`` for a packet too large; nothing is queued then.
        """
        payload = packet.payload
        if isinstance(payload, memoryview):
            payload = payload.cast("B") if payload.readonly else bytes(payload)
        if len(payload) + len(packet.fields) > MAX_BODY_BYTES:
            raise RecordingError(f"A packet of {len(payload)} bytes is too large for the log.")
        with self._queue_lock:
            self._put(
                Kind.PACKET,
                packet.arrival_ns,
                packet.fields,
                payload,
                stream=self._streams[packet.stream][0],
                seq=packet.seq,
                flags=int(packet.flags),
                device_ns=packet.device_ns,
            )

    def gap(self, gap: GapRow) -> None:
        self._json(
            Kind.GAP,
            {
                "stream": gap.stream,
                "start_ns": gap.start_ns,
                "stop_ns": gap.stop_ns,
                "cause": gap.cause,
                "packets_lost": gap.packets_lost,
            },
        )

    def clock(self, pair: ClockPair) -> None:
        self._json(
            Kind.CLOCK,
            {
                "clock": pair.clock.value,
                "host_before_ns": pair.host_before_ns,
                "host_after_ns": pair.host_after_ns,
                "device_ns": pair.device_ns,
                "epoch": pair.epoch,
            },
        )

    def epoch(self, epoch: Epoch) -> None:
        about = {"clock": epoch.clock.value, "epoch": epoch.epoch, "reason": epoch.reason}
        self._json(Kind.EPOCH, about, epoch.host_ns)

    def calibration(
        self,
        name: str,
        values: Mapping[str, npt.NDArray[Any]],
        about: Mapping[str, Any],
        host_ns: int | None = None,
    ) -> None:
        """Queue a calibration. Raises ``RecordingError`` for arrays that are not plain numbers."""
        arrays = {key: np.ascontiguousarray(value) for key, value in values.items()}
        if any(array.dtype.kind not in "biufcSV" for array in arrays.values()):
            raise RecordingError(f"The calibration {name!r} holds something other than numbers.")
        listed = [[key, a.dtype.str, list(a.shape)] for key, a in arrays.items()]
        head = to_json({"name": name, "arrays": listed, "about": dict(about)})
        body = b"".join(array.tobytes() for array in arrays.values())
        if len(body) + len(head) > MAX_BODY_BYTES:
            raise RecordingError(f"The calibration {name!r} is too large for the log.")
        with self._queue_lock:
            self._put(Kind.CALIBRATION, _now(host_ns), head, body)

    def note(self, kind: str, about: Mapping[str, Any], host_ns: int | None = None) -> None:
        self._json(Kind.NOTE, {"kind": kind, "about": dict(about)}, host_ns)

    def state(
        self, stream: str, state: StreamState, reason: str = "", host_ns: int | None = None
    ) -> None:
        about = {"stream": stream, "state": state.value, "reason": reason}
        self._json(Kind.STATE, about, host_ns)

    def health(self, rows: Sequence[JsonRow], host_ns: int | None = None) -> None:
        self._json(Kind.HEALTH, {"rows": [row.to_json() for row in rows]}, host_ns)

    def end(self, reason: str, host_ns: int | None = None) -> None:
        """Queue the last entry: the log was closed on purpose."""
        self._json(Kind.END, {"reason": reason}, host_ns)

    def _json(self, kind: Kind, about: Mapping[str, Any], host_ns: int | None = None) -> None:
        body = to_json(about)
        with self._queue_lock:
            self._put(kind, _now(host_ns), body)

    def _put(
        self,
        kind: Kind,
        host_ns: int,
        fields: bytes,
        payload: bytes | memoryview = b"",
        *,
        stream: int = 0,
        seq: int = 0,
        flags: int = 0,
        device_ns: int = 0,
    ) -> None:
        """Frame and queue an entry; the caller holds the queue's lock, so order is count."""
        declares = kind in (Kind.SESSION, Kind.STREAM)
        number = 0 if declares else self._sequence + 1
        pieces = frame(
            self.log_id,
            number,
            kind,
            host_ns,
            fields,
            payload,
            stream=stream,
            seq=seq,
            flags=flags,
            device_ns=device_ns,
        )
        if not declares:
            self._sequence = number
        self._queued += pieces
        self.queued_bytes += HEAD_BYTES + len(fields) + len(payload)

    def _queue(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._queued += pieces
        self.queued_bytes += sum(map(len, pieces))

    def _queue_declarations(self) -> None:
        self._put(Kind.SESSION, _now(None), to_json(self._session))
        for number, schema in self._streams.values():
            self._put(Kind.STREAM, _now(None), to_json(schema.to_json()), stream=number)

    def hand_over(self) -> "HandOver":
        """Give everything not known to be on disk away; this writer is done for."""
        with self._queue_lock:
            pieces = [piece for _, batch in self._unsynced for piece in batch] + self._queued
            self._unsynced.clear()
            self._queued, self.queued_bytes = [], 0
            return HandOver(self.log_id, self._sequence, self._streams, pieces)

    # -- the file ------------------------------------------------------------------------------

    def flush(self) -> int:
        """Write everything queued, in one call to the system where it takes one; give its size.

        Raises ``StorageError``; what was queued is then kept for whoever carries on.
        """
        with self._file_lock:
            self._raise_if_broken()
            with self._queue_lock:
                if time.monotonic() - self._declared_s > DECLARE_AGAIN_S:
                    self._declared_s = time.monotonic()
                    self._queue_declarations()
                pieces, size = self._queued, self.queued_bytes
                if not pieces:
                    return 0
                self._queued, self.queued_bytes = [], 0
                self._unsynced.append((self.written_bytes + size, pieces))
            try:
                self._file.write(pieces)
            except OSError as error:
                raise self._fail("written", error) from error
            with self._queue_lock:
                self.written_bytes += size
                oldest_bytes = self.written_bytes - self._keep_unsynced
                while len(self._unsynced) > 1 and self._unsynced[0][0] < oldest_bytes:
                    self._unsynced.popleft()  # the page cache has it; memory must not grow
            return size

    def sync(self) -> int:
        """Bring everything flushed to the disk; give the bytes of the file that are safe.

        Any thread may call it: packets and flushes do not wait for the disk. Raises
        ``StorageError``, now and at every later call.
        """
        with self._sync_lock:
            self._raise_if_broken()
            upto = self.written_bytes
            if upto > self.synced_bytes:
                try:
                    self._file.sync()
                except OSError as error:
                    raise self._fail("brought to the disk", error) from error
                self.synced_bytes = upto
                with self._queue_lock:
                    while self._unsynced and self._unsynced[0][0] <= upto:
                        self._unsynced.popleft()
            return self.synced_bytes

    def close(self) -> None:
        """Give the file back; neither writes nor syncs. May be called twice."""
        with self._file_lock, self._sync_lock:
            self._file.close()

    def _raise_if_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _fail(self, what: str, error: OSError) -> StorageError:
        _log.error("segment %s could not be %s: %s", self.path.name, what, error)
        self.broken = StorageError(
            f"The recording could not be {what} in {self.path.parent}: {error.strerror or error}.",
            try_this="Check the disk: is it full, unplugged or write-protected?",
        )
        return self.broken


def _now(host_ns: int | None) -> int:
    return time.perf_counter_ns() if host_ns is None else host_ns
