"""What a device is handed: everything it says goes into the log, and nothing comes back at it."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

import numpy.typing as npt

from firsthand.api import Clock, ClockPair, GapCause, Packet, StreamState
from firsthand.recording.recorder_log import RecorderLog
from firsthand.recording.recorder_stream import RecordedStream
from firsthand.streams.clock import Epoch

_log = logging.getLogger(__name__)
P = ParamSpec("P")


def _kept_from_device(
    method: Callable[Concatenate["RecorderSink", P], None],
) -> Callable[Concatenate["RecorderSink", P], None]:
    """A mistake (a stream never declared, a number that is none) is told, not raised: the device's
    thread has other streams to deliver."""

    @wraps(method)
    def call(self: "RecorderSink", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  (told in words; see above)
            self.trouble(method.__name__, error)

    return call


class RecorderSink:
    """The ``DeviceSink`` of one device.

    ``warn`` is told in words of what the device did wrong, once per kind of mistake.
    """

    def __init__(
        self,
        device: str,
        streams: Mapping[str, RecordedStream],
        log: RecorderLog,
        warn: Callable[[str], None],
    ) -> None:
        self.device: Final = device
        self.streams: Final = streams
        self.closed = False
        self._log = log
        self._warn = warn
        self._told: set[str] = set()

    def packet(self, packet: Packet) -> None:
        try:  # as the others, without the wrapper's cost: this runs hundreds of times a second
            self.streams[packet.stream].packet(packet)
        except Exception as error:  # noqa: BLE001  (told in words; see above)
            self.trouble("packet", error)

    @_kept_from_device
    def skipped(self, stream: str, cause: GapCause, device_ns: int | None, packets: int) -> None:
        self.streams[stream].skipped(cause, device_ns, packets)

    @_kept_from_device
    def interrupted(self, stream: str, cause: GapCause, reason: str) -> None:
        self.streams[stream].interrupted(cause, reason)

    @_kept_from_device
    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        self.streams[stream].state(state, reason)

    @_kept_from_device
    def clock(self, pair: ClockPair) -> None:
        if not self.closed:
            self._log.write(lambda to: to.clock(pair))
            for stream in self.streams.values():
                stream.clock(pair)

    @_kept_from_device
    def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
        if not self.closed:
            now_ns = time.perf_counter_ns()
            self._log.write(lambda to: to.epoch(Epoch(clock, epoch, now_ns, reason)))
            for stream in self.streams.values():
                stream.epoch(clock, epoch)

    @_kept_from_device
    def calibration(
        self, name: str, values: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]
    ) -> None:
        if not self.closed:
            self._log.write(lambda to: to.calibration(name, values, about))

    @_kept_from_device
    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        if not self.closed:
            self._log.write(lambda to: to.note(kind, {"device": self.device, **about}))

    def failed(self, reason: str) -> None:
        """The device broke inside."""
        for stream in self.streams.values():
            stream.failed(reason)

    def trouble(self, what: str, error: Exception) -> None:
        """Tell of a mistake of the device's."""
        kind = f"{what} {type(error).__name__}"
        if kind not in self._told:
            self._told.add(kind)
            _log.error("device %s: %s could not be taken", self.device, what, exc_info=error)
            self._warn(
                f"The device {self.device} handed over something that cannot be stored "
                f"({what}: {type(error).__name__} {error}). The rest goes on."
            )
