"""What was answered so far in a session: consent, forms, ticks; and what is still open."""

from collections.abc import Mapping
from typing import Any

from firsthand.session import answers as a
from firsthand.session.consent import checked_answers, refused_data
from firsthand.session.machine import NotNowError
from firsthand.session.protocol import Checklist, Consent, DataType, Form, Phase, Step


class Answered:
    """The answers of one session by step. A step that begins anew has none."""

    def __init__(self) -> None:
        self.consent: dict[str, bool] = {}
        """The answers to consent, once it was given."""
        self._by_step: dict[str, dict[str, Any]] = {}

    def take(self, step: Step, answers: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Check and keep ``answers``; gives the journal's kind of event and what to write.

        Raises ``SettingsError`` for answers that do not fit, ``NotNowError`` where nothing is
        asked.
        """
        match step:
            case Consent():
                self.consent = checked_answers(step, answers)
                fitting: dict[str, Any] = dict(self.consent)
                told = "consent.answered", {"answers": fitting}
            case Form():
                fitting = a.checked_form(step, answers)
                told = "form.answered", {"answers": fitting}
            case Checklist():
                fitting = dict(a.checked_ticks(step, answers))
                told = "checklist.ticked", {"items": fitting}
            case _:
                raise NotNowError(f"There is nothing to answer at the step {step.id!r}.")
        self._by_step.setdefault(step.id, {}).update(fitting)
        return told

    def of(self, step: Step) -> dict[str, Any]:
        """What was answered at a step in this take."""
        return dict(self._by_step.get(step.id, {}))

    def forget(self, step: Step) -> None:
        """The step begins anew."""
        self._by_step.pop(step.id, None)

    def nothing_missing(self, step: Step) -> None:
        """Raises ``NotNowError`` naming what is still open at a form or checklist."""
        missing: tuple[str, ...] = ()
        if isinstance(step, Form):
            missing = a.missing_in_form(step, self.of(step))
        elif isinstance(step, Checklist):
            missing = a.missing_in_list(step, self.of(step))
        if missing:
            raise NotNowError(
                f"Not everything is answered yet: {', '.join(missing)}.",
                try_this="Answer it, or skip the step with a reason.",
            )

    def refused(self, phase: Phase) -> frozenset[DataType]:
        """The kinds of data that were answered with no."""
        for step in phase.steps:
            if isinstance(step, Consent) and self.consent:
                return refused_data(step, self.consent)
        return frozenset()
