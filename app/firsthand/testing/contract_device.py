"""What holds for every device. A device's test inherits ``DeviceContract``.

.. code-block:: python

    class TestMyDevice(DeviceContract):
        def plugin_class(self) -> type[Device]:
            return MyDevice

        def settings(self) -> Mapping[str, Any]:
            return {"host": "127.0.0.1"}
"""

import contextlib
import json
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from firsthand.api import Device, Packet, PayloadKind, StreamSchema, StreamState
from firsthand.testing.claims import claim, comes_true
from firsthand.testing.collecting_sink import CollectingSink
from firsthand.testing.contract_class import ClassContract


class DeviceContract(ClassContract):
    """Opens the device in ``world()`` and looks at what it delivers."""

    kind = "device"
    delivers_within_s = 10.0
    """How long every stream may take to its first packet."""
    packets_wanted = 3
    """Packets of each stream that are waited for."""

    @abstractmethod
    def plugin_class(self) -> type[Device]:
        """The device under test."""

    def world(self) -> AbstractContextManager[Mapping[str, Any]]:
        """Whatever the device needs to deliver (its simulator, say): gives the settings for it.

        By default nothing is needed and the settings are ``settings()``.
        """
        return contextlib.nullcontext(self.settings())

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Device, CollectingSink]]:
        with self.world() as settings:
            sink = CollectingSink()
            with self.plugin_class()(self.config(settings)) as device:
                device.open(sink)
                yield device, sink

    def _has_delivered(self, sink: CollectingSink, schemas: Sequence[StreamSchema]) -> bool:
        return all(len(sink.of(schema.name)) >= self.packets_wanted for schema in schemas)

    def test_streams_are_told_without_a_connection_and_always_the_same(self) -> None:
        first = self.plugin_class()(self.config())
        second = self.plugin_class()(self.config())
        schemas = list(first.schemas())
        names = [schema.name for schema in schemas]
        claim(bool(schemas), "schemas() names no stream")
        claim(len(set(names)) == len(names), f"schemas() names a stream twice: {names}")
        claim(
            schemas == list(first.schemas()) == list(second.schemas()),
            "schemas() gives different answers for the same settings",
        )
        first.close()
        second.close()

    def test_what_is_declared_of_a_stream_can_be_written_and_read(self) -> None:
        for schema in self.plugin_class()(self.config()).schemas():
            again = StreamSchema.from_json(json.loads(json.dumps(schema.to_json())))
            claim(again == schema, f"the schema of {schema.name!r} does not survive as JSON")

    def test_every_stream_delivers_packets_as_declared(self) -> None:
        with self._opened() as (device, sink):
            schemas = {schema.name: schema for schema in device.schemas()}
            done = comes_true(
                lambda: self._has_delivered(sink, list(schemas.values())), self.delivers_within_s
            )
            missing = {name: len(sink.of(name)) for name in schemas}
            claim(done, f"packets within {self.delivers_within_s:g} s, per stream: {missing}")
        strangers = sink.streams() - set(schemas)
        claim(not strangers, f"packets of streams that were not declared: {strangers}")
        for name, schema in schemas.items():
            self._looks_as_declared(schema, sink.of(name))
            told = [state for stream, state, _ in sink.states if stream == name]
            claim(StreamState.LIVE in told, f"{name!r} delivered and was never told to be live")

    def _looks_as_declared(self, schema: StreamSchema, packets: Sequence[Packet]) -> None:
        name, size = schema.name, schema.dtype.itemsize
        claim(
            [packet.seq for packet in packets] == list(range(len(packets))),
            f"seq of {name!r} does not count from 0 without holes",
        )
        now = time.perf_counter_ns()
        arrivals = [packet.arrival_ns for packet in packets]
        claim(arrivals == sorted(arrivals), f"arrival times of {name!r} go back")
        claim(
            all(0 < arrival <= now for arrival in arrivals),
            f"arrival times of {name!r} are not of the host's clock (perf_counter_ns)",
        )
        for packet in packets:
            length = len(packet.fields)
            rows_fit = length % size == 0 if schema.row_time and size else length == size
            claim(rows_fit, f"fields of {name!r} have {length} bytes, a record has {size}")
            claim(
                schema.payload is not PayloadKind.NONE or not packet.payload,
                f"{name!r} declares no payload and sends one",
            )
            if size:
                np.frombuffer(packet.fields, schema.dtype)

    def test_closing_ends_every_thread_and_may_be_done_twice(self) -> None:
        with self.world() as settings:
            before = set(threading.enumerate())
            device, sink = self.plugin_class()(self.config(settings)), CollectingSink()
            device.open(sink)
            claim(
                comes_true(lambda: bool(sink.packets), self.delivers_within_s),
                "no packet came, so closing could not be tried",
            )
            began = time.monotonic()
            device.close()
            took = time.monotonic() - began
            closed_ns = time.perf_counter_ns()
            claim(took <= 5.0, f"close() took {took:.1f} s; five seconds is the most")
            left = {thread.name for thread in set(threading.enumerate()) - before}
            claim(not left, f"close() left threads running: {left}")
            claim(sink.last_call_ns <= closed_ns, "a packet came after close()")
            device.close()

    def test_a_device_that_was_never_opened_can_be_closed(self) -> None:
        device = self.plugin_class()(self.config())
        device.close()
        device.close()
