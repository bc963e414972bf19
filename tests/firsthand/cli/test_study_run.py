"""A session at the keyboard: what a person types, and what the session makes of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firsthand.cli.study_run import walk
from firsthand.paths import study_protocols_dir
from firsthand.recording.journal import read_journal
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.session.effects import Outcome
from firsthand.session.loading import load_protocol
from firsthand.session.plan import SessionPlan, make_plan
from firsthand.session.result import Result
from firsthand.session.session import Session
from firsthand.testing.session_tools import FakeTools

pytestmark = pytest.mark.unit


@pytest.fixture
def plan(tmp_path: Path) -> SessionPlan:
    return make_plan(
        tmp_path,
        "pilot",
        "anna7",
        load_protocol(study_protocols_dir() / "mica.yaml"),
        "demonstration",
        task="shopping/birdhouse",
        devices=[DeviceChoice(name="hl2ss")],
    )


def typed(*keys: str, answers: str = "y") -> Callable[..., str]:
    """Somebody who says ``answers`` to every question and types ``keys`` at the steps, then
    Enter for ever."""
    waiting: Iterator[str] = iter(keys)

    def ask(question: str, **_: object) -> str:
        if question.startswith("Enter: go on"):
            return next(waiting, "")
        return answers if question.endswith("[y/n]") else f"typed for: {question}"

    return ask


def went(plan: SessionPlan, ask: Callable[..., str]) -> tuple[Result, list[str], FakeTools]:
    tools = FakeTools()
    result = walk(Session(plan, tools), plan, ask)
    journal = read_journal(result.folder / "journal.jsonl")
    ended = [f"{e.about['step']} {e.about['how']}" for e in journal if e.kind == "step.ended"]
    return result, ended, tools


def test_enter_alone_goes_through_the_whole_session(plan: SessionPlan) -> None:
    result, ended, tools = went(plan, typed())
    assert result.outcome is Outcome.COMPLETED
    assert result.good
    assert [line.split()[1] for line in ended] == ["next"] * 7
    assert tools.done == ["look_over", "start", "finalise", "check"]


def test_letters_skip_repeat_and_mark_with_what_was_typed(plan: SessionPlan) -> None:
    result, ended, _ = went(plan, typed("", "", "s", "", "m", "r", ""))
    assert ended[2:6] == ["sheet skip", "headset next", "task repeat", "task next"]
    events = list(read_journal(result.folder / "journal.jsonl"))
    marks = [e.about["words"] for e in events if e.kind == "mark"]
    assert marks == ["typed for: What is to be marked?"]
    reasons = [e.about["reason"] for e in events if e.about.get("how") == "skip"]
    assert reasons == ["typed for: Why is it skipped?"]


def test_one_letter_stops_for_the_participant_and_closes_the_recording(plan: SessionPlan) -> None:
    result, ended, tools = went(plan, typed("", "", "", "", "p"))
    assert result.outcome is Outcome.PARTICIPANT_STOPPED
    assert result.good
    assert ended[-1] == "task participant_stopped"
    assert tools.recorder.stops == 1


def test_a_no_to_needed_consent_ends_it(plan: SessionPlan) -> None:
    result, _, tools = went(plan, typed(answers="n"))
    assert result.outcome is Outcome.CONSENT_REFUSED
    assert tools.done == []


def test_an_unticked_point_keeps_enter_from_going_on_and_is_asked_again(plan: SessionPlan) -> None:
    asked: list[str] = []

    def ask(question: str, **more: object) -> str:
        asked.append(question)
        if question.endswith("[y/n]"):
            first = "laid out" in question and sum("laid out" in q for q in asked) == 1
            return "n" if first else "y"
        return "" if question.startswith("Enter") else "An answer."

    result, ended, _ = went(plan, ask)
    assert result.outcome is Outcome.COMPLETED
    assert ended[1] == "room next"
    assert sum("laid out" in question for question in asked) == 2


def test_an_unknown_letter_changes_nothing(plan: SessionPlan) -> None:
    _, ended, _ = went(plan, typed("", "x", "", "zz"))
    assert [line.split()[1] for line in ended] == ["next"] * 7


def test_ctrl_c_closes_the_recording(plan: SessionPlan) -> None:
    def ask(question: str, **more: object) -> str:
        if question.startswith("Enter"):
            keys.append(question)
            if len(keys) == 5:
                raise KeyboardInterrupt
            return ""
        return "y"

    keys: list[str] = []
    result, ended, tools = went(plan, ask)
    assert result.outcome is Outcome.STOPPED
    assert ended[-1] == "task stop"
    assert tools.recorder.stops == 1
