"""Real disks that are full, read-only, gone or failing: clear words, no crash, good recordings."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firsthand
from firsthand.api import StorageError
from firsthand.recording.child import ChildSettings
from firsthand.recording.client import RecorderProcess
from firsthand.recording.diskspace import LEAST_RESERVE
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.manifest import read_manifest
from firsthand.recording.packetlog import EndEntry, PacketEntry, read_log
from firsthand.recording.recorder_settings import RecorderState
from firsthand.recording.rendezvous import note_path
from firsthand.recording.session_folder import segments
from firsthand.testing.devices import FakeConfig, FakeStream
from firsthand.testing.disks import mounted
from firsthand.testing.recorders import (
    check_nothing_lost,
    fake_settings,
    handed_over,
    read_all,
    stored_seqs,
    wait_for_packets,
)
from firsthand.testing.soak import times
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.process

STREAMS = FakeConfig().streams
BIG = FakeStream(name="big", hz=30.0, payload_bytes=400_000)
MB = 1024 * 1024
NAME = "P07-demonstration-01"


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run-time files and logs of the test's own; the logs must name no participant."""
    logs = tmp_path / "logs"
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(logs))
    yield
    for log in logs.glob("*"):
        assert NAME.encode() not in log.read_bytes(), log


def test_a_disk_that_fills_up_ends_the_recording_with_its_reserve_untouched(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "small", "size=96m") as disk:
        folder = disk / NAME
        settings = fake_settings(
            folder,
            device=FakeConfig(streams=(BIG,), ledger=str(tmp_path / "ledger")),
            reserve_bytes=LEAST_RESERVE,
        )
        recorder = RecorderProcess.start(settings)
        wait_until(lambda: recorder.status().state is RecorderState.STOPPED, "the end", within_s=20)
        status = recorder.status()
        assert "The disk is full" in status.reason
        assert any("The disk" in words for words in status.warnings)
        recorder.stop()
        assert shutil.disk_usage(disk).free > LEAST_RESERVE - 2 * MB
        entries, damage = read_all(folder)
        assert damage == []
        assert isinstance(entries[-1], EndEntry)
        assert len(stored_seqs(entries, BIG)) > 10
        assert read_manifest(folder).reason == status.reason


def test_a_disk_without_room_at_all_is_refused_before_the_start(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "small", "size=32m") as disk,
        pytest.raises(StorageError, match=r"too full.*Make room"),
    ):
        RecorderProcess.start(fake_settings(disk / NAME))


def test_a_read_only_disk_is_refused_before_the_start(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "small", "size=96m,ro") as disk,
        pytest.raises(StorageError, match=r"Nothing can be written.*Choose a folder"),
    ):
        RecorderProcess.start(fake_settings(disk / NAME))


def test_a_full_disk_with_a_fallback_on_another_goes_on_there_without_loss(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "small", "size=96m") as disk:
        folder, other = disk / NAME, tmp_path / "other"
        other.mkdir()
        device = FakeConfig(streams=(BIG,), ledger=str(tmp_path / f"{NAME}.ledger"))
        recorder = RecorderProcess.start(
            fake_settings(folder, device=device, reserve_bytes=LEAST_RESERVE, fallback_folder=other)
        )
        wait_until(lambda: len(recorder.status().logs) == 2, "the next segment", within_s=20)
        count = recorder.status().streams[0].packets
        wait_until(lambda: recorder.status().streams[0].packets > count + 20, "more packets")
        status = recorder.stop()
        assert status.state is RecorderState.STOPPED
        assert any(str(other) in words for words in status.warnings)
        entries, damage = read_all(folder)
        assert damage == []
        seqs = stored_seqs(entries, BIG)
        assert seqs == set(range(len(seqs)))
        assert len(seqs) == status.streams[0].packets
        assert segments(folder)[1].parent == other / NAME
        assert read_manifest(other / NAME).home == str(folder)


def test_a_disk_that_is_pulled_out_while_recording_costs_nothing_with_a_fallback(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "stick", "size=400m") as disk:
        folder, other = disk / NAME, tmp_path / "other"
        device = FakeConfig(ledger=str(tmp_path / f"{NAME}.ledger"))
        settings = fake_settings(folder, device=device, fallback_folder=other)
        recorder = RecorderProcess.start(settings)
        wait_until(lambda: recorder.status().streams[0].packets > 30, "packets")
        subprocess.run(["umount", "-l", str(disk)], check=True)
        wait_until(lambda: len(recorder.status().logs) == 2, "the next segment")
        wait_until(lambda: recorder.status().streams[0].packets > 60, "more packets")
        status = recorder.stop()
        assert status.state is RecorderState.STOPPED
        seqs = set()
        for entry in read_log(other / NAME / "packets-001.log"):
            if isinstance(entry, PacketEntry) and entry.packet.stream == "fake_video":
                seqs.add(entry.packet.seq)
        # Nothing is missing from the first one that was not safe on the disk that is gone.
        assert seqs == set(range(min(seqs), status.streams[0].packets))
        assert min(seqs) <= 60


