"""Disks that fail around a recording: what was recorded becomes a good recording in the end."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import firsthand
from firsthand.api import StorageError
from firsthand.recording.check import check
from firsthand.recording.check_report import Verdict
from firsthand.recording.client import RecorderProcess
from firsthand.recording.diskspace import LEAST_RESERVE
from firsthand.recording.export import export
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.recording.recorder_settings import RecorderState
from firsthand.recording.session_folder import segments
from firsthand.testing.devices import FakeConfig, FakeStream
from firsthand.testing.disks import fill, mounted, remount
from firsthand.testing.recorders import fake_settings, read_all, stored_seqs
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.process

BIG: Final = FakeStream(name="big", hz=30.0, payload_bytes=400_000)
MB: Final = 1024 * 1024
FILLS_UP: Final = """
import sys
from pathlib import Path
from firsthand.api import StorageError
from firsthand.recording.finalise import finalise
from firsthand.testing.disks import fill

folder = Path(sys.argv[1])

def progress(done, words=""):
    if words == "building the file" and not (folder.parent / "ballast").exists():
        fill(folder.parent, 2 << 20)

try:
    finalise(folder, progress=progress)
except StorageError as error:
    sys.exit(str(error))
"""
"""A finaliser whose disk is filled up by somebody else when it has just begun."""


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "logs"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "size=180m") as disk:
        yield disk


def recorded(folder: Path, ledger: Path, packets: int) -> int:
    """A session that was recorded in order and is not finished; how many packets it has."""
    config = FakeConfig(streams=(BIG,), packets=packets, ledger=str(ledger))
    recorder = RecorderProcess.start(
        fake_settings(folder, device=config, reserve_bytes=LEAST_RESERVE)
    )
    wait_until(lambda: recorder.status().streams[0].packets == packets, "all packets")
    assert recorder.stop().state is RecorderState.STOPPED
    return packets


def log_bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in segments(folder)]


def assert_whole(folder: Path, packets: int) -> None:
    """Everything that the fake device handed over is in the recording, bit for bit, and good."""
    with firsthand.open(folder) as recording:
        stored = list(recording.packets("big"))
    assert [packet.seq for packet in stored] == list(range(packets))
    assert all(packet.payload == BIG.payload(packet.seq) for packet in stored)
    report = check(folder)
    bad = [finding for finding in report.findings if finding.verdict is Verdict.BAD]
    assert bad == []


def test_what_was_recorded_until_the_disk_was_full_becomes_a_good_recording(
    disk: Path, tmp_path: Path
) -> None:
    folder = disk / "session"
    config = FakeConfig(streams=(BIG,), ledger=str(tmp_path / "ledger"))
    recorder = RecorderProcess.start(
        fake_settings(folder, device=config, reserve_bytes=LEAST_RESERVE)
    )
    wait_until(lambda: recorder.status().streams[0].packets > 30, "a second of packets")
    ballast = fill(disk, LEAST_RESERVE + 4 * MB)
    wait_until(lambda: recorder.status().state is RecorderState.STOPPED, "the end", within_s=20)
    reason = recorder.status().reason
    recorder.stop()
    assert "The disk is full" in reason
    entries, _ = read_all(folder)
    packets = len(stored_seqs(entries, BIG))
    assert packets > 30
    ballast.unlink()

    report = finalise_in_child(folder)

    assert (report.packets, report.damages) == (packets, 0)
    manifest = read_manifest(folder)
    assert manifest.state is RecordingState.COMPLETE
    assert manifest.reason == reason
    assert_whole(folder, packets)


def test_a_disk_that_is_full_or_fills_up_while_finishing_costs_nothing(
    disk: Path, tmp_path: Path
) -> None:
    folder = disk / "session"
    packets = recorded(folder, tmp_path / "ledger", 60)
    log = log_bytes(folder)

    ballast = fill(disk, 30 * MB)
    with pytest.raises(StorageError, match=r"needs \d+ MB .* Make room, and run recover"):
        finalise_in_child(folder)
    ballast.unlink()

    ended = subprocess.run(
        [sys.executable, "-c", FILLS_UP, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode != 0
    if ended.returncode > 0:  # HDF5 may end its process without a word when it cannot close
        assert "It is safe in its log. Make room" in ended.stderr
    assert shutil.disk_usage(disk).free < 40 * MB
    assert not (folder / "raw.h5").exists()
    assert log_bytes(folder) == log
    (disk / "ballast").unlink()

    assert finalise_in_child(folder).packets == packets
    assert_whole(folder, packets)
    assert not segments(folder)


def test_a_disk_that_became_read_only_is_told_of_and_what_is_finished_can_be_used_there(
    disk: Path, tmp_path: Path
) -> None:
    folder = disk / "session"
    packets = recorded(folder, tmp_path / "ledger", 10)
    remount(disk, "ro")
    with pytest.raises(StorageError, match=r"Nothing can be written into .*Make the folder"):
        finalise_in_child(folder)
    remount(disk, "rw")
    assert finalise_in_child(folder).packets == packets
    remount(disk, "ro")
    assert_whole(folder, packets)
    assert export(folder, "csv", tmp_path / "out")
    with pytest.raises(StorageError, match="Nothing could be written into"):
        export(folder, "csv", disk / "out")


def test_a_finaliser_whose_disk_refuses_to_sync_keeps_the_log(tmp_path: Path, shim: Path) -> None:
    folder = tmp_path / "session"
    packets = recorded(folder, tmp_path / "ledger", 10)
    log = log_bytes(folder)
    ended = subprocess.run(
        [sys.executable, "-m", "firsthand.recording.finalise_child", str(folder)],
        env={**os.environ, "LD_PRELOAD": str(shim), "DISK_FAULT": "sync:1:5:/raw"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "It is safe in its log" in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr
    assert log_bytes(folder) == log
    assert finalise_in_child(folder).packets == packets
    assert_whole(folder, packets)
