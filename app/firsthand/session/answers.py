"""Answers to forms and checklists: what may be stored, and what is still missing."""

import math
from collections.abc import Mapping
from typing import Any

from firsthand.api import SettingsError
from firsthand.session.checking import did_you_mean
from firsthand.session.protocol import (
    Checklist,
    ChoiceField,
    Form,
    FormField,
    NumberField,
    RatingField,
    TextField,
)


def checked_form(step: Form, answers: Mapping[str, Any]) -> dict[str, Any]:
    """``answers`` as they are stored. Raises ``SettingsError`` for one that does not fit.

    An answer may be None or an empty text: it is then as good as not given.
    """
    fields = {field.id: field for field in step.fields}
    for name in answers:
        if name not in fields:
            raise SettingsError(
                f"The form has no question {name[:60]!r}.",
                try_this=did_you_mean(name, list(fields)),
            )
    return {name: _checked(fields[name], value) for name, value in answers.items()}


def missing_in_form(step: Form, answers: Mapping[str, Any]) -> tuple[str, ...]:
    """Required questions without an answer."""
    return tuple(f.id for f in step.fields if f.required and answers.get(f.id) in (None, ""))


def missing_in_list(step: Checklist, ticked: Mapping[str, Any]) -> tuple[str, ...]:
    """Points that are not ticked."""
    return tuple(item for item in step.items if ticked.get(item) is not True)


def checked_ticks(step: Checklist, ticked: Mapping[str, Any]) -> dict[str, bool]:
    """``ticked`` if it names points of the list. Raises ``SettingsError`` otherwise."""
    for item, value in ticked.items():
        if item not in step.items or not isinstance(value, bool):
            raise SettingsError(f"The checklist has no point {item[:60]!r} to tick.")
    return dict(ticked)


def _checked(field: FormField, value: Any) -> Any:
    if value is None or value == "":
        return None
    match field:
        case TextField():
            if not isinstance(value, str):
                raise SettingsError(f"The answer to {field.id!r} must be a text.")
            if len(value) > field.most_signs:
                raise SettingsError(
                    f"The answer to {field.id!r} has {len(value)} signs; there is room for "
                    f"{field.most_signs}."
                )
            # Half a surrogate pair, from a broken paste, could be stored nowhere.
            return value.encode("utf-8", "replace").decode("utf-8")
        case ChoiceField():
            if value not in field.choices:
                raise SettingsError(f"The answer to {field.id!r} is none of its choices.")
            return value
        case RatingField():
            if type(value) is not int or not field.lowest <= value <= field.highest:
                raise SettingsError(
                    f"The answer to {field.id!r} must be a whole number from {field.lowest} to "
                    f"{field.highest}."
                )
            return value
        case NumberField():
            return _number(field, value)


def _number(field: NumberField, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"The answer to {field.id!r} must be a number.")
    if (field.lowest is not None and value < field.lowest) or (
        field.highest is not None and value > field.highest
    ):
        raise SettingsError(f"The answer to {field.id!r} is outside its limits.")
    return value
