"""Finds plugins by the metadata of what is installed, without running any of their code."""

import importlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any, Final

from firsthand.api import PROJECT

OURS: Final = "firsthand"
"""The distribution whose plugins are tested with every change of the core."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that announced itself: ``target`` is ``module`` or ``module:object``.

    ``broken`` says in words why its metadata cannot be used.
    """

    name: str
    target: str
    distribution: str
    version: str
    broken: str = ""

    @property
    def ours(self) -> bool:
        return self.distribution == OURS

    def words(self) -> str:
        """The plugin and where it comes from."""
        return f"{self.name!r} (from {self.distribution} {self.version})"


def find() -> list[Found]:
    """Every announced plugin: ours first, then by distribution and name, whatever order they
    were installed in. A distribution that is found twice counts once, as for imports."""
    seen: set[str] = set()
    found: list[Found] = []
    for distribution in distributions():
        try:
            if f"[{PROJECT}]" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name, version = distribution.name, distribution.version
        except Exception:  # noqa: BLE001  (metadata of strangers may fail in any way)
            _log.exception("the metadata of an installed package cannot be read; passed over")
            continue
        key = str(name).lower().replace("_", "-")
        if key not in seen:
            seen.add(key)
            found.extend(_announced(distribution, str(name), str(version)))
    return sorted(found, key=lambda each: (not each.ours, each.distribution, each.name))


def _announced(distribution: Distribution, name: str, version: str) -> Iterator[Found]:
    try:
        points = list(distribution.entry_points.select(group=PROJECT))
    except Exception as error:  # noqa: BLE001  (as above)
        _log.exception("the entry points of %s cannot be read", name)
        yield Found(name, "", name, version, f"its entry points cannot be read: {error}")
        return
    for point in points:
        yield Found(point.name, point.value, name, version, _malformed(point))


def _malformed(point: EntryPoint) -> str:
    if EntryPoint.pattern.match(point.value) is None:
        return f"its entry point {point.value!r} is not of the form 'module' or 'module:object'"
    return ""


def import_target(target: str) -> Any:
    """Import what an entry point names. Whatever the module raises comes through."""
    point = EntryPoint("plugin", target, PROJECT)
    module = importlib.import_module(point.module)
    return reduce(getattr, filter(None, (point.attr or "").split(".")), module)
