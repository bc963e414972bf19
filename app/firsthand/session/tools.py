"""What a session needs from the rooms below: devices, recorder, finaliser, check. One seam."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from firsthand.api import CheckItem, Progress
from firsthand.recording.recorder_settings import DeviceChoice, RecorderSettings, RecorderStatus
from firsthand.session.protocol import DataType


class RunningRecorder(Protocol):
    """A recorder in its own process, as the session sees it."""

    @property
    def alive(self) -> bool: ...

    @property
    def pid(self) -> int: ...

    def status(self, timeout_s: float = 2.0) -> RecorderStatus:
        """How it does. Raises ``FirsthandError`` when it does not answer in time."""

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Write a fact into the recording."""

    def stop(self, timeout_s: float) -> RecorderStatus:
        """Close the recording and end. Raises ``FirsthandError`` when it does not."""

    def detach(self) -> None:
        """Let it run on without us."""


@dataclass(frozen=True, slots=True)
class InNumbers:
    """A recording in the few numbers that a person asks for."""

    duration_s: float = 0.0
    pictures: int = 0
    gaze_valid: float | None = None
    """Share of the gaze samples that are valid; None where there is no gaze."""
    gaze_stream: str | None = None
    """The name of the stream with the gaze."""
    hands_seen: float | None = None
    """Share of the samples with at least one hand; None where hands are not recorded."""
    sound_s: float | None = None
    gaps: int = 0
    """Interruptions after a stream's first packet."""
    clock_residual_ms: float | None = None
    """95 of 100 readings of the device's clock lie nearer to the fit than this."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of what these numbers tell was received."""
        seen = self.gaze_valid is not None or self.hands_seen is not None
        return not (seen or self.pictures or self.sound_s)

    @property
    def words(self) -> str:
        """One line, such as ``31 min, 55,800 pictures, gaze valid 94 %, no gaps``."""
        minutes, seconds = divmod(round(self.duration_s), 60)
        parts = [f"{minutes} min {seconds} s" if minutes else f"{seconds} s"]
        if self.is_empty:
            return f"{parts[0]}, nothing was received"
        parts.append(f"{self.pictures:,} pictures")
        if self.gaze_valid is not None:
            parts.append(f"gaze valid {100 * self.gaze_valid:.0f} %")
        if self.hands_seen is not None:
            parts.append(f"hands seen {100 * self.hands_seen:.0f} %")
        parts.append("no gaps" if not self.gaps else f"{self.gaps} gap{'s' * (self.gaps > 1)}")
        if self.clock_residual_ms is not None:
            parts.append(f"clocks within {max(0.01, self.clock_residual_ms):.2f} ms")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check of a recording found."""

    good: bool
    words: str
    """One line for the administrator."""
    findings: tuple[str, ...] = ()
    """What is not as it should be, a sentence each."""
    numbers: InNumbers = InNumbers()


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of the log: state of the recording, packets stored and known to be lost."""

    state: str
    packets: int
    lost: int
    seconds: float
    notes: tuple[str, ...] = ()


class Tools(Protocol):
    """Made once for all sessions of a program. Every method may be slow and is called from the
    session's own thread; failures a person can act on are ``FirsthandError``."""

    def look_over(self, devices: Sequence[DeviceChoice], timeout_s: float) -> Sequence[CheckItem]:
        """Check devices that are not recording. Never raises for one that does not answer."""

    def without(
        self, devices: Sequence[DeviceChoice], refused: Collection[DataType]
    ) -> list[DeviceChoice]:
        """Devices that deliver nothing of the refused kinds of data."""

    def start_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """Begin to record into a session's folder."""

    def resume_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """Begin a new stretch in a folder whose recorder died."""

    def finalise(self, folder: Path, progress: Progress) -> Finished:
        """Make the recording's file from its log."""

    def check(self, folder: Path, progress: Progress) -> Verdict:
        """Judge a finished recording by the limits that its protocol set."""
