"""The command line: one module per command, imported only when it is asked for."""

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from firsthand import logs
from firsthand.api import FirsthandError, ProtocolError, SettingsError
from firsthand.paths import log_dir

COMMANDS = ("check", "demo", "export", "info", "plugins", "record", "recover", "simulate", "study")
"""Each is a module of this package with ``register(app: typer.Typer) -> None``."""

FOUND_WRONG = 1
USED_WRONGLY = 2


def called_as() -> str:
    """What a person types to get here; ``dev.py`` tells when it is in between."""
    return os.environ.get("FIRSTHAND_CALLED_AS") or "firsthand"


def build(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that ``arguments`` name, or with all for the overview."""
    app = typer.Typer(
        name="firsthand",
        help="Record a demonstration, and study how it helps the next person.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )

    @app.callback()
    def root(
        _: Annotated[
            bool,
            typer.Option("--version", help="Say the version.", callback=_version, is_eager=True),
        ] = False,
    ) -> None:
        """Record a demonstration, and study how it helps the next person."""

    wanted = next((word for word in arguments if not word.startswith("-")), "")
    for name in (wanted,) if wanted in COMMANDS else COMMANDS:
        importlib.import_module(f"firsthand.cli.{name}").register(app)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"Firsthand {version('firsthand')}")
        raise typer.Exit


def main() -> None:
    """Run the command line; failures that a person can act on end in one sentence."""
    # Where a command keeps no log, warnings that are meant for one stay off the screen.
    logging.getLogger("firsthand").addHandler(logging.NullHandler())
    try:
        build(sys.argv[1:])(prog_name=called_as())
    except FirsthandError as error:
        typer.secho(error.message, fg="red", err=True)
        if error.try_this:
            typer.secho(error.try_this, err=True)
        used_wrongly = isinstance(error, SettingsError | ProtocolError)
        sys.exit(USED_WRONGLY if used_wrongly else FOUND_WRONG)
    except Exception:
        if not logging.getLogger().handlers:
            logs.configure("firsthand")
        logging.getLogger("firsthand").exception("the command ended in an unexpected error")
        typer.secho(
            "Firsthand met an error of its own. What was recorded is safe on disk; "
            f"the details are in the log in {log_dir()}.",
            fg="red",
            err=True,
        )
        sys.exit(FOUND_WRONG)
