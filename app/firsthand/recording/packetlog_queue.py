"""Frames entries of a packet log and queues them, until they are written."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from firsthand.api import ClockPair, GapRow, Packet, RecordingError, StreamSchema, StreamState
from firsthand.recording.packetlog_frames import (
    CRC,
    DECLARATIONS,
    HEAD,
    HEAD_BYTES,
    MAGIC,
    MAX_BODY_BYTES,
    VERSION,
    Kind,
    frame,
    to_json,
)
from firsthand.streams.clock import Epoch

_PACKET: Final = int(Kind.PACKET)


class JsonRow(Protocol):
    """A row that knows its JSON: ``HealthSnapshot``."""

    def to_json(self) -> dict[str, Any]: ...


class LogQueue:
    """Takes entries from any thread and keeps them, framed and in order.

    Bytes of a packet must not change after it was queued; a writable ``memoryview`` is copied for
    that reason.
    """

    def __init__(
        self,
        log_id: int,
        session: Mapping[str, Any],
        sequence: int,
        streams: Mapping[str, tuple[int, StreamSchema]],
    ) -> None:
        self.log_id: Final = log_id
        self.queued_bytes = 0
        self._queue_lock = threading.Lock()
        self._queued: list[bytes | memoryview] = []
        self._sequence = sequence
        self._streams = dict(streams)
        self._session = dict(session)

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
        fields, payload = packet.fields, packet.payload
        if type(payload) is not bytes:
            payload = _kept(payload)
        if len(payload) + len(fields) > MAX_BODY_BYTES:
            raise RecordingError(f"A packet of {len(payload)} bytes is too large for the log.")
        stream = self._streams[packet.stream][0]
        body_crc = crc32(payload, crc32(fields))
        # Written out here, since this is what happens hundreds of times a second.
        with self._queue_lock:
            sequence = self._sequence + 1
            head = HEAD.pack(
                MAGIC,
                self.log_id,
                sequence,
                _PACKET,
                VERSION,
                stream,
                len(fields),
                len(payload),
                packet.seq,
                int(packet.flags),
                packet.device_ns,
                packet.arrival_ns,
                body_crc,
            )
            self._sequence = sequence
            self._queued.append(head + CRC.pack(crc32(head)) + fields)
            if payload:
                self._queued.append(payload)
            self.queued_bytes += HEAD_BYTES + len(fields) + len(payload)

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
    ) -> None:
        """Frame and queue an entry; the caller holds the queue's lock, so order is count."""
        number = 0 if kind in DECLARATIONS else self._sequence + 1
        pieces = frame(self.log_id, number, kind, host_ns, fields, payload, stream=stream)
        if number:
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


def _kept(payload: bytes | memoryview) -> bytes | memoryview:
    """The payload as bytes that nobody changes before they are written."""
    view = memoryview(payload)
    return view.cast("B") if view.readonly and view.c_contiguous else view.tobytes()


def _now(host_ns: int | None) -> int:
    return time.perf_counter_ns() if host_ns is None else host_ns
