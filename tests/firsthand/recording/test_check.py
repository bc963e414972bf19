"""A check passes what is good and finds each thing that is not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from firsthand.api import PacketFlags, RecordingError, SettingsError, StreamState
from firsthand.recording.check import check, limits_of
from firsthand.recording.check_report import CheckLimits, CheckReport, Verdict, worst
from firsthand.recording.finalise import finalise, sha256
from firsthand.recording.manifest import FileFacts, read_manifest, write_manifest
from firsthand.recording.packetlog import LogWriter
from firsthand.recording.session_folder import segment_name
from firsthand.testing.recordings import (
    START_HOST_NS,
    START_UTC_NS,
    make_recording,
    small_world,
    without,
)
from firsthand.testing.recordings import write_manifest as write_recorded

pytestmark = pytest.mark.process


def found(report: CheckReport, about: str, what: str) -> Verdict:
    return worst(f.verdict for f in report.findings if (f.about, f.what) == (about, what))


def own_hash(folder: Path) -> None:
    """Let the manifest vouch for the file as it is, so that the damage itself must be found."""
    raw = folder / "raw.h5"
    manifest = read_manifest(folder)
    facts = FileFacts(sha256=sha256(raw), bytes=raw.stat().st_size)
    write_manifest(folder, manifest.model_copy(update={"files": {"raw.h5": facts}}))


@contextmanager
def changed(folder: Path) -> Iterator[h5py.File]:
    with h5py.File(folder / "raw.h5", "r+", libver=("v110", "v110")) as file:
        yield file
    own_hash(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_recording(tmp_path / "s", streams=("pv", "eet", "si", "mic", "imu"))
    return tmp_path / "s"


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_good_recording_is_good(tmp_path: Path, codec: str) -> None:
    make_recording(
        tmp_path / "s", streams=("pv", "eet", "si", "mic", "imu"), codec=codec, drift_ppm=40
    )
    told: list[float] = []
    report = check(tmp_path / "s", progress=lambda done, words="": told.append(done))
    assert [f for f in report.findings if f.verdict is not Verdict.GOOD] == []
    assert report.verdict is Verdict.GOOD
    assert told == sorted(told)
    assert told[-1] == 1.0
    json.dumps(report.to_json())


def test_a_flipped_byte_in_a_picture_is_found_and_named(folder: Path) -> None:
    with h5py.File(folder / "raw.h5") as file:
        row = file["streams/pv/index"][17]
        payload = file["streams/pv/blob"][row["offset"] : row["offset"] + row["length"]].tobytes()
    raw = bytearray((folder / "raw.h5").read_bytes())
    raw[raw.index(payload) + len(payload) // 2] ^= 0x10
    (folder / "raw.h5").write_bytes(raw)
    report = check(folder)
    assert report.verdict is Verdict.BAD
    assert found(report, "file", "hash") is Verdict.BAD
    (finding,) = [f for f in report.findings if (f.about, f.what) == ("pv", "checksums")]
    assert finding.verdict is Verdict.BAD
    assert finding.values["damaged"] == [17]
    (finding,) = [f for f in report.findings if (f.about, f.what) == ("pv", "pictures")]
    assert finding.values["undecodable"] == list(range(17, 30))


def test_a_byte_changed_under_good_checksums_of_the_file_is_found(folder: Path) -> None:
    with changed(folder) as file:
        file["streams/pv/blob"][1000] ^= 1
    report = check(folder)
    assert found(report, "file", "hash") is Verdict.GOOD
    assert found(report, "pv", "checksums") is Verdict.BAD


@pytest.mark.parametrize("tell_gaps", [True, False])
def test_a_missing_second_of_sound_is_found(tmp_path: Path, tell_gaps: bool) -> None:
    world = small_world(6.0, streams=["pv", "mic"])
    world.packets["mic"] = without(world.packets["mic"], lambda p: 100 <= p.seq < 163)
    make_recording(tmp_path / "s", world, tell_gaps=tell_gaps)
    report = check(tmp_path / "s")
    expected = Verdict.DEGRADED if tell_gaps else Verdict.BAD
    assert found(report, "mic", "sound") is expected
    assert report.verdict is expected
    (finding,) = [f for f in report.findings if (f.about, f.what) == ("mic", "sound")]
    assert finding.values["missing_s"] == pytest.approx(63 * 0.016, abs=0.001)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.9999])
def test_a_file_that_was_cut_off_is_found(folder: Path, share: float) -> None:
    raw = (folder / "raw.h5").read_bytes()
    (folder / "raw.h5").write_bytes(raw[: int(len(raw) * share)])
    report = check(folder)
    assert report.verdict is Verdict.BAD
    assert found(report, "file", "structure") is Verdict.BAD
    assert found(report, "file", "hash") is Verdict.BAD
    own_hash(folder)
    assert check(folder).verdict is Verdict.BAD


def test_a_wrong_hash_is_found(folder: Path) -> None:
    manifest = read_manifest(folder)
    facts = manifest.files["raw.h5"].model_copy(update={"sha256": "0" * 64})
    write_manifest(folder, manifest.model_copy(update={"files": {"raw.h5": facts}}))
    report = check(folder)
    assert [f.what for f in report.findings if f.verdict is Verdict.BAD] == ["hash"]


@pytest.mark.parametrize("stream", ["pv", "eet", "imu"])
def test_times_that_do_not_go_up_are_found(folder: Path, stream: str) -> None:
    with changed(folder) as file:
        group = file["streams"][stream]
        name = "index" if "index" in group else "samples"
        rows = group[name][:]
        rows["device_ns"][10] = rows["device_ns"][8] - 5
        group[name][:] = rows
    report = check(folder)
    assert found(report, stream, "times") is Verdict.BAD


def test_times_that_the_device_set_back_are_a_loss_that_is_told(tmp_path: Path) -> None:
    world = small_world(2.0)
    packets = world.packets["si"]
    packets[30] = replace(packets[30], device_ns=packets[29].device_ns - 1000)
    make_recording(tmp_path / "s", world)
    report = check(tmp_path / "s")
    assert found(report, "si", "times") is Verdict.DEGRADED


def test_a_loss_that_no_gap_tells_of_is_bad(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 30 <= p.seq < 40)
    make_recording(tmp_path / "s", world, tell_gaps=False)
    assert found(check(tmp_path / "s"), "si", "losses") is Verdict.BAD


@pytest.mark.parametrize(
    ("count", "verdict"), [(1, Verdict.DEGRADED), (200, Verdict.BAD), (0, Verdict.GOOD)]
)
def test_losses_are_measured_against_limits(tmp_path: Path, count: int, verdict: Verdict) -> None:
    world = small_world(5.0, streams=["si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 30 <= p.seq < 30 + count)
    make_recording(tmp_path / "s", world)
    strict = CheckLimits(lost_share=0.001)
    assert found(check(tmp_path / "s", limits=strict), "si", "losses") is verdict


def test_limits_of_the_protocol_count_and_options_go_before_them(tmp_path: Path) -> None:
    world = small_world(5.0, streams=["si"])
    world.packets["si"] = without(world.packets["si"], lambda p: 30 <= p.seq < 35)
    make_recording(tmp_path / "s", world)
    assert check(tmp_path / "s").verdict is Verdict.DEGRADED
    protocol({"lost_share": 0.1}, tmp_path / "s")
    assert check(tmp_path / "s").verdict is Verdict.GOOD
    limits = limits_of(tmp_path / "s", {"longest_gap_s": 0.01})
    assert limits == CheckLimits(lost_share=0.1, longest_gap_s=0.01)
    assert check(tmp_path / "s", limits=limits).verdict is Verdict.DEGRADED
    protocol({"lost_shar": 0.1}, tmp_path / "s")
    with pytest.raises(SettingsError, match="lost_shar"):
        check(tmp_path / "s")


def protocol(limits: dict[str, Any], folder: Path) -> None:
    manifest = read_manifest(folder)
    session = {**manifest.session, "check_limits": limits}
    write_manifest(folder, manifest.model_copy(update={"session": session}))


def test_a_stream_that_ended_early_is_found(tmp_path: Path) -> None:
    world = small_world(8.0, streams=["si", "eet"])
    world.packets["eet"] = world.packets["eet"][:90]
    make_recording(tmp_path / "s", world)
    report = check(tmp_path / "s")
    assert found(report, "eet", "end") is Verdict.DEGRADED
    assert found(report, "si", "end") is Verdict.GOOD


def test_a_stream_that_never_came_is_bad(tmp_path: Path) -> None:
    world = small_world(2.0, streams=["si", "eet"])
    world.packets["eet"] = []
    make_recording(tmp_path / "s", world)
    assert found(check(tmp_path / "s"), "eet", "losses") is Verdict.BAD


def test_of_a_stream_that_never_came_the_device_s_own_reason_is_told(tmp_path: Path) -> None:
    folder, world = tmp_path / "s", small_world(1.0, streams=["pv"])
    folder.mkdir()
    writer = LogWriter(
        folder / segment_name(0),
        {"id": "s", "start": {"host_ns": START_HOST_NS, "utc_ns": START_UTC_NS}},
    )
    writer.declare(world.schemas["pv"])
    for i, (state, reason) in enumerate(
        [
            (StreamState.CONNECTING, ""),
            (StreamState.REFUSED, "The app is not running."),
            (StreamState.ENDED, "The recording was stopped."),
        ]
    ):
        writer.state("pv", state, reason, START_HOST_NS + i)
    writer.end("The recording was stopped.", START_HOST_NS + 10**9)
    writer.flush()
    writer.close()
    write_recorded(folder)
    finalise(folder)
    report = check(folder)
    assert [f.words for f in report.findings if f.what == "losses"] == [
        "nothing was received. The app is not running."
    ]


def test_clocks_that_were_never_measured_or_fit_badly_are_found(tmp_path: Path) -> None:
    world = small_world(6.0, streams=["si"])
    world.pairs = []
    make_recording(tmp_path / "a", world)
    assert found(check(tmp_path / "a"), "clock device", "pairs") is Verdict.DEGRADED
    world = small_world(6.0, streams=["si"])
    noise = np.random.default_rng(3).integers(-40_000_000, 40_000_000, len(world.pairs))
    world.pairs = [
        replace(p, device_ns=p.device_ns + int(n)) for p, n in zip(world.pairs, noise, strict=True)
    ]
    make_recording(tmp_path / "b", world)
    assert found(check(tmp_path / "b"), "clock device", "pairs") is Verdict.DEGRADED


def test_a_picture_that_was_never_good_is_bad(tmp_path: Path) -> None:
    """Its checksum holds: that is how it came from the headset."""
    world = small_world(2.0, streams=["pv"])
    packets = world.packets["pv"]
    packets[15] = replace(packets[15], payload=b"\0\0\0\1\x65" + bytes(200))
    make_recording(tmp_path / "s", world)
    report = check(tmp_path / "s")
    assert found(report, "pv", "checksums") is Verdict.GOOD
    assert found(report, "pv", "pictures") is Verdict.BAD


def test_pictures_that_build_on_a_loss_that_is_told_are_no_more_than_a_loss(
    tmp_path: Path,
) -> None:
    world = small_world(2.0, streams=["pv"])
    kept = [p for p in world.packets["pv"] if p.seq != 20]
    make_recording(tmp_path / "s", world, packets=kept)
    report = check(tmp_path / "s")
    assert found(report, "pv", "pictures") is Verdict.DEGRADED
    assert report.verdict is Verdict.DEGRADED


def test_a_file_without_a_manifest_is_not_called_good(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert check(folder).verdict is Verdict.DEGRADED


def test_damaged_facts_are_found(folder: Path) -> None:
    with h5py.File(folder / "raw.h5") as file:
        pairs = file["clock/device"][:].tobytes()
    raw = bytearray((folder / "raw.h5").read_bytes())
    raw[raw.index(pairs[:40])] ^= 1
    (folder / "raw.h5").write_bytes(raw)
    own_hash(folder)
    report = check(folder)
    assert found(report, "file", "facts") is Verdict.BAD


def test_where_there_is_no_recording_there_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        check(tmp_path)


def test_marks_are_what_the_file_format_says() -> None:
    assert [int(flag) for flag in PacketFlags] == [1, 2, 4, 8]
