"""A device that delivers a slow wave, in step with the computer's clock."""

import math
import threading
import time
from collections.abc import Sequence

import numpy as np
from firsthand.api import (
    Clock,
    Column,
    Device,
    DeviceSink,
    Packet,
    PluginConfig,
    StreamSchema,
    StreamState,
)
from pydantic import Field


class NewpluginConfig(PluginConfig):
    """Settings: checked before a session, and shown as a form."""

    rate_hz: float = Field(default=20.0, gt=0, le=500, description="Readings per second.")
    period_s: float = Field(default=10.0, gt=0, description="Length of one wave in seconds.")


class NewpluginDevice(Device):
    """Delivers the stream ``newplugin``."""

    name = "newplugin"
    title = "A slow wave, without hardware"
    Config = NewpluginConfig
    config: NewpluginConfig

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def schemas(self) -> Sequence[StreamSchema]:
        wave = StreamSchema(
            name="newplugin",
            title="Slow wave",
            columns=(Column("value", "<f4", unit="1", description="Between -1 and 1."),),
            nominal_hz=self.config.rate_hz,
            stalls_after_s=max(1.0, 3 / self.config.rate_hz),
            # A device with a clock of its own gives Clock.DEVICE here and measures pairs of
            # readings (sink.clock), so that readers can bring all streams together.
            clock=Clock.HOST,
        )
        return [wave]

    def open(self, sink: DeviceSink) -> None:
        self._thread = threading.Thread(target=self._deliver, args=(sink,), name="newplugin")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _deliver(self, sink: DeviceSink) -> None:
        (schema,) = self.schemas()
        sink.state(schema.name, StreamState.WAITING)
        start_ns = time.perf_counter_ns()
        seq = 0
        while not self._stop.is_set():
            # The time of measuring, not of sending: what is late still says when it was true.
            device_ns = start_ns + seq * schema.period_ns
            wait_ns = device_ns - time.perf_counter_ns()
            if wait_ns > 0 and self._stop.wait(wait_ns / 1e9):
                break
            angle = 2 * math.pi * (device_ns - start_ns) / (self.config.period_s * 1e9)
            record = np.array((math.sin(angle),), schema.dtype)
            sink.packet(
                Packet(schema.name, seq, device_ns, time.perf_counter_ns(), record.tobytes())
            )
            if seq == 0:
                sink.state(schema.name, StreamState.LIVE)
            seq += 1
        sink.state(schema.name, StreamState.ENDED, "The device was closed.")
