"""YAML read so that everything in it still knows its line: small, plain, and nothing clever.

Anchors, aliases, tags, merge keys, second documents and doubled keys are refused: a protocol must
mean what a person reads in it, and a bomb of aliases must not even be counted.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from firsthand.api import ProtocolError

MOST_BYTES: Final = 1 << 20
DEEPEST: Final = 32
_MOST_NODES: Final = 20_000
_LONGEST_RUN: Final = 64
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]{1,3})?")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]|\r(?!\n)")
_BRACKETS: Final = re.compile(r"[\[{]\s*" * _LONGEST_RUN)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: file, line and column, both from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place; a mapping's or list's parts are nodes again."""

    place: Place
    value: Any
    plain: bool = False
    keys: Mapping[str, Place] = field(default_factory=dict)

    def data(self) -> Any:
        """The bare value, without places."""
        if isinstance(self.value, dict):
            return {key: node.data() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.data() for node in self.value]
        return self.value

    def find(self, path: Sequence[str | int]) -> tuple["Node", Place]:
        """The deepest node on ``path`` and the place to point at.

        Parts of the path that are not in the file (a union's tag, a missing key) are passed over.
        """
        node, place = self, self.place
        for part in path:
            if isinstance(node.value, dict) and part in node.value:
                place = node.keys[str(part)]
                node = node.value[part]
            elif (
                isinstance(node.value, list)
                and isinstance(part, int)
                and 0 <= part < len(node.value)
            ):
                node = node.value[part]
                place = node.place
        return node, place


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file: where, what, and what to do about it."""

    place: Place
    what: str
    try_this: str | None = None

    def __str__(self) -> str:
        words = f"{self.place}: {self.what}"
        return f"{words} {self.try_this}" if self.try_this else words


class BadFileError(ProtocolError):
    """A file that is refused; carries every problem found in it, in the file's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, *others = problems
        more = f" ({len(others)} more below it.)" if others else ""
        super().__init__(f"{first.place}: {first.what}{more}", try_this=first.try_this)
        self.problems = tuple(problems)


def wrong(place: Place, what: str, try_this: str | None = None) -> NoReturn:
    """Refuse a file for one problem. Raises ``BadFileError``."""
    raise BadFileError([Problem(place, what, try_this)])


def _place(name: str, text: str, at: int) -> Place:
    before = text.rfind("\n", 0, at)
    return Place(name, text.count("\n", 0, at) + 1, at - before)


def read_text(path: Path, shown: str | None = None) -> str:
    """A text file of at most 1 MiB in UTF-8. Raises ``ProtocolError`` with a line otherwise."""
    name = shown or path.name
    start = Place(name, 1, 1)
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        wrong(start, "there is no such file.", "Look whether the name is spelt as on disk.")
    except OSError as error:
        wrong(start, f"the file cannot be read ({error.strerror or error}).")
    if len(raw) > MOST_BYTES:
        wrong(start, "the file is larger than 1 MiB.", "Move long texts to sheets of their own.")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        wrong(start, "the file is in UTF-16.", "Save it as UTF-8.")
    raw = raw.removeprefix(b"\xef\xbb\xbf")  # editors on Windows put a mark before UTF-8
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _place(name, raw.decode("latin-1"), error.start)
        wrong(place, "here is a byte that is not UTF-8.", "Save it as UTF-8.")
    found = _CONTROL.search(text)
    if found:
        wrong(_place(name, text, found.start()), f"here is a control sign ({found.group()!a}).")
    return text.replace("\r\n", "\n")


def read_yaml(path: Path, shown: str | None = None) -> Node:
    """The tree of one YAML file. Raises ``ProtocolError`` naming line, column and what is wrong."""
    return parse_yaml(read_text(path, shown), shown or path.name)


def parse_yaml(text: str, name: str) -> Node:
    """The tree of a YAML text; ``name`` stands in the errors' places."""
    _look_for_tabs(text, name)
    _look_for_brackets(text, name)
    try:
        events = _Events(YAML(typ="rt", pure=True).parse(text), name)
        tree = _document(events)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if "end of stream" in str(getattr(error, "problem", "")):
            mark = getattr(error, "context_mark", None) or mark  # what began and never ends
        place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name, 1, 1)
        problem = " ".join(
            str(part)
            for part in (getattr(error, "context", None), getattr(error, "problem", None))
            if part
        )
        wrong(place, f"this is not YAML ({problem or 'unreadable'}).", _hint(problem))
    except (ValueError, RecursionError) as error:
        wrong(Place(name, 1, 1), f"this is not YAML ({error}).")
    return tree


