"""``firsthand study``: make a study, check its protocol, see its participants and sessions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firsthand.api import SettingsError
from firsthand.cli import FOUND_WRONG, called_as
from firsthand.cli.given import SET_HELP, check_devices, device_choice
from firsthand.paths import study_protocols_dir
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.source import BadFileError
from firsthand.session.study import SessionSummary, Study

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command with its own commands."""
    from firsthand.cli.study_run import run

    study = typer.Typer(help="Make and run studies: protocol, participants, sessions.")
    study.command("new")(new)
    study.command("check")(check)
    study.command("participants")(participants)
    study.command("status")(status)
    study.command("run")(run)
    app.add_typer(study, name="study", no_args_is_help=True)


def new(
    folder: Folder,
    protocol: Annotated[
        Path | None,
        typer.Option(help="The protocol to copy in; the shipped mica.yaml if left out."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the study is called.")] = None,
    device: Annotated[str | None, typer.Option(help="A device to record with.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
) -> None:
    """Make a study in a new folder, with its own copy of the protocol."""
    if setting and device is None:
        raise SettingsError("--set needs --device, which it is a setting of.")
    devices = [device_choice(device, setting or ())] if device else []
    check_devices(devices)
    chosen = protocol or study_protocols_dir() / "mica.yaml"
    study = Study.create(folder, chosen, title=title, devices=devices)
    typer.echo(f"The study {study.name!r} is in {folder}. It goes by {study.protocol.file}.")
    typer.echo(f"Add a participant with: {called_as()} study participants {folder} --add")


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A protocol, or a study's folder.")],
    as_json: AsJson = False,
) -> None:
    """Say whether a protocol can be run, and line by line what keeps it from it."""
    try:
        study = Study.open(file) if file.is_dir() else None
        loaded = study.protocol if study else load_protocol(file)
    except BadFileError as error:
        if as_json:
            found = [
                {
                    "file": p.place.file,
                    "line": p.place.line,
                    "column": p.place.column,
                    "what": p.what,
                    "try_this": p.try_this,
                }
                for p in error.problems
            ]
            typer.echo(json.dumps({"good": False, "problems": found}, indent=2))
        else:
            for problem in error.problems:
                typer.echo(str(problem))
            count = len(error.problems)
            typer.echo(f"{file.name} cannot be run: {count} problem{'s' * (count > 1)}.")
        raise typer.Exit(FOUND_WRONG) from None
    if study is not None:
        check_devices(study.devices)
    if as_json:
        typer.echo(json.dumps({"good": True, **_facts(loaded)}, indent=2))
        return
    for phase in loaded.content.phases:
        steps = ", ".join(step.id for step in phase.steps)
        typer.echo(f"{phase.id}: {steps}")
    if loaded.catalogue is not None:
        typer.echo(f"tasks: {', '.join(loaded.catalogue.ids())}")
    typer.echo(f"{file.name} is good (version {loaded.hash[:12]}).")


def participants(
    folder: Folder,
    add: Annotated[bool, typer.Option("--add", help="Add one under a new code.")] = False,
    code: Annotated[str | None, typer.Option(help="Add one under this code.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the participants' codes, or add somebody. Names are never kept here."""
    study = Study.open(folder)
    if add or code is not None:
        added = study.add_participant(code)
        if not as_json:
            typer.echo(f"Added the participant {added.code}.")
            return
    everybody = study.participants()
    if as_json:
        rows = [
            {"code": p.code, "added_utc": p.added_utc, "excluded": p.excluded} for p in everybody
        ]
        typer.echo(json.dumps({"participants": rows}, indent=2))
        return
    for person in everybody:
        typer.echo(f"{person.code}  since {person.added_utc}{_excluded(person.excluded)}")
    if not everybody:
        words = f"{called_as()} study participants {folder} --add"
        typer.echo(f"Nobody yet. Add somebody with: {words}")


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Show every session of a study and how it stands."""
    study = Study.open(folder)
    sessions = list(study.sessions())
    if as_json:
        about: dict[str, Any] = {
            "name": study.name,
            "title": study.title,
            "protocol_hash": study.protocol.hash,
            "participants": len(study.participants()),
            "sessions": [_row(session) for session in sessions],
        }
        typer.echo(json.dumps(about, indent=2))
        return
    people = len(study.participants())
    typer.echo(f"{study.title}: {people} participant(s), {len(sessions)} session(s).")
    if not sessions:
        return
    table = Table("session", "task", "minutes", "recording", box=None, pad_edge=False)
    for session in sessions:
        minutes = "" if session.duration_s is None else f"{session.duration_s / 60:.1f}"
        # As plain text: what stands in a folder may come from elsewhere.
        table.add_row(*(Text(word) for word in (session.id, session.task, minutes, session.state)))
    Console().print(table)


def _facts(loaded: LoadedProtocol) -> dict[str, Any]:
    return {
        "name": loaded.content.name,
        "hash": loaded.hash,
        "phases": {p.id: [step.id for step in p.steps] for p in loaded.content.phases},
        "sheets": {name: sheet.version for name, sheet in loaded.sheets.items()},
        "tasks": list(loaded.catalogue.ids()) if loaded.catalogue else [],
    }


def _row(session: SessionSummary) -> dict[str, Any]:
    return {
        "id": session.id,
        "participant": session.participant,
        "phase": session.phase,
        "number": session.number,
        "state": session.state,
        "task": session.task,
        "duration_s": session.duration_s,
        "folder": str(session.folder),
    }


def _excluded(is_excluded: bool) -> str:
    return ", excluded" if is_excluded else ""
