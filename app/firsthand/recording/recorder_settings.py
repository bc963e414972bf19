"""What a recorder is asked to do, and what it says about how it does."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from firsthand.recording.diskspace import RESERVE
from firsthand.streams.health import HealthSnapshot


class DeviceChoice(BaseModel):
    """A device by its plugin's name, and its settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    settings: dict[str, Any] = Field(default_factory=dict)


class RecorderSettings(BaseModel):
    """Everything a recorder needs to begin, as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Path
    """The session's folder; made if missing."""
    devices: list[DeviceChoice]
    session: dict[str, Any] = Field(default_factory=dict)
    """Identifies the session in log, manifest and file; ids, never names of people."""
    fallback_folder: Path | None = None
    """Where to go on when the session's folder fails: best on another disk."""
    reserve_bytes: int = RESERVE
    """Room that is never used; at least 64 MiB."""
    orphan_after_s: float = Field(default=600.0, gt=0)
    """Without anybody attached for so long the recorder closes the recording itself."""
    rehearsal: bool = False
    plugins: list[str] | None = None
    """Installed plugins to load, where the app has found them good; None: all of them."""
    extra_plugins: list[str] = Field(default_factory=list)
    """Modules with hooks, besides the installed plugins."""
    flush_every_s: float = Field(default=0.25, gt=0)


class RecorderState(StrEnum):
    STARTING = "starting"
    RECORDING = "recording"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    """Ended because nothing could be written any more; what was written is good."""


@dataclass(frozen=True, slots=True)
class RecorderStatus:
    """How a recording is doing at one moment."""

    state: RecorderState
    elapsed_s: float
    bytes_written: int
    free_bytes: int
    time_left_s: float | None
    """Recording time for which the disk has room, ``raw.h5`` included; None while unknown."""
    streams: list[HealthSnapshot]
    warnings: list[str]
    """Sentences for the administrator, most recent last."""
    logs: list[str]
    """Segments of the log so far."""
    reason: str = ""
    """Why it ended."""

    def to_json(self) -> dict[str, Any]:
        """The status as JSON types."""
        streams = [stream.to_json() for stream in self.streams]
        return {**asdict(self), "state": self.state.value, "streams": streams}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The status that ``to_json`` wrote. Raises ``KeyError``, ``TypeError``, ``ValueError``
        on anything else."""
        streams = [HealthSnapshot.from_json(stream) for stream in data["streams"]]
        return cls(**{**data, "state": RecorderState(data["state"]), "streams": streams})
