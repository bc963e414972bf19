"""Nobody follows their own demonstration, or one of another task."""

from pathlib import Path

import pytest

from firsthand.api import RecordingError, SettingsError
from firsthand.paths import study_protocols_dir
from firsthand.recording.journal import read_journal
from firsthand.recording.manifest import RecordingState, new_manifest, write_manifest
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.plan import SessionPlan, make_plan
from firsthand.session.session import Session
from firsthand.testing.session_tools import FakeTools

pytestmark = pytest.mark.unit
TASK = "organize_room/by_type"


@pytest.fixture(scope="module")
def mica() -> LoadedProtocol:
    return load_protocol(study_protocols_dir() / "mica.yaml")


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A demonstration by the participant anna7."""
    folder = tmp_path / "sessions" / "anna7-demonstration-01"
    folder.mkdir(parents=True)
    facts = {"id": folder.name, "participant": "anna7", "phase": "demonstration"}
    manifest = new_manifest({**facts, "task": {"id": TASK}})
    manifest.state = RecordingState.COMPLETE
    write_manifest(folder, manifest)
    return folder


def plan(
    mica: LoadedProtocol,
    folder: Path,
    participant: str,
    shown: Path | None,
    *,
    phase: str = "replication",
    task: str = TASK,
    override: str | None = None,
) -> SessionPlan:
    return make_plan(
        folder,
        "pilot",
        participant,
        mica,
        phase,
        task=task,
        devices=[DeviceChoice(name="hl2ss")],
        demonstration=shown,
        override=override,
    )


def test_somebody_else_may_follow_and_the_session_names_the_one_demonstration(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    made = plan(mica, tmp_path, "bert2", shown)
    assert made.facts("bert2-replication-01")["demonstration"] == {
        "session": "anna7-demonstration-01",
        "participant": "anna7",
        "task": TASK,
    }


@pytest.mark.parametrize("reason", [None, "", "   ", "because"])
def test_ones_own_demonstration_is_refused(
    mica: LoadedProtocol, shown: Path, tmp_path: Path, reason: str | None
) -> None:
    with pytest.raises(SettingsError, match="own demonstration"):
        plan(mica, tmp_path, "anna7", shown, override=reason)


def test_a_typed_reason_overrides_and_is_kept_in_the_journal(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    reason = "Pilot of the room with one person only."
    session = Session(plan(mica, tmp_path, "anna7", shown, override=reason), FakeTools())
    session.close()
    events = list(read_journal(session.folder / "journal.jsonl"))
    overridden = [event for event in events if event.kind == "pairing.overridden"]
    assert [(ev.by, ev.about["override"]) for ev in overridden] == [("administrator", reason)]
    assert events[0].about["demonstration"]["override"] == reason


def test_a_demonstration_of_another_task_is_refused(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="shows the task"):
        plan(mica, tmp_path, "bert2", shown, task="shopping/own_needs")


def test_an_unfinished_demonstration_is_refused(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    manifest = new_manifest(
        {"id": shown.name, "participant": "anna7", "phase": "demonstration", "task": {"id": TASK}}
    )
    write_manifest(shown, manifest)
    with pytest.raises(SettingsError, match="firsthand recover"):
        plan(mica, tmp_path, "bert2", shown)


def test_a_replication_is_no_demonstration(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    manifest = new_manifest({"id": "x", "participant": "anna7", "phase": "replication"})
    write_manifest(shown, manifest)
    with pytest.raises(SettingsError, match="session of the phase 'replication'"):
        plan(mica, tmp_path, "bert2", shown)


def test_the_second_phase_needs_a_demonstration_and_the_first_takes_none(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="needs a recording of the phase 'demonstration'"):
        plan(mica, tmp_path, "bert2", None)
    with pytest.raises(SettingsError, match="is not given a demonstration"):
        plan(mica, tmp_path, "bert2", shown, phase="demonstration")
    with pytest.raises(RecordingError, match="is not a recording"):
        plan(mica, tmp_path, "bert2", tmp_path)


def test_who_follows_reads_the_broad_goal_and_not_the_task(
    mica: LoadedProtocol, shown: Path, tmp_path: Path
) -> None:
    follower = plan(mica, tmp_path, "bert2", shown)
    demonstrator = plan(mica, tmp_path, "bert2", None, phase="demonstration")
    assert "kind" in demonstrator.task_sheet()
    assert "Use the assistant" in follower.task_sheet()
    assert "kind" not in follower.task_sheet()
    assert "amounts" not in follower.facts("x")["task"]
