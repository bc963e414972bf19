"""What a check found: one line per thing looked at, and one verdict."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Verdict(StrEnum):
    """How good something is, best first."""

    GOOD = "good"
    DEGRADED = "degraded"
    """Usable, with losses that stand in the file."""
    BAD = "bad"
    """Something is not what the file says it is."""


_ORDER = list(Verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; ``GOOD`` where there are none."""
    return max(verdicts, key=_ORDER.index, default=Verdict.GOOD)


class CheckLimits(BaseModel):
    """From where on a recording is no longer good. A study's protocol may set its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lost_share: float = Field(default=0.005, ge=0, le=1)
    """Packets lost, as a share of all, per stream."""
    longest_gap_s: float = Field(default=0.5, ge=0)
    """One gap between packets, per stream."""
    rate_share: float = Field(default=0.95, ge=0, le=1)
    """Packets per second while the stream ran, as a share of the nominal rate."""
    ends_early_s: float = Field(default=3.0, ge=0)
    """By how much a stream may end before the recording does."""
    clock_residual_ms: float = Field(default=5.0, ge=0)
    """95 of 100 measured clock readings lie nearer to the fit than this."""
    clock_drift_ppm: float = Field(default=300.0, ge=0)
    bad_lost_share: float = Field(default=0.25, ge=0, le=1)
    """From here on a stream is not just degraded."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: ``about`` a stream, a clock or the file."""

    about: str
    what: str
    verdict: Verdict
    words: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class CheckReport:
    """All findings about one recording."""

    path: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return worst(finding.verdict for finding in self.findings)

    def add(self, about: str, what: str, verdict: Verdict, words: str, **values: Any) -> None:
        self.findings.append(Finding(about, what, verdict, words, values))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON types."""
        return {
            "path": self.path,
            "verdict": self.verdict.value,
            "findings": [asdict(finding) for finding in self.findings],
        }
