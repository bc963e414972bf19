"""What holds for every simulator. A simulator's test inherits ``SimulatorContract``."""

import json
import threading
from abc import abstractmethod
from typing import Any

import pytest

from firsthand.api import Device, SettingsError, SimulatedFault, Simulator
from firsthand.host.settings import checked
from firsthand.testing.claims import claim, comes_true
from firsthand.testing.collecting_sink import CollectingSink
from firsthand.testing.contract_class import ClassContract


class SimulatorContract(ClassContract):
    """Starts the simulator and lets the device that it stands in for connect to it."""

    kind = "simulator"
    delivers_within_s = 15.0

    @abstractmethod
    def plugin_class(self) -> type[Simulator]:
        """The simulator under test."""

    @abstractmethod
    def device_class(self) -> type[Device]:
        """The device of the same name."""

    def _made(self) -> Simulator:
        return self.plugin_class()(self.config())

    def test_it_bears_the_name_of_its_device(self) -> None:
        mine, its = self.plugin_class().name, self.device_class().name
        claim(mine == its, f"the simulator is called {mine!r} and the device {its!r}")

    def test_its_device_gets_packets_from_it(self) -> None:
        with self._made() as simulator:
            settings: dict[str, Any] = json.loads(json.dumps(dict(simulator.device_settings())))
            device = self.device_class()(checked("device", self.device_class().Config, settings))
            sink = CollectingSink()
            with device:
                device.open(sink)
                wanted = {schema.name for schema in device.schemas()}
                comes_true(lambda: sink.streams() == wanted, self.delivers_within_s)
            silent = wanted - sink.streams()
            claim(not silent, f"no packet came of: {', '.join(sorted(silent))}")

    def test_stopping_ends_every_thread_and_may_be_done_twice(self) -> None:
        before = set(threading.enumerate())
        simulator = self._made()
        simulator.start()
        simulator.stop()
        left = {thread.name for thread in set(threading.enumerate()) - before}
        claim(not left, f"stop() left threads running: {left}")
        simulator.stop()

    def test_another_one_can_start_where_one_was_stopped(self) -> None:
        for _ in range(2):
            with self._made():
                pass

    def test_a_fault_nobody_knows_is_refused(self) -> None:
        with self._made() as simulator, pytest.raises(SettingsError, match="no_such_fault"):
            simulator.fault(SimulatedFault("no_such_fault"))

    def test_it_says_what_it_shows_in_one_line(self) -> None:
        with self._made() as simulator:
            words = simulator.words()
        claim(bool(words.strip()) and words.isprintable(), f"words() is no sentence: {words!r}")
