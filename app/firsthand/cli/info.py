"""``firsthand info``: what is in a recording."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("info")(show)


def show(
    path: Annotated[Path, typer.Argument(help="A session's folder, or its raw.h5.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Tell what is in a recording. The file is looked over in a limited process first."""
    from firsthand.recording.info import facts

    found = facts(path)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console()
    for line in _head(found):
        console.print(Text(line))
    console.print(_table(found["streams"]))
    for note in found["notes"]:
        console.print(Text(note))


def _head(found: dict[str, Any]) -> list[str]:
    session = found["session"]
    named = [str(session[key]) for key in ("id", "participant", "phase") if session.get(key)]
    minutes, seconds = divmod(found["duration_s"], 60)
    size = f"{found['bytes'] / 1e6:.1f} MB"
    lines = [
        f"{found['path']}  ({', '.join(dict.fromkeys(named)) or 'no session named'})",
        f"{found['start_utc']}, {minutes:.0f} min {seconds:.1f} s, {size}, {found['state']}"
        + (", a rehearsal" if found["rehearsal"] else ""),
    ]
    lines += [
        f"clock {fit['clock']}: {fit['pairs']} pairs, drift {fit['rate_ppm']:+.1f} ppm,"
        f" residual {fit['residual_p95_ns'] / 1e6:.2f} ms"
        for fit in found["clocks"]
        if fit["clock"] != "utc"
    ]
    if found["calibrations"]:
        lines.append(f"calibrations: {', '.join(found['calibrations'])}")
    return lines


def _table(streams: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stream")
    table.add_column("what")
    for heading in ("packets", "Hz", "from s", "to s", "lost", "MB"):
        table.add_column(heading, justify="right")
    for stream in streams:
        first, last = stream["first_s"], stream["last_s"]
        table.add_row(
            Text(stream["name"]),
            Text(_what(stream)),
            str(stream["packets"]),
            f"{stream['nominal_hz']:g}",
            "" if first is None else f"{first:.2f}",
            "" if last is None else f"{last:.2f}",
            str(stream["lost"]),
            f"{stream['bytes'] / 1e6:.2f}",
        )
    return table


def _what(stream: dict[str, Any]) -> str:
    words = stream["payload"] if stream["payload"] != "none" else stream["role"]
    if stream["size_px"]:
        words += f" {stream['size_px'][0]}×{stream['size_px'][1]}"
    if stream["sample_hz"]:
        words += f" {stream['sample_hz'] / 1000:g} kHz × {stream['channels']}"
    return str(words)
