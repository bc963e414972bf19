"""``firsthand check``, in a process of its own, on a recording of the simulated headset: it passes
the good one and finds each thing that was done to a copy."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import pytest

from firsthand.recording.finalise import sha256
from firsthand.recording.manifest import FileFacts, read_manifest, write_manifest

pytestmark = pytest.mark.process

Findings = dict[tuple[str, str], str]


def run_check(folder: Path) -> tuple[int, str, Findings]:
    """Exit code, verdict, and what is not good: its verdict by stream and thing."""
    ended = subprocess.run(
        [sys.executable, "-m", "firsthand", "check", "--json", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    found = {(f["about"], f["what"]): f["verdict"] for f in report["findings"]}
    wrong = {what: verdict for what, verdict in found.items() if verdict != "good"}
    return ended.returncode, report["verdict"], wrong


def vouch_for(folder: Path) -> None:
    """Let the manifest hold the file's hash as it is: the damage itself must then be found."""
    raw = folder / "raw.h5"
    facts = FileFacts(sha256=sha256(raw), bytes=raw.stat().st_size)
    manifest = read_manifest(folder)
    write_manifest(folder, manifest.model_copy(update={"files": {"raw.h5": facts}}))


def flip_a_byte(folder: Path) -> None:
    """Inside a picture in the middle, where only the record's own checksum can tell."""
    with h5py.File(folder / "raw.h5", "r+", libver=("v110", "v110")) as file:
        pv = file["streams/pv"]
        row = pv["index"][len(pv["index"]) // 2]
        at = int(row["offset"]) + int(row["length"]) // 2
        pv["blob"][at] = int(pv["blob"][at]) ^ 0x10
    vouch_for(folder)


def take_out_a_second_of_sound(folder: Path) -> None:
    """As if it had never been written, and no gap tells of it."""
    with h5py.File(folder / "raw.h5", "r+", libver=("v110", "v110")) as file:
        mic = file["streams/mic"]
        count = len(mic["index"])
        first = count // 2
        for name in [name for name, table in mic.items() if len(table) == count]:
            rows = mic[name][:]
            kept = np.concatenate((rows[:first], rows[first + 63 :]))
            mic[name].resize(len(kept), axis=0)
            mic[name][:] = kept
    vouch_for(folder)


def cut_off(folder: Path) -> None:
    raw = folder / "raw.h5"
    with raw.open("r+b") as file:
        file.truncate(raw.stat().st_size * 3 // 4)
    vouch_for(folder)


def change_the_hash(folder: Path) -> None:
    path = folder / "manifest.json"
    about = json.loads(path.read_text("utf-8"))
    old = about["files"]["raw.h5"]["sha256"]
    about["files"]["raw.h5"]["sha256"] = ("0" if old[0] != "0" else "1") + old[1:]
    path.write_text(json.dumps(about), "utf-8")


def set_back_a_time(folder: Path) -> None:
    with h5py.File(folder / "raw.h5", "r+", libver=("v110", "v110")) as file:
        table = file["streams/eet/samples"]
        rows = table[:]
        rows["device_ns"][20] = rows["device_ns"][18] - 5
        table[:] = rows
    vouch_for(folder)


DAMAGES: Final[dict[str, tuple[Callable[[Path], None], tuple[str, str]]]] = {
    "a flipped byte in a frame": (flip_a_byte, ("pv", "checksums")),
    "a missing second of sound": (take_out_a_second_of_sound, ("mic", "sound")),
    "a truncated file": (cut_off, ("file", "structure")),
    "a wrong hash": (change_the_hash, ("file", "hash")),
    "times that go back": (set_back_a_time, ("eet", "times")),
}


def test_check_passes_a_good_recording_and_finds_what_was_done_to_others(
    tmp_path: Path, record_headset: Callable[..., Any]
) -> None:
    whole = {"empty_pv_probability": 0.0, "empty_first_probability": 0.0, "queue_s": 20.0}
    good: Path = record_headset(seconds=3.0, simulator=whole).folder
    folders = {"nothing": good}
    for what, (damage, _) in DAMAGES.items():
        folders[what] = Path(shutil.copytree(good, tmp_path / what.replace(" ", "-")))
        damage(folders[what])
    with ThreadPoolExecutor(2) as pool:
        reports = dict(zip(folders, pool.map(run_check, folders.values()), strict=True))

    assert reports.pop("nothing") == (0, "good", {})
    for what, (code, verdict, wrong) in reports.items():
        assert code == 1, what
        assert verdict == "bad", what
        assert wrong[DAMAGES[what][1]] == "bad", what
    assert list(reports["a wrong hash"][2]) == [("file", "hash")]
    assert ("file", "hash") not in reports["a truncated file"][2]
