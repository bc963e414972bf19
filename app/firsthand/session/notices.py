"""What the administrator is told while a session runs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from firsthand.session.effects import Cue, Tell


class Level(StrEnum):
    """How much a notice matters."""

    INFO = "info"
    GOOD = "good"
    CUE = "cue"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something for the administrator's screen. ``share`` is how far a long piece of work is."""

    level: Level
    words: str
    share: float | None = None


Listener = Callable[[Notice], None]


def guarded(listen: Listener) -> Listener:
    """A listener that raises is logged and forgotten: it never disturbs a session."""

    def say(notice: Notice) -> None:
        try:
            listen(notice)
        except Exception:
            logging.getLogger(__name__).exception("a listener of the session raised")

    return say


def notice_of(told: Tell) -> Notice:
    """A cue in words."""
    why = f" {told.reason}" if told.reason else ""
    match told.cue:
        case Cue.TASK_COMPLETE:
            return Notice(
                Level.CUE,
                "The participant said that the task is complete. Go on when you are ready.",
            )
        case Cue.TIME_IS_UP:
            return Notice(Level.CUE, "The time of this step is up.")
        case Cue.STREAM_LOST:
            words = f"The stream {told.stream} delivers nothing.{why} Everything else goes on."
            return Notice(Level.TROUBLE, words)
        case Cue.STREAM_BACK:
            return Notice(Level.GOOD, f"The stream {told.stream} is back.")
        case Cue.RECORDER_DIED:
            words = "The recorder has ended unexpectedly. A new stretch is being started."
            return Notice(Level.TROUBLE, words)
        case Cue.RECORDER_BACK:
            return Notice(Level.GOOD, "The recorder runs again. What was recorded before is safe.")
        case Cue.RECORDER_FAILED:
            return Notice(Level.TROUBLE, f"Nothing is being recorded.{why}")
