"""``firsthand simulate``: a stand-in for a device, on this computer, for any client."""

import json
import logging
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from firsthand.api import SettingsError, SimulatedFault
from firsthand.host import load_plugins

_LOOK_S = 0.1
_FAULT_HELP = (
    "Something that goes wrong, as kind:stream:at=SECONDS:for=SECONDS and further key=value; the "
    "stream may be left out. May be given several times."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    name: Annotated[str, typer.Argument(help="The device to stand in for.")] = "hl2ss",
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    base_port: Annotated[int | None, typer.Option(help="First port, where it has several.")] = None,
    source: Annotated[str | None, typer.Option(help="What it shows: a scene or a folder.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same world.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="File for the account of packets.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Folder for what is known for sure.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as key=value.")
    ] = None,
    fault: Annotated[list[str] | None, typer.Option(help=_FAULT_HELP)] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End by itself after so long.")
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Tell of each connection.")] = False,
) -> None:
    """Simulate a device until Ctrl-C, or for --seconds."""
    if verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(message)s")
    named = {
        "host": host,
        "base_port": base_port,
        "source": source,
        "seed": seed,
        "ledger": str(ledger) if ledger is not None else None,
        "truth_folder": str(truth) if truth is not None else None,
    }
    settings = {key: value for key, value in named.items() if value is not None}
    settings |= dict(parse_setting(text) for text in setting or ())
    faults = [parse_fault(text) for text in fault or ()]
    simulator = load_plugins().make_simulator(name, settings)
    for planned in faults:
        simulator.fault(planned)
    with stop_signals() as stopped, simulator:
        typer.echo(simulator.words())
        typer.echo("Press Ctrl-C to end it." if seconds is None else f"Ends after {seconds:g} s.")
        end = None if seconds is None else time.monotonic() + seconds
        # In short waits: where a wait cannot be interrupted, the signal is seen after it.
        while not stopped.wait(_LOOK_S):
            if end is not None and time.monotonic() >= end:
                break
    typer.echo("The simulator has ended.")


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and a polite request to end (SIGTERM) set."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parse_setting(text: str) -> tuple[str, Any]:
    """``key=value``; the value is read as JSON where it is JSON, else as text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SettingsError(f"{text!r} is not a setting.", try_this="Write it as key=value.")
    return key.replace("-", "_"), _value(value)


def parse_fault(text: str) -> SimulatedFault:
    """``kind[:stream][:at=S][:for=S][:key=value …]``. Raises ``SettingsError``."""
    kind, *rest = text.split(":")
    stream = rest.pop(0) if rest and "=" not in rest[0] else ""
    about = dict(_fault_values(text, rest))
    at_s, for_s = about.pop("at", 0.0), about.pop("for", 0.0)
    numbers = all(
        isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in (at_s, for_s)
    )
    if not kind or not numbers:
        raise SettingsError(
            f"{text!r} is not a fault.",
            try_this="Write it as kind:stream:at=SECONDS:for=SECONDS, such as stall:pv:at=5:for=2.",
        )
    return SimulatedFault(kind, stream, float(at_s), float(for_s), about)


def _fault_values(text: str, parts: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for part in parts:
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise SettingsError(
                f"{part!r} in the fault {text!r} is not understood.",
                try_this="After kind and stream come key=value, such as at=5.",
            )
        yield key, _value(value)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
