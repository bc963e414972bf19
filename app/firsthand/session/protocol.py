"""What a protocol says, as frozen data: phases, steps, consent, limits.

Every class is checked by pydantic when it is made from YAML and cannot be changed afterwards.
``loading`` reads the file; nothing in here touches a disk.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from firsthand.api import StreamRole
from firsthand.recording.check_report import CheckLimits
from firsthand.session.names import SLUG

FORMAT: Final = "firsthand-protocol"
_STRICT: Final = ConfigDict(extra="forbid", strict=True)

Slug = Annotated[str, Field(pattern=f"^{SLUG}$")]
Line = Annotated[str, Field(min_length=1, max_length=300, pattern=r"\S")]
Text = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"\S")]
Include = Annotated[str, Field(min_length=1, max_length=200)]
"""A file in the protocol's own folder or below it, with forward slashes."""
Seconds = Annotated[float, Field(gt=0, le=8 * 3600)]


class DataType(StrEnum):
    """What consent is asked about: the kinds of data a headset delivers."""

    VIDEO = "video"
    GAZE = "gaze"
    HANDS = "hands"
    SOUND = "sound"
    CAMERAS = "cameras"
    DEPTH = "depth"
    MOTION = "motion"

    @property
    def role(self) -> StreamRole:
        """The role of the streams that carry it."""
        return _ROLES[self]


_ROLES: Final = {
    DataType.VIDEO: StreamRole.VIDEO,
    DataType.GAZE: StreamRole.GAZE,
    DataType.HANDS: StreamRole.HANDS,
    DataType.SOUND: StreamRole.MICROPHONE,
    DataType.CAMERAS: StreamRole.CAMERA,
    DataType.DEPTH: StreamRole.DEPTH,
    DataType.MOTION: StreamRole.MOTION,
}


class AtLimit(StrEnum):
    """What happens when a step's time is up."""

    CUE = "cue"
    """The administrator is told; nothing else."""
    NEXT = "next"
    """The session goes on to the next step."""


class Who(StrEnum):
    """Who does a step."""

    PARTICIPANT = "participant"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True, config=_STRICT)
class Scope:
    """One thing a participant agrees to or not.

    With ``data`` it decides what is recorded; without, it is a use that the answer is kept for.
    A "no" to a ``required`` one ends the session before anything is recorded.
    """

    id: Slug
    text: Text
    data: DataType | None = None
    required: bool = False


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class _Step:
    id: Slug
    title: Line
    say: Text | None = None
    """What the participant reads or hears at this step, besides the sheet."""
    note: Text | None = None
    """For the administrator alone."""
    expected_s: Seconds | None = None
    """How long it usually takes."""
    skippable: bool = True


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Consent(_Step):
    """The participant reads a sheet and answers each scope. Cannot be skipped."""

    kind: Literal["consent"]
    sheet: Include
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=40)]
    skippable: Literal[False] = False


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Checklist(_Step):
    """Points to be ticked off, each of them."""

    kind: Literal["checklist"]
    items: Annotated[tuple[Line, ...], Field(min_length=1, max_length=60)]
    by: Who = Who.ADMINISTRATOR


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Instructions(_Step):
    """A sheet that the participant reads."""

    kind: Literal["instructions"]
    sheet: Include
    with_task: bool = False
    """Whether the second sheet, with the task of this session, follows."""


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class HeadsetCheck(_Step):
    """Every device is looked over before anything is recorded."""

    kind: Literal["headset_check"]
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 20.0


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Record(_Step):
    """The participant does the task while everything consented to is recorded."""

    kind: Literal["record"]
    think_aloud: bool = True
    limit_s: Seconds | None = None
    at_limit: AtLimit = AtLimit.CUE
    keyword: Line | None = None
    """Words that tell that the task is done. Hearing them cues the administrator and nothing
    else: they never stop a recording."""


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class TextField:
    """A typed answer."""

    id: Slug
    kind: Literal["text"]
    ask: Text
    required: bool = True
    most_signs: Annotated[int, Field(ge=1, le=20_000)] = 4000


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class ChoiceField:
    """One of several answers."""

    id: Slug
    kind: Literal["choice"]
    ask: Text
    choices: Annotated[tuple[Line, ...], Field(min_length=2, max_length=40)]
    required: bool = True


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class RatingField:
    """A whole number between two ends that have words."""

    id: Slug
    kind: Literal["rating"]
    ask: Text
    lowest: int = 1
    highest: int = 7
    lowest_means: Line | None = None
    highest_means: Line | None = None
    required: bool = True


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class NumberField:
    """A number, perhaps between limits."""

    id: Slug
    kind: Literal["number"]
    ask: Text
    lowest: float | None = None
    highest: float | None = None
    unit: Line | None = None
    required: bool = True


FormField = Annotated[
    TextField | ChoiceField | RatingField | NumberField, Field(discriminator="kind")
]


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Form(_Step):
    """Questions that somebody answers by typing or choosing."""

    kind: Literal["form"]
    fields: Annotated[tuple[FormField, ...], Field(min_length=1, max_length=60)]
    by: Who = Who.PARTICIPANT


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Break(_Step):
    """A rest."""

    kind: Literal["break"]
    limit_s: Seconds
    at_limit: AtLimit = AtLimit.NEXT


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class Debrief(_Step):
    """A sheet that the participant reads afterwards."""

    kind: Literal["debrief"]
    sheet: Include


@dataclass(frozen=True, slots=True, config=_STRICT, kw_only=True)
class End(_Step):
    """Thanks, and what to do now. The last step of a phase, if it is there."""

    kind: Literal["end"]


Step = Annotated[
    Consent | Checklist | Instructions | HeadsetCheck | Record | Form | Break | Debrief | End,
    Field(discriminator="kind"),
]
STEP_KINDS: Final = (
    Consent, Checklist, Instructions, HeadsetCheck, Record, Form, Break, Debrief, End,
)  # fmt: skip
FIELD_KINDS: Final = (TextField, ChoiceField, RatingField, NumberField)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Phase:
    """One part of a study that a participant goes through in one session."""

    id: Slug
    title: Line
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=100)]
    pairs_with: Slug | None = None
    """The phase whose recordings this one is given: one recording of somebody else."""

    @property
    def records(self) -> bool:
        """Whether anything is recorded in it."""
        return any(isinstance(step, Record) for step in self.steps)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Protocol:
    """A study protocol as it stands in its file."""

    format: Literal["firsthand-protocol"]
    version: Annotated[int, Field(ge=1, le=1)]
    name: Slug
    title: Line
    phases: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=10)]
    description: Text | None = None
    tasks: Include | None = None
    """The task catalogue."""
    acknowledgements: Include | None = None
    """What the assistant says when it has been called."""
    check_limits: CheckLimits = CheckLimits()
    """From where on a recording of this study is no longer called good."""

    def phase(self, name: str) -> Phase | None:
        """The phase with this id."""
        return next((phase for phase in self.phases if phase.id == name), None)
