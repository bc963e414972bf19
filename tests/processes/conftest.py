"""A simulated headset recorded through the real protocol into a finished recording."""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from firsthand.api import SimulatedFault
from firsthand.recording.finalise import finalise
from firsthand.recording.recorder import Recorder
from firsthand.recording.recorder_settings import DeviceChoice, RecorderSettings
from firsthand_hl2ss.device import Hl2ssDevice
from firsthand_hl2ss.simulator import Hl2ssSimulator
from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.ledger import Ledger

SMALL: Mapping[str, Any] = {
    "pv": {"width": 424, "height": 240, "fps": 15, "gop": 5},
    "eet": {"fps": 30},
    "si": {},
    "mic": {},
}
"""Every stream of a study, small enough for simulator and recorder in one process."""
SHIM = Path(__file__).parents[1] / "shim" / "disk_fault.c"


@dataclass(frozen=True)
class Stored:
    """One stream as plain h5py finds it in ``raw.h5``."""

    device_ns: npt.NDArray[np.int64]
    arrival_ns: npt.NDArray[np.int64]
    payload_crc32: list[int]
    gaps: list[tuple[int, int, str, int]]

    @property
    def lost(self) -> int:
        return sum(max(0, count) for *_, count in self.gaps)


@dataclass(frozen=True)
class RecordedHeadset:
    """A finished recording and the simulator's own account of what it sent."""

    folder: Path
    ledger: Ledger
    warnings: list[str]

    def stored(self, stream: str) -> Stored:
        import zlib

        with h5py.File(self.folder / "raw.h5", "r") as file:
            group = file["streams"][stream]
            gaps = [
                (int(g["start_ns"]), int(g["stop_ns"]), g["cause"].decode(), int(g["packets_lost"]))
                for g in group["gaps"][:]
            ]
            table = group["index"] if "index" in group else group["samples"]
            crcs: list[int] = []
            if "index" in group:
                blob = group["blob"][:]
                crcs = [
                    zlib.crc32(blob[int(row["offset"]) : int(row["offset"]) + int(row["length"])])
                    for row in table[:]
                ]
            return Stored(table["device_ns"], table["arrival_ns"], crcs, gaps)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that lets chosen calls fail, for ``LD_PRELOAD``."""
    compiler = shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the failing disk is made of C, for Linux")
    library = tmp_path_factory.mktemp("shim") / "disk_fault.so"
    command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(SHIM), "-ldl"], check=True)
    return library


RecordHeadset = Callable[..., RecordedHeadset]


@pytest.fixture
def record_headset(tmp_path: Path) -> Iterator[RecordHeadset]:
    """Call with faults and settings; gives the finished recording."""
    running: list[Hl2ssSimulator] = []

    def record(
        *,
        seconds: float,
        faults: Sequence[SimulatedFault] = (),
        streams: Mapping[str, Any] = SMALL,
        simulator: Mapping[str, Any] | None = None,
        device: Mapping[str, Any] | None = None,
        during: Callable[[Hl2ssSimulator], None] | None = None,
    ) -> RecordedHeadset:
        about = {"base_port": 0, "voice": False, "camera_opens_s": 0.3, **(simulator or {})}
        headset = Hl2ssSimulator(SimulatorConfig(**about))
        running.append(headset)
        headset.start()
        settings = {**headset.device_settings(), **streams, **(device or {})}
        folder = tmp_path / f"session-{len(running):02d}"
        folder.mkdir()
        recorder = Recorder(
            RecorderSettings(
                folder=folder, devices=[DeviceChoice(name="hl2ss", settings=settings)]
            ),
            [Hl2ssDevice(Hl2ssDevice.Config(**settings))],
        )
        recorder.start()
        try:
            _until(lambda: all(s.packets > 0 for s in recorder.status().streams), 15.0)
            for fault in faults:
                headset.fault(fault)
            if during is not None:
                during(headset)
            threading.Event().wait(seconds)
            warnings = recorder.status().warnings
        finally:
            recorder.stop()
            headset.stop()
        finalise(folder)
        return RecordedHeadset(folder, headset.ledger, warnings)

    yield record
    for headset in running:
        headset.stop()


def _until(done: Callable[[], bool], limit_s: float) -> None:
    stop = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < stop, "the streams did not begin in time"
        time.sleep(0.02)
