"""The time of a step, which stands still while the session is paused."""

from collections.abc import Callable

from firsthand.session.commands import TimerElapsed


class StepTimer:
    """One timer, for the step that runs. The time comes from outside, so that nothing waits."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._of: TimerElapsed | None = None
        self._left_s = 0.0
        self._since_s: float | None = None

    def start(self, at: int, take: int, after_s: float) -> None:
        """Run for ``after_s``; a timer that ran before is forgotten."""
        self._of = TimerElapsed(at, take)
        self._left_s = after_s
        self._since_s = self._clock_s()

    def hold(self) -> None:
        """Stand still."""
        if self._since_s is not None:
            self._left_s -= self._clock_s() - self._since_s
            self._since_s = None

    def free(self) -> None:
        """Go on."""
        if self._of is not None and self._since_s is None:
            self._since_s = self._clock_s()

    def clear(self) -> None:
        """Forget the timer."""
        self._of = self._since_s = None

    def elapsed(self) -> list[TimerElapsed]:
        """The command to send when the time is up; given once."""
        if self._of is None or self._since_s is None:
            return []
        if self._clock_s() - self._since_s < self._left_s:
            return []
        over = self._of
        self.clear()
        return [over]
