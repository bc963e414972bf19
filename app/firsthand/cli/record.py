"""``firsthand record``: no protocol, just record."""

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from firsthand import logs
from firsthand.api import SettingsError
from firsthand.cli import FOUND_WRONG
from firsthand.cli.given import SET_HELP, check_devices, device_choice
from firsthand.cli.interrupts import stop_on_interrupt
from firsthand.cli.streams_view import line, table, troubles
from firsthand.host import load_plugins
from firsthand.paths import recordings_dir
from firsthand.recording.recorder_settings import RecorderStatus
from firsthand.session.free_recording import FreeRecording
from firsthand.session.real_tools import RealTools

_LOOK_S = 0.5
_PLAIN_EVERY_S = 5.0
_ANOTHER = (
    "! The recorder has ended unexpectedly. Another one goes on; what was recorded before is safe, "
    "and the gap is kept with its length."
)

Show = Callable[[RecorderStatus], None]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("record")(record)


def record(
    device: Annotated[str, typer.Option(help="The device to record.")] = "hl2ss",
    setting: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Stop by itself after so long.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The recording's folder; a new one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Record a device until Ctrl-C, or for --seconds. Ends with 1 where nothing good came of it."""
    logs.configure("record")
    folder = out or recordings_dir() / f"recording-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    _must_be_new(folder)
    plugins = load_plugins()
    choice = device_choice(device, setting or ())
    check_devices([choice], plugins)  # what is misspelt leaves no folder behind
    tools = RealTools(plugins)
    with stop_on_interrupt() as stop:
        recording = FreeRecording.begin(folder, choice, tools)
        _tell(as_json, f"Recording into {folder}. Press Ctrl-C to stop.")
        pid = recording.recorder_pid
        end = None if seconds is None else time.monotonic() + seconds
        try:
            with _display(as_json) as show:
                while not stop.wait(_LOOK_S):
                    status = recording.look()
                    if status is None:
                        break
                    if recording.recorder_pid != pid:
                        pid = recording.recorder_pid
                        _tell(as_json, _ANOTHER)
                    show(status)
                    if end is not None and time.monotonic() >= end:
                        break
        finally:
            _tell(as_json, "Closing the recording.")
            result = recording.finish(_progress(as_json))
    if as_json:
        typer.echo(json.dumps(result.to_json(), indent=2))
    else:
        typer.echo(result.words)
        for finding in result.findings:
            typer.echo(f"  {finding}")
    if not result.good:
        raise typer.Exit(FOUND_WRONG)


def _must_be_new(folder: Path) -> None:
    try:
        used = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise SettingsError(
            f"Nothing can be recorded into {folder}: {error.strerror}.",
            try_this="Choose another folder, a new one.",
        ) from error
    if used:
        raise SettingsError(
            f"The folder {folder} is not empty.",
            try_this="Choose a new one: nothing is ever written over.",
        )


class _Display:
    """Streams as a table that is redrawn, or as a line now and then."""

    def __init__(self, silent: bool) -> None:
        self._live = None
        self._silent = silent
        self._last_s = -_PLAIN_EVERY_S
        self._said: list[str] = []
        if not silent and sys.stdout.isatty():
            self._live = Live(console=Console(), refresh_per_second=4, transient=True)

    def __enter__(self) -> Show:
        if self._live is not None:
            self._live.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, status: RecorderStatus) -> None:
        if self._live is not None:
            self._live.update(table(status))
        elif not self._silent:
            self._say(status)

    def _say(self, status: RecorderStatus) -> None:
        said = troubles(status)
        for words in said:
            if words not in self._said:
                typer.echo(f"! {words}")
        self._said = said
        if status.elapsed_s - self._last_s >= _PLAIN_EVERY_S:
            self._last_s = status.elapsed_s
            typer.echo(line(status))


def _display(silent: bool) -> _Display:
    return _Display(silent)


def _tell(silent: bool, words: str) -> None:
    if not silent:
        typer.echo(words)


def _progress(silent: bool) -> Callable[..., None]:
    told: set[str] = set()

    def progress(_done: float, words: str = "") -> None:
        if words and words not in told and not silent:
            told.add(words)
            typer.echo(f"  {words}")

    return progress
