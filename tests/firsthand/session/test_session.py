"""A session as a whole: what it writes down, asks of the recorder, and tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firsthand.api import SettingsError, StorageError
from firsthand.paths import study_protocols_dir
from firsthand.recording.journal import JournalEvent, read_journal
from firsthand.recording.recorder_settings import DeviceChoice, RecorderState
from firsthand.session import commands as c
from firsthand.session.effects import Outcome
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.machine import Mode, NotNowError, Recorder
from firsthand.session.notices import Level, Notice
from firsthand.session.plan import SessionPlan, Surroundings, Varied, make_plan
from firsthand.session.protocol import Consent, DataType, Form
from firsthand.session.session import Session
from firsthand.session.tools import Verdict
from firsthand.testing.session_tools import FakeTools, health

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def mica() -> LoadedProtocol:
    return load_protocol(study_protocols_dir() / "mica.yaml")


class World:
    """A session with fakes around it, a clock that is moved by hand, and ears."""

    def __init__(self, folder: Path, mica: LoadedProtocol, **plan: Any) -> None:
        self.now_s = 0.0
        self.tools = FakeTools()
        self.heard: list[Notice] = []
        self.plan: SessionPlan = make_plan(
            folder,
            "pilot",
            "anna7",
            mica,
            "demonstration",
            task="shopping/birdhouse",
            devices=[DeviceChoice(name="hl2ss")],
            **plan,
        )
        self.session = Session(
            self.plan,
            self.tools,
            self.heard.append,
            clock_s=lambda: self.now_s,
            sleep=self.later,
        )

    def later(self, seconds: float) -> None:
        self.now_s += seconds

    def journal(self, kind: str = "") -> list[JournalEvent]:
        events = read_journal(self.session.folder / "journal.jsonl")
        return [event for event in events if event.kind.startswith(kind)]

    def words(self, level: Level) -> str:
        return " ".join(notice.words for notice in self.heard if notice.level is level)

    def consent(self, **no: bool) -> None:
        step = self.session.step
        assert isinstance(step, Consent)
        self.session.answer({s.id: no.get(s.id, True) for s in step.scopes})

    def to_task(self) -> None:
        """Up to the recorded step, everything agreed to."""
        self.session.do(c.Start())
        self.consent()
        while self.session.status.recorder is Recorder.OFF:
            if self.session.step.kind == "checklist":
                self.session.do(c.Skip("another test's business"))
            else:
                self.session.do(c.Next())

    def to_end(self) -> None:
        """From the recorded step to the end."""
        while not self.session.status.over:
            step = self.session.step
            if isinstance(step, Form):
                self.session.answer({field.id: "An answer." for field in step.fields})
            self.session.do(c.Next())


@pytest.fixture
def world(tmp_path: Path, mica: LoadedProtocol) -> Iterator[World]:
    made = World(tmp_path, mica)
    yield made
    made.session.close()


def test_a_whole_session_leaves_a_checked_recording_and_a_full_journal(world: World) -> None:
    world.to_task()
    world.to_end()
    result = world.session.close()
    assert result.outcome is Outcome.COMPLETED
    assert result.verdict == Verdict(True, "good")
    assert world.tools.done == ["start", "finalise", "check"]
    assert world.tools.recorder.stops == 1
    begun = [event.about["step"] for event in world.journal("step.begun")]
    assert begun == ["consent", "room", "sheet", "headset", "task", "questions", "end"]
    assert len(world.journal("step.ended")) == len(begun)
    assert world.journal()[0].kind == "session.made"
    assert world.journal()[-1].kind == "session.closed"


def test_the_session_keeps_protocol_and_sheet_versions_task_and_surroundings(
    tmp_path: Path, mica: LoadedProtocol
) -> None:
    varied = Surroundings(frozenset({Varied.LAYOUT}), "the shelf stands left of the door")
    world = World(tmp_path, mica, surroundings=varied)
    world.to_task()
    facts = world.tools.recorder.settings.session
    assert facts["id"] == "anna7-demonstration-01" == world.session.folder.name
    assert facts["protocol_hash"] == mica.hash
    assert facts["sheets"] == {
        name: mica.sheets[name].version for name in ("mica/consent.md", "mica/demonstration.md")
    }
    assert facts["task"] == {"id": "shopping/birdhouse", "amounts": {}}
    assert facts["surroundings"] == {
        "varied": ["layout"],
        "notes": "the shelf stands left of the door",
    }
    assert facts["consent"]["video"] is True
    world.session.close()


def test_a_second_session_never_touches_the_first_ones_folder(
    tmp_path: Path, mica: LoadedProtocol
) -> None:
    worlds = [World(tmp_path, mica) for _ in range(3)]
    names = [world.session.folder.name for world in worlds]
    assert names == [f"anna7-demonstration-{n:02d}" for n in (1, 2, 3)]
    for world in worlds:
        world.session.close()


def test_a_no_to_sound_reaches_the_devices_before_the_check_and_the_recording(
    world: World,
) -> None:
    world.session.do(c.Start())
    world.consent(sound=False)
    for command in (c.Next(), c.Skip("not now"), c.Next()):
        world.session.do(command)
    world.session.look_over()
    world.session.do(c.Next())
    assert world.tools.refused == [{DataType.SOUND}, {DataType.SOUND}]
    assert world.tools.recorder.settings.session["consent"]["sound"] is False


def test_a_no_to_what_is_needed_ends_the_session_and_records_nothing(world: World) -> None:
    world.session.do(c.Start())
    world.consent(video=False)
    assert world.session.status.mode is Mode.ENDED
    result = world.session.close()
    assert result.outcome is Outcome.CONSENT_REFUSED
    assert (result.finished, world.tools.done) == (None, [])


def test_going_on_without_an_answer_is_refused_in_words(world: World) -> None:
    world.session.do(c.Start())
    with pytest.raises(NotNowError, match="not been answered"):
        world.session.do(c.Next())
    world.consent()
    world.session.do(c.Next())
    with pytest.raises(NotNowError, match="Not everything is answered"):
        world.session.do(c.Next())


def test_task_complete_cues_the_administrator_and_the_recording_goes_on(world: World) -> None:
    world.to_task()
    world.session.hear("well, that is it. TASK, complete!")
    assert world.session.status.complete_heard
    assert world.tools.recorder.stops == 0
    assert world.session.status.mode is Mode.RUNNING
    assert "task is complete" in world.words(Level.CUE)
    assert len(world.journal("cue.task_complete")) == 1


def test_other_words_cue_nobody(world: World) -> None:
    world.to_task()
    world.session.hear("this task completely escapes me")
    assert not world.session.status.complete_heard


def test_the_participant_may_stop_and_the_recording_is_valid(world: World) -> None:
    world.to_task()
    world.session.do(c.ParticipantStopped())
    result = world.session.close()
    assert result.outcome is Outcome.PARTICIPANT_STOPPED
    assert result.verdict is not None
    assert result.verdict.good
    assert world.tools.recorder.stops == 1


def test_a_recorder_that_dies_is_told_of_and_a_new_stretch_begins(world: World) -> None:
    world.to_task()
    world.tools.recorder.dies()
    world.session.watch()
    assert world.tools.done == ["start", "resume"]
    assert world.session.status.recorder is Recorder.ON
    assert "ended unexpectedly" in world.words(Level.TROUBLE)
    assert "runs again" in world.words(Level.GOOD)
    world.to_end()
    assert [r.stops for r in world.tools.recorders] == [0, 1]


def test_a_recorder_that_cannot_be_had_again_leaves_what_was_recorded(world: World) -> None:
    world.to_task()
    world.tools.resume_fails = "The disk is gone."
    world.tools.recorder.dies()
    world.session.watch()
    assert "Nothing is being recorded. The disk is gone." in world.words(Level.TROUBLE)
    world.to_end()
    assert world.session.close().trouble == ("The disk is gone.",)
    assert world.tools.done[-2:] == ["finalise", "check"]


def test_a_recorder_that_ends_by_itself_says_why(world: World) -> None:
    world.to_task()
    world.tools.recorder.state = RecorderState.STOPPED
    world.tools.recorder.reason = "The disk has no room left."
    world.session.watch()
    assert world.session.status.recorder is Recorder.FAILED
    assert "no room left" in world.words(Level.TROUBLE)


def test_a_recorder_that_does_not_answer_is_told_of_once_and_left_alone(world: World) -> None:
    world.to_task()
    world.tools.recorder.answers = False
    for _ in range(20):
        world.session.watch()
    assert world.words(Level.TROUBLE).count("does not answer") == 1
    assert world.tools.done == ["start"]
    world.tools.recorder.answers = True


def test_a_headset_that_cannot_be_recorded_is_said_and_may_be_tried_again(world: World) -> None:
    world.tools.start_fails = "There is no such device."
    world.session.do(c.Start())
    world.consent()
    for command in (c.Next(), c.Skip("not now"), c.Next(), c.Next()):
        world.session.do(command)
    assert "no such device" in world.words(Level.TROUBLE)
    world.tools.start_fails = None
    world.session.do(c.Repeat())
    assert world.session.status.recorder is Recorder.ON


def test_silent_streams_are_told_of_once_and_again_when_they_are_back(world: World) -> None:
    world.to_task()
    world.session.watch()
    world.tools.recorder.streams[0] = health("pv", silent=True, reason="The Wi-Fi is gone.")
    for _ in range(3):
        world.session.watch()
    assert world.session.status.lost == {"pv"}
    world.tools.recorder.streams[0] = health("pv")
    world.session.watch()
    assert world.session.status.lost == frozenset()
    assert [event.kind for event in world.journal("cue.")] == ["cue.stream_lost", "cue.stream_back"]
    assert "The Wi-Fi is gone." in world.words(Level.TROUBLE)


def test_a_second_take_is_kept_beside_the_first(world: World) -> None:
    world.to_task()
    world.session.do(c.Repeat("the jar fell"))
    takes = [(e.kind, e.about.get("take")) for e in world.journal("step.") if _of_task(e)]
    assert takes == [("step.begun", 1), ("step.ended", 1), ("step.begun", 2)]
    noted = [(kind, about["take"]) for kind, about in world.tools.recorder.notes]
    assert noted == [("step.begun", 1), ("step.ended", 1), ("step.begun", 2)]


def _of_task(event: JournalEvent) -> bool:
    return bool(event.about.get("step") == "task")


def test_the_time_of_a_step_stands_still_in_a_pause(world: World) -> None:
    world.to_task()
    world.now_s = 1700
    world.session.do(c.Pause())
    world.now_s = 9000
    world.session.watch()
    world.session.do(c.Resume())
    world.now_s += 99
    before = world.session.watch()
    world.now_s += 2
    after = world.session.watch()
    assert (before.time_is_up, after.time_is_up) == (False, True)
    assert world.session.step.id == "task"


def test_answers_that_do_not_fit_are_refused_and_fitting_ones_are_kept(world: World) -> None:
    world.to_task()
    world.session.do(c.Next())
    with pytest.raises(SettingsError, match="Did you mean 'why'"):
        world.session.answer({"whi": "Because."})
    with pytest.raises(SettingsError, match="room for 4000"):
        world.session.answer({"why": "x" * 5000})
    world.session.answer({"why": "Because.\ud800"})
    world.session.answer({"what": "The small jar."})
    assert world.session.answers == {"why": "Because.?", "what": "The small jar."}
    with pytest.raises(NotNowError, match="how"):
        world.session.do(c.Next())


def test_a_listener_that_raises_disturbs_nobody(tmp_path: Path, mica: LoadedProtocol) -> None:
    world = World(tmp_path, mica)

    def broken(_: Notice) -> None:
        raise RuntimeError("a window's defect")

    session = Session(world.plan, world.tools, broken)
    session.do(c.Start())
    assert session.status.mode is Mode.RUNNING
    session.close()
    world.session.close()


def test_a_journal_that_cannot_be_written_is_shouted_and_the_recording_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.to_task()

    def full(*_: object, **__: object) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr("firsthand.recording.journal.Journal.write", full)
    world.session.mark("something")
    assert "The disk is full." in world.words(Level.TROUBLE)
    world.to_end()
    assert world.tools.recorder.stops == 1
    assert world.session.close().trouble == ("The disk is full.",)


def test_a_recording_that_cannot_be_finished_is_told_of_and_kept(world: World) -> None:
    world.to_task()
    world.tools.finalise_fails = "The disk is full."
    world.to_end()
    result = world.session.close()
    assert (result.finished, result.trouble) == (None, ("The disk is full.",))


def test_the_log_of_a_recorder_that_is_still_closing_is_not_touched(world: World) -> None:
    world.to_task()
    world.tools.recorder.answers = False
    result = world.session.close()
    assert world.tools.done == ["start"]
    assert world.tools.recorder.alive
    assert "firsthand recover" in " ".join(result.trouble)


def test_a_recorder_that_dies_while_it_stops_leaves_its_log_to_be_finished(world: World) -> None:
    world.to_task()
    world.tools.recorder.dies()
    world.session.do(c.Stop())
    assert world.tools.done == ["start", "finalise", "check"]


def test_closing_in_the_middle_stops_the_recorder_once(world: World) -> None:
    world.to_task()
    first = world.session.close("the window was closed")
    assert world.session.close() is first
    assert first.outcome is Outcome.STOPPED
    assert world.tools.recorder.stops == 1
    assert world.journal("step.ended")[-1].about["reason"] == "the window was closed"


def test_every_command_stands_in_the_journal_and_can_be_read_again(world: World) -> None:
    world.to_task()
    commands = [c.command_from_json(event.about) for event in world.journal("command")]
    assert commands[0] == c.Start()
    assert c.RecorderStarted() in commands
