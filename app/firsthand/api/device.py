"""The face of a device plugin: it opens a piece of hardware and hands packets to a sink."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self

import numpy.typing as npt

from firsthand.api.config import PluginConfig
from firsthand.api.streams import Clock, Packet, StreamSchema


class StreamState(StrEnum):
    """Where a stream stands. ``LIVE`` only after the first valid packet of a connection."""

    CONNECTING = "connecting"
    WAITING = "waiting"
    """Connected, nothing received yet: another client may hold the stream."""
    LIVE = "live"
    STALLED = "stalled"
    REFUSED = "refused"
    LOST = "lost"
    ENDED = "ended"


class GapCause(StrEnum):
    """Why packets are missing."""

    NOT_STARTED = "not_started"
    """Between the start of the recording and the first packet."""
    CONNECTION_LOST = "connection_lost"
    STALLED = "stalled"
    REFUSED = "refused"
    DAMAGED_PACKET = "damaged_packet"
    EMPTY_PACKET = "empty_packet"
    """The device sent a packet without content (an encoder that yielded nothing)."""
    DEVICE_DROPPED = "device_dropped"
    """Device times jumped while the connection stood: lost inside the device."""
    NO_READING = "no_reading"
    """The device said that it had nothing to measure (an eye tracker that nobody wears): no packet
    was lost."""
    WRITER_BEHIND = "writer_behind"
    DISK = "disk"
    RECORDER_DOWN = "recorder_down"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class ClockPair:
    """One measured exchange: the clock read ``device_ns`` between two readings of the host's.

    ``epoch`` counts the stretches in which the clock ran steadily (a step, a reboot or a restart
    of the device's app begins a new one). The true host time lies between ``host_before_ns`` and
    ``host_after_ns``; half their distance is the uncertainty.
    """

    clock: Clock
    host_before_ns: int
    host_after_ns: int
    device_ns: int
    epoch: int = 0

    @property
    def host_ns(self) -> int:
        return (self.host_before_ns + self.host_after_ns) // 2

    @property
    def uncertainty_ns(self) -> int:
        return (self.host_after_ns - self.host_before_ns + 1) // 2


class DeviceSink(Protocol):
    """Where a device puts what it gets. Every method may be called from any thread and never blocks
    for longer than it takes to queue."""

    def packet(self, packet: Packet) -> None:
        """Store a packet. Called in the stream's order."""

    def skipped(self, stream: str, cause: GapCause, device_ns: int | None, packets: int) -> None:
        """Tell of ``packets`` (−1: unknown) that arrived and cannot be stored, at ``device_ns`` if
        their time is known. Counted as a gap."""

    def interrupted(self, stream: str, cause: GapCause, reason: str) -> None:
        """Tell why the next hole in the stream's device times will be there (a lost connection, a
        stall). The hole itself is measured from the packets on both sides."""

    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        """Tell where a stream stands; ``reason`` is a whole sentence for the administrator."""

    def clock(self, pair: ClockPair) -> None:
        """Store a measured pair of clock readings."""

    def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
        """Tell that ``clock`` was stepped or began anew: what follows is of ``epoch``."""

    def calibration(
        self, name: str, values: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]
    ) -> None:
        """Store a calibration: named arrays, and JSON types that describe them."""

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Store a fact about the device (version, settings sent, quarantined bytes): JSON types."""


class Device(ABC):
    """A piece of hardware that delivers streams.

    Made with checked settings; costs nothing until ``open``. Runs in the recorder's process and is
    trusted there: it must never block in a way that holds Python's lock.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    Config: ClassVar[type[PluginConfig]]

    def __init__(self, config: PluginConfig) -> None:
        self.config = config

    @abstractmethod
    def schemas(self) -> Sequence[StreamSchema]:
        """The streams that these settings ask for. No connection is made to answer this."""

    @abstractmethod
    def open(self, sink: DeviceSink) -> None:
        """Start delivering to ``sink`` from threads of the device's own, and return at once.

        Connections that fail are retried for as long as the device is open and told through
        ``sink.state``. Raises ``DeviceError`` only where trying again cannot help.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop, give everything back and join all threads, within five seconds.

        May be called twice.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class CheckItem:
    """One line of a device's own check: what was looked at, is it good, what to do if not."""

    name: str
    good: bool
    words: str
    try_this: str = ""


class CheckableDevice(Device):
    """A device that can be looked over before a participant sits down."""

    @abstractmethod
    def preflight(self, timeout_s: float) -> Sequence[CheckItem]:
        """Look the device over without recording: reachable, version, each stream live.

        Not called while the device is open. Never raises for a device that does not answer: that
        is a ``CheckItem``.
        """
