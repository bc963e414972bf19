"""A simulated headset in a process of its own, and recordings of it judged by its ledger."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from firsthand.recording.client import RecorderProcess
from firsthand.recording.packetlog import GapEntry, PacketEntry, read_log
from firsthand_hl2ss.simulator.ledger import Ledger

BASE_PORT = 3800


@contextlib.contextmanager
def simulated(host: str, ledger: Path, settings: Mapping[str, str]) -> Iterator[int]:
    """Gives the process's id once it listens; ends it, so that its ledger is complete."""
    command = [sys.executable, "-m", "firsthand", "simulate", "hl2ss", "--host", host]
    command += ["--ledger", str(ledger)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            told = process.stdout.readline() if process.stdout is not None else ""
            if "listens on" not in told:
                raise RuntimeError(f"the simulator did not begin: {told!r}")
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


@dataclass(frozen=True)
class Account:
    """One stream's packets: what the headset's ledger and the recorder's log say."""

    stored: int
    bytes: int
    lost: int
    """Packets missing in the log between its first and its last, by the ledger."""
    late: int
    """Of these, those that the simulator itself could not send in time."""
    told_lost: int
    """What the log's gaps say is missing."""


def accounts(log: Path, ledger_path: Path) -> dict[str, Account]:
    """Every stream of a log without faults. Raises ``AssertionError`` where a packet was stored
    that was never sent, or twice."""
    times: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    told: dict[str, int] = {}
    for entry in read_log(log):
        if isinstance(entry, PacketEntry):
            packet = entry.packet
            times.setdefault(packet.stream, []).append(packet.device_ns // 100)
            size = len(packet.payload) + len(packet.fields)
            sizes[packet.stream] = sizes.get(packet.stream, 0) + size
        elif isinstance(entry, GapEntry) and entry.gap.cause != "not_started":
            told[entry.gap.stream] = told.get(entry.gap.stream, 0) + entry.gap.packets_lost
    ledger = Ledger.load(ledger_path)
    found = {}
    for stream, stored in times.items():
        assert len(set(stored)) == len(stored), f"{stream}: a packet is stored twice"
        count = ledger.count(stream, stored[0], stored[-1])
        sent = {row.timestamp_hns for row in ledger.sent(stream) if not row.empty}
        assert sent.issuperset(stored), f"{stream}: a packet was never sent"
        found[stream] = Account(
            stored=len(stored),
            bytes=sizes[stream],
            lost=count.slots - len(stored),
            late=sum(count.unsent.values()),
            told_lost=told.get(stream, 0),
        )
    return found


def settings_of(host: str, streams: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the hl2ss device for the streams named and no other."""
    core: dict[str, Any] = {"pv": None, "eet": None, "si": None, "mic": None}
    return {"host": host, "base_port": BASE_PORT, **core, **streams}


def wait_for_all(recorder: RecorderProcess, seconds: float) -> None:
    """Until every stream of a recording has delivered."""
    limit = time.monotonic() + seconds
    while any(stream.packets == 0 for stream in recorder.status().streams):
        if time.monotonic() > limit:
            raise RuntimeError("not every stream began")
        time.sleep(0.1)


def cpu_s(process: psutil.Process) -> float:
    """Processor time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)