def _hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "A text with a colon in it needs quotes, and a key needs a line of its own."
    if "could not find expected ':'" in problem:
        return "Look for a missing colon after a key, or a text that needs quotes."
    return "Look for a missing quote, bracket or colon here or in the line before."


def _look_for_tabs(text: str, name: str) -> None:
    # Not left to the parser: it speaks of tokens, and the person does not see the tab.
    for number, line in enumerate(text.split("\n"), 1):
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and line.strip():
            wrong(
                Place(name, number, indent.index("\t") + 1),
                "a tab stands in the indentation.",
                "Indent with spaces.",
            )


def _look_for_brackets(text: str, name: str) -> None:
    # The parser looks ahead through every opening bracket before it says the first one.
    found = _BRACKETS.search(text)
    if found:
        wrong(
            _place(name, text, found.start()),
            f"things are nested deeper than {DEEPEST} levels here.",
        )


class _Events:
    """The parser's events one by one, with the limits applied as they pass."""

    def __init__(self, events: Iterator[Any], name: str) -> None:
        self._events = events
        self._name = name
        self.start = Place(name, 1, 1)
        self._nodes = 0

    def place(self, event: Any) -> Place:
        return Place(self._name, event.start_mark.line + 1, event.start_mark.column + 1)

    def take(self) -> tuple[str, Any]:
        event = next(self._events)
        kind = type(event).__name__
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            wrong(
                self.place(event),
                "anchors (&) and aliases (*) are not used here.",
                "Write the value out; put quotes around a text that begins with & or *.",
            )
        if getattr(event, "tag", None):
            wrong(
                self.place(event),
                f"the tag {event.tag!s} is not used here.",
                "Leave the tag away; put quotes around a text that begins with !.",
            )
        if kind in {"ScalarEvent", "MappingStartEvent", "SequenceStartEvent"}:
            self._nodes += 1
            if self._nodes > _MOST_NODES:
                wrong(self.place(event), f"the file holds more than {_MOST_NODES} values.")
        return kind, event


def _document(events: _Events) -> Node:
    tree: Node | None = None
    while True:
        kind, event = events.take()
        if kind == "StreamEndEvent":
            break
        if kind == "DocumentStartEvent":
            if tree is not None:
                wrong(
                    events.place(event), "a second document begins here.", "Use one file for each."
                )
            kind, event = events.take()
            tree = _node(events, kind, event, 1)
    if tree is None:
        wrong(events.start, "the file is empty.")
    return tree


def _node(events: _Events, kind: str, event: Any, depth: int) -> Node:
    place = events.place(event)
    if depth > DEEPEST:
        wrong(place, f"things are nested deeper than {DEEPEST} levels here.")
    if kind == "ScalarEvent":
        plain = bool(event.implicit[0])
        return Node(place, _scalar(str(event.value), place) if plain else str(event.value), plain)
    if kind == "SequenceStartEvent":
        parts: list[Node] = []
        while (following := events.take())[0] != "SequenceEndEvent":
            parts.append(_node(events, *following, depth + 1))
        return Node(place, parts)
    values: dict[str, Node] = {}
    keys: dict[str, Place] = {}
    while (following := events.take())[0] != "MappingEndEvent":
        key_kind, key_event = following
        key_place = events.place(key_event)
        if key_kind != "ScalarEvent":
            wrong(key_place, "a key must be a word, not a list or mapping.")
        key = str(key_event.value)
        if key == "<<":
            wrong(key_place, "merge keys (<<) are not used here.", "Write the values out.")
        if key in values:
            wrong(key_place, f"the key {key!r} stands twice; first in line {keys[key].line}.")
        values[key] = _node(events, *events.take(), depth + 1)
        keys[key] = key_place
    return Node(place, values, keys=keys)


def _scalar(text: str, place: Place) -> Any:
    """What a bare word means: only what cannot be misread becomes more than a text."""
    if text in {"", "~", "null"}:
        return None
    if text in {"true", "false"}:
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and not (len(text) > 1 and text[0] == "0" and text.isdigit()):
        number = float(text)
        if not math.isfinite(number):
            wrong(place, f"the number {text} is too large.")
        return number
    return text
