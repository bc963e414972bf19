"""``firsthand demo``: both phases of a study on a simulated headset, in about two minutes."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from firsthand import logs
from firsthand.api import SettingsError
from firsthand.cli import FOUND_WRONG
from firsthand.cli.demo_view import (
    LiveView,
    PlainView,
    SilentView,
    View,
    closing,
    plain_report,
    report,
)
from firsthand.cli.interrupts import stop_on_interrupt
from firsthand.host import load_plugins
from firsthand.paths import recordings_dir
from firsthand.session.demo import DemoSettings, run_demo
from firsthand.session.real_tools import RealTools

_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="Without windows: an autopilot plays every part.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The study's folder; a new one.")] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="How long each task is recorded.")
    ] = 25.0,
    host: Annotated[
        str, typer.Option(help="This computer's address for the simulated headset.")
    ] = "127.0.0.1",
    base_port: Annotated[
        int | None, typer.Option(help="Its first port; the next free ones if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show and repeat a task with a simulated headset: two recordings, checked and exported.

    Ends with 0 where both are good. Ctrl-C ends it early and keeps what was recorded.
    """
    if not headless:
        raise SettingsError(
            "This version has no windows for the demonstration yet.",
            try_this="Run it without: firsthand demo --headless",
        )
    logs.configure("demo")
    folder = out or recordings_dir() / f"demo-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    settings = DemoSettings(folder.absolute(), seconds, host, base_port)
    console = Console()
    view: View
    if as_json:
        view = SilentView()
    elif sys.stdout.isatty():
        view = LiveView(console)
    else:
        view = PlainView(lambda words: print(words, flush=True))
    with stop_on_interrupt() as stop, view:
        done = run_demo(settings, RealTools(load_plugins()), view, stop)
    if as_json:
        typer.echo(json.dumps(done.to_json(), indent=2))
    elif sys.stdout.isatty():
        console.print(report(done))
        for words in closing(done):
            # Left to the terminal to wrap, so that it can be copied in one piece.
            console.print(Text(words), soft_wrap=True)
    else:
        for words in plain_report(done):
            typer.echo(words)
    if done.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if not done.good:
        raise typer.Exit(FOUND_WRONG)
