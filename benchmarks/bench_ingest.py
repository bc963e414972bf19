"""Every stream of the headset at its full rate at once: from the simulator's process over loopback
into the recorder's process, onto the disk. Nothing may be lost."""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from firsthand.recording.client import DeviceChoice, RecorderProcess, RecorderSettings
from headset import accounts, cpu_s, settings_of, simulated, wait_for_all
from report import Row, arguments, finish

HOST = "127.0.20.1"
AHEAD_S = 5
RAW = {"codec": "raw", "calibration": False}
ALL_STREAMS = {
    "pv": {"codec": "h264"},
    "eet": {"fps": 90},
    "si": {},
    "mic": {},
    "vlc": RAW,
    "depth_ahat": RAW,
    "imu": {"calibration": False},
}
SIMULATED = {
    "ahead_s": str(AHEAD_S),
    "ahead_of": "h264:1920x1080@30",
    "voice": "false",
    "rotating_pictures": "16",
    "empty_pv_probability": "0",
    "empty_first_probability": "0",
}
BEGIN_S = 30.0


def main() -> None:
    parser = arguments("Every stream of the headset at its full rate at once.")
    parser.add_argument("--folder", type=Path, help="where to record; else a temporary folder")
    args = parser.parse_args()
    seconds = 10.0 if args.short else 60.0
    place = Path(tempfile.mkdtemp(prefix="firsthand-ingest-", dir=args.folder))
    os.environ["FIRSTHAND_RUNTIME_DIR"] = str(place / "run")
    os.environ["FIRSTHAND_LOG_DIR"] = str(place / "logs")
    try:
        rows = measure(place, seconds)
    finally:
        shutil.rmtree(place)
    notes = (
        "Front camera 1080p30 H.264 (encoded before), eye tracker 90 Hz, spatial input 60 Hz, "
        "stereo PCM, four grey cameras raw, near depth raw at 45 Hz, three motion sensors."
    )
    finish(f"Ingest: all streams at once for {seconds:.0f} s", rows, args.json, notes)


def measure(place: Path, seconds: float) -> list[Row]:
    ledger = place / "ledger.jsonl"
    with simulated(HOST, ledger, SIMULATED) as simulator:
        settings = RecorderSettings(
            folder=place / "session",
            devices=[DeviceChoice(name="hl2ss", settings=settings_of(HOST, ALL_STREAMS))],
            plugins=["hl2ss"],
        )
        recorder = RecorderProcess.start(settings)
        try:
            wait_for_all(recorder, BEGIN_S)
            watched = psutil.Process(recorder.pid)
            source = psutil.Process(simulator)
            before, source_before = cpu_s(watched), cpu_s(source)
            bytes_before, began = recorder.status().bytes_written, time.perf_counter()
            memory = []
            while (left_s := began + seconds - time.perf_counter()) > 0:
                time.sleep(min(left_s, 1.0))
                memory.append(watched.memory_info().rss)
            took_s = time.perf_counter() - began
            rate = (recorder.status().bytes_written - bytes_before) / took_s
            busy, source_busy = cpu_s(watched) - before, cpu_s(source) - source_before
        finally:
            end = recorder.stop()
    found = accounts(Path(end.logs[0]), ledger)
    assert len(end.logs) == 1, "the log went on in another segment"
    for stream, account in found.items():
        print(f"  {stream:<20}{account}")
    lost = sum(account.lost for account in found.values())
    told = sum(account.told_lost for account in found.values())
    packets = sum(account.stored for account in found.values())
    return [
        Row("Taken in and stored", rate / 1e6, "MB/s", 40.0, at_most=False),
        Row("Packets stored", packets, ""),
        Row("Streams", len(found), "", 12.0, at_most=False),
        Row("Packets lost, by the simulator's ledger", lost, "", 0.0),
        Row("Packets lost, by the recording's gaps", told, "", 0.0),
        Row("Processor, recorder's process", 100 * busy / took_s, "% of a core"),
        Row("Processor, simulator's process", 100 * source_busy / took_s, "% of a core"),
        Row("Memory of the recorder, median", statistics.median(memory) / 1e6, "MB"),
        Row("Memory of the recorder, largest", max(memory) / 1e6, "MB"),
    ]


if __name__ == "__main__":
    main()
