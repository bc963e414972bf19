"""``firsthand recover``: finish what a crash left behind."""

import json
from pathlib import Path
from typing import Annotated

import typer

from firsthand.cli import FOUND_WRONG
from firsthand.cli.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recover")(recover_path)


def recover_path(
    path: Annotated[Path, typer.Argument(help="A session's folder, a study, or any folder above.")],
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop recorders that are still at work first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Finish every unfinished recording at or below PATH. Can be run any number of times.

    Ends with 1 if one could not be finished.
    """
    from firsthand.api import FirsthandError, RecordingError
    from firsthand.recording.recover import Recovered, recover, stop_recorder, unfinished

    if not path.exists():
        raise RecordingError(f"There is no folder {path}.", try_this="Check the path.")
    done = []
    for folder in unfinished(path):
        with shown(f"finishing {folder.name}", quiet=as_json) as progress:
            outcome = recover(folder, progress=progress)
            if stop and outcome.is_recording:
                try:
                    stop_recorder(folder)
                    outcome = recover(folder, progress=progress)
                except FirsthandError as error:
                    outcome = Recovered(folder, error=error)
        done.append(outcome)
        if not as_json:
            typer.echo(outcome.words)
    if as_json:
        typer.echo(json.dumps([outcome.to_json() for outcome in done], indent=2))
    elif not done:
        typer.echo("Every recording here is finished.")
    if any(outcome.error is not None for outcome in done):
        raise typer.Exit(FOUND_WRONG)
