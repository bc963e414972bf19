"""Looks a plugin over before anything of it is used: its hooks, and the classes they hand in."""

import inspect
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pluggy
from pydantic import BaseModel

from firsthand.api import PROJECT, PluginConfig, PluginError, hooks
from firsthand.host.info import Offer
from firsthand.host.kinds import Kind, kinds
from firsthand.host.suggest import did_you_mean

MOST_OFFERS: Final = 100
NAME_MOST: Final = 40
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{NAME_MOST - 1}}}")
_TITLE_MOST = 80
_MARK = f"{PROJECT}_impl"


def hook_problems(plugin: object) -> list[str]:
    """What is wrong with the hooks of a plugin (a module or object), in words."""
    problems = []
    good = 0
    for name, function, options in _hook_like(plugin):
        wanted = (options or {}).get("specname") or name
        if wanted not in kinds():
            problems.append(f"there is no hook {wanted!r}. {did_you_mean(wanted, kinds())}")
        elif options is None:
            problems.append(f"{name} is not marked with @hookimpl, so it would never be called")
        elif options.get("wrapper") or options.get("hookwrapper"):
            problems.append(f"{name} is a wrapper; a hook hands in classes and wraps nothing")
        elif extra := _unknown_arguments(wanted, function):
            problems.append(f"{name} takes {', '.join(extra)}, but the hook is {_written(wanted)}")
        else:
            good += 1
    if not problems and not good:
        problems.append(f"it implements no hook. {did_you_mean('', kinds())}")
    return problems


def hook_names(plugin: object) -> tuple[str, ...]:
    """The hooks that a plugin without problems implements."""
    return tuple(
        sorted((options or {}).get("specname") or name for name, _, options in _hook_like(plugin))
    )


def _hook_like(plugin: object) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any] | None]]:
    """Functions that are marked as hooks, or named like one. Properties are not run."""
    for name in dir(plugin):
        found: Any = inspect.getattr_static(plugin, name, None)
        function = getattr(found, "__func__", found)
        if inspect.isfunction(function):
            options = getattr(function, _MARK, None)
            if isinstance(options, dict) or name.startswith(f"{PROJECT}_"):
                yield name, function, options if isinstance(options, dict) else None


def _unknown_arguments(hook: str, function: Callable[..., Any]) -> list[str]:
    allowed = set(inspect.signature(getattr(hooks, hook)).parameters)
    return [name for name in _parameters(function) if name not in allowed]


def _written(hook: str) -> str:
    return f"{hook}({', '.join(inspect.signature(getattr(hooks, hook)).parameters)})"


def handed_in(plugin: object) -> list[tuple[Kind, type[Any]]]:
    """Call the hooks of a plugin and give the classes they hand in, each looked over.

    Raises ``PluginError`` with everything that is wrong, in words, or what a hook raises.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    classes: list[tuple[Kind, type[Any]]] = []
    problems: list[str] = []
    for kind in kinds().values():
        caller = getattr(manager.hook, kind.hook)
        for implementation in caller.get_hookimpls():
            result = implementation.function()
            if result is None or isinstance(result, str | bytes | type):
                problems.append(f"{kind.hook} gave {_short(result)} and not classes in a list")
                continue
            try:
                offered = list(islice(iter(result), MOST_OFFERS + 1))
            except TypeError:
                problems.append(f"{kind.hook} gave {_short(result)} and not classes in a list")
                continue
            if len(offered) > MOST_OFFERS:
                problems.append(f"{kind.hook} gave more than {MOST_OFFERS} classes")
                continue
            for each in offered:
                wrong = class_problems(kind, each)
                problems.extend(wrong)
                if not wrong:
                    classes.append((kind, each))
    if problems:
        raise PluginError("; ".join(problems))
    return classes


def offer(kind: Kind, cls: type[Any]) -> Offer:
    """A class without problems as a line of the overview."""
    return Offer(kind.name, cls.name, cls.title)


def class_problems(kind: Kind, cls: object) -> list[str]:
    """What keeps ``cls`` from being used as one of ``kind``, in words."""
    if not inspect.isclass(cls):
        return [f"{kind.hook} gave {_short(cls)}, which is not a class"]
    label = f"class {cls.__name__}"
    if not issubclass(cls, kind.face):
        missing = [name for name in sorted(_wanted(kind.face)) if not hasattr(cls, name)]
        also = f" and has no {', '.join(missing)}" if missing else ""
        return [f"{label} is not a {kind.face.__name__} of firsthand.api{also}"]
    problems: list[str] = []
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        problems.append(f"{label} does not implement {', '.join(missing)}")
    for method in sorted(_wanted(kind.face) - set(missing)):
        problems.extend(_signature_problems(label, method, getattr(kind.face, method), cls))
    problems.extend(_word_problems(label, getattr(cls, "name", None), getattr(cls, "title", None)))
    problems.extend(_config_problems(label, getattr(cls, "Config", None)))
    return problems


def _word_problems(label: str, name: object, title: object) -> list[str]:
    problems = []
    if not isinstance(name, str):
        problems.append(f"{label} has no name")
    elif _NAME.fullmatch(name) is None:
        problems.append(
            f"{label} is named {_short(name)}; a name is a small letter and up to"
            f" {NAME_MOST - 1} small letters, digits, '-' or '_'"
        )
    if not isinstance(title, str) or not title.strip():
        problems.append(f"{label} has no title")
    elif len(title) > _TITLE_MOST or not title.isprintable():
        problems.append(f"{label} has a title that is not one line of {_TITLE_MOST} characters")
    return problems


def _config_problems(label: str, config: object) -> list[str]:
    if config is None:
        return [f"{label} has no Config"]
    if not inspect.isclass(config) or not issubclass(config, PluginConfig):
        return [f"{label} has a Config that is not a PluginConfig of firsthand.api"]
    lax = [
        model.__name__
        for model in config.__mro__
        if issubclass(model, BaseModel) and model.model_config.get("extra") not in {None, "forbid"}
    ]
    return [f"{label} has a Config that takes unknown keys"] if lax else []


def _wanted(face: type[Any]) -> set[str]:
    """The methods that a face leaves to those who implement it."""
    return set(getattr(face, "__abstractmethods__", ()))


def _signature_problems(label: str, name: str, spec: Any, cls: type[Any]) -> list[str]:
    """Whether a method can be called the way the core calls it: by position."""
    method = getattr(cls, name)
    if not callable(spec):
        return []
    places = [
        parameter
        for parameter in inspect.signature(spec).parameters.values()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    static = inspect.getattr_static(cls, name)
    given = places[1:] if isinstance(static, staticmethod | classmethod) else places
    try:
        inspect.signature(method).bind(*(object() for _ in given))
    except (TypeError, ValueError):
        if not callable(method):
            return [f"{label} has a {name} that is not a method"]
        has = ", ".join(_parameters(method))
        wants = ", ".join(parameter.name for parameter in places[1:])
        return [f"{label} has {name}({has}), but it is called {name}({wants})"]
    return []


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Names of what a function takes, without the object itself."""
    names = [str(parameter) for parameter in inspect.signature(function).parameters]
    return names[1:] if names[:1] == ["self"] else names


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (a repr that fails is answered, not reported)
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
