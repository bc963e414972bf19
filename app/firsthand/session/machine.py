"""The session as a table: status and command give the next status and what is to be done.

No clock, file, thread or window in here. A timer that runs out is one more command, and so is a
recorder that dies; who carries the effects out tells what became of them by further commands.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from firsthand.api import FirsthandError
from firsthand.session import commands as c
from firsthand.session import effects as e


class Mode(StrEnum):
    """Where a session stands as a whole."""

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    CLOSING = "closing"
    """Over for the participant; the recorder has been asked to end and has not yet."""
    ENDED = "ended"


class Recorder(StrEnum):
    """Where the recorder stands, as far as the session knows."""

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    DOWN = "down"
    """It died; a new stretch is being begun."""
    STOPPING = "stopping"
    CLOSED = "closed"
    """What is recorded is closed for good."""
    FAILED = "failed"
    """It cannot be had. What was recorded before is closed and kept."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What the machine needs to know of a step."""

    id: str
    records: bool = False
    skippable: bool = True
    limit_s: float | None = None
    next_at_limit: bool = False
    refusable: bool = False
    """Whether it asks for consent."""


@dataclass(frozen=True, slots=True)
class Status:
    """A frozen picture of a session: everything that windows draw themselves from."""

    steps: tuple[StepShape, ...]
    mode: Mode = Mode.READY
    at: int = 0
    takes: tuple[int, ...] = ()
    """How often each step was begun."""
    recorder: Recorder = Recorder.OFF
    lost: frozenset[str] = frozenset()
    """Streams that deliver nothing at the moment."""
    consented: bool = False
    complete_heard: bool = False
    """Whether the agreed words were heard in this take."""
    time_is_up: bool = False
    outcome: e.Outcome | None = None

    @property
    def step(self) -> StepShape:
        """The step that the session is at."""
        return self.steps[self.at]

    @property
    def take(self) -> int:
        """Which take of the step this is, from 1; 0 before the first."""
        return self.takes[self.at] if self.takes else 0

    @property
    def over(self) -> bool:
        """Whether the participant is done."""
        return self.mode in {Mode.CLOSING, Mode.ENDED}


class NotNowError(FirsthandError):
    """A command that makes no sense at this moment. Nothing has happened."""


Result = tuple[Status, list[e.Effect]]
_RECORDING: Final = {Recorder.STARTING, Recorder.ON, Recorder.DOWN}


def begin(steps: Iterable[StepShape]) -> Status:
    """A session that has not started. Raises ``ValueError`` without steps."""
    shapes = tuple(steps)
    if not shapes:
        raise ValueError("a session has at least one step")
    return Status(steps=shapes, takes=(0,) * len(shapes))


def advance(now: Status, command: c.Command) -> Result:
    """Give the status after a command, and what is to be done about it.

    Raises ``NotNowError``, with words for the administrator, where a person asked for something
    that is not possible now. News (a timer, a stream, the recorder) is never refused: what comes
    too late changes nothing.
    """
    news = _news(now, command)
    if news is not None:
        return news
    match now.mode, command:
        case Mode.READY, c.Start():
            return _enter(replace(now, mode=Mode.RUNNING), 0)
        case Mode.READY, c.Stop() | c.ParticipantStopped():
            return _end(now, command)
        case Mode.RUNNING, c.ConsentGiven() if now.step.refusable:
            return replace(now, consented=True), []
        case Mode.RUNNING, c.Next() if now.step.refusable and not now.consented:
            raise NotNowError("Consent has not been answered yet.")
        case Mode.RUNNING, c.Next():
            return _leave(now, command)
        case Mode.RUNNING, c.Skip() if not now.step.skippable:
            raise NotNowError(f"The step {now.step.id} cannot be left out.")
        case Mode.RUNNING, c.Skip(reason=reason) if not reason.strip():
            raise NotNowError("A step is left out only with a reason.")
        case Mode.RUNNING, c.Skip():
            return _leave(now, command)
        case Mode.RUNNING, c.Repeat():
            return _again(now, command, now.at)
        case Mode.RUNNING, c.Back() if now.at == 0:
            raise NotNowError("This is the first step.")
        case Mode.RUNNING, c.Back():
            return _again(now, command, now.at - 1)
        case Mode.RUNNING, c.ConsentRefused() if now.step.refusable:
            return _end(now, command)
        case Mode.RUNNING, c.Pause():
            return replace(now, mode=Mode.PAUSED), [e.HoldTimer()]
        case Mode.PAUSED, c.Resume():
            return replace(now, mode=Mode.RUNNING), [e.FreeTimer()]
        case Mode.RUNNING | Mode.PAUSED, c.Stop() | c.ParticipantStopped():
            return _end(now, command)
    words = command.name.replace("_", " ")
    raise NotNowError(f"'{words}' is not possible while the session is {now.mode.value}.")


def _enter(now: Status, at: int) -> Result:
    takes = tuple(n + (i == at) for i, n in enumerate(now.takes))
    after = replace(now, at=at, takes=takes, complete_heard=False, time_is_up=False)
    if after.step.refusable:
        after = replace(after, consented=False)
    effects: list[e.Effect] = []
    if after.step.records and after.recorder is Recorder.OFF:
        # Before the step is shown: nobody is asked to begin while nothing is recorded.
        after = replace(after, recorder=Recorder.STARTING)
        effects.append(e.StartRecorder())
    effects.append(e.BeginStep(at, after.take))
    if after.step.limit_s is not None:
        effects.append(e.StartTimer(at, after.take, after.step.limit_s))
    return after, effects


