"""The recorder's whole process with the core set through the real client, over loopback.

The simulator, in a process of its own, sends what a headset would; the video is encoded before.
The parent asks for the status twice a second, as the app does.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from firsthand.recording.client import DeviceChoice, RecorderProcess, RecorderSettings
from headset import accounts, cpu_s, settings_of, simulated, wait_for_all
from report import Row, arguments, finish

HOST = "127.0.20.2"
SIMULATED = {
    "ahead_s": "5",
    "voice": "false",
    "empty_pv_probability": "0",
    "empty_first_probability": "0",
}
BITRATE = 10_000_000
MB = 1e6


@dataclass(frozen=True)
class Run:
    """One recording."""

    share: float
    """Of a core."""
    memory: list[float]
    """MB, twice a second."""
    rate: float
    """MB/s written."""
    lost: int


def core_set(codec: str) -> dict[str, Any]:
    return {"pv": {"codec": codec, "bitrate": BITRATE}, "eet": {"fps": 90}, "si": {}, "mic": {}}


def record(place: Path, codec: str, seconds: float) -> Run:
    ledger = place / "ledger.jsonl"
    with simulated(HOST, ledger, SIMULATED):
        settings = RecorderSettings(
            folder=place / "session",
            devices=[DeviceChoice(name="hl2ss", settings=settings_of(HOST, core_set(codec)))],
            plugins=["hl2ss"],
        )
        recorder = RecorderProcess.start(settings)
        try:
            wait_for_all(recorder, 120.0)
            process = psutil.Process(recorder.pid)
            time.sleep(2.0)
            began, used = time.perf_counter(), cpu_s(process)
            written = recorder.status().bytes_written
            memory = []
            while time.perf_counter() - began < seconds:
                time.sleep(0.5)
                status = recorder.status()
                memory.append(process.memory_info().rss / MB)
            took = time.perf_counter() - began
            share = (cpu_s(process) - used) / took
        finally:
            end = recorder.stop()
    found = accounts(Path(end.logs[0]), ledger)
    lost = sum(max(account.lost, account.told_lost) for account in found.values())
    return Run(share, memory, (status.bytes_written - written) / took / MB, lost)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each recording")
    args = parser.parse_args()
    seconds = 10.0 if args.short else args.seconds
    rows = []
    with tempfile.TemporaryDirectory(prefix="firsthand-client-") as name:
        os.environ["FIRSTHAND_RUNTIME_DIR"] = str(Path(name) / "run")
        os.environ["FIRSTHAND_LOG_DIR"] = str(Path(name) / "logs")
        for codec, words in (("h264", "H.264"), ("hevc", "HEVC")):
            place = Path(name) / codec
            place.mkdir()
            run = record(place, codec, seconds)
            settled = run.memory[len(run.memory) // 4 :]
            rows += [
                Row(f"recorder's process, {words}", 100 * run.share, "% of a core", 5.0),
                Row("… written", run.rate, "MB/s"),
                Row("… packets lost", run.lost, "", 0.0),
                Row("… memory, highest", max(run.memory), "MB"),
                Row("… memory, growth in the last three quarters", settled[-1] - settled[0], "MB"),
            ]
    notes = (
        f"1080p30 at {BITRATE / MB:.0f} Mbit/s, eye tracker 90 Hz, spatial input 60 Hz, stereo "
        f"PCM; {seconds:.0f} s each."
    )
    finish("Recorder: the core set through the hl2ss client", rows, args.json, notes)


if __name__ == "__main__":
    main()
