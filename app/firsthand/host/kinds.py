"""The kinds of plugins, read from the hooks' own signatures so that none is spelt twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, get_args, get_type_hints

from firsthand.api import PROJECT, hooks


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: what a class of it is called, the hook that offers it, the face it implements."""

    name: str
    hook: str
    face: type[Any]


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by the name of its hook.

    A hook is annotated ``Iterable[type[Face]]``; the kind bears the face's name in small letters.
    """
    found = {}
    for name, function in vars(hooks).items():
        if isinstance(function, FunctionType) and hasattr(function, f"{PROJECT}_spec"):
            (offered,) = get_args(get_type_hints(function)["return"])
            (face,) = get_args(offered)
            found[name] = Kind(face.__name__.lower(), name, face)
    return found
