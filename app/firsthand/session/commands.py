"""Everything that can be asked of a session, or can happen to it. A command is data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from firsthand.api import RecordingError


@dataclass(frozen=True, slots=True)
class Command:
    """The base of all commands."""

    name: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Start(Command):
    """Begin with the first step."""

    name: ClassVar[str] = "start"


@dataclass(frozen=True, slots=True)
class Next(Command):
    """This step is done."""

    name: ClassVar[str] = "next"


@dataclass(frozen=True, slots=True)
class Back(Command):
    """Show the step before once more."""

    name: ClassVar[str] = "back"


@dataclass(frozen=True, slots=True)
class Skip(Command):
    """Leave this step out, for a reason that is kept."""

    name: ClassVar[str] = "skip"
    reason: str


@dataclass(frozen=True, slots=True)
class Repeat(Command):
    """Do this step again. Both takes are kept."""

    name: ClassVar[str] = "repeat"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause(Command):
    """Hold the session. What is recorded meanwhile is marked as a pause."""

    name: ClassVar[str] = "pause"


@dataclass(frozen=True, slots=True)
class Resume(Command):
    """Go on after a pause."""

    name: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """End the session now, for a reason that is kept."""

    name: ClassVar[str] = "stop"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ParticipantStopped(Command):
    """The participant wants to stop. The recording stays valid."""

    name: ClassVar[str] = "participant_stopped"


@dataclass(frozen=True, slots=True)
class ConsentGiven(Command):
    """Consent was answered, and nothing that the study needs was refused. The answers themselves
    are kept with the session."""

    name: ClassVar[str] = "consent_given"


@dataclass(frozen=True, slots=True)
class ConsentRefused(Command):
    """Something that the study cannot do without was answered with no."""

    name: ClassVar[str] = "consent_refused"


@dataclass(frozen=True, slots=True)
class TimerElapsed(Command):
    """The time of a step is up. ``at`` and ``take`` say of which, since timers run on."""

    name: ClassVar[str] = "timer_elapsed"
    at: int
    take: int


@dataclass(frozen=True, slots=True)
class TaskCompleteHeard(Command):
    """The agreed words were heard. A cue for the administrator and nothing else."""

    name: ClassVar[str] = "task_complete_heard"


@dataclass(frozen=True, slots=True)
class StreamLost(Command):
    """A stream delivers nothing."""

    name: ClassVar[str] = "stream_lost"
    stream: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StreamBack(Command):
    """A stream delivers again."""

    name: ClassVar[str] = "stream_back"
    stream: str


@dataclass(frozen=True, slots=True)
class RecorderStarted(Command):
    """The recorder runs: begun, or begun anew after it had died."""

    name: ClassVar[str] = "recorder_started"


@dataclass(frozen=True, slots=True)
class RecorderDied(Command):
    """The recorder's process is gone without having been asked to go."""

    name: ClassVar[str] = "recorder_died"


@dataclass(frozen=True, slots=True)
class RecorderFailed(Command):
    """A recorder could not be started, or ended by itself and cannot go on (a full disk)."""

    name: ClassVar[str] = "recorder_failed"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecorderStopped(Command):
    """The recorder has closed its files and ended, as it was asked to."""

    name: ClassVar[str] = "recorder_stopped"


COMMANDS: Final[Mapping[str, type[Command]]] = {
    each.name: each
    for each in (
        Start, Next, Back, Skip, Repeat, Pause, Resume, Stop, ParticipantStopped,
        ConsentGiven, ConsentRefused, TimerElapsed, TaskCompleteHeard, StreamLost, StreamBack,
        RecorderStarted, RecorderDied, RecorderFailed, RecorderStopped,
    )
}  # fmt: skip


def command_to_json(command: Command) -> dict[str, Any]:
    """A command for the journal."""
    return {"command": command.name, **dataclasses.asdict(command)}


def command_from_json(data: Mapping[str, Any]) -> Command:
    """The command that ``command_to_json`` wrote. Raises ``RecordingError`` for anything else."""
    about = dict(data)
    shape = COMMANDS.get(str(about.pop("command", "")))
    try:
        if shape is not None:
            return shape(**about)
    except TypeError:
        pass
    raise RecordingError("the journal holds a session command that this version does not know")
