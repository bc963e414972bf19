"""Loads plugins one by one, so that none of them keeps the others or the program from starting."""

import contextlib
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, Final

from firsthand.api import PROJECT, FirsthandError, PluginError
from firsthand.host.calling import Left, TookTooLong, within
from firsthand.host.finder import OURS, Found, find, import_target
from firsthand.host.info import PluginInfo
from firsthand.host.inspection import handed_in, hook_names, hook_problems, offer
from firsthand.host.kinds import Kind
from firsthand.host.worker import WorkerError, run_in_worker

DEADLINE_S: Final = 10.0
"""For importing a plugin and calling all its hooks."""
MEMORY_BYTES: Final = 1024**3
_PROBES_AT_ONCE: Final = 4
_WHY_MOST: Final = 600

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loaded:
    """A plugin and the classes that it may offer; none where it was refused."""

    info: PluginInfo
    classes: list[tuple[Kind, type[Any]]] = field(default_factory=list)


def load_all(
    extra: Iterable[object],
    only: Collection[str] | None,
    *,
    probe: bool,
    deadline_s: float,
) -> list[Loaded]:
    """Everything announced (whose name is in ``only``) and ``extra``, taken or refused."""
    announced = [found for found in find() if only is None or found.name in only]
    refusals = {**_same_names(announced), **_broken(announced)}
    if probe:
        strangers = [f for f in announced if not f.ours and f not in refusals]
        refusals.update(_probed(strangers, deadline_s))
    loaded: list[Loaded] = []
    for found in announced:
        if found in refusals:
            loaded.append(_refused(found, refusals[found]))
        else:
            loaded.append(_load(found, partial(import_target, found.target), deadline_s))
    loaded.extend(_extras(extra, {each.info.name for each in loaded}, deadline_s))
    _settle_names(loaded)
    for each in loaded:
        if each.info.refused:
            _log.warning("plugin %s is refused: %s", each.info.name, each.info.refused)
    return loaded


def probe(arguments: Mapping[str, Any], _progress: object) -> list[str]:
    """In a worker: import a plugin and call its hooks, to see whether it can be done safely."""
    return [each.name for each in _taken(import_target(str(arguments["target"]))).info.offers]


def _taken(plugin: object) -> Loaded:
    """The plugin looked over. Raises ``PluginError`` with what is wrong."""
    if problems := hook_problems(plugin):
        raise PluginError("; ".join(problems))
    classes = handed_in(plugin)
    offers = tuple(offer(kind, cls) for kind, cls in classes)
    return Loaded(PluginInfo("", "", "", hook_names(plugin), offers), classes)


def _load(found: Found, get: Callable[[], object], deadline_s: float) -> Loaded:
    def work() -> Loaded:
        return _taken(get())

    try:
        # What a plugin prints while it loads must not end up in our own output.
        with contextlib.redirect_stdout(sys.stderr):
            loaded = work() if found.ours else within(deadline_s, work)
    except TookTooLong:
        return _refused(found, f"it did not load within {deadline_s:g} s")
    except (Left, SystemExit):
        return _refused(found, "it tried to end the whole program while it was loaded")
    except PluginError as error:
        return _refused(found, error.message)
    except Exception as error:  # noqa: BLE001  (the boundary that keeps plugins' errors in)
        _log.debug("plugin %s failed to load", found.name, exc_info=True)
        return _refused(found, f"it failed while loading: {type(error).__name__}: {error}")
    loaded.info = replace(
        loaded.info, name=found.name, version=found.version, distribution=found.distribution
    )
    return loaded


def _itself(plugin: object) -> object:
    return plugin


def _refused(found: Found, why: str) -> Loaded:
    # Part of it may be the plugin's own text: one line, printable, not endless.
    plain = "".join(letter if letter.isprintable() else " " for letter in why)[:_WHY_MOST]
    return Loaded(PluginInfo(found.name, found.version, found.distribution, refused=plain))


def _broken(announced: Iterable[Found]) -> dict[Found, str]:
    return {found: found.broken for found in announced if found.broken}


def _same_names(announced: Iterable[Found]) -> dict[Found, str]:
    first: dict[str, Found] = {}
    refused = {}
    for found in announced:
        if found.name in first:
            refused[found] = (
                f"the plugin {found.words()} has the same name as {first[found.name].words()}"
            )
        else:
            first[found.name] = found
    return refused


def _probed(strangers: list[Found], deadline_s: float) -> dict[Found, str]:
    """Load each in a worker first: one that hangs, crashes or eats memory does so over there."""

    def look(found: Found) -> str:
        try:
            run_in_worker(
                f"{__name__}:probe",
                {"target": found.target},
                deadline_s=deadline_s,
                memory_bytes=MEMORY_BYTES,
                plugin=found.name,
                what="loading",
            )
        except WorkerError as error:
            return f"it {error.words}"
        except FirsthandError as error:
            return error.message
        return ""

    if not strangers:
        return {}
    with ThreadPoolExecutor(_PROBES_AT_ONCE, thread_name_prefix="plugin-probe") as pool:
        answers = list(pool.map(look, strangers))
    return {found: why for found, why in zip(strangers, answers, strict=True) if why}


def _extras(extra: Iterable[object], taken: set[str], deadline_s: float) -> Iterable[Loaded]:
    version = importlib.metadata.version(OURS)
    for each in extra:
        full = each.__name__ if isinstance(each, ModuleType | type) else type(each).__name__
        name = full.rpartition(".")[2].removeprefix(f"{PROJECT}_")
        found = Found(name, "", "given by the program", version)
        if name in taken:
            yield _refused(found, f"there is already a plugin of the name {name!r}")
        else:
            taken.add(name)
            yield _load(found, partial(_itself, each), deadline_s)


def _settle_names(loaded: list[Loaded]) -> None:
    """A name of a kind belongs to whoever came first (ours do); the other plugin is refused, and
    both are told."""
    owners: dict[tuple[str, str], Loaded] = {}
    for each in loaded:
        clashes = [
            (kind, cls.name, owners[kind.name, cls.name])
            for kind, cls in each.classes
            if (kind.name, cls.name) in owners
        ]
        twice = _twice(each)
        if not clashes and not twice:
            owners.update({(kind.name, cls.name): each for kind, cls in each.classes})
            continue
        words = [f"it offers the {kind} {name!r} twice" for kind, name in twice]
        for kind, name, owner in clashes:
            words.append(
                f"the {kind.name} {name!r} of plugin {each.info.name!r} is already offered by"
                f" plugin {owner.info.name!r}"
            )
            note = (
                f"The plugin {each.info.name!r} was refused because it offers the {kind.name}"
                f" {name!r} too."
            )
            owner.info = replace(owner.info, notes=(*owner.info.notes, note))
        each.info = replace(each.info, refused="; ".join(words))
        each.classes.clear()


def _twice(loaded: Loaded) -> list[tuple[str, str]]:
    names = [(kind.name, str(cls.name)) for kind, cls in loaded.classes]
    return sorted({name for name in names if names.count(name) > 1})
