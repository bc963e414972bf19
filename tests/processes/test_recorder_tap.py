"""Live taps: what was stored is shown by the taker's own rule, and no taker delays the recorder."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsthand.api import RecordingError
from firsthand.recording.client import RecorderProcess
from firsthand.recording.tap import open_tap
from firsthand.streams.fanout import EVERYTHING, NEWEST, last
from firsthand.testing.devices import FakeConfig, FakeStream
from firsthand.testing.recorders import (
    check_nothing_lost,
    end_process,
    fake_settings,
    handed_over,
    wait_for_packets,
)
from firsthand.testing.waiting import wait_until

pytestmark = pytest.mark.process

STREAMS = FakeConfig().streams
VIDEO, GAZE = STREAMS
HEAVY = FakeStream(name="heavy", hz=100.0, payload_bytes=200_000)
_FROZEN_TAKER = """
import sys, time
from pathlib import Path
from firsthand.recording.tap import open_tap
from firsthand.streams.fanout import EVERYTHING
tap = open_tap(Path(sys.argv[1]), rule=EVERYTHING, limit_bytes=1_000_000)
tap.get(10)
print("taking", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "logs"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session"


@pytest.fixture
def recorder(folder: Path) -> Iterator[RecorderProcess]:
    recorder = RecorderProcess.start(fake_settings(folder))
    yield recorder
    if recorder.alive:
        recorder.stop()


def test_a_tap_of_everything_sees_every_packet_of_its_streams(
    recorder: RecorderProcess, folder: Path
) -> None:
    with open_tap(folder, ["fake_gaze"], EVERYTHING) as tap:
        assert list(tap.schemas) == ["fake_gaze"]
        assert tap.schemas["fake_gaze"] == GAZE.declared()
        seen = [tap.get(10) for _ in range(60)]
        assert all(packet is not None for packet in seen)
        packets = [packet for packet in seen if packet is not None]
        first = packets[0].seq
        assert [packet.seq for packet in packets] == list(range(first, first + 60))
        for packet in packets:
            assert packet.stream == "fake_gaze"
            assert packet.fields == GAZE.fields(packet.seq)
            assert packet.device_ns == GAZE.device_ns(packet.seq)
        assert tap.lost == 0


def test_a_tap_ends_with_the_recording(recorder: RecorderProcess, folder: Path) -> None:
    with open_tap(folder, None, EVERYTHING) as tap:
        assert tap.get(10) is not None
        recorder.stop()
        rest = list(tap)
        assert tap.ended
        assert {packet.stream for packet in rest} <= {VIDEO.name, GAZE.name}
    with pytest.raises(RecordingError, match="nothing to watch"):
        open_tap(folder)


def test_a_tap_of_the_newest_says_how_much_it_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "heavy"
    recorder = RecorderProcess.start(fake_settings(folder, device=FakeConfig(streams=(HEAVY,))))
    with open_tap(folder, None, NEWEST) as slow, open_tap(folder, None, last(0.2)) as lately:
        wait_until(lambda: recorder.status().streams[0].packets > 100, "more than fits on the road")
        for tap in (slow, lately):
            seqs: list[int] = []
            while tap.lost == 0 or len(seqs) < 3:
                packet = tap.get(10)
                assert packet is not None
                seqs.append(packet.seq)
            assert seqs == sorted(seqs)
            # Packets of before the tap was opened are nobody's loss.
            assert tap.lost <= seqs[-1] - seqs[0] + 1
    recorder.stop()


def test_streams_that_do_not_exist_are_refused_by_name(
    recorder: RecorderProcess, folder: Path
) -> None:
    with pytest.raises(RecordingError, match=r"no stream fake_gase; there are fake_video"):
        open_tap(folder, ["fake_gase"])


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_a_taker_that_is_frozen_or_killed_costs_the_recording_nothing(
    how: str, tmp_path: Path
) -> None:
    folder = tmp_path / "heavy"
    recorder = RecorderProcess.start(
        fake_settings(folder, device=FakeConfig(streams=(HEAVY, GAZE)))
    )
    taker = subprocess.Popen(
        [sys.executable, "-c", _FROZEN_TAKER, str(folder)], stdout=subprocess.PIPE
    )
    assert taker.stdout is not None
    assert taker.stdout.readline().strip() == b"taking"
    if how == "killed":
        taker.kill()
    elif sys.platform != "win32":
        os.kill(taker.pid, signal.SIGSTOP)
    wait_for_packets(folder, 150)
    before = handed_over(folder)
    status = recorder.stop()
    assert status.warnings == []
    check_nothing_lost(folder, (HEAVY, GAZE), before)
    taker.kill()
    taker.wait()
    taker.stdout.close()


def test_a_tap_whose_recorder_dies_ends(recorder: RecorderProcess, folder: Path) -> None:
    with open_tap(folder, None, EVERYTHING) as tap:
        assert tap.get(10) is not None
        end_process(recorder.pid)
        assert len(list(tap)) < 1000
        assert tap.ended
    wait_until(lambda: not recorder.alive, "the recorder to be gone")
    recorder.detach()
