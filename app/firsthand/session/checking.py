"""Makes frozen data from a YAML tree, and turns what does not fit into words with a line."""

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, Union

from pydantic import BaseModel, TypeAdapter, ValidationError

from firsthand.session.source import BadFileError, Node, Problem

_T = TypeVar("_T")
_YES_NO: Final = {"yes", "no", "on", "off", "y", "n", "true", "false"}
_WORDS: Final = {
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "dataclass_type": "must be a mapping with keys",
    "model_attributes_type": "must be a mapping with keys",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "missing": "is missing",
}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was probably meant to be."""
    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A sentence with the nearest known word, or with all of them."""
    guess = nearest(word, known)
    return f"Did you mean {guess!r}?" if guess else f"Known here: {', '.join(known)}."


def checked(shape: type[_T], tree: Node) -> _T:
    """``tree`` as an instance of the pydantic dataclass ``shape``.

    Raises ``BadFileError`` with every problem, each at its line and with what was probably meant.
    """
    if not isinstance(tree.value, dict):
        raise BadFileError([Problem(tree.place, "the file must begin with keys and values.")])
    try:
        # By way of JSON, since pydantic's strict mode then takes a list where a tuple is meant.
        return TypeAdapter(shape).validate_json(json.dumps(tree.data()), strict=True)
    except ValidationError as error:
        found: list[dict[str, Any]] = [dict(each) for each in error.errors(include_url=False)]
    problems = [
        _problem(shape, tree, each)
        for each in found
        if not any(_within(other["loc"], each["loc"]) for other in found)
    ]
    raise BadFileError(sorted(problems, key=lambda p: (p.place.line, p.place.column)))


def _within(inner: tuple[Any, ...], outer: tuple[Any, ...]) -> bool:
    # A list with a wrong part is told of once, at the part.
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _problem(shape: type[Any], tree: Node, error: dict[str, Any]) -> Problem:
    path: tuple[str | int, ...] = error["loc"]
    node, place = tree.find(path)
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "the file")
    context = error.get("ctx", {})
    kind = error["type"]
    if kind in {"unexpected_keyword_argument", "extra_forbidden"}:
        return Problem(
            place,
            f"there is no key {name!r} here.",
            did_you_mean(name, _keys(shape, path[:-1])),
        )
    if kind == "union_tag_not_found":
        return Problem(place, f"the key {context['discriminator']} is missing here.")
    if kind == "union_tag_invalid":
        inner, inner_place = tree.find((*path, context["discriminator"].strip("'")))
        known = re.findall(r"'([^']+)'", context["expected_tags"])
        return Problem(
            inner_place,
            f"{str(inner.value)[:60]!r} is not a kind of {_singular(name)}.",
            did_you_mean(str(inner.value), known),
        )
    if kind in {"literal_error", "enum"}:
        known = re.findall(r"'([^']+)'", str(context["expected"])) or [str(context["expected"])]
        return Problem(
            place,
            f"{name!r} cannot be {str(node.value)[:60]!r}.",
            did_you_mean(str(node.value), known),
        )
    if kind.startswith("missing"):
        return Problem(place, f"the key {name!r} is missing here.")
    if kind == "bool_type" and str(node.value).lower() in _YES_NO:
        return Problem(
            place, f"{name!r} must be true or false.", f"Write true or false for {node.value!r}."
        )
    if kind == "string_type" and node.value is not None and not isinstance(node.value, dict | list):
        return Problem(place, f"{name!r} must be a text.", f'Put quotes around it: "{node.value}".')
    words = _WORDS.get(kind) or f"does not fit: {error['msg'].lower()}"
    if kind == "string_pattern_mismatch":
        words = (
            "must not be empty"
            if context.get("pattern") == r"\S"
            else "must have small letters, digits and _, beginning with a letter"
        )
    return Problem(place, f"{name!r} {words}.")


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _keys(shape: Any, path: Sequence[str | int]) -> list[str]:
    """The keys known at ``path`` below the dataclass ``shape``."""
    for part in path:
        if isinstance(part, str):
            shape = _below(shape, part)
    return sorted({name for found in _classes(shape) for name in _fields(found)})


def _fields(shape: Any) -> list[str]:
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return list(shape.model_fields)
    if dataclasses.is_dataclass(shape):
        return [field.name for field in dataclasses.fields(shape)]
    return []


def _below(shape: Any, part: str) -> Any:
    for each in _classes(shape):
        if not dataclasses.is_dataclass(each):
            continue
        hints = typing.get_type_hints(each, include_extras=False)
        if part in hints:
            return hints[part]
        # The tag of a union: the class whose "kind" says this.
        if part in typing.get_args(hints.get("kind")):
            return each
    return shape


def _classes(shape: Any) -> list[Any]:
    origin = typing.get_origin(shape)
    if origin is None:
        return [shape]
    if origin in {Union, types.UnionType, tuple, typing.Annotated}:
        parts = typing.get_args(shape)
        parts = parts[:1] if origin is typing.Annotated else parts
        return [c for part in parts if part is not Ellipsis for c in _classes(part)]
    return [shape]
