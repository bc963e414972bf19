"""The task catalogue: families of tasks and their variants, as data that researchers edit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from random import Random
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from firsthand.api import SettingsError
from firsthand.session.checking import did_you_mean
from firsthand.session.protocol import Line, Slug, Text

_STRICT: Final = ConfigDict(extra="forbid", strict=True)
HOLE: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, config=_STRICT)
class Amount:
    """A whole number that is drawn anew for each session, such as a count of scoops."""

    id: Slug
    what: Line
    lowest: Annotated[int, Field(ge=0, le=1000)]
    highest: Annotated[int, Field(ge=0, le=1000)]


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Variant:
    """One task as a demonstrator is given it. ``{name}`` in the text is an amount."""

    id: Slug
    title: Line
    task: Text
    materials: tuple[Line, ...] = ()
    amounts: tuple[Amount, ...] = ()


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Family:
    """Tasks of one sort: what is watched in them, and what the second participant is told."""

    id: Slug
    title: Line
    observed: Line
    goal: Line
    """The one broad sentence that the participant of the second phase gets."""
    prepare: tuple[Line, ...]
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=40)]


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Catalogue:
    """All task families of a study."""

    format: Literal["firsthand-tasks"]
    families: Annotated[tuple[Family, ...], Field(min_length=1, max_length=40)]

    def ids(self) -> tuple[str, ...]:
        """Every task as ``family/variant``, in the catalogue's order."""
        return tuple(f"{f.id}/{v.id}" for f in self.families for v in f.variants)

    def task(self, task_id: str, seed: str) -> "Task":
        """A task with its amounts drawn: the same ``seed`` always draws the same.

        Raises ``SettingsError`` with the nearest known task where there is none of that id.
        """
        for family in self.families:
            for variant in family.variants:
                if f"{family.id}/{variant.id}" == task_id:
                    # Drawn and not chosen: nobody's habit decides who gets how many scoops.
                    draw = Random(f"{task_id} {seed}")  # noqa: S311 – a draw, not a secret
                    amounts = {a.id: draw.randint(a.lowest, a.highest) for a in variant.amounts}
                    return Task(task_id, family, variant, amounts)
        raise SettingsError(
            f"There is no task {task_id[:80]!r} in the catalogue.",
            try_this=did_you_mean(task_id, self.ids()),
        )


@plain_dataclass(frozen=True, slots=True)
class Task:
    """The task of one session."""

    id: str
    family: Family
    variant: Variant
    amounts: Mapping[str, int]

    @property
    def sheet(self) -> str:
        """The second sheet of a demonstration: the task itself, as Markdown."""
        text = HOLE.sub(lambda found: str(self.amounts[found[1]]), self.variant.task)
        things = "".join(f"- {thing}\n" for thing in self.variant.materials)
        lying = f"\nLying ready for you:\n\n{things}" if things else ""
        return f"# {self.variant.title}\n\n{text.strip()}\n{lying}"

    @property
    def goal_sheet(self) -> str:
        """The second sheet of a replication: one broad sentence, and nothing that was shown."""
        return f"# Your task\n\n{self.family.goal}\n"


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Acknowledgements:
    """What the assistant answers to its name, in three flavours, before it listens."""

    format: Literal["firsthand-acknowledgements"]
    offer: Line
    go_ahead: Line
    presence: Line
