"""Instruction sheets: Markdown whose parts are marked, so that a test can say what a sheet holds.

A marker is a line of its own, ``<!-- M-019 -->``, or several in one; what follows, up to the next
marker, belongs to it. Markers are never shown.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from firsthand.session.source import Place, read_text, wrong

_MARKER: Final = re.compile(r"<!--\s*([A-Za-z]+-[0-9]+(?:[\s,]+[A-Za-z]+-[0-9]+)*)\s*-->")
_ITEM: Final = re.compile(r"[A-Za-z]+-[0-9]+")


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a person reads at a step. ``version`` is a hash of its text, kept with each session."""

    file: str
    title: str
    text: str
    version: str
    items: Mapping[str, str]
    """Text by marker, without markers."""


def load_sheet(path: Path, shown: str) -> Sheet:
    """A sheet from its file. Raises ``BadFileError`` where it cannot be read or has no title."""
    return parse_sheet(read_text(path, shown), shown)


def parse_sheet(text: str, shown: str) -> Sheet:
    """A sheet from its text, which begins with a ``# Title``."""
    items: dict[str, list[str]] = {}
    lines: list[str] = []
    title = ""
    current: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        marker = _MARKER.fullmatch(bare)
        if marker:
            current = _ITEM.findall(marker[1])
            for item in current:
                if item in items:
                    wrong(Place(shown, number, 1), f"the marker {item} stands twice.")
                items[item] = []
            continue
        if bare.startswith("<!--"):
            wrong(
                Place(shown, number, 1),
                "this comment is not a marker.",
                "A marker looks like <!-- M-019 --> and has a line of its own.",
            )
        if not title and bare:
            if not bare.startswith("# "):
                wrong(Place(shown, number, 1), "a sheet begins with '# ' and its title.")
            title = bare[2:].strip()
        lines.append(line.rstrip())
        for item in current:
            items[item].append(line.rstrip())
    if not title:
        wrong(Place(shown, 1, 1), "the sheet is empty.")
    shown_text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    return Sheet(
        file=shown,
        title=title,
        text=shown_text,
        version=hashlib.sha256(shown_text.encode()).hexdigest(),
        items=MappingProxyType({k: "\n".join(v).strip() for k, v in items.items()}),
    )
