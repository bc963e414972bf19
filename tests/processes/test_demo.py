"""The demonstration from the command line: simulator, two sessions, checks, exports."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import pytest

import firsthand
from firsthand.paths import study_protocols_dir
from firsthand.recording.journal import JournalDamage, read_journal
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.session.study import Study

pytestmark = pytest.mark.process


@contextmanager
def command(tmp_path: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """``firsthand`` as a person starts it, with log and run-time files of its own."""
    own = {
        "FIRSTHAND_RUNTIME_DIR": str(tmp_path / "run"),
        "FIRSTHAND_LOG_DIR": str(tmp_path / "log"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "firsthand", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.timeout(180)
def test_one_command_leaves_two_sessions_that_are_whole_checked_and_exported(
    tmp_path: Path,
) -> None:
    out = tmp_path / "demo"
    arguments = ("--out", str(out), "--host", "127.0.41.1", "--seconds", "2", "--json")
    with command(tmp_path, "demo", "--headless", *arguments) as process:
        said, complained = process.communicate(timeout=150)
    report = json.loads(said)
    assert complained == ""
    assert [p["session"] for p in report["phases"]] == [
        "sim01-demonstration-01",
        "sim02-replication-01",
    ]
    # A busy machine makes the simulator late, and the check then says so: no claim about speed.
    assert process.returncode == (0 if report["good"] else 1)
    assert [p["trouble"] for p in report["phases"]] == [[], []]
    assert [s.state for s in Study.open(out).sessions()] == ["complete", "complete"]
    for phase in report["phases"]:
        folder = Path(phase["folder"])
        damage: list[JournalDamage] = []
        events = list(read_journal(folder / "journal.jsonl", damage.append))
        assert damage == []
        begun = [e.about["kind"] for e in events if e.kind == "step.begun"]
        assert begun[:5] == ["consent", "checklist", "instructions", "headset_check", "record"]
        assert events[-1].about["outcome"] == "completed"
        with firsthand.open(folder) as recording:
            assert {"pv", "eet", "si", "mic"} == set(recording.streams)
            assert recording.manifest["rehearsal"] is True
            pictures = len(recording.video)
        files = {Path(path).name: Path(path) for path in phase["exports"]}
        with av.open(str(files["video.mp4"])) as movie:
            assert movie.streams.video[0].frames == pictures
            assert len(movie.streams.audio) == 1
        assert files["eet.csv"].read_text(encoding="utf-8").startswith("time_s,utc,valid")
    shown = Path(report["phases"][1]["folder"], "manifest.json").read_text(encoding="utf-8")
    assert json.loads(shown)["session"]["demonstration"]["session"] == "sim01-demonstration-01"


@pytest.mark.timeout(120)
def test_ctrl_c_in_the_middle_keeps_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    arguments = ("--out", str(out), "--host", "127.0.41.2", "--seconds", "600")
    with command(tmp_path, "demo", "--headless", *arguments) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "of 600 s" in line and "pv good" in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped early; what was recorded is kept" in rest
    (session,) = Study.open(out).sessions()
    assert session.state == "complete"
    events = list(read_journal(session.folder / "journal.jsonl"))
    assert [e.about["reason"] for e in events if e.about.get("how") == "stop"] == ["interrupted"]
    assert "firsthand study status" in rest


@pytest.mark.timeout(60)
def test_an_address_that_is_not_ours_is_said_in_words(tmp_path: Path) -> None:
    with command(
        tmp_path, "demo", "--headless", "--out", str(tmp_path / "d"), "--host", "192.0.2.1"
    ) as process:
        said, complained = process.communicate(timeout=50)
    assert process.returncode == 2
    assert "is not an address that this computer can listen on" in complained
    assert "Traceback" not in said + complained


@pytest.mark.timeout(90)
def test_record_writes_without_a_protocol_and_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "free"
    with command(tmp_path, "simulate", "--host", "127.0.41.3", "--set", "voice=false") as simulator:
        assert simulator.stdout is not None
        while "Press Ctrl-C" not in simulator.stdout.readline():
            assert simulator.poll() is None
        arguments = (
            "record", "--out", str(out), "--set", "host=127.0.41.3", "--set", "pv.width=424",
            "--set", "pv.height=240", "--set", "pv.fps=15", "--seconds", "2",
        )  # fmt: skip
        with command(tmp_path, *arguments) as process:
            rest, _ = process.communicate(timeout=60)
        with command(tmp_path, *arguments) as again:
            _, refused = again.communicate(timeout=30)
        simulator.send_signal(signal.SIGINT)
        simulator.communicate(timeout=20)
    assert str(out) in rest
    assert again.returncode == 2
    assert "not empty" in refused
    with firsthand.open(out) as recording:
        assert len(recording.video) > 0
    kinds = [event.kind for event in read_journal(out / "journal.jsonl")]
    assert kinds == ["recording.made", "recorder.started", "recorder.stopped"]


@pytest.mark.timeout(60)
def test_a_headset_that_is_not_there_ends_the_session_with_what_to_try(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    shutil.copytree(study_protocols_dir() / "mica", tmp_path / "mica")
    text = (study_protocols_dir() / "mica.yaml").read_text(encoding="utf-8")
    assert text.count("kind: headset_check") == 2
    shorter = text.replace("kind: headset_check", "kind: headset_check\n        timeout_s: 1")
    mine.write_text(shorter, encoding="utf-8")
    study = Study.create(
        tmp_path / "study",
        mine,
        devices=[DeviceChoice(name="hl2ss", settings={"host": "127.0.41.4"})],
    )
    study.add_participant("anna7")
    arguments = (
        "--participant",
        "anna7",
        "--phase",
        "demonstration",
        "--task",
        "shopping/birdhouse",
    )
    with command(tmp_path, "study", "run", str(study.folder), *arguments, "--autopilot") as process:
        said, _ = process.communicate(timeout=55)
    assert process.returncode == 1
    (session,) = study.sessions()
    assert session.state == "not recorded"
    ended = [e for e in read_journal(session.folder / "journal.jsonl") if e.kind == "step.ended"]
    assert ended[-1].about["step"] == "headset"
    assert "The headset check failed" in ended[-1].about["reason"]
    assert ended[-1].about["reason"] in said
