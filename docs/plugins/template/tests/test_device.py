"""The device keeps every promise that Firsthand's contract suite knows, and one of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from firsthand.api import Device
from firsthand.testing.claims import comes_true
from firsthand.testing.collecting_sink import CollectingSink
from firsthand.testing.contract_device import DeviceContract

from firsthand_newplugin.device import NewpluginConfig, NewpluginDevice


class TestNewpluginDevice(DeviceContract):
    def plugin_class(self) -> type[Device]:
        return NewpluginDevice

    def settings(self) -> Mapping[str, Any]:
        return {"rate_hz": 50.0}


def test_the_wave_stays_between_its_bounds() -> None:
    sink = CollectingSink()
    with NewpluginDevice(NewpluginConfig(rate_hz=200.0, period_s=0.05)) as device:
        device.open(sink)
        assert comes_true(lambda: len(sink.packets) >= 20, within_s=10.0)
    (schema,) = device.schemas()
    values = [np.frombuffer(p.fields, schema.dtype)["value"][0] for p in sink.packets]
    assert -1.0 <= min(values) < 0.0 < max(values) <= 1.0
