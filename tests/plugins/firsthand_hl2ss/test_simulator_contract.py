"""The simulated headset keeps what every simulator promises."""

from collections.abc import Mapping
from typing import Any

import pytest

from firsthand.testing.contract_simulator import SimulatorContract
from firsthand_hl2ss.device import Hl2ssDevice
from firsthand_hl2ss.simulator import Hl2ssSimulator

pytestmark = pytest.mark.process


class TestHl2ssSimulator(SimulatorContract):
    def plugin_class(self) -> type[Hl2ssSimulator]:
        return Hl2ssSimulator

    def device_class(self) -> type[Hl2ssDevice]:
        return Hl2ssDevice

    def settings(self) -> Mapping[str, Any]:
        return {"host": "127.0.12.18", "voice": False, "camera_opens_s": 0.1}
