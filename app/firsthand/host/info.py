"""What is known about a plugin, whether it was taken or refused."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Offer:
    """One class that a plugin hands in."""

    kind: str
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plugin: who it is, what it offers, and why it was refused if it was.

    ``notes`` are sentences about a plugin that was taken, such as that another one wanted a name
    of its.
    """

    name: str
    version: str
    distribution: str
    hooks: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    refused: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)
