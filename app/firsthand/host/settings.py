"""Turns what stands in a settings file into a plugin's checked ``Config``."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

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
        said = " ".join(_sentence(word, first=not i) for i, word in enumerate(words))
        raise SettingsError(f"The settings of {owner} cannot be used: {said}") from error


def _sentence(words: str, *, first: bool) -> str:
    begun = words if first else f"{words[:1].upper()}{words[1:]}"
    return begun if begun.endswith((".", "?")) else f"{begun}."


def _words(config: type[BaseModel], kind: str, place: Sequence[int | str], message: str) -> str:
    key = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        known = _keys_at(config, place[:-1])
        hint = did_you_mean(str(place[-1]), known).rstrip(".")
        return f"there is no setting {key!r}. {hint}" if known else f"there is no setting {key!r}"
    if kind == "missing":
        return f"the setting {key!r} is missing"
    if kind == "model_type":
        known = _keys_at(config, place)
        hint = f", such as {key}.{known[0]}" if known else ""
        return f"{key!r} is set by its parts{hint}"
    what = message.removeprefix("Value error, ")
    return f"{key!r}: {what[:1].lower()}{what[1:]}" if key else what


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation is or, such as ``Camera | None``, may be."""
    kinds = (annotation, *get_args(annotation))
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _keys_at(config: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that a nested model at ``place`` takes; empty where that is not a plain model."""
    model: type[BaseModel] = config
    for part in place:
        field = model.model_fields.get(str(part))
        inner = _models_in(field.annotation) if field is not None else []
        if len(inner) != 1:
            return []
        model = inner[0]
    return [field.alias or name for name, field in model.model_fields.items()]
