"""How a measurement is told: a table for people, rows for `docs/performance.md`."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure and, where there is one, the bar it has to clear."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    at_most: bool = True
    """Whether the bar is an upper limit; else it is a lower one."""

    @property
    def good(self) -> bool:
        """Whether the bar is cleared; true where there is none."""
        if self.bar is None:
            return True
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def words(self) -> tuple[str, str, str, str]:
        """The row as four cells: what, measured, bar, verdict."""
        bar = "" if self.bar is None else f"{'≤' if self.at_most else '≥'} {_number(self.bar)}"
        verdict = "" if self.bar is None else "cleared" if self.good else "**missed**"
        return self.what, f"{_number(self.value)} {self.unit}".strip(), bar, verdict


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def arguments(about: str) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes: `--json FILE` and `--short`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    parser.add_argument("--short", action="store_true", help="a quick look, not for the record")
    return parser


def finish(title: str, rows: Sequence[Row], json_file: Path | None, notes: str = "") -> None:
    """Print the rows and, if asked, write them for the collector."""
    print(f"\n{title}")
    for row in rows:
        what, value, bar, verdict = row.words()
        print(f"  {what:<58} {value:>14}  {bar:>9}  {verdict.strip('*')}")
    if notes:
        print(f"  {notes}")
    sys.stdout.flush()
    if json_file is not None:
        told = {"title": title, "notes": notes, "rows": [asdict(row) for row in rows]}
        json_file.write_text(json.dumps(told), encoding="utf-8")
