"""The client in a network namespace: receives until its input ends, then tells what came and when.

Run by ``test_link_loss`` as a script: ``python link_loss_recorder.py ADDRESS``.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence

from firsthand.api import (
    Clock,
    ClockPair,
    GapCause,
    GapRow,
    Packet,
    StreamSchema,
    StreamState,
)
from firsthand.streams.gaps import GapTracker
from firsthand.testing.collecting_sink import CollectingSink
from firsthand_hl2ss import Hl2ssConfig, Hl2ssDevice
from firsthand_hl2ss.config import PvConfig


class AccountingSink(CollectingSink):
    """Keeps accounts as the recorder does, and remembers when each state was told."""

    def __init__(self, schemas: Sequence[StreamSchema]) -> None:
        super().__init__()
        now_ns = time.perf_counter_ns()
        self.told: list[tuple[int, str, str]] = []
        self.rows: dict[str, list[GapRow]] = {schema.name: [] for schema in schemas}
        self._trackers = {schema.name: GapTracker(schema, now_ns) for schema in schemas}
        self._one_at_a_time = threading.Lock()

    def packet(self, packet: Packet) -> None:
        with self._one_at_a_time:
            packet, rows = self._trackers[packet.stream].packet(packet)
            self.rows[packet.stream] += rows
        super().packet(packet)

    def skipped(self, stream: str, cause: GapCause, device_ns: int | None, packets: int) -> None:
        with self._one_at_a_time:
            self.rows[stream] += self._trackers[stream].skipped(cause, device_ns, packets)

    def interrupted(self, stream: str, cause: GapCause, reason: str) -> None:
        with self._one_at_a_time:
            self._trackers[stream].interrupted(cause, reason)
        super().interrupted(stream, cause, reason)

    def clock(self, pair: ClockPair) -> None:
        with self._one_at_a_time:
            for name, tracker in self._trackers.items():
                self.rows[name] += tracker.clock(pair)

    def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
        with self._one_at_a_time:
            for name, tracker in self._trackers.items():
                self.rows[name] += tracker.epoch(clock, epoch)
        super().epoch(clock, epoch, reason)

    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        self.told.append((time.perf_counter_ns(), stream, state.value))
        super().state(stream, state, reason)

    def close(self) -> None:
        for name, tracker in self._trackers.items():
            self.rows[name] += tracker.close()


device = Hl2ssDevice(
    Hl2ssConfig(host=sys.argv[1], pv=PvConfig(width=424, height=240, calibration=False))
)
sink = AccountingSink(device.schemas())
device.open(sink)
limit = time.monotonic() + 20
while time.monotonic() < limit and any(len(sink.of(name)) < 10 for name in sink.rows):
    time.sleep(0.02)
print("ready", flush=True)
sys.stdin.read()
device.close()
sink.close()
print(
    json.dumps(
        {
            "told": sink.told,
            "epochs": [[clock.value, epoch] for clock, epoch, _ in sink.epochs],
            "causes": [[name, cause.value] for name, cause, _ in sink.interruptions],
            "gaps": {
                name: [[row.start_ns, row.stop_ns, row.cause, row.packets_lost] for row in rows]
                for name, rows in sink.rows.items()
            },
            "packets": {
                name: [[packet.device_ns, packet.arrival_ns] for packet in sink.of(name)]
                for name in sink.rows
            },
        }
    ),
    flush=True,
)
