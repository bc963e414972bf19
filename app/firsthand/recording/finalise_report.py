"""What became of a session that was finished."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FinaliseReport:
    """What became of a session: ``state`` is the manifest's, ``notes`` are sentences for people."""

    folder: str
    state: str
    packets: int = 0
    lost: int = 0
    damages: int = 0
    seconds: float = 0.0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    already: bool = False
    """It had been finished before; nothing was to be done."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "FinaliseReport":
        """The report that ``to_json`` gave. Raises ``TypeError`` or ``KeyError`` on others."""
        return cls(**{**data, "notes": tuple(data["notes"])})
