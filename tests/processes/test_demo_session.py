"""Sessions with a real recorder, finaliser and check, around a device known by heart."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import firsthand
from firsthand.api import RecordingError
from firsthand.host import load_plugins
from firsthand.recording.journal import read_journal
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.session import commands as c
from firsthand.session.autopilot import Script, fly
from firsthand.session.effects import Outcome
from firsthand.session.free_recording import FreeRecording
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.machine import Recorder
from firsthand.session.plan import make_plan
from firsthand.session.protocol import Form
from firsthand.session.real_tools import RealTools
from firsthand.session.session import Session
from firsthand.testing import devices

pytestmark = pytest.mark.process

PROTOCOL = """\
format: firsthand-protocol
version: 1
name: short
title: Short
check_limits: {longest_gap_s: 0.5, lost_share: 0.01}
phases:
  - id: show
    title: Show
    steps:
      - kind: consent
        id: consent
        title: Consent
        sheet: sheet.md
        scopes: [{id: sound, data: sound, text: Sound may be recorded.}]
      - {kind: headset_check, id: check, title: Check}
      - {kind: record, id: task, title: Task, keyword: task complete}
      - {kind: break, id: rest, title: Rest, limit_s: 0.3}
      - kind: form
        id: after
        title: After
        fields:
          - {id: how, kind: rating, ask: How was it?}
          - {id: what, kind: choice, ask: What was it?, choices: [this, that]}
      - {kind: end, id: end, title: End}
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTHAND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "log"))


@pytest.fixture
def protocol(tmp_path: Path) -> LoadedProtocol:
    (tmp_path / "sheet.md").write_text("# Sheet\n", encoding="utf-8")
    (tmp_path / "short.yaml").write_text(PROTOCOL, encoding="utf-8")
    return load_protocol(tmp_path / "short.yaml")


@pytest.fixture
def tools() -> RealTools:
    host = load_plugins(extra=[devices], only=[])
    return RealTools(host, extra_plugins=[devices.MODULE])


def make_session(
    folder: Path, protocol: LoadedProtocol, tools: RealTools, ledger: Path | None = None
) -> Session:
    settings = {"ledger": str(ledger)} if ledger else {}
    choice = DeviceChoice(name="fake", settings=settings)
    plan = make_plan(folder, "short", "anna7", protocol, "show", task=None, devices=[choice])
    return Session(plan, tools)


def wait_until(met: Callable[[], bool], limit_s: float = 20.0) -> None:
    limit = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < limit, "it did not come about in time"
        time.sleep(0.02)


def packets(session: Session) -> int:
    session.watch()
    status = session.recorder_status
    return sum(stream.packets for stream in status.streams) if status else 0


def to_task(session: Session) -> None:
    session.do(c.Start())
    session.answer({"sound": True})
    session.do(c.Next())
    session.do(c.Next())
    assert session.status.recorder is Recorder.ON


def test_an_autopilot_goes_through_every_kind_of_step_and_leaves_a_good_recording(
    tmp_path: Path, protocol: LoadedProtocol, tools: RealTools
) -> None:
    session = make_session(tmp_path / "study", protocol, tools)
    ticks: list[float] = []
    result = fly(session, Script(task_s=1.0), tick=lambda _s, spent, _of: ticks.append(spent))
    assert result.outcome is Outcome.COMPLETED
    assert result.trouble == ()
    assert result.verdict is not None
    assert result.verdict.findings == ()
    assert ticks == sorted(ticks)
    assert session.status.takes == (1,) * 6
    events = list(read_journal(result.folder / "journal.jsonl"))
    kinds = [event.kind for event in events]
    assert kinds.count("step.begun") == kinds.count("step.ended") == 6
    assert {"headset.checked", "form.answered", "cue.task_complete", "recorder.stopped"} <= set(
        kinds
    )
    with firsthand.open(result.folder) as recording:
        assert recording.session["protocol_hash"] == protocol.hash
        assert recording.session["consent"] == {"sound": True}


def test_a_recorder_killed_in_the_middle_costs_no_more_than_the_kill(
    tmp_path: Path, protocol: LoadedProtocol, tools: RealTools
) -> None:
    session = make_session(tmp_path / "study", protocol, tools)
    to_task(session)
    wait_until(lambda: packets(session) > 60)
    first = session.recorder_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: session.watch().recorder is Recorder.ON and session.recorder_pid != first)
    wait_until(lambda: packets(session) > 60)
    session.do(c.Next())
    while not session.status.over:
        if isinstance(session.step, Form):
            session.answer({"how": 3, "what": "this"})
        session.do(c.Next())
    result = session.close()
    assert result.finished is not None
    assert result.finished.packets > 100
    kinds = [event.kind for event in read_journal(result.folder / "journal.jsonl")]
    died, back = kinds.index("cue.recorder_died"), kinds.index("cue.recorder_back")
    assert died < back
    with firsthand.open(result.folder) as recording:
        numbers = recording.records("fake_gaze")["number"]
        assert (numbers == 0).sum() == 2, "the device began twice, and both stretches are there"


def test_a_participant_who_stops_leaves_a_recording_that_is_good(
    tmp_path: Path, protocol: LoadedProtocol, tools: RealTools
) -> None:
    session = make_session(tmp_path / "study", protocol, tools)
    to_task(session)
    wait_until(lambda: packets(session) > 60)
    session.do(c.ParticipantStopped())
    result = session.close()
    assert result.outcome is Outcome.PARTICIPANT_STOPPED
    assert result.verdict is not None
    assert result.verdict.findings == ()


def test_a_recording_without_a_protocol_survives_its_recorder(
    tmp_path: Path, tools: RealTools
) -> None:
    recording = FreeRecording.begin(tmp_path / "free", DeviceChoice(name="fake"), tools)

    def stored() -> int:
        status = recording.look()
        return sum(stream.packets for stream in status.streams) if status else 0

    wait_until(lambda: stored() > 60)
    first = recording.recorder_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: recording.look() is not None and recording.recorder_pid != first)
    wait_until(lambda: stored() > 60)
    result = recording.finish(lambda _done, _words="": None)
    kinds = [event.kind for event in read_journal(result.folder / "journal.jsonl")]
    assert kinds == [
        "recording.made", "recorder.started", "cue.recorder_died", "recorder.started",
        "recorder.stopped",
    ]  # fmt: skip
    with firsthand.open(result.folder) as opened:
        assert sum(len(stream) for stream in opened.streams.values()) > 100


def test_a_device_that_nobody_offers_is_said_before_anything_is_recorded(
    tmp_path: Path, tools: RealTools
) -> None:
    with pytest.raises(RecordingError, match="no device 'fakke'"):
        FreeRecording.begin(tmp_path / "free", DeviceChoice(name="fakke"), tools)
