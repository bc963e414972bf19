"""Plugins that misbehave, around a recorder in its own process: it starts, and loses nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

import firsthand
from firsthand.recording.client import DeviceChoice, RecorderProcess, RecorderSettings
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.manifest import read_manifest
from firsthand.recording.packetlog import NoteEntry
from firsthand.recording.recorder_settings import RecorderState
from firsthand.testing.bad_plugins import install, install_bad, install_good
from firsthand.testing.devices import FakeStream
from firsthand.testing.recorders import check_nothing_lost, read_all
from firsthand.testing.waiting import wait_until
from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

pytestmark = pytest.mark.process

APP: Final = Path(__file__).with_name("app_among_strangers.py")
STREAMS: Final = (
    FakeStream(name="fake_video", hz=60.0, payload_bytes=40_000),
    FakeStream(name="fake_gaze", hz=200.0, record_bytes=100),
)
BAD: Final = (
    "missing_import",
    "raises_at_import",
    "raises_in_hooks",
    "hangs_at_import",
    "hangs_in_hook",
    "forks_and_hangs",
    "leaks",
    "floods_messages",
    "prints_endlessly",
    "crashes",
    "exits",
)
TWO_FACED: Final = """
import os, time
from firsthand.api import hookimpl

if "FIRSTHAND_WORKER" not in os.environ:
    time.sleep(3600)


@hookimpl
def firsthand_exporters():
    return []
"""
"""Behaves while it is looked over in a worker, and hangs in the app."""

WORK: Final = """
import ctypes, gc, time

from firsthand.children.channel import Channel


def raises(arguments, progress):
    raise ValueError("not today")


def hangs(arguments, progress):
    time.sleep(3600)


def spins(arguments, progress):
    while True:
        pass


def leaks(arguments, progress):
    hold = []
    while True:
        hold.append(bytearray(b"x" * 5_000_000))


def floods(arguments, progress):
    (channel,) = (each for each in gc.get_objects() if isinstance(each, Channel))
    while True:
        channel.send({"done": 0.5, "words": ""})


def keeps_telling(arguments, progress):
    while True:
        progress(0.5, "still at it")


def prints(arguments, progress):
    while True:
        print("x" * 100_000, flush=True)


def crashes(arguments, progress):
    ctypes.string_at(0)
"""
ENDS: Final = {
    "raises": "raised",
    "hangs": "hung",
    "spins": "hung",
    "leaks": "leaked",
    "floods": "flooded",
    "keeps_telling": "hung",
    "prints": "flooded",
    "crashes": "crashed",
}


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "logs"))


@pytest.fixture
def headset() -> Iterator[Hl2ssSimulator]:
    with Hl2ssSimulator(SimulatorConfig(base_port=0, voice=False, camera_opens_s=0.2)) as headset:
        yield headset


def test_a_recording_among_plugins_that_misbehave_is_whole(tmp_path: Path) -> None:
    strangers, folder = tmp_path / "strangers", tmp_path / "session"
    strangers.mkdir()
    install_bad(strangers, *BAD)
    install_good(strangers)
    install(strangers, "two_faced", TWO_FACED)
    (strangers / "stranger_work.py").write_text(WORK, encoding="utf-8")

    app = subprocess.run(
        [sys.executable, str(APP), str(folder), *ENDS],
        env={**os.environ, "PYTHONPATH": str(strangers)},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert app.returncode == 0, app.stderr
    told = json.loads(app.stdout)
    assert set(told["refused"]) - {"good"} == {*BAD, "two_faced"}
    assert told["ends"] == ENDS
    assert told["state"] == RecorderState.STOPPED
    assert told["warnings"] == []
    assert all(
        handed > before + 2 * stream.hz
        for stream, before, handed in zip(STREAMS, told["before"], told["handed"], strict=True)
    ), "the recording did not go on while strangers' code was run"
    check_nothing_lost(folder, STREAMS, told["handed"])

    entries, _ = read_all(folder)
    notes = [e for e in entries if isinstance(e, NoteEntry) and e.kind == "modules"]
    assert "firsthand.testing.devices" in notes[0].about["names"]
    assert [n for n in notes[0].about["names"] if n.startswith("stranger_")] == []
    assert [plugin["name"] for plugin in read_manifest(folder).plugins] == ["devices"]
    report = finalise_in_child(folder)
    assert report.lost == 0
    with firsthand.open(folder) as recording:
        assert [gap for gap in recording.gaps() if gap.packets_lost] == []
        for stream, handed in zip(STREAMS, told["handed"], strict=True):
            assert len(recording.streams[stream.name]) >= handed


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS tells no process's libraries")
def test_the_recorder_of_a_headset_maps_no_library_of_windows_files_or_pictures(
    tmp_path: Path, headset: Hl2ssSimulator
) -> None:
    settings = {
        **headset.device_settings(),
        "pv": {"width": 424, "height": 240, "fps": 15, "gop": 5},
        "vlc": {},
        "depth_long_throw": {},
        "imu": {},
    }
    recorder = RecorderProcess.start(
        RecorderSettings(
            folder=tmp_path / "session", devices=[DeviceChoice(name="hl2ss", settings=settings)]
        )
    )
    wait_until(
        lambda: all(stream.packets > 3 for stream in recorder.status().streams),
        "packets of every stream",
        within_s=30.0,
    )
    process = psutil.Process(recorder.pid)
    mapped = {Path(area.path).name.lower() for area in process.memory_maps()}
    threads = process.num_threads()
    status = recorder.stop()
    assert status.state is RecorderState.STOPPED
    assert len(status.streams) > 8
    assert threads > len(status.streams)
    plugins = {plugin["name"] for plugin in read_manifest(tmp_path / "session").plugins}
    assert {"hl2ss", "exports"} <= plugins
    assert any("multiarray" in name for name in mapped), "numpy's own library shows that this sees"
    heavy = ("qt6", "pyside", "shiboken", "hdf5", "h5py", "avcodec", "avformat", "cv2", "pandas")
    assert [name for name in mapped if any(word in name for word in heavy)] == []
