"""The recorder's whole process at the core set: processor time and memory, and two extremes.

A device known by heart stands in for the headset, so its own work (making the packets) is in the
figures, while the network's is not. The parent asks for the status twice a second, as the app does.
Memory is watched over an hour's worth of packets, twenty times as fast as they come in life.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

from firsthand.recording.client import RecorderProcess
from firsthand.testing.devices import FakeConfig, FakeStream
from firsthand.testing.recorders import fake_settings
from report import Row, arguments, finish

CORE_SET = (
    FakeStream(name="pv", hz=30.0, record_bytes=130, payload_bytes=41_000),
    FakeStream(name="eet", hz=90.0, record_bytes=200),
    FakeStream(name="si", hz=60.0, record_bytes=2_100),
    FakeStream(name="mic", hz=62.5, payload_bytes=3_072),
)
DEPTH = (
    FakeStream(name="depth", hz=45.0, payload_bytes=1_000_000),
    *CORE_SET,
)
MB = 1e6
FASTER = 20.0
"""How much faster than real time the hour goes by."""


def watch(
    folder: Path, streams: tuple[FakeStream, ...], seconds: float
) -> tuple[float, list[float], float]:
    """Share of a core, resident memory (MB) twice a second, and MB/s written, at real time."""
    recorder = RecorderProcess.start(fake_settings(folder, device=FakeConfig(streams=streams)))
    process = psutil.Process(recorder.pid)
    try:
        time.sleep(2.0)
        began, used = time.perf_counter(), _spent(process)
        written = recorder.status().bytes_written
        memory = []
        while time.perf_counter() - began < seconds:
            time.sleep(0.5)
            status = recorder.status()
            memory.append(process.memory_info().rss / MB)
        took = time.perf_counter() - began
        share = (_spent(process) - used) / took
        return share, memory, (status.bytes_written - written) / took / MB
    finally:
        recorder.stop()


def hour(folder: Path, seconds: float) -> list[float]:
    """Memory (MB) four times a second while ``seconds`` of the core set go by at ``FASTER``."""
    device = FakeConfig(streams=CORE_SET, speed=FASTER, seconds=seconds)
    recorder = RecorderProcess.start(fake_settings(folder, device=device))
    process = psutil.Process(recorder.pid)
    wanted = sum(int(seconds * stream.hz) for stream in CORE_SET)
    memory = []
    try:
        while True:
            status = recorder.status()
            memory.append(process.memory_info().rss / MB)
            if sum(stream.packets + stream.dropped for stream in status.streams) >= wanted:
                return memory
            time.sleep(0.25)
    finally:
        recorder.stop()


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    chosen = arguments(__doc__ or "").parse_args()
    seconds, session_s = (10.0, 300.0) if chosen.short else (60.0, 3600.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FIRSTHAND_RUNTIME_DIR"] = str(folder / "run")
        os.environ["FIRSTHAND_LOG_DIR"] = str(folder / "logs")
        core, memory, rate = watch(folder / "core", CORE_SET, seconds)
        depth, _, depth_rate = watch(folder / "depth", DEPTH, seconds / 3)
        over_hour = hour(folder / "hour", session_s)
    settled = over_hour[len(over_hour) // 4 :]
    rows = [
        Row("recorder's process, core set", 100 * core, "% of a core", 5.0),
        Row("… written", rate, "MB/s"),
        Row("… memory, highest", max(memory), "MB"),
        Row("… memory, growth over the run", memory[-1] - memory[len(memory) // 4], "MB"),
        Row("with raw depth as well", 100 * depth, "% of a core"),
        Row("… written", depth_rate, "MB/s"),
        Row(
            f"memory over {session_s / 3600:.2g} h of packets, last three quarters: growth",
            max(settled) - settled[0],
            "MB",
            32.0,
        ),
    ]
    notes = f"{seconds:.0f} s at real time; {session_s:.0f} s of the core set at {FASTER:.0f} ×."
    finish("Recorder: the whole process", rows, chosen.json, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
