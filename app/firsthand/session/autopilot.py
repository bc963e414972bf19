"""Takes the participant's and the administrator's part: goes through a session without a person."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from firsthand.recording.recorder_settings import RecorderStatus
from firsthand.session import commands as c
from firsthand.session.machine import Mode, Recorder
from firsthand.session.protocol import (
    Break,
    Checklist,
    ChoiceField,
    Consent,
    Form,
    FormField,
    HeadsetCheck,
    NumberField,
    RatingField,
    Record,
)
from firsthand.session.result import Result
from firsthand.session.session import Session
from firsthand.streams.health import SILENT

BY: Final = "autopilot"
_LOOK_S: Final = 0.25
_WARM_UP_S: Final = 12.0
"""So long it waits for every stream before the task's time begins to count."""
_AFTER_WORDS_S: Final = 0.5
_CATCH_UP_S: Final = 10.0
_LATE_MS: Final = 400.0


@dataclass(frozen=True, slots=True)
class Script:
    """What the autopilot says and how long it takes.

    ``refuse`` are the consent points it answers with no; every other is a yes.
    """

    task_s: float = 25.0
    refuse: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Answers to text questions by their id."""


Tick = Callable[[RecorderStatus | None, float, float], None]
"""Told about four times a second while a task is recorded: the recorder's status, seconds of the
task so far, and of how many."""


def fly(
    session: Session,
    script: Script,
    *,
    tick: Tick = lambda *_: None,
    stop: threading.Event | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock_s: Callable[[], float] = time.monotonic,
) -> Result:
    """Go through the whole session and close it; ``stop`` ends it early, and cleanly.

    A step that fails (nothing could be recorded) ends the session with its reason, too: nobody is
    there who could mend it.
    """
    pilot = _Pilot(session, script, tick, stop or threading.Event(), sleep, clock_s)
    try:
        pilot.fly()
    finally:
        result = session.close("ended by the autopilot")
    return result


class _Pilot:
    def __init__(
        self,
        session: Session,
        script: Script,
        tick: Tick,
        stop: threading.Event,
        sleep: Callable[[float], Any],
        clock_s: Callable[[], float],
    ) -> None:
        self._session = session
        self._script = script
        self._tick = tick
        self._stop = stop
        self._sleep = sleep
        self._clock_s = clock_s

    def fly(self) -> None:
        self._session.do(c.Start(), by=BY)
        while not self._session.status.over:
            begun = self._session.status.takes
            self._step()
            status = self._session.status
            if status.over:
                break
            if self._stop.is_set():
                self._session.do(c.Stop("interrupted"), by=BY)
            elif status.takes == begun:  # else its timer has moved the session on already
                self._session.do(c.Next(), by=BY)

    def _step(self) -> None:
        step = self._session.step
        match step:
            case Consent():
                given = {s.id: s.id not in self._script.refuse for s in step.scopes}
                self._session.answer(given, by=BY)
            case Checklist():
                self._session.answer(dict.fromkeys(step.items, True), by=BY)
            case HeadsetCheck():
                found = self._session.look_over()
                bad = [item for item in found if not item.good]
                if bad:
                    words = " ".join(f"{item.words} {item.try_this}".strip() for item in bad)
                    self._session.do(c.Stop(f"The headset check failed: {words}"), by=BY)
            case Form():
                self._session.answer({f.id: self._invented(f) for f in step.fields}, by=BY)
            case Break():
                self._wait_for(lambda: self._session.status.time_is_up, step.limit_s)
            case Record():
                self._record(step)
            case _:
                pass  # a sheet is read at once

    def _record(self, step: Record) -> None:
        if self._session.status.recorder is not Recorder.ON:
            self._session.do(c.Stop("nothing could be recorded"), by=BY)
            return
        self._wait_for(self._all_live, _WARM_UP_S, shown=0.0)
        began = self._clock_s()
        while not self._ended() and (spent := self._clock_s() - began) < self._script.task_s:
            self._look(spent)
        if not self._ended() and step.keyword is not None:
            self._session.hear(f"{step.keyword}.", by=BY)
            self._wait_for(lambda: False, _AFTER_WORDS_S, shown=self._script.task_s)
        self._wait_for(self._caught_up, _CATCH_UP_S, shown=self._script.task_s)

    def _wait_for(
        self, met: Callable[[], bool], most_s: float, *, shown: float | None = None
    ) -> None:
        began = self._clock_s()
        while not self._ended() and not met() and self._clock_s() - began < most_s:
            self._look(shown)

    def _look(self, spent_s: float | None) -> None:
        self._session.watch()
        if spent_s is not None:
            self._tick(self._session.recorder_status, spent_s, self._script.task_s)
        self._sleep(_LOOK_S)

    def _ended(self) -> bool:
        status = self._session.status
        return self._stop.is_set() or status.mode is not Mode.RUNNING or not self._going(status.at)

    def _going(self, at: int) -> bool:
        step = self._session.plan.phase.steps[at]
        recorder = self._session.status.recorder
        return not isinstance(step, Record) or recorder in {Recorder.ON, Recorder.DOWN}

    def _all_live(self) -> bool:
        status = self._session.recorder_status
        return status is not None and all(stream.word != SILENT for stream in status.streams)

    def _caught_up(self) -> bool:
        """Whether what was seen and said until now has arrived."""
        status = self._session.recorder_status
        return status is None or all(stream.age_ms < _LATE_MS for stream in status.streams)

    def _invented(self, asked: FormField) -> Any:
        match asked:
            case ChoiceField():
                return asked.choices[0]
            case RatingField():
                return (asked.lowest + asked.highest + 1) // 2
            case NumberField():
                return asked.lowest if asked.lowest is not None else (asked.highest or 0.0)
        return self._script.texts.get(asked.id, "An answer that the autopilot made up.")
