"""What a session left behind."""

from dataclasses import dataclass
from pathlib import Path

from firsthand.session.effects import Outcome
from firsthand.session.tools import Finished, Verdict


@dataclass(frozen=True, slots=True)
class Result:
    """How a session ended, and what became of its recording."""

    folder: Path
    outcome: Outcome
    finished: Finished | None
    """None where nothing was recorded, or its file could not be made yet."""
    verdict: Verdict | None
    trouble: tuple[str, ...] = ()
    reason: str = ""
    """Why it was stopped, in the words of who stopped it."""

    @property
    def good(self) -> bool:
        """Whether nothing has to be looked at: what should be recorded is, and is good. Somebody
        who does not consent or wants to stop is no failure."""
        if self.trouble:
            return False
        if self.verdict is None:
            return self.outcome is not Outcome.STOPPED
        return self.verdict.good
