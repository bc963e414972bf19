"""Recorder processes that record a fake device, and what must be found in their recordings."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from firsthand.recording.client import DeviceChoice, RecorderSettings
from firsthand.recording.packetlog import Damage, LogEntry, PacketEntry, read_log
from firsthand.recording.session_folder import segments
from firsthand.testing.devices import MODULE, FakeConfig, FakeStream, read_ledger
from firsthand.testing.waiting import wait_until


def fake_settings(
    folder: Path, *, device: FakeConfig | None = None, **more: Any
) -> RecorderSettings:
    """Settings of a recorder of one fake device that keeps a ledger beside ``folder``."""
    config = device or FakeConfig()
    if config.ledger is None:
        config = config.model_copy(update={"ledger": str(ledger_of(folder))})
    choice = DeviceChoice(name="fake", settings=config.model_dump(mode="json"))
    chosen: dict[str, Any] = {
        "session": {"id": folder.name},
        "plugins": [],
        "extra_plugins": [MODULE],
        **more,
    }
    return RecorderSettings(folder=folder, devices=[choice], **chosen)


def ledger_of(folder: Path) -> Path:
    """Where the fake device of ``fake_settings`` counts."""
    return folder.with_name(f"{folder.name}.ledger")


def wait_for_packets(folder: Path, count: int) -> None:
    """Until each stream of the fake device has handed over so many."""
    wait_until(
        lambda: (rows := read_ledger(ledger_of(folder))) and min(n for n, _ in rows) >= count,
        f"{count} packets of each stream",
        within_s=20.0,
    )


def read_all(folder: Path) -> tuple[list[LogEntry], list[Damage]]:
    """Every entry of all segments, and all damage but torn ends."""
    damage: list[Damage] = []
    found = [entry for path in segments(folder) for entry in read_log(path, damage.append)]
    return found, [each for each in damage if not each.torn]


def stored_seqs(entries: Sequence[LogEntry], stream: FakeStream) -> set[int]:
    """Numbers of a stream's packets; fails where one is not what the fake handed over."""
    seqs = set()
    for entry in entries:
        if isinstance(entry, PacketEntry) and entry.packet.stream == stream.name:
            seq = entry.packet.seq
            if entry.crc32 != stream.crc32(seq) or entry.packet.payload != stream.payload(seq):
                raise AssertionError(f"{stream.name} {seq} is not what was handed over")
            seqs.add(seq)
    return seqs


@dataclass(frozen=True, slots=True)
class Lost:
    """What a recording lacks of one stream: packets at the end, packets before, and the time from
    the first one lacking to the last handed over."""

    at_end: int
    before: int
    seconds: float


def losses(folder: Path, streams: Sequence[FakeStream]) -> dict[str, Lost]:
    """What the log in ``folder`` lacks of what the fake device handed over."""
    entries, _ = read_all(folder)
    found = {}
    for stream, (handed, _) in zip(streams, read_ledger(ledger_of(folder)), strict=True):
        seqs = stored_seqs(entries, stream)
        end = max(seqs, default=-1) + 1
        at_end = max(0, handed - end)
        found[stream.name] = Lost(at_end, end - len(seqs), at_end / stream.hz)
    return found


def handed_over(folder: Path) -> list[int]:
    """Packets of each stream that the fake device has handed over by now."""
    return [count for count, _ in read_ledger(ledger_of(folder))]


def check_nothing_lost(folder: Path, streams: Sequence[FakeStream], handed: Sequence[int]) -> None:
    """Fail unless the log in ``folder`` is undamaged and has the first ``handed`` packets of each
    stream, and no holes after that."""
    entries, damage = read_all(folder)
    if damage:
        raise AssertionError(f"the log is damaged: {damage}")
    for stream, count in zip(streams, handed, strict=True):
        seqs = stored_seqs(entries, stream)
        if len(seqs) < count or seqs != set(range(len(seqs))):
            raise AssertionError(f"{stream.name}: {count} were handed over, not all are stored")


def end_process(pid: int, how: int = getattr(signal, "SIGKILL", signal.SIGTERM)) -> None:
    """Kill a process and wait until it is gone (or waits to be buried)."""
    process = psutil.Process(pid)
    os.kill(pid, how)
    wait_until(
        lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE,
        f"process {pid} to end",
    )
