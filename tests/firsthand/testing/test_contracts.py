"""The contract suites themselves: a good class passes, and each broken promise is found."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ConfigDict

from firsthand.api import (
    Clock,
    Column,
    Device,
    DeviceSink,
    Exporter,
    Packet,
    PayloadKind,
    PluginConfig,
    Progress,
    RecordingError,
    RecordingView,
    SettingsError,
    SimulatedFault,
    Simulator,
    StreamSchema,
    StreamState,
)
from firsthand.testing.contract_device import DeviceContract
from firsthand.testing.contract_exporter import ExporterContract
from firsthand.testing.contract_simulator import SimulatorContract
from firsthand.testing.memory_recording import MemoryRecording, gaze_recording

pytestmark = pytest.mark.process

PULSE = StreamSchema("pulse", "Pulse", (Column("bpm", "<f4"),), nominal_hz=100.0, clock=Clock.HOST)


class PulseConfig(PluginConfig):
    start_seq: int = 0


class PulseDevice(Device):
    name = "pulse"
    title = "A pulse"
    Config = PulseConfig
    config: PulseConfig

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def schemas(self) -> Sequence[StreamSchema]:
        return [PULSE]

    def open(self, sink: DeviceSink) -> None:
        self._threads.append(threading.Thread(target=self._run, args=(sink,)))
        self._threads[0].start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, sink: DeviceSink) -> None:
        seq = self.config.start_seq
        sink.state("pulse", StreamState.LIVE)
        while not self._stop.wait(0.002):
            now = time.perf_counter_ns()
            sink.packet(self.changed(Packet("pulse", seq, now, now, bytes(4))))
            seq += 1

    def changed(self, packet: Packet) -> Packet:
        return packet


class TestAGoodDevice(DeviceContract):
    def plugin_class(self) -> type[Device]:
        return PulseDevice

    def settings(self) -> Mapping[str, Any]:
        return {}


def device_contract(cls: type[Device]) -> DeviceContract:
    class Contract(DeviceContract):
        delivers_within_s = 0.3

        def plugin_class(self) -> type[Device]:
            return cls

        def settings(self) -> Mapping[str, Any]:
            return {}

    return Contract()


def changing(change: Callable[[Packet], Packet]) -> type[Device]:
    class Changing(PulseDevice):
        def changed(self, packet: Packet) -> Packet:
            return change(packet)

    return Changing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: replace(p, fields=bytes(5)), "5 bytes, a record has 4"),
        (lambda p: replace(p, payload=b"x"), "declares no payload"),
        (lambda p: replace(p, seq=p.seq + 1), "seq of 'pulse'"),
        (lambda p: replace(p, arrival_ns=p.arrival_ns + 10**15), "host's clock"),
        (lambda p: replace(p, arrival_ns=10**9 - p.seq), "go back"),
        (lambda p: replace(p, stream="other"), "packets within"),
    ],
)
def test_a_device_whose_packets_are_not_as_declared_fails(
    change: Callable[[Packet], Packet], words: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=words):
        device_contract(changing(change)).test_every_stream_delivers_packets_as_declared()


def test_a_device_that_leaves_its_thread_running_fails() -> None:
    release = threading.Event()

    class Forgetful(PulseDevice):
        def open(self, sink: DeviceSink) -> None:
            super().open(sink)
            threading.Thread(target=release.wait, name="forgotten").start()

    with pytest.raises(pytest.fail.Exception, match="forgotten"):
        device_contract(Forgetful).test_closing_ends_every_thread_and_may_be_done_twice()
    release.set()


def test_a_device_that_says_one_thing_and_then_another_fails() -> None:
    class Fickle(PulseDevice):
        def schemas(self) -> Sequence[StreamSchema]:
            return [replace(PULSE, description=str(time.perf_counter_ns()))]

    contract = device_contract(Fickle)
    with pytest.raises(pytest.fail.Exception, match="different answers"):
        contract.test_streams_are_told_without_a_connection_and_always_the_same()


class PulseSimulator(Simulator):
    name = "pulse"
    title = "A pulse without a heart"
    Config = PulseConfig

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def device_settings(self) -> Mapping[str, Any]:
        return {"start_seq": 0}

    def fault(self, fault: SimulatedFault) -> None:
        raise SettingsError(f"There is no fault {fault.kind!r}.")

    def words(self) -> str:
        return "It beats, and listens nowhere."


class TestAGoodSimulator(SimulatorContract):
    def plugin_class(self) -> type[Simulator]:
        return PulseSimulator

    def device_class(self) -> type[Device]:
        return PulseDevice

    def settings(self) -> Mapping[str, Any]:
        return {}


def test_a_simulator_that_takes_any_fault_or_says_nothing_fails() -> None:
    class Careless(PulseSimulator):
        name = "other"

        def fault(self, fault: SimulatedFault) -> None: ...

        def words(self) -> str:
            return ""

    class Contract(TestAGoodSimulator):
        def plugin_class(self) -> type[Simulator]:
            return Careless

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Contract().test_a_fault_nobody_knows_is_refused()
    with pytest.raises(pytest.fail.Exception, match="no sentence"):
        Contract().test_it_says_what_it_shows_in_one_line()
    with pytest.raises(pytest.fail.Exception, match="'other'"):
        Contract().test_it_bears_the_name_of_its_device()


class LinesConfig(PluginConfig):
    pass


class LinesExporter(Exporter):
    """One line per packet."""

    name = "lines"
    title = "Lines"
    Config = LinesConfig

    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        progress(0.0, "looking")
        if not recording.schemas:
            raise RecordingError("There is no stream in it.")
        written = []
        for stream in recording.schemas:
            path = out / f"{stream}.txt"
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.writelines(f"{time_s}\n" for time_s in recording.times_s(stream))
            except FileExistsError as error:
                raise RecordingError(f"{path} is there already.") from error
            written.append(path)
        progress(1.0, "done")
        return written


class TestAGoodExporter(ExporterContract):
    def plugin_class(self) -> type[Exporter]:
        return LinesExporter

    def settings(self) -> Mapping[str, Any]:
        return {}

    def recording(self, folder: Path) -> RecordingView:
        return gaze_recording(folder)


class Rude(LinesExporter):
    """Breaks every promise at once; each test finds its own."""

    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        (out / "hidden.txt").write_text(str(time.perf_counter_ns()), encoding="utf-8")
        (recording.folder / "raw.h5").write_text("mine", encoding="utf-8")
        return [out / "nowhere.txt"]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("test_it_writes_the_files_it_names_and_no_others", "named and written files differ"),
        ("test_the_recording_is_the_same_afterwards", "changed the recording's folder"),
        ("test_files_that_are_there_already_are_left_alone", "changed files of the first"),
        ("test_progress_goes_from_0_to_1", "never told"),
        ("test_it_ends_when_it_is_asked_to", "DID NOT RAISE"),
        ("test_a_recording_without_streams_is_told_in_words", "named and not written"),
    ],
)
def test_an_exporter_that_breaks_a_promise_fails(test: str, words: str, tmp_path: Path) -> None:
    class Contract(TestAGoodExporter):
        def plugin_class(self) -> type[Exporter]:
            return Rude

    with pytest.raises(pytest.fail.Exception, match=words):
        getattr(Contract(), test)(tmp_path)


def test_settings_that_can_be_changed_fail() -> None:
    class Loose(PulseConfig):
        model_config = ConfigDict(frozen=False)

    class Changing(PulseDevice):
        Config = Loose

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        device_contract(Changing).test_settings_do_not_change_once_they_are_made()


def test_a_class_that_the_host_refuses_fails() -> None:
    big = type("Big", (PulseDevice,), {"name": "Big"})
    with pytest.raises(pytest.fail.Exception, match="a name is a small letter"):
        device_contract(big).test_the_host_takes_the_class()


def test_the_small_recording_says_what_is_in_it(tmp_path: Path) -> None:
    recording: RecordingView = gaze_recording(tmp_path, seconds=1.0)
    assert len(recording.records("gaze")) == len(recording.times_s("gaze")) == 29
    assert recording.duration_s == pytest.approx(29 / 30)
    assert [gap.packets_lost for gap in recording.gaps("gaze")] == [1]
    assert [packet.seq for packet in recording.packets("gaze", 3, 5)] == [3, 4]
    assert recording.gaze_pixels().shape == (29, 2)
    assert not MemoryRecording(tmp_path).schemas


def test_sound_of_the_small_recording_lies_at_its_own_time(tmp_path: Path) -> None:
    schema = StreamSchema(
        "mic", "Sound", payload=PayloadKind.PCM_S16, sample_hz=100.0, channels=1, clock=Clock.HOST
    )
    half = np.full(10, 16384, "<i2").tobytes()
    packets = [Packet("mic", n, n * 200_000_000, 0, b"", half) for n in range(2)]
    sound = MemoryRecording(tmp_path, [(schema, packets)]).sound("mic", 0.05, 0.25)
    assert sound.present.tolist() == [True] * 5 + [False] * 10 + [True] * 5
    assert sound.samples[:, 0].tolist() == [0.5] * 5 + [0.0] * 10 + [0.5] * 5
