"""Turns what stands in a settings file into a plugin's checked ``Config``."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from firsthand.api import PluginConfig, SettingsError
from firsthand.host.suggest import did_you_mean


def checked(owner: str, config: type[PluginConfig], settings: Mapping[str, Any]) -> PluginConfig:
    """The ``config`` made from ``settings``.

    Raises ``SettingsError`` that names ``owner`` and, of every setting that is wrong, the key, what
    is wrong, and what was probably meant.
    """
    try:
        return config.model_validate(dict(settings))
    except ValidationError as error:
        words = [
            _words(config, problem["type"], problem["loc"], problem["msg"])
            for problem in error.errors(include_url=False, include_context=False)
        ]
        raise SettingsError(
            f"The settings of {owner} cannot be used: {'; '.join(words)}."
        ) from error


def _words(config: type[BaseModel], kind: str, place: Sequence[int | str], message: str) -> str:
    key = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        known = _keys_at(config, place[:-1])
        hint = did_you_mean(str(place[-1]), known).rstrip(".")
        return f"there is no setting {key!r}. {hint}" if known else f"there is no setting {key!r}"
    if kind == "missing":
        return f"the setting {key!r} is missing"
    what = message.removeprefix("Value error, ")
    return f"{key!r}: {what[:1].lower()}{what[1:]}" if key else what


def _keys_at(config: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that a nested model at ``place`` takes; empty where that is not a plain model."""
    model: Any = config
    for part in place:
        field = model.model_fields.get(part)
        model = field.annotation if field is not None else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return []
    return [field.alias or name for name, field in model.model_fields.items()]