@contextlib.contextmanager
def recording_on_a_bad_disk(
    shim: Path, folder: Path, fault: str, **more: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """A recorder's process of which chosen calls for its log fail."""
    note = note_path(folder)
    folder.mkdir()
    settings = ChildSettings(recorder=fake_settings(folder, **more), note=note)
    process = subprocess.Popen(
        [sys.executable, "-m", "firsthand.recording.child"],
        stdin=subprocess.PIPE,
        env={**os.environ, "LD_PRELOAD": str(shim), "DISK_FAULT": fault},
    )
    assert process.stdin is not None
    process.stdin.write(settings.model_dump_json().encode())
    process.stdin.close()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _faults() -> list[tuple[str, int, int]]:
    """Call, its number, errno. The first two syncs and one write are made before it announces
    itself; in a soak every later one fails once."""
    chosen = [("write", 3, errno.ENOSPC), ("write", 4, errno.EIO), ("sync", 5, errno.EIO)]
    if times(0, 1):
        chosen += [
            (call, number, code)
            for call in ("write", "sync")
            for number in range(4, 20)
            for code in (errno.EIO, errno.ENOSPC)
        ]
    return chosen


@pytest.mark.soak
@pytest.mark.parametrize(("call", "number", "code"), _faults())
def test_any_call_for_the_log_that_fails_once_costs_nothing(
    call: str, number: int, code: int, shim: Path, tmp_path: Path
) -> None:
    folder, other = tmp_path / NAME, tmp_path / "other"
    fault = f"{call}:{number}:{code}:/packets"
    with recording_on_a_bad_disk(shim, folder, fault, fallback_folder=other) as process:
        wait_for_packets(folder, 40)
        recorder = RecorderProcess.attach(folder)
        wait_until(lambda: len(recorder.status().logs) == 2, "the next segment")
        handed = recorder.status().streams[0].packets
        wait_for_packets(folder, handed + 10)
        before = handed_over(folder)
        status = recorder.stop()
        assert process.wait(10) == 0
    assert status.state is RecorderState.STOPPED
    assert any("goes on in" in words for words in status.warnings)
    entries, _ = read_all(folder)
    assert isinstance(entries[-1], EndEntry)
    for stream, count in zip(STREAMS, before, strict=True):
        seqs = stored_seqs(entries, stream)
        assert seqs == set(range(len(seqs)))
        assert len(seqs) >= count
    assert read_manifest(folder).logs[0].path == "packets.log"


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_disk_that_fails_for_good_ends_the_recording_in_words(
    call: str, shim: Path, tmp_path: Path
) -> None:
    folder = tmp_path / NAME
    fault = f"{call}:4+:{errno.EIO}:/packets"
    with recording_on_a_bad_disk(shim, folder, fault) as process:
        wait_for_packets(folder, 5)
        recorder = RecorderProcess.attach(folder)
        wait_until(lambda: recorder.status().state is RecorderState.FAILED, "the end")
        status = recorder.stop()
        assert process.wait(10) == 0
    assert "could not be" in status.reason
    assert "Check the disk" in status.reason
    assert json.loads((folder / "manifest.json").read_text())["reason"] == status.reason
    entries, damage = read_all(folder)
    assert damage == []
    stored = {stream.name: len(stored_seqs(entries, stream)) for stream in STREAMS}
    assert all(stored.values())
    assert finalise_in_child(folder).damages == 0
    with firsthand.open(folder) as recording:
        assert {name: len(list(recording.packets(name))) for name in stored} == stored


def test_writes_that_come_back_short_are_gone_on_with(shim: Path, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    with recording_on_a_bad_disk(shim, folder, "write:2+:0:/packets") as process:
        wait_for_packets(folder, 40)
        before = handed_over(folder)
        RecorderProcess.attach(folder).stop()
        assert process.wait(10) == 0
    assert len(segments(folder)) == 1
    check_nothing_lost(folder, STREAMS, before)
