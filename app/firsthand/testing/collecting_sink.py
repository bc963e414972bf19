"""A sink that keeps everything a device hands over, for tests of devices."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from firsthand.api import Clock, ClockPair, GapCause, Packet, StreamState


@dataclass(slots=True)
class CollectingSink:
    """A ``DeviceSink`` in memory. Lists grow under a lock; read them as you like."""

    packets: list[Packet] = field(default_factory=list)
    skips: list[tuple[str, GapCause, int | None, int]] = field(default_factory=list)
    interruptions: list[tuple[str, GapCause, str]] = field(default_factory=list)
    states: list[tuple[str, StreamState, str]] = field(default_factory=list)
    pairs: list[ClockPair] = field(default_factory=list)
    epochs: list[tuple[Clock, int, str]] = field(default_factory=list)
    calibrations: dict[str, tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]]] = field(
        default_factory=dict
    )
    notes: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    last_call_ns: int = 0
    """When anything was last handed over, host clock."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def packet(self, packet: Packet) -> None:
        with self._lock:
            self.packets.append(packet)
            self.last_call_ns = time.perf_counter_ns()

    def skipped(self, stream: str, cause: GapCause, device_ns: int | None, packets: int) -> None:
        with self._lock:
            self.skips.append((stream, cause, device_ns, packets))

    def interrupted(self, stream: str, cause: GapCause, reason: str) -> None:
        with self._lock:
            self.interruptions.append((stream, cause, reason))

    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        with self._lock:
            self.states.append((stream, state, reason))

    def clock(self, pair: ClockPair) -> None:
        with self._lock:
            self.pairs.append(pair)

    def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
        with self._lock:
            self.epochs.append((clock, epoch, reason))

    def calibration(
        self, name: str, values: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]
    ) -> None:
        with self._lock:
            self.calibrations[name] = (values, about)

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        with self._lock:
            self.notes.append((kind, about))

    def of(self, stream: str) -> list[Packet]:
        """The packets of one stream so far."""
        with self._lock:
            return [packet for packet in self.packets if packet.stream == stream]

    def streams(self) -> set[str]:
        """The streams that have delivered so far."""
        with self._lock:
            return {packet.stream for packet in self.packets}

    def state_of(self, stream: str) -> StreamState | None:
        """The state that was last told of a stream."""
        with self._lock:
            return next((s for name, s, _ in reversed(self.states) if name == stream), None)
