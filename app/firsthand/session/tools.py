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
class Verdict:
    """What the check of a recording found."""

    good: bool
    words: str
    """One line for the administrator."""
    findings: tuple[str, ...] = ()
    """What is not as it should be, a sentence each."""


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
