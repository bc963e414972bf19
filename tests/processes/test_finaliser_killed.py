"""The finaliser may be killed at any moment; the same file comes out in the end."""

import hashlib
import random
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from firsthand.api import Cancelled, DamagedError, Packet, RecordingError, StorageError
from firsthand.children.process import Child
from firsthand.children.process import start as start_child
from firsthand.recording import finalise_process
from firsthand.recording.finalise import finalise, finalise_in_child
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.recording.recover import recover_all
from firsthand.testing.recordings import World, small_world, write_log, write_manifest
from firsthand.testing.soak import times

pytestmark = pytest.mark.process
SHARES = (0.0, 0.3, 0.7, 0.95, 1.0, 1.0)
"""How much of the file is there when the finaliser is killed; at 1 it is being verified."""
LATER_S = 0.05


def big_world() -> World:
    """A world whose sound is some 20 MB, so that finishing takes its time."""
    world = small_world(2.0, streams=["mic"])
    noise = random.Random(1).randbytes(160_000)
    world.packets["mic"] = [
        Packet(p.stream, p.seq, p.device_ns, p.arrival_ns, p.fields, noise, p.flags)
        for p in world.packets["mic"]
    ]
    return world


def wait_for(child: Child, path: Path, size: int) -> None:
    """Wait until a file has a size, or the child is done."""
    while child.poll() is None:
        try:
            if path.stat().st_size >= size:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.soak
def test_killed_at_any_moment_it_gives_the_same_file_in_the_end(tmp_path: Path) -> None:
    folder, whole = tmp_path / "s", tmp_path / "whole"
    write_log(folder, big_world())
    write_manifest(folder)
    whole.mkdir()
    log = tmp_path / "kept"
    shutil.copy(folder / "packets.log", log)
    shutil.copy(log, whole / "packets.log")
    finalise(whole)
    size = (whole / "raw.h5").stat().st_size
    killed = 0
    chosen = random.Random(2)
    for number in range(times(len(SHARES), 300)):
        # A round that ends with the file whole makes place for the next.
        if not (folder / "packets.log").is_file():
            assert sha(folder / "raw.h5") == sha(whole / "raw.h5")
            (folder / "raw.h5").unlink()
            shutil.copy(log, folder / "packets.log")
            write_manifest(folder)
        share = SHARES[number] if number < len(SHARES) else chosen.uniform(0, 1.2)
        if share > 0:  # else what the last one left behind stays, and must not matter
            (folder / "raw.h5.partial").unlink(missing_ok=True)
        with start_child(finalise_process.MODULE, [str(folder)]) as child:
            wait_for(child, folder / "raw.h5.partial", round(min(share, 1.0) * size))
            if share > 1.0:
                child.wait(chosen.uniform(0, LATER_S))
            killed += child.poll() is None
            child.kill()
        state = read_manifest(folder).state
        assert (folder / "packets.log").is_file() or state is RecordingState.COMPLETE
    recover_all(tmp_path)
    assert killed >= 3
    assert sha(folder / "raw.h5") == sha(whole / "raw.h5")
    assert sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) == [
        "manifest.json",
        "raw.h5",
    ]


def test_a_child_reports_and_gives_what_the_call_itself_gives(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    write_log(folder, small_world(0.5, streams=["si"]))
    told: list[float] = []
    report = finalise_in_child(folder, progress=lambda done, words="": told.append(done))
    assert report.state == "complete"
    assert report.packets == 30
    assert told
    assert finalise(folder).already


def test_errors_of_the_child_are_those_of_the_call(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no packet log"):
        finalise_in_child(tmp_path)
    (tmp_path / "packets.log").write_bytes(b"this is no packet log at all")
    with pytest.raises(DamagedError, match="not a packet log"):
        finalise_in_child(tmp_path)


def test_a_child_that_dies_is_told_as_a_full_disk_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    write_log(folder, big_world())

    def kill(done: float, words: str = "") -> None:
        children[0].kill()

    children: list[Child] = []

    def remembered(module: str, arguments: Sequence[str], **more: Any) -> Child:
        children.append(start_child(module, arguments, **more))
        return children[-1]

    monkeypatch.setattr(finalise_process, "start", remembered)
    with pytest.raises(StorageError, match="safe in its log"):
        finalise_in_child(folder, progress=kill)
    assert (folder / "packets.log").is_file()


def test_a_wish_to_stop_ends_the_child_and_keeps_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    write_log(folder, big_world())
    cancel = threading.Event()

    def stop(done: float, words: str = "") -> None:
        cancel.set()

    with pytest.raises(Cancelled):
        finalise_in_child(folder, progress=stop, cancel=cancel)
    assert (folder / "packets.log").is_file()
    assert finalise(folder).state == "complete"
