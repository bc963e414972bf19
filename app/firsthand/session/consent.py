"""What a participant agreed to, and what is therefore asked of the devices.

A "no" to a kind of data takes the streams that carry it out of the device's settings, before any
connection is made: what is not agreed to is never sent, not thrown away afterwards.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from firsthand.api import Device, SettingsError, StreamSchema
from firsthand.session.checking import did_you_mean
from firsthand.session.protocol import Consent, DataType

MakeDevice = Callable[[str, Mapping[str, Any]], Device]
# Headsets put a coarse eye ray beside head and hands; who said no to gaze did not mean the fine
# one alone.
_EYE_COLUMNS: Final = ("eye_", "gaze_")


def checked_answers(step: Consent, answers: Mapping[str, bool]) -> dict[str, bool]:
    """``answers`` if each scope, and nothing else, is answered. Raises ``SettingsError``."""
    known = [scope.id for scope in step.scopes]
    for name in answers:
        if name not in known:
            raise SettingsError(
                f"Consent has no point {name[:60]!r}.", try_this=did_you_mean(name, known)
            )
    open_points = [name for name in known if not isinstance(answers.get(name), bool)]
    if open_points:
        raise SettingsError(f"Consent is not answered yet: {', '.join(open_points)}.")
    return {name: answers[name] for name in known}


def is_refused(step: Consent, answers: Mapping[str, bool]) -> bool:
    """Whether something that the study cannot do without was answered with no."""
    return any(scope.required and not answers[scope.id] for scope in step.scopes)


def refused_data(step: Consent, answers: Mapping[str, bool]) -> frozenset[DataType]:
    """The kinds of data that must not be recorded. What was not asked about is not refused."""
    return frozenset(s.data for s in step.scopes if s.data is not None and not answers[s.id])


def carries(schema: StreamSchema, data: DataType) -> bool:
    """Whether a stream carries that kind of data."""
    if schema.role is data.role:
        return True
    if data is DataType.GAZE:
        return any(column.name.startswith(_EYE_COLUMNS) for column in schema.columns)
    return data is DataType.SOUND and schema.payload.is_audio


def without_data(
    make: MakeDevice, name: str, settings: Mapping[str, Any], refused: Collection[DataType]
) -> dict[str, Any] | None:
    """Settings of the device ``name`` that leave out every stream with refused data.

    Streams are left out by setting to null those of the device's settings that may be null. None
    means that nothing would be left of the device. Raises ``SettingsError`` where the device
    cannot do without, since then it must not be used at all.
    """
    left = dict(settings)
    device = make(name, left)
    allowed = _allowed(device.schemas(), refused)
    for key in type(device.config).model_fields:
        there = {schema.name for schema in make(name, left).schemas()}
        bad = there - allowed
        if not bad:
            return left
        if bad == there:
            return None
        try:
            remaining = {s.name for s in make(name, {**left, key: None}).schemas()}
        except SettingsError:
            continue  # this one may not be null
        gone = there - remaining
        if gone and gone <= bad:
            left[key] = None
    if any(s.name not in allowed for s in make(name, left).schemas()):
        words = ", ".join(sorted(data.value for data in refused))
        raise SettingsError(
            f"The device {name!r} cannot be asked to leave out what the participant refused "
            f"({words}), so it is not used.",
            try_this="Choose other settings for the device, or end the session.",
        )
    return left


def _allowed(schemas: Sequence[StreamSchema], refused: Collection[DataType]) -> set[str]:
    return {s.name for s in schemas if not any(carries(s, data) for data in refused)}
