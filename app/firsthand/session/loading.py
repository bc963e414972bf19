"""Reads a protocol with everything it points to, or says line by line why it cannot be run."""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from firsthand.api import ProtocolError
from firsthand.session.checking import checked, did_you_mean
from firsthand.session.protocol import (
    ChoiceField,
    Consent,
    Debrief,
    End,
    Form,
    HeadsetCheck,
    Instructions,
    NumberField,
    Phase,
    Protocol,
    RatingField,
    Record,
)
from firsthand.session.sheets import Sheet, load_sheet
from firsthand.session.source import BadFileError, Node, Place, Problem, read_yaml
from firsthand.session.tasks import HOLE, Acknowledgements, Catalogue

_PART: Final = re.compile(r"[\w][\w .\-]*")


@dataclass(frozen=True, slots=True)
class LoadedProtocol:
    """A protocol that can be run, with its sheets, tasks and the hash that names this version."""

    file: Path
    content: Protocol
    sheets: Mapping[str, Sheet]
    """By the name that the protocol uses for the file."""
    catalogue: Catalogue | None
    acknowledgements: Acknowledgements | None
    hash: str

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that belongs to the protocol, relative to its folder; itself first."""
        named = (self.content.tasks, self.content.acknowledgements)
        return (self.file.name, *self.sheets, *(name for name in named if name))

    def phase(self, name: str) -> Phase:
        """The phase of this id. Raises ``ProtocolError`` with the nearest known one."""
        found = self.content.phase(name)
        if found is None:
            known = [phase.id for phase in self.content.phases]
            raise ProtocolError(
                f"{self.file.name} has no phase {name[:60]!r}.", try_this=did_you_mean(name, known)
            )
        return found


def load_protocol(path: Path) -> LoadedProtocol:
    """The protocol in ``path``. Raises ``BadFileError``, a ``ProtocolError``, naming every problem
    with file, line and column; nothing is ever half loaded."""
    tree = read_yaml(path)
    content = checked(Protocol, tree)
    problems = [*_content_problems(content, tree)]
    folder = path.resolve().parent
    sheets: dict[str, Sheet] = {}
    found: dict[str, Any] = {}
    for name, place in _includes(content, tree):
        if name in sheets or name in found:
            continue
        try:
            file = include_path(folder, name, place)
            if not file.is_file():
                there = [p.relative_to(folder).as_posix() for p in sorted(file.parent.glob("*.*"))]
                hint = did_you_mean(name, there[:20]) if there else None
                problems.append(Problem(place, f"there is no file {name!r} beside it.", hint))
            elif name == content.tasks:
                found[name] = _catalogue(file, name)
            elif name == content.acknowledgements:
                found[name] = checked(Acknowledgements, read_yaml(file, name))
            else:
                sheets[name] = load_sheet(file, name)
        except BadFileError as error:
            problems.extend(error.problems)
    if problems:
        raise BadFileError(problems)
    catalogue = found.get(content.tasks or "")
    acknowledgements = found.get(content.acknowledgements or "")
    return LoadedProtocol(
        file=path,
        content=content,
        sheets=MappingProxyType(sheets),
        catalogue=catalogue,
        acknowledgements=acknowledgements,
        hash=_hash(content, sheets, catalogue, acknowledgements),
    )


def include_path(folder: Path, name: str, place: Place) -> Path:
    """The file that ``name`` means within ``folder``, the protocol's own.

    Raises ``BadFileError`` for anything that would lead out of it, by whatever road.
    """
    parts = name.split("/")
    if not all(_PART.fullmatch(part) and not part.endswith((" ", ".")) for part in parts):
        raise BadFileError(
            [
                Problem(
                    place,
                    f"{name[:80]!r} is not a file in the protocol's own folder.",
                    "Write it as in sheets/start.md, with forward slashes and without '..'.",
                )
            ]
        )
    try:
        file = folder.joinpath(*PurePosixPath(name).parts).resolve()
        inside = file.is_relative_to(folder.resolve())
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise BadFileError(
            [Problem(place, f"{name[:80]!r} leads out of the protocol's folder.", "Copy it in.")]
        )
    return file


def _includes(content: Protocol, tree: Node) -> Iterator[tuple[str, Place]]:
    for key in ("tasks", "acknowledgements"):
        name = getattr(content, key)
        if name:
            yield name, tree.find([key])[1]
    for i, phase in enumerate(content.phases):
        for j, step in enumerate(phase.steps):
            if isinstance(step, Consent | Instructions | Debrief):
                yield step.sheet, tree.find(["phases", i, "steps", j, "sheet"])[1]


def _content_problems(content: Protocol, tree: Node) -> Iterator[Problem]:
    phases = [phase.id for phase in content.phases]
    yield from _doubled(tree, ["phases"], phases, "phase")
    for i, phase in enumerate(content.phases):
        if phase.pairs_with is not None:
            place = tree.find(["phases", i, "pairs_with"])[1]
            if phase.pairs_with == phase.id:
                yield Problem(place, "a phase cannot be paired with itself.")
            elif phase.pairs_with not in phases:
                yield Problem(
                    place,
                    f"there is no phase {phase.pairs_with!r}.",
                    did_you_mean(phase.pairs_with, phases),
                )
        yield from _phase_problems(content, phase, tree, i)


def _phase_problems(content: Protocol, phase: Phase, tree: Node, i: int) -> Iterator[Problem]:
    base: list[str | int] = ["phases", i, "steps"]
    yield from _doubled(tree, base, [step.id for step in phase.steps], "step")
    consented = False
    for j, step in enumerate(phase.steps):
        place = tree.find([*base, j])[1]
        match step:
            case Consent():
                if consented:
                    yield Problem(place, "consent is asked a second time.", "Ask for all at once.")
                consented = True
                yield from _doubled(tree, [*base, j, "scopes"], [s.id for s in step.scopes], "id")
                data = [s.data.value for s in step.scopes if s.data]
                for word, count in Counter(data).items():
                    if count > 1:
                        yield Problem(place, f"two scopes ask about {word!r}.", "Ask once.")
            case Record() if not consented:
                yield Problem(
                    place,
                    f"the step {step.id!r} records before consent was asked.",
                    "Put a step of kind consent before it.",
                )
            case HeadsetCheck() if any(isinstance(s, Record) for s in phase.steps[:j]):
                yield Problem(
                    place,
                    "the headset check comes after a recorded step.",
                    "A device that is recording cannot be checked; put the check before it.",
                )
            case Instructions() if step.with_task and not content.tasks:
                yield Problem(
                    place, "with_task needs a catalogue.", "Add 'tasks: <file>' to the protocol."
                )
            case End() if j + 1 < len(phase.steps):
                yield Problem(place, "steps follow after the end.", "Let it be the last step.")
            case Form():
                yield from _form_problems(step, tree, [*base, j, "fields"])
            case _:
                pass


def _form_problems(form: Form, tree: Node, base: list[str | int]) -> Iterator[Problem]:
    yield from _doubled(tree, base, [field.id for field in form.fields], "field")
    for k, field in enumerate(form.fields):
        place = tree.find([*base, k])[1]
        if isinstance(field, ChoiceField) and len(set(field.choices)) < len(field.choices):
            yield Problem(place, f"a choice of {field.id!r} stands twice.")
        if (
            isinstance(field, RatingField | NumberField)
            and field.lowest is not None
            and field.highest is not None
            and field.lowest >= field.highest
        ):
            yield Problem(place, f"the lowest of {field.id!r} is not below its highest.")


def _doubled(tree: Node, base: Iterable[str | int], ids: list[str], what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for j, name in enumerate(ids):
        if name in seen:
            yield Problem(
                tree.find([*base, j])[1], f"a second {what} is called {name!r}.", "Rename one."
            )
        seen.add(name)


def _catalogue(file: Path, shown: str) -> Catalogue:
    tree = read_yaml(file, shown)
    catalogue = checked(Catalogue, tree)
    problems = [*_doubled(tree, ["families"], [f.id for f in catalogue.families], "family")]
    for i, family in enumerate(catalogue.families):
        base: list[str | int] = ["families", i, "variants"]
        problems += _doubled(tree, base, [v.id for v in family.variants], "variant")
        for j, variant in enumerate(family.variants):
            place = tree.find([*base, j, "task"])[1]
            named = [amount.id for amount in variant.amounts]
            for hole in sorted(set(HOLE.findall(variant.task)) - set(named)):
                problems.append(
                    Problem(
                        place,
                        f"the task speaks of {{{hole}}}, which is not among its amounts.",
                        did_you_mean(hole, named) if named else None,
                    )
                )
            problems.extend(
                Problem(place, f"the lowest of {amount.id!r} is above its highest.")
                for amount in variant.amounts
                if amount.lowest > amount.highest
            )
    if problems:
        raise BadFileError(problems)
    return catalogue


def _hash(content: Protocol, sheets: Mapping[str, Sheet], *others: Any) -> str:
    """SHA-256 of what the protocol means: comments and layout do not count, words do."""
    meant = {
        "protocol": dataclasses.asdict(content)
        | {"check_limits": content.check_limits.model_dump()},
        "sheets": {name: sheet.version for name, sheet in sheets.items()},
        "others": [dataclasses.asdict(other) if other else None for other in others],
    }
    canonical = json.dumps(meant, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
