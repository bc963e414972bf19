"""``firsthand export``: recordings in formats that other programs read."""

from pathlib import Path
from typing import Annotated

import typer

from firsthand.api import FirsthandError, SettingsError
from firsthand.cli import FOUND_WRONG
from firsthand.cli.given import nested_settings
from firsthand.cli.interrupts import stop_on_interrupt
from firsthand.cli.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export_paths)


def export_paths(
    paths: Annotated[list[Path], typer.Argument(help="Sessions' folders, or their raw.h5.")],
    to: Annotated[str, typer.Option("--to", help="The format: mp4, wav, csv or a plugin's.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write into.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the format, as key=value.")
    ] = None,
) -> None:
    """Write recordings in another format, each into a folder of its own below OUT.

    Ends with 1 if one of them could not be exported.
    """
    from firsthand.host import load_plugins
    from firsthand.recording.export import export

    host = load_plugins()
    settings = nested_settings(setting or [])
    failed = False
    with stop_on_interrupt() as stop:
        for path in paths:
            goal = out / (path.resolve().parent if path.is_file() else path.resolve()).name
            try:
                with shown(f"{path.name} as {to}") as progress:
                    files = export(
                        path,
                        to,
                        goal,
                        settings=settings,
                        host=host,
                        on_progress=progress,
                        cancel=stop,
                    )
            except SettingsError:
                raise
            except FirsthandError as error:
                typer.secho(f"{path}: {error}", fg="red", err=True)
                failed = True
                if stop.is_set():
                    break
                continue
            for file in files:
                typer.echo(str(file))
    if failed:
        raise typer.Exit(FOUND_WRONG)
