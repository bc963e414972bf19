"""Killed at any moment, frozen or orphaned: next to nothing is lost, and nothing is damaged."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

from firsthand.recording.client import RecorderProcess
from firsthand.recording.layout import RAW
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.recording.packetlog import PacketEntry, read_log
from firsthand.recording.recorder import Recorder
from firsthand.recording.recorder_settings import RecorderSettings
from firsthand.recording.recover import recover_all
from firsthand.testing.devices import FakeConfig, FakeDevice, read_ledger
from firsthand.testing.power_cut import WatchedDisk
from firsthand.testing.recorders import (
    check_nothing_lost,
    end_process,
    fake_settings,
    handed_over,
    ledger_of,
    losses,
    read_all,
    wait_for_packets,
)
from firsthand.testing.soak import times
from firsthand.testing.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.soak]

STREAMS = FakeConfig().streams
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
_WORST_KILL_S = 0.5
_PARENT = """
import sys, time
from pathlib import Path
from firsthand.recording.client import RecorderProcess, RecorderSettings
recorder = RecorderProcess.start(RecorderSettings.model_validate_json(sys.stdin.read()))
while True:
    recorder.status()
    time.sleep(0.2)
"""


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "logs"))


def test_a_recorder_killed_at_any_moment_loses_half_a_second_at_most(tmp_path: Path) -> None:
    chance = random.Random(11)
    worst_s = 0.0
    for number in range(times(6, 300)):
        folder = tmp_path / f"session-{number:03d}"
        recorder = RecorderProcess.start(fake_settings(folder))
        wait_for_packets(folder, 1)
        time.sleep(chance.uniform(0.0, 1.2))  # the moment is the point of it
        end_process(recorder.pid)
        _wait_for_its_end(recorder)
        recorder.detach()

        _, damage = read_all(folder)
        lost = losses(folder, STREAMS)
        assert damage == []
        assert all(stream.before == 0 for stream in lost.values()), lost
        worst_s = max(worst_s, *(stream.seconds for stream in lost.values()))
        assert worst_s <= _WORST_KILL_S

        (recovered,) = recover_all(folder)
        assert recovered.error is None
        assert read_manifest(folder).state is RecordingState.RECOVERED
        handed = [count for count, _ in read_ledger(ledger_of(folder))]
        with h5py.File(folder / RAW, "r") as file:
            for stream, count in zip(STREAMS, handed, strict=True):
                group = file["streams"][stream.name]
                table = group["index"] if "index" in group else group["samples"]
                assert list(table["seq"]) == list(range(count - lost[stream.name].at_end))
        assert not list(folder.glob("packets*.log"))


def _wait_for_its_end(recorder: RecorderProcess) -> None:
    wait_until(lambda: not recorder.alive, "the recorder to be gone")


def _parent_of(folder: Path) -> "subprocess.Popen[bytes]":
    """Another process that starts a recorder and keeps asking how it does."""
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE)
    assert parent.stdin is not None
    parent.stdin.write(fake_settings(folder).model_dump_json().encode())
    parent.stdin.close()
    wait_for_packets(folder, 10)
    return parent


def test_killing_the_app_loses_nothing_and_a_new_one_finds_the_recorder(tmp_path: Path) -> None:
    for number in range(times(1, 30)):
        folder = tmp_path / f"session-{number:03d}"
        parent = _parent_of(folder)
        parent.kill()
        parent.wait()
        handed = read_ledger(ledger_of(folder))[0][0]
        wait_for_packets(folder, handed + 20)
        recorder = RecorderProcess.attach(folder)
        before = handed_over(folder)
        recorder.stop()
        check_nothing_lost(folder, STREAMS, before)


@posix
def test_freezing_the_app_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    parent = _parent_of(folder)
    os.kill(parent.pid, signal.SIGSTOP)
    frozen_s = times(1, 10)
    handed = read_ledger(ledger_of(folder))[0][0]
    wait_for_packets(folder, handed + 30 * frozen_s)
    os.kill(parent.pid, signal.SIGCONT)
    recorder = RecorderProcess.attach(folder)
    before = handed_over(folder)
    recorder.stop()
    parent.kill()
    parent.wait()
    check_nothing_lost(folder, STREAMS, before)


@posix
def test_a_recorder_frozen_for_a_while_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    recorder = RecorderProcess.start(fake_settings(folder))
    wait_for_packets(folder, 10)
    os.kill(recorder.pid, signal.SIGSTOP)
    time.sleep(times(1, 3))  # frozen: there is nothing to wait for
    os.kill(recorder.pid, signal.SIGCONT)
    wait_for_packets(folder, 60)
    before = handed_over(folder)
    recorder.stop()
    check_nothing_lost(folder, STREAMS, before)


def test_power_cuts_cost_one_second_at_most(tmp_path: Path) -> None:
    disk = WatchedDisk()
    device = FakeDevice(FakeConfig())
    recorder = Recorder(RecorderSettings(folder=tmp_path, devices=[]), [device], opener=disk.open)
    recorder.start()
    try:
        wait_until(lambda: len(disk.operations) > times(12, 400), "the log to grow", within_s=120)
    finally:
        recorder.stop()

    at_ns = [operation.at_ns for operation in disk.operations]
    log = tmp_path / "packets.log"
    image_path = tmp_path / "image.log"
    written = b"".join(operation.data or b"" for operation in disk.operations)
    image_path.write_bytes(written)
    arrivals = {
        (entry.packet.stream, entry.packet.seq): entry.packet.arrival_ns
        for entry in read_log(image_path)
        if isinstance(entry, PacketEntry)
    }
    for done, image in disk.images(random.Random(3), times(20, 200)):
        image_path.write_bytes(image.get(log, b""))
        kept = {
            (entry.packet.stream, entry.packet.seq)
            for entry in read_log(image_path)
            if isinstance(entry, PacketEntry)
        }
        cut_ns = at_ns[min(done, len(at_ns) - 1)]  # just before the next operation came back
        old = {key for key, arrival_ns in arrivals.items() if arrival_ns < cut_ns - 1_000_000_000}
        assert old <= kept
        assert kept <= set(arrivals)
