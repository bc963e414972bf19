"""``firsthand check``: is a recording sound?"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firsthand.cli import FOUND_WRONG
from firsthand.cli.progress import shown

_COLOURS = {"good": "green", "degraded": "yellow", "bad": "red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check_path)


def check_path(
    path: Annotated[Path, typer.Argument(help="A session's folder, or its raw.h5.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    max_lost: Annotated[
        float | None, typer.Option(help="Share of packets that may be lost, 0 to 1.", min=0, max=1)
    ] = None,
    max_gap: Annotated[
        float | None, typer.Option(help="Longest gap that may be, in seconds.", min=0)
    ] = None,
) -> None:
    """Look at everything in a recording and give one verdict: good, degraded or bad.

    Ends with 0 for a good recording and with 1 for any other.
    """
    from firsthand.recording.check import check, limits_of
    from firsthand.recording.check_report import Verdict

    asked = {"lost_share": max_lost, "longest_gap_s": max_gap}
    limits = limits_of(path, {key: value for key, value in asked.items() if value is not None})
    with shown(f"checking {path.name}", quiet=as_json) as progress:
        report = check(path, limits=limits, progress=progress)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        _print(report.to_json())
    if report.verdict is not Verdict.GOOD:
        raise typer.Exit(FOUND_WRONG)


def _print(report: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "verdict", ""):
        table.add_column(heading)
    for finding in report["findings"]:
        verdict = finding["verdict"]
        table.add_row(
            Text(finding["about"]),
            finding["what"],
            Text(verdict, style=_COLOURS[verdict]),
            Text(finding["words"]),
        )
    console.print(table)
    verdict = report["verdict"]
    console.print(Text(f"{report['path']}: {verdict.upper()}", style=f"bold {_COLOURS[verdict]}"))
