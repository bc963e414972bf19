"""What is to be done because of a command. An effect is data; the session carries it out."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a session ended. All but refused consent may leave a valid recording."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    PARTICIPANT_STOPPED = "participant_stopped"
    CONSENT_REFUSED = "consent_refused"


class Cue(StrEnum):
    """What the administrator's attention is called to."""

    TASK_COMPLETE = "task_complete"
    TIME_IS_UP = "time_is_up"
    STREAM_LOST = "stream_lost"
    STREAM_BACK = "stream_back"
    RECORDER_DIED = "recorder_died"
    RECORDER_BACK = "recorder_back"
    RECORDER_FAILED = "recorder_failed"


@dataclass(frozen=True, slots=True)
class Effect:
    """Something to be done because of a command."""


@dataclass(frozen=True, slots=True)
class BeginStep(Effect):
    """Show the step and begin a take of it."""

    at: int
    take: int


@dataclass(frozen=True, slots=True)
class EndStep(Effect):
    """The take is over. ``how`` is the name of the command that ended it."""

    at: int
    take: int
    how: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StartTimer(Effect):
    """Send ``TimerElapsed`` after so much time that is not paused."""

    at: int
    take: int
    after_s: float


@dataclass(frozen=True, slots=True)
class HoldTimer(Effect):
    """A pause begins: the timer stands still."""


@dataclass(frozen=True, slots=True)
class FreeTimer(Effect):
    """A pause is over: the timer goes on."""


@dataclass(frozen=True, slots=True)
class StartRecorder(Effect):
    """Start recording; answer with ``RecorderStarted`` or ``RecorderFailed``."""


@dataclass(frozen=True, slots=True)
class ResumeRecorder(Effect):
    """Begin a new stretch after the recorder died; answer as for ``StartRecorder``."""


@dataclass(frozen=True, slots=True)
class StopRecorder(Effect):
    """Close the recording; answer with ``RecorderStopped``."""


@dataclass(frozen=True, slots=True)
class Tell(Effect):
    """Call the administrator's attention to something."""

    cue: Cue
    stream: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CloseSession(Effect):
    """Everything is over: make the recording's file from its log, check it, close the journal."""

    outcome: Outcome
