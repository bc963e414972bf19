"""``firsthand study run``: one session of a study, step by step in the terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from firsthand.api import FirsthandError, SettingsError
from firsthand.cli import FOUND_WRONG
from firsthand.cli.given import SET_HELP, check_devices, device_choice
from firsthand.cli.streams_view import line
from firsthand.host import load_plugins
from firsthand.session import commands as c
from firsthand.session.autopilot import Script, fly
from firsthand.session.machine import Mode
from firsthand.session.notices import Notice
from firsthand.session.plan import SessionPlan, Surroundings, Varied, make_plan
from firsthand.session.protocol import (
    Checklist,
    ChoiceField,
    Consent,
    Form,
    FormField,
    HeadsetCheck,
    Instructions,
    NumberField,
    RatingField,
    Record,
    Step,
)
from firsthand.session.real_tools import RealTools
from firsthand.session.result import Result
from firsthand.session.session import Session
from firsthand.session.study import Study

_LOOK_S = 0.5
_KEYS = "Enter: go on   s: skip   r: repeat   b: back   m: mark   p: participant stopped   q: stop"
_YES = {"y", "yes"}
_NO = {"n", "no"}


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.")],
    participant: Annotated[str, typer.Option(help="The participant's code.")],
    phase: Annotated[str, typer.Option(help="The phase of the protocol.")],
    task: Annotated[str | None, typer.Option(help="The task, as family/variant.")] = None,
    demonstration: Annotated[
        str | None, typer.Option(help="The session whose demonstration is to be followed.")
    ] = None,
    own_because: Annotated[
        str | None, typer.Option(help="The reason why it may be the participant's own.")
    ] = None,
    varied: Annotated[
        list[Varied] | None, typer.Option(help="What differs from earlier sessions.")
    ] = None,
    notes: Annotated[str, typer.Option(help="What differs, in words.")] = "",
    device: Annotated[str | None, typer.Option(help="Instead of the study's devices.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    rehearsal: Annotated[bool, typer.Option(help="Mark it as a rehearsal.")] = False,
    autopilot: Annotated[bool, typer.Option(help="Nobody is there: play every part.")] = False,
    seconds: Annotated[float, typer.Option(help="Length of the task for the autopilot.")] = 25.0,
) -> None:
    """Take a participant through a phase. Ends with 1 where the recording is not good."""
    study = Study.open(folder)
    study.participant(participant)
    if setting and device is None:
        raise SettingsError("--set needs --device, which it is a setting of.")
    plan = make_plan(
        study.folder,
        study.name,
        participant,
        study.protocol,
        phase,
        task=task,
        devices=[device_choice(device, setting or ())] if device else study.devices,
        demonstration=study.folder / "sessions" / demonstration if demonstration else None,
        override=own_because,
        surroundings=Surroundings(frozenset(varied or ()), notes),
        rehearsal=rehearsal,
    )
    plugins = load_plugins()
    check_devices(plan.devices, plugins)
    session = Session(plan, RealTools(plugins), _listener())
    if autopilot:
        result = fly(session, Script(task_s=seconds))
    else:
        result = walk(session, plan, typer.prompt)
    _report(result)
    if not result.good:
        raise typer.Exit(FOUND_WRONG)


def walk(session: Session, plan: SessionPlan, ask: Callable[..., str]) -> Result:
    """Step by step with a person at the keyboard; whatever happens, the recording is closed."""
    try:
        with _watched(session):
            session.do(c.Start())
            while not session.status.over:
                _show(session, plan)
                _one_step(session, ask)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("\nStopping. What was recorded is kept.")
    return session.close("stopped at the keyboard")


def _one_step(session: Session, ask: Callable[..., str]) -> None:
    takes = session.status.takes
    try:
        _answer(session, session.step, ask)
        while not session.status.over and session.status.takes == takes:
            word = ask(_KEYS, default="", show_default=False).strip().lower()
            if session.status.takes != takes:
                return  # its time was up while we waited
            if word == "" and session.status.mode is Mode.RUNNING:
                session.do(c.Next())
            elif not _other(session, word, ask):
                _tell_streams(session)
    except FirsthandError as error:
        typer.secho(str(error), fg="yellow")


def _other(session: Session, word: str, ask: Callable[..., str]) -> bool:
    """Carry out a letter; False for one that means nothing."""
    match word:
        case "s":
            session.do(c.Skip(ask("Why is it skipped?")))
        case "r":
            session.do(c.Repeat(ask("Why is it repeated?", default="", show_default=False)))
        case "b":
            session.do(c.Back())
        case "m":
            session.mark(ask("What is to be marked?"))
        case "p":
            session.do(c.ParticipantStopped())
        case "q":
            session.do(c.Stop(ask("Why is it stopped?", default="", show_default=False)))
        case _:
            return False
    return True


def _show(session: Session, plan: SessionPlan) -> None:
    step = session.step
    typer.secho(f"\n{step.title}", bold=True)
    sheet = getattr(step, "sheet", None)
    if sheet is not None:
        typer.echo(plan.protocol.sheets[sheet].text)
    if isinstance(step, Instructions) and step.with_task:
        typer.echo(plan.task_sheet())
    if step.say is not None:
        typer.echo(step.say)
    if step.note is not None:
        typer.secho(f"(For you: {step.note})", dim=True)


def _answer(session: Session, step: Step, ask: Callable[..., str]) -> None:
    match step:
        case Consent():
            given = {s.id: _yes(ask, f"{s.text}{' (needed)' * s.required}") for s in step.scopes}
            session.answer(given)
        case Checklist():
            ticked = {item: True for item in step.items if _yes(ask, item)}
            session.answer(ticked, by=step.by.value)
        case HeadsetCheck():
            for item in session.look_over():
                sign = "good" if item.good else "NOT GOOD"
                typer.echo(f"  {item.name}: {sign}. {item.words} {item.try_this}".rstrip())
        case Form():
            for field in step.fields:
                answer = ask(field.ask, default="", show_default=False)
                session.answer({field.id: _typed(field, answer)}, by=step.by.value)
        case Record():
            typer.secho("RECORDING", fg="red", bold=True)
        case _:
            pass


def _typed(field: FormField, answer: str) -> Any:
    """What was typed as the field takes it; what is no number stays a text and is refused."""
    answer = answer.strip()
    try:
        match field:
            case RatingField():
                return int(answer) if answer else None
            case NumberField():
                return float(answer) if answer else None
            case ChoiceField() if answer.isdigit() and 1 <= int(answer) <= len(field.choices):
                return field.choices[int(answer) - 1]
    except ValueError:
        return answer
    return answer


def _yes(ask: Callable[..., str], question: str) -> bool:
    while True:
        word = ask(f"{question} [y/n]").strip().lower()
        if word in _YES | _NO:
            return word in _YES
        typer.echo("Please answer y or n.")


def _tell_streams(session: Session) -> None:
    status = session.recorder_status
    typer.echo(line(status) if status is not None else "Nothing is being recorded.")


@contextmanager
def _watched(session: Session) -> Iterator[None]:
    """Look after recorder, streams and timers while somebody thinks."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_S):
            session.watch()

    thread = threading.Thread(target=look, name="session-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _listener() -> Callable[[Notice], None]:
    def listen(notice: Notice) -> None:
        if notice.share is None:
            typer.echo(f"  · {notice.words}")

    return listen


def _report(result: Result) -> None:
    for trouble in result.trouble:
        typer.secho(trouble, fg="red")
    if result.verdict is None:
        outcome = result.outcome.value.replace("_", " ")
        typer.echo(f"Nothing was recorded ({outcome}). The journal is in {result.folder}.")
        if result.reason:
            typer.secho(result.reason, fg="yellow")
        return
    typer.echo(f"Saved. {result.verdict.numbers.words}.")
    typer.echo(f"{result.verdict.words} It is in {result.folder}.")
    for finding in result.verdict.findings:
        typer.echo(f"  {finding}")
