"""Everything that the services of one simulated headset share."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from firsthand_hl2ss.simulator.camera import Camera
from firsthand_hl2ss.simulator.clock import HeadsetClock
from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.faults import FaultBoard
from firsthand_hl2ss.simulator.ledger import LedgerWriter
from firsthand_hl2ss.simulator.source import F4, SensorSource
from firsthand_hl2ss.simulator.stretches import Stretches
from firsthand_hl2ss.simulator.world import World
from firsthand_hl2ss.wire import pack_pose

NOT_LOCATED: Final = pack_pose(None)


@dataclass(slots=True)
class AppState:
    """What lives as long as one run of the app: gone when it is started again."""

    si_delay_hns: int = 0
    eye_tracker: threading.Event = field(default_factory=threading.Event)
    """Set once the system has offered an eye tracker: at the first client, then for good."""


@dataclass(slots=True)
class Headset:
    """Clocks, senses, camera and faults, for the services to look at."""

    config: SimulatorConfig
    clock: HeadsetClock
    board: FaultBoard
    ledger: LedgerWriter
    source: SensorSource
    world: World
    stretches: Stretches
    camera: Camera = field(default_factory=Camera)
    app: AppState = field(default_factory=AppState)

    def under(self, kind: str, stream: str) -> bool:
        """Whether a stream is under a lasting fault of this kind now."""
        return self.board.holding(stream, kind, time.perf_counter_ns()) is not None

    def denied(self, stream: str) -> bool:
        """Whether the wearer refused the permission that a stream needs."""
        return stream in self.config.denied or self.under("permission_denied", stream)

    def pose(self, stream: str, pose: F4) -> bytes:
        """A pose's bytes in the app's world; all zero where the headset does not know its place."""
        if self.under("lost_tracking", stream):
            return NOT_LOCATED
        return pack_pose(self.world.pose(pose))

    def chance(self, *what: object) -> random.Random:
        """Chance that depends on nothing but the seed and ``what``: the same in every run."""
        return random.Random(f"{self.config.seed} {what}")  # noqa: S311 – a simulation

    def wait(self, connection: Connection, seconds: float) -> None:
        """Let time pass while a client waits. Raises ``ConnectionEnded``."""
        connection.wait_until(time.perf_counter_ns() + int(seconds * 1e9))