def _leave(now: Status, command: c.Command) -> Result:
    if now.at + 1 == len(now.steps):
        return _end(now, command)
    left = [_end_step(now, command)]
    if now.recorder in _RECORDING and not any(s.records for s in now.steps[now.at + 1 :]):
        # Nobody is recorded who believes that the recorded part is over.
        now = replace(now, recorder=Recorder.STOPPING, lost=frozenset())
        left.append(e.StopRecorder())
    after, effects = _enter(now, now.at + 1)
    return after, [*left, *effects]


def _again(now: Status, command: c.Command, at: int) -> Result:
    closed = now.recorder in {Recorder.STOPPING, Recorder.CLOSED, Recorder.FAILED}
    if now.steps[at].records and closed:
        raise NotNowError(
            "The recording of this session is closed and stays as it is.",
            try_this="Begin another session with this participant to record the task again.",
        )
    if now.steps[at].refusable and now.recorder is not Recorder.OFF:
        raise NotNowError(
            "Consent was answered before the recording began and holds for all of it.",
            try_this="If the participant no longer agrees, choose 'participant stopped'.",
        )
    after, effects = _enter(now, at)
    return after, [_end_step(now, command), *effects]


def _end_step(now: Status, command: c.Command) -> e.Effect:
    return e.EndStep(now.at, now.take, command.name, getattr(command, "reason", ""))


def _end(now: Status, command: c.Command) -> Result:
    outcomes = {
        c.Stop: e.Outcome.STOPPED,
        c.ParticipantStopped: e.Outcome.PARTICIPANT_STOPPED,
        c.ConsentRefused: e.Outcome.CONSENT_REFUSED,
    }
    outcome = outcomes.get(type(command), e.Outcome.COMPLETED)
    effects: list[e.Effect] = [] if now.mode is Mode.READY else [_end_step(now, command)]
    after = replace(now, outcome=outcome, lost=frozenset())
    if now.recorder in _RECORDING:
        after = replace(after, mode=Mode.CLOSING, recorder=Recorder.STOPPING)
        return after, [*effects, e.StopRecorder()]
    if now.recorder is Recorder.STOPPING:
        return replace(after, mode=Mode.CLOSING), effects
    return replace(after, mode=Mode.ENDED), [*effects, e.CloseSession(outcome)]


def _news(now: Status, command: c.Command) -> Result | None:
    """What something that happened changes; None for what a person asks for."""
    match command:
        case c.TimerElapsed():
            return _time_is_up(now, command)
        case c.TaskCompleteHeard():
            if now.mode is not Mode.RUNNING or not now.step.records or now.complete_heard:
                return now, []
            return replace(now, complete_heard=True), [e.Tell(e.Cue.TASK_COMPLETE)]
        case c.StreamLost(stream=stream, reason=reason):
            if now.recorder not in _RECORDING or stream in now.lost:
                return now, []
            after = replace(now, lost=now.lost | {stream})
            return after, [e.Tell(e.Cue.STREAM_LOST, stream, reason)]
        case c.StreamBack(stream=stream):
            if stream not in now.lost:
                return now, []
            after = replace(now, lost=now.lost - {stream})
            return after, [e.Tell(e.Cue.STREAM_BACK, stream)]
        case c.RecorderStarted() | c.RecorderDied() | c.RecorderFailed() | c.RecorderStopped():
            return _of_recorder(now, command)
    return None


def _time_is_up(now: Status, command: c.TimerElapsed) -> Result:
    late = (command.at, command.take) != (now.at, now.take)
    if late or now.mode is not Mode.RUNNING or now.time_is_up:
        return now, []
    after = replace(now, time_is_up=True)
    if now.step.next_at_limit:
        return _leave(after, command)
    return after, [e.Tell(e.Cue.TIME_IS_UP)]


def _of_recorder(now: Status, command: c.Command) -> Result:
    match now.recorder, command:
        case Recorder.STARTING, c.RecorderStarted():
            return replace(now, recorder=Recorder.ON), []
        case Recorder.DOWN, c.RecorderStarted():
            return replace(now, recorder=Recorder.ON), [e.Tell(e.Cue.RECORDER_BACK)]
        case Recorder.STARTING | Recorder.ON, c.RecorderDied():
            after = replace(now, recorder=Recorder.DOWN, lost=frozenset())
            return after, [e.Tell(e.Cue.RECORDER_DIED), e.ResumeRecorder()]
        case Recorder.STARTING, c.RecorderFailed(reason=reason):
            # Nothing is recorded yet, so repeating the step may try again.
            after = replace(now, recorder=Recorder.OFF, lost=frozenset())
            return after, [e.Tell(e.Cue.RECORDER_FAILED, reason=reason)]
        case Recorder.ON | Recorder.DOWN, c.RecorderFailed(reason=reason):
            after = replace(now, recorder=Recorder.FAILED, lost=frozenset())
            return after, [e.Tell(e.Cue.RECORDER_FAILED, reason=reason)]
        case Recorder.STOPPING, c.RecorderStopped() | c.RecorderDied():
            return _closed(now, Recorder.CLOSED)
        case Recorder.STOPPING, c.RecorderFailed():
            return _closed(now, Recorder.FAILED)
    return now, []


def _closed(now: Status, recorder: Recorder) -> Result:
    after = replace(now, recorder=recorder, lost=frozenset())
    if now.mode is Mode.CLOSING and now.outcome is not None:
        return replace(after, mode=Mode.ENDED), [e.CloseSession(now.outcome)]
    return after, []
