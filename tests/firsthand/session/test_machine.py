"""The session's table, by examples and by long random lives."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from firsthand.session import commands as c
from firsthand.session import effects as e
from firsthand.session.machine import (
    Mode,
    NotNowError,
    Recorder,
    Status,
    StepShape,
    advance,
    begin,
)

pytestmark = pytest.mark.unit

CONSENT = StepShape("consent", skippable=False, refusable=True)
SHEET = StepShape("sheet")
TASK = StepShape("task", records=True, limit_s=60)
REST = StepShape("rest", limit_s=5, next_at_limit=True)
WHOLE = (CONSENT, SHEET, TASK, StepShape("end"))


def run(steps: Sequence[StepShape], *commands: c.Command) -> tuple[Status, list[e.Effect]]:
    """Carry commands out one after the other; gives the last status and every effect."""
    status, done = begin(steps), list[e.Effect]()
    for command in commands:
        status, effects = advance(status, command)
        done += effects
    return status, done


AGREED = (c.Start(), c.ConsentGiven(), c.Next())
RECORDING = (*AGREED, c.Next(), c.RecorderStarted())


def kinds(effects: Sequence[e.Effect]) -> list[type[e.Effect]]:
    return [type(effect) for effect in effects]


def test_a_session_from_start_to_end_records_and_closes_once() -> None:
    status, done = run(WHOLE, *RECORDING, c.Next(), c.RecorderStopped(), c.Next())
    assert (status.mode, status.outcome) == (Mode.ENDED, e.Outcome.COMPLETED)
    assert kinds(done).count(e.StartRecorder) == 1
    assert kinds(done).count(e.StopRecorder) == 1
    assert kinds(done).count(e.CloseSession) == 1


def test_the_recorder_is_started_before_the_recorded_step_is_shown() -> None:
    _, done = run(WHOLE, *AGREED, c.Next())
    assert kinds(done)[-3:] == [e.StartRecorder, e.BeginStep, e.StartTimer]


def test_the_recorder_stops_when_no_recorded_step_lies_ahead() -> None:
    status, done = run(WHOLE, *RECORDING, c.Next())
    assert kinds(done)[-2:] == [e.StopRecorder, e.BeginStep]
    assert (status.mode, status.recorder) == (Mode.RUNNING, Recorder.STOPPING)


def test_the_recorder_goes_on_between_two_recorded_steps() -> None:
    status, done = run((CONSENT, TASK, REST, TASK), *AGREED, c.RecorderStarted(), c.Next())
    assert e.StopRecorder not in kinds(done)
    assert status.recorder is Recorder.ON


def test_a_session_that_ends_while_the_recorder_stops_waits_for_it() -> None:
    status, done = run(WHOLE, *RECORDING, c.Next(), c.Next())
    assert (status.mode, e.CloseSession in kinds(done)) == (Mode.CLOSING, False)
    status, effects = advance(status, c.RecorderStopped())
    assert (status.mode, effects) == (Mode.ENDED, [e.CloseSession(e.Outcome.COMPLETED)])


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (c.Stop("fire alarm"), e.Outcome.STOPPED),
        (c.ParticipantStopped(), e.Outcome.PARTICIPANT_STOPPED),
    ],
)
@pytest.mark.parametrize("paused", [False, True])
def test_a_session_stopped_in_the_middle_still_closes_its_recording(
    ending: c.Command, outcome: e.Outcome, paused: bool
) -> None:
    before = (*RECORDING, c.Pause()) if paused else RECORDING
    status, done = run(WHOLE, *before, ending, c.RecorderStopped())
    assert (status.mode, status.outcome) == (Mode.ENDED, outcome)
    assert kinds(done)[-2:] == [e.StopRecorder, e.CloseSession]


@pytest.mark.parametrize("news", [c.RecorderFailed("slow"), c.RecorderDied()])
def test_a_recorder_that_does_not_stop_as_asked_holds_no_session_up(news: c.Command) -> None:
    status, done = run(WHOLE, *RECORDING, c.Stop(), news)
    assert (status.mode, kinds(done)[-1]) == (Mode.ENDED, e.CloseSession)


def test_stopping_while_the_recorder_is_still_starting_stops_it() -> None:
    status, done = run(WHOLE, *AGREED, c.Next(), c.Stop())
    assert (status.mode, kinds(done)[-1]) == (Mode.CLOSING, e.StopRecorder)


def test_refused_consent_ends_the_session_before_anything_is_recorded() -> None:
    status, done = run(WHOLE, c.Start(), c.ConsentRefused())
    assert (status.mode, status.outcome) == (Mode.ENDED, e.Outcome.CONSENT_REFUSED)
    assert e.StartRecorder not in kinds(done)


def test_nobody_goes_on_before_consent_was_answered() -> None:
    status, _ = run(WHOLE, c.Start())
    with pytest.raises(NotNowError, match="answered"):
        advance(status, c.Next())
    with pytest.raises(NotNowError, match="cannot be left out"):
        advance(status, c.Skip("no time"))


def test_consent_is_asked_anew_when_its_step_is_repeated() -> None:
    status, _ = run(WHOLE, c.Start(), c.ConsentGiven(), c.Repeat())
    with pytest.raises(NotNowError):
        advance(status, c.Next())


def test_consent_cannot_be_answered_again_while_something_is_recorded() -> None:
    status, _ = run((CONSENT, TASK), *AGREED, c.RecorderStarted())
    with pytest.raises(NotNowError, match="participant stopped"):
        advance(status, c.Back())


def test_hearing_task_complete_cues_once_and_never_stops_the_recording() -> None:
    before, _ = run(WHOLE, *RECORDING)
    after, effects = advance(before, c.TaskCompleteHeard())
    assert effects == [e.Tell(e.Cue.TASK_COMPLETE)]
    assert (after.mode, after.recorder, after.at) == (before.mode, before.recorder, before.at)
    assert advance(after, c.TaskCompleteHeard()) == (after, [])


def test_a_repeated_step_is_a_second_take_in_the_same_recording() -> None:
    status, done = run(WHOLE, *RECORDING, c.Repeat("dropped the jar"))
    assert (status.take, status.recorder) == (2, Recorder.ON)
    assert kinds(done).count(e.StartRecorder) == 1
    assert e.EndStep(2, 1, "repeat", "dropped the jar") in done


def test_a_closed_recording_is_never_added_to() -> None:
    status, _ = run(WHOLE, *RECORDING, c.Next(), c.RecorderStopped())
    with pytest.raises(NotNowError, match="closed"):
        advance(status, c.Back())


def test_a_recorder_that_dies_is_told_of_at_once_and_begun_anew() -> None:
    status, done = run(WHOLE, *RECORDING, c.RecorderDied())
    assert done[-2:] == [e.Tell(e.Cue.RECORDER_DIED), e.ResumeRecorder()]
    status, effects = advance(status, c.RecorderStarted())
    assert (status.recorder, effects) == (Recorder.ON, [e.Tell(e.Cue.RECORDER_BACK)])


def test_a_recorder_that_cannot_start_may_be_tried_again_by_repeating_the_step() -> None:
    status, done = run(WHOLE, *AGREED, c.Next(), c.RecorderFailed("no headset"))
    assert done[-1] == e.Tell(e.Cue.RECORDER_FAILED, reason="no headset")
    _, effects = advance(status, c.Repeat())
    assert e.StartRecorder() in effects


def test_a_step_is_skipped_only_with_a_reason() -> None:
    status, _ = run(WHOLE, *AGREED)
    with pytest.raises(NotNowError, match="reason"):
        advance(status, c.Skip("  "))
    after, effects = advance(status, c.Skip("knows it already"))
    assert effects[0] == e.EndStep(1, 1, "skip", "knows it already")
    assert after.at == 2


def test_a_break_ends_by_itself_and_a_task_only_cues() -> None:
    status, _ = run((REST, SHEET), c.Start())
    assert advance(status, c.TimerElapsed(0, 1))[0].at == 1
    status, _ = run(WHOLE, *RECORDING)
    after, effects = advance(status, c.TimerElapsed(2, 1))
    assert (after.at, effects) == (2, [e.Tell(e.Cue.TIME_IS_UP)])


def test_a_timer_of_an_earlier_take_changes_nothing() -> None:
    status, _ = run((REST, SHEET), c.Start(), c.Repeat())
    assert advance(status, c.TimerElapsed(0, 1)) == (status, [])


def test_every_command_survives_the_journal() -> None:
    for command in (c.Skip("why"), c.TimerElapsed(3, 1), c.StreamLost("pv", "gone"), c.Next()):
        assert c.command_from_json(c.command_to_json(command)) == command


COMMANDS = st.one_of(
    st.sampled_from(
        [
            c.Start(), c.Next(), c.Back(), c.Repeat(), c.Pause(), c.Resume(), c.Stop(),
            c.ParticipantStopped(), c.ConsentGiven(), c.ConsentRefused(), c.TaskCompleteHeard(),
            c.RecorderStarted(), c.RecorderDied(), c.RecorderFailed(), c.RecorderStopped(),
            c.StreamLost("pv"), c.StreamBack("pv"), c.StreamLost("eet"), c.Skip(""), c.Skip("r"),
        ]
    ),
    st.builds(c.TimerElapsed, st.integers(0, 5), st.integers(0, 3)),
)  # fmt: skip
SHAPES = st.lists(
    st.builds(
        StepShape,
        id=st.just("s"),
        records=st.booleans(),
        skippable=st.booleans(),
        limit_s=st.none() | st.just(3.0),
        next_at_limit=st.booleans(),
    ),
    min_size=1,
    max_size=5,
).map(lambda shapes: (CONSENT, *shapes))


@settings(max_examples=400, deadline=None)
@given(SHAPES, st.lists(COMMANDS, max_size=60))
def test_whatever_happens_the_status_stays_sound(
    steps: tuple[StepShape, ...], commands: list[c.Command]
) -> None:
    status, done = begin(steps), list[e.Effect]()
    for command in commands:
        try:
            after, effects = advance(status, command)
        except NotNowError:
            continue
        if status.mode is Mode.ENDED:
            assert (after, effects) == (status, [])
        if e.StartRecorder() in effects:
            assert after.consented
        assert all(new >= old for new, old in zip(after.takes, status.takes, strict=True))
        assert (after.outcome is None) == (not after.over)
        assert 0 <= after.at < len(steps)
        if after.lost:
            assert after.recorder in {Recorder.STARTING, Recorder.ON, Recorder.DOWN}
        status, done = after, done + effects
    told = kinds(done)
    assert told.count(e.StopRecorder) <= 1
    assert told.count(e.CloseSession) == (status.mode is Mode.ENDED)
    assert told.count(e.BeginStep) == sum(status.takes)
    open_takes = told.count(e.BeginStep) - told.count(e.EndStep)
    assert open_takes == (status.mode in {Mode.RUNNING, Mode.PAUSED})


class Life(RuleBasedStateMachine):
    """A session whose recorder does what it is asked to, or dies on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.status = begin((CONSENT, SHEET, TASK, REST, TASK, SHEET))
        self.recorder_runs = False
        self.waits: list[c.Command] = []
        self.stops = 0

    def send(self, command: c.Command) -> None:
        try:
            self.status, effects = advance(self.status, command)
        except NotNowError:
            return
        for effect in effects:
            match effect:
                case e.StartRecorder() | e.ResumeRecorder():
                    assert not self.recorder_runs, "two recorders at once"
                    self.waits.append(c.RecorderStarted())
                case e.StopRecorder():
                    self.stops += 1
                    self.waits = [w for w in self.waits if not isinstance(w, c.RecorderStarted)]
                    self.recorder_runs = False
                    self.waits.append(c.RecorderStopped())

    @rule(
        command=st.sampled_from(
            [
                c.Start(), c.Next(), c.Next(), c.Back(), c.Repeat(), c.Pause(), c.Resume(),
                c.Skip("r"), c.ConsentGiven(), c.TaskCompleteHeard(),
            ]
        )
    )  # fmt: skip
    def somebody_asks(self, command: c.Command) -> None:
        self.send(command)

    @precondition(lambda self: self.waits)
    @rule()
    def the_recorder_answers(self) -> None:
        command = self.waits.pop(0)
        self.recorder_runs = isinstance(command, c.RecorderStarted)
        self.send(command)

    @precondition(lambda self: self.recorder_runs)
    @rule()
    def the_recorder_dies(self) -> None:
        self.recorder_runs = False
        self.send(c.RecorderDied())

    @precondition(lambda self: self.status.at >= 2)
    @rule(how=st.sampled_from([c.Stop("s"), c.ParticipantStopped()]))
    def somebody_ends_it(self, how: c.Command) -> None:
        self.send(how)

    @invariant()
    def a_recorded_step_has_a_recorder(self) -> None:
        if self.status.mode in {Mode.RUNNING, Mode.PAUSED} and self.status.step.records:
            assert self.status.recorder in {Recorder.STARTING, Recorder.ON, Recorder.DOWN}

    @invariant()
    def the_recorder_runs_only_while_the_session_says_so(self) -> None:
        if self.recorder_runs:
            assert self.status.recorder is Recorder.ON
        assert self.stops <= 1

    def teardown(self) -> None:
        for command in (c.Start(), c.Stop("end of the test")):
            self.send(command)
        while self.waits:
            self.the_recorder_answers()
        assert self.status.mode is Mode.ENDED


Life.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLife = Life.TestCase
