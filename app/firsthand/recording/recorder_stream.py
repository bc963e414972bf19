"""One stream in the recorder: stored first, accounted exactly, then shown."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from firsthand.api import (
    Clock,
    ClockPair,
    GapCause,
    GapRow,
    Packet,
    StreamSchema,
    StreamState,
)
from firsthand.recording.packetlog_frames import MAX_BODY_BYTES
from firsthand.recording.recorder_log import RecorderLog
from firsthand.streams.gaps import GapTracker
from firsthand.streams.health import HealthSnapshot, StreamHealth

_SEQ_END: Final = 2**32
_TIME_END: Final = 2**63

_log = logging.getLogger(__name__)


class RecordedStream:
    """Keeps the books of one stream. Any thread; its packets in their order."""

    def __init__(
        self,
        schema: StreamSchema,
        log: RecorderLog,
        show: Callable[[Packet], None],
        started_ns: int,
    ) -> None:
        self.schema: Final = schema
        self.behind = 0
        """Packets not stored because the disk was too slow."""
        self.unfit = 0
        """Packets that did not fit what the stream declared."""
        self._log = log
        self._show = show
        self._tracker = GapTracker(schema, started_ns)
        self._health = StreamHealth(schema, started_ns)
        self._lock = threading.Lock()
        self._record_bytes = schema.dtype.itemsize
        self._state = StreamState.CONNECTING
        self._failed = False
        self._closed = False

    def packet(self, packet: Packet) -> None:
        """Store, count, then show."""
        with self._lock:
            if self._closed:
                return
            if not self._fits(packet):
                if not self.unfit:
                    _log.error("packets of %s do not fit its declaration", self.schema.name)
                self.unfit += 1
                self._rows(self._tracker.skipped(GapCause.DAMAGED_PACKET, None, 1))
                return
            if not self._log.has_room(packet):
                if not self.behind:
                    _log.error("the disk is too slow: packets of %s are lost", self.schema.name)
                self.behind += 1
                lost_ns = packet.device_ns
                self._rows(self._tracker.skipped(GapCause.WRITER_BEHIND, lost_ns, 1))
                return
            if self._failed:
                self._failed = False
                self._set(StreamState.LIVE, "It delivers again.")
            packet, rows = self._tracker.packet(packet)
            self._log.store(packet)
            self._health.packet(
                packet.device_ns, packet.arrival_ns, len(packet.payload) + len(packet.fields)
            )
            if rows:
                self._rows(rows)
        self._show(packet)

    def skipped(self, cause: GapCause, device_ns: int | None, packets: int) -> None:
        with self._lock:
            if not self._closed:
                self._rows(self._tracker.skipped(cause, device_ns, packets))

    def interrupted(self, cause: GapCause, reason: str) -> None:
        with self._lock:
            self._tracker.interrupted(cause, reason)

    def state(self, state: StreamState, reason: str = "") -> None:
        with self._lock:
            if not self._closed:
                self._failed = False
                self._set(state, reason)

    def failed(self, reason: str) -> None:
        """Its device broke inside: ended, unless it delivers all the same."""
        with self._lock:
            if not self._closed:
                self._tracker.interrupted(GapCause.DEVICE_DROPPED, reason)
                self._failed = True
                self._set(StreamState.ENDED, reason)

    def clock(self, pair: ClockPair) -> None:
        with self._lock:
            if not self._closed:
                self._rows(self._tracker.clock(pair))

    def epoch(self, clock: Clock, epoch: int) -> None:
        with self._lock:
            if not self._closed:
                self._rows(self._tracker.epoch(clock, epoch))

    def snapshot(self, now_ns: int) -> HealthSnapshot:
        with self._lock:
            return self._health.snapshot(now_ns)

    def close(self, reason: str) -> None:
        """Take nothing any more; write down what is still open. May be called twice."""
        with self._lock:
            if not self._closed:
                self._rows(self._tracker.close(time.perf_counter_ns()))
                if self._state is not StreamState.ENDED:
                    self._set(StreamState.ENDED, reason)
                self._closed = True

    def _fits(self, packet: Packet) -> bool:
        """Whether the log and the file can take it: a device's mistake must not cost the log."""
        size, fields = self._record_bytes, len(packet.fields)
        rows = self.schema.row_time is not None
        whole = (size > 0 and fields % size == 0) if rows else fields == size
        return (
            whole
            and 0 <= packet.seq < _SEQ_END
            and -_TIME_END <= packet.device_ns < _TIME_END
            and -_TIME_END <= packet.arrival_ns < _TIME_END
            and fields + len(packet.payload) <= MAX_BODY_BYTES
        )

    def _set(self, state: StreamState, reason: str) -> None:
        self._state = state
        self._health.state(state, reason)
        name = self.schema.name
        self._log.write(lambda to: to.state(name, state, reason))

    def _rows(self, rows: Sequence[GapRow]) -> None:
        for row in rows:
            self._log.gap(row)
            if row.cause != GapCause.NOT_STARTED.value:
                self._health.lost(row.packets_lost, max(0, row.stop_ns - row.start_ns) / 1e9)
