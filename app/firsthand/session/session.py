"""A session: carries out what the machine says, and writes down what happened before anything else.

Commands come from windows, the command line or an autopilot, from any thread; they are carried
out one after the other. ``watch`` is called about twice a second by whoever drives the session.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from firsthand.api import CheckItem, FirsthandError
from firsthand.recording.recorder_settings import RecorderSettings, RecorderStatus
from firsthand.recording.session_folder import new_session_folder
from firsthand.session import commands as c
from firsthand.session import effects as e
from firsthand.session.answered import Answered
from firsthand.session.consent import is_refused
from firsthand.session.diary import Diary
from firsthand.session.hearing import is_heard
from firsthand.session.keeper import RecorderKeeper
from firsthand.session.machine import Mode, NotNowError, Recorder, Status, advance, begin
from firsthand.session.notices import Level, Listener, Notice, guarded, notice_of
from firsthand.session.plan import SessionPlan
from firsthand.session.protocol import Consent, HeadsetCheck, Record, Step
from firsthand.session.result import Result
from firsthand.session.timer import StepTimer
from firsthand.session.tools import Finished, RunningRecorder, Tools, Verdict


class Session:
    """One session from its first step to its checked recording.

    Made with a plan that was checked. Its folder is new and its journal open from the start;
    ``status`` is a frozen picture at any moment.
    """

    def __init__(
        self,
        plan: SessionPlan,
        tools: Tools,
        listen: Listener = lambda _: None,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self.plan = plan
        self.folder = new_session_folder(plan.study_folder, plan.participant, plan.phase.id)
        self.status: Status = begin(plan.shapes())
        self.result: Result | None = None
        self.headset: tuple[CheckItem, ...] = ()
        """What the last headset check found."""
        self._tools = tools
        self._listen = guarded(listen)
        self._clock_s = clock_s
        self._lock = threading.RLock()
        self._waiting: deque[tuple[c.Command, str]] = deque()
        self._busy = False
        self._keeper = RecorderKeeper(clock_s, sleep)
        self._timer = StepTimer(clock_s)
        self._begun_s = 0.0
        self._answered = Answered()
        self._trouble: list[str] = []
        self._reason = ""
        self._diary = Diary(self.folder, self._shout)
        self._diary.write(
            "session.made", plan.facts(self.folder.name) | {"rehearsal": plan.rehearsal}
        )
        if plan.pairing is not None and plan.pairing.override is not None:
            self._diary.write("pairing.overridden", plan.pairing.to_json(), by="administrator")

    @property
    def step(self) -> Step:
        """The step that the session is at."""
        return self.plan.phase.steps[self.status.at]

    @property
    def recorder_status(self) -> RecorderStatus | None:
        """What the recorder said last, health of every stream included."""
        return self._keeper.status

    @property
    def recorder_pid(self) -> int | None:
        """The recorder's process, while there is one."""
        return self._keeper.pid

    @property
    def answers(self) -> Mapping[str, Any]:
        """What was answered at this step so far."""
        return self._answered.of(self.step)

    def do(self, command: c.Command, *, by: str = "administrator") -> Status:
        """Carry a command out, with everything that follows from it.

        Raises ``NotNowError``, in words, where it is not possible at the moment.
        """
        with self._lock:
            if isinstance(command, c.Next) and self.status.mode is Mode.RUNNING:
                self._answered.nothing_missing(self.step)
            self._waiting.append((command, by))
            if self._busy:  # called by something that is being carried out: it comes in its turn
                return self.status
            self._busy = True
            try:
                while self._waiting:
                    self._one(*self._waiting.popleft())
            finally:
                self._waiting.clear()
                self._busy = False
            return self.status

    def answer(self, answers: Mapping[str, Any], *, by: str = "participant") -> None:
        """Store answers to the step's consent, form or checklist; later ones replace earlier ones.

        Consent is answered whole. Raises ``SettingsError`` for answers that do not fit.
        """
        with self._lock:
            step = self.step
            if self.status.mode is not Mode.RUNNING:
                raise NotNowError("Nothing can be answered at the moment.")
            kind, fitting = self._answered.take(step, answers)
            self._diary.write(kind, {"step": step.id, "take": self.status.take, **fitting}, by=by)
            if isinstance(step, Consent):
                refused = is_refused(step, self._answered.consent)
                self.do(c.ConsentRefused() if refused else c.ConsentGiven(), by=by)

    def mark(self, words: str, *, by: str = "administrator") -> None:
        """Keep a remark, with its time, in the journal."""
        with self._lock:
            self._diary.write("mark", {"step": self.step.id, "words": words}, by=by)

    def hear(self, words: str, *, by: str = "participant") -> None:
        """Take in words that were said. Agreed ones cue the administrator, and nothing else."""
        with self._lock:
            step = self.step
            if isinstance(step, Record) and step.keyword and is_heard(step.keyword, words):
                self.do(c.TaskCompleteHeard(), by=by)

    def look_over(self) -> tuple[CheckItem, ...]:
        """Check the devices, as the headset check asks for. Raises ``NotNowError`` elsewhere."""
        with self._lock:
            step = self.step
            if not isinstance(step, HeadsetCheck) or self.status.mode is not Mode.RUNNING:
                raise NotNowError("The headset is checked at its own step only.")
            devices = self._tools.without(
                self.plan.devices, self._answered.refused(self.plan.phase)
            )
            self.headset = tuple(self._tools.look_over(devices, step.timeout_s))
            found = [
                {"name": item.name, "good": item.good, "words": item.words} for item in self.headset
            ]
            self._diary.write("headset.checked", {"items": found})
            return self.headset

    def watch(self) -> Status:
        """Look at the recorder, its streams and the time, and send what became of them."""
        with self._lock:
            for command in (*self._look_at_recorder(), *self._timer.elapsed()):
                self.do(command, by="app")
            return self.status

    def close(self, reason: str = "") -> Result:
        """End the session wherever it is, and give what it left behind. May be called twice."""
        with self._lock:
            if not self.status.over:
                self.do(c.Stop(reason), by="app")
            if self.result is None:  # the recorder was asked to end and never answered
                self.do(c.RecorderFailed("it did not answer"), by="app")
            if self.result is None:
                self._close_session(self.status.outcome or e.Outcome.STOPPED)
            assert self.result is not None  # noqa: S101 – for the reader and for mypy
            return self.result

    def leave(self) -> None:
        """Let the recorder run on without this program, which is about to end or to hang."""
        with self._lock:
            self._keeper.detach()
            self._diary.close()

    def _one(self, command: c.Command, by: str) -> None:
        after, effects = advance(self.status, command)
        if after == self.status and not effects:
            return
        # Written before it is carried out: who starts again after a crash knows what was meant.
        self._diary.write("command", c.command_to_json(command), by=by)
        self.status = after
        if isinstance(command, c.Stop):
            self._reason = command.reason
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: e.Effect) -> None:
        match effect:
            case e.BeginStep(at=at, take=take):
                self._begin_step(at, take)
            case e.EndStep(at=at, take=take, how=how, reason=reason):
                seconds = round(self._clock_s() - self._begun_s, 3)
                about = {"step": self.plan.phase.steps[at].id, "take": take, "how": how}
                self._diary.write("step.ended", about | {"reason": reason, "seconds": seconds})
                self._keeper.note("step.ended", about)
                self._timer.clear()
            case e.StartTimer(at=at, take=take, after_s=after_s):
                self._timer.start(at, take, after_s)
            case e.HoldTimer():
                self._timer.hold()
                self._keeper.note("pause.begun", {})
            case e.FreeTimer():
                self._timer.free()
                self._keeper.note("pause.ended", {})
            case e.StartRecorder():
                self._start_recorder(self._tools.start_recorder)
            case e.ResumeRecorder():
                self._start_recorder(self._tools.resume_recorder)
            case e.StopRecorder():
                self._stop_recorder()
            case e.Tell():
                self._tell(effect)
            case e.CloseSession(outcome=outcome):
                self._close_session(outcome)

    def _begin_step(self, at: int, take: int) -> None:
        step = self.plan.phase.steps[at]
        self._begun_s = self._clock_s()
        self._answered.forget(step)
        about: dict[str, Any] = {"step": step.id, "kind": step.kind, "take": take}
        sheet = getattr(step, "sheet", None)
        if sheet is not None:
            about |= {"sheet": sheet, "sheet_version": self.plan.protocol.sheets[sheet].version}
        self._diary.write("step.begun", about)
        self._keeper.note("step.begun", {"step": step.id, "take": take})
        again = f" (take {take})" if take > 1 else ""
        self._say(Level.INFO, f"{step.title}{again}")

    def _start_recorder(self, start: Callable[[RecorderSettings], RunningRecorder]) -> None:
        try:
            settings = RecorderSettings(
                folder=self.folder,
                devices=self._tools.without(
                    self.plan.devices, self._answered.refused(self.plan.phase)
                ),
                session=self.plan.facts(self.folder.name) | {"consent": self._answered.consent},
                fallback_folder=self.plan.fallback_folder,
                rehearsal=self.plan.rehearsal,
            )
            self._say(Level.INFO, "Starting the recorder")
            news = self._keeper.start(start, settings)
        except FirsthandError as error:
            news = c.RecorderFailed(str(error))
        kind = "recorder.started" if self._keeper.pid else "recorder.failed"
        self._diary.write(kind, _about(news) | {"pid": self._keeper.pid})
        self.do(news, by="app")

    def _stop_recorder(self) -> None:
        news = self._keeper.stop()
        self._diary.write("recorder.stopped", _about(news))
        self.do(news, by="app")

    def _look_at_recorder(self) -> list[c.Command]:
        if self.status.recorder is not Recorder.ON:
            return []
        news = self._keeper.look()
        if self._keeper.is_silent:
            self._diary.write("recorder.silent")
            words = "The recorder does not answer at the moment. It may still be recording."
            self._say(Level.TROUBLE, words)
        return news

    def _tell(self, told: e.Tell) -> None:
        self._diary.write(f"cue.{told.cue.value}", {"stream": told.stream, "reason": told.reason})
        if told.cue is e.Cue.RECORDER_FAILED:
            self._trouble.append(told.reason)
        self._listen(notice_of(told))

    def _close_session(self, outcome: e.Outcome) -> None:
        finished: Finished | None = None
        verdict: Verdict | None = None
        if self._keeper.is_lingering:
            self._shout(
                "The recorder is still closing the recording. It will be finished by itself: "
                f"run firsthand recover {self.folder} a little later."
            )
        elif self._keeper.ever_started:
            try:
                finished = self._tools.finalise(self.folder, self._progress)
                verdict = self._tools.check(self.folder, self._progress)
            except FirsthandError as error:
                self._shout(str(error))
        about: dict[str, Any] = {"outcome": outcome.value}
        if finished is not None:
            about |= {"state": finished.state, "packets": finished.packets, "lost": finished.lost}
        if verdict is not None:
            about |= {"good": verdict.good, "findings": list(verdict.findings)}
        self._diary.write("session.closed", about)
        self.result = Result(
            self.folder, outcome, finished, verdict, tuple(self._trouble), self._reason
        )
        self._diary.close()

    def _progress(self, done: float, words: str = "") -> None:
        self._say(Level.INFO, words, done)

    def _shout(self, words: str) -> None:
        self._trouble.append(words)
        self._say(Level.TROUBLE, words)

    def _say(self, level: Level, words: str, share: float | None = None) -> None:
        self._listen(Notice(level, words, share))


def _about(news: c.Command) -> dict[str, Any]:
    return {key: value for key, value in c.command_to_json(news).items() if key != "command"}
