"""A session's surroundings that do nothing but remember, and fail when they are told to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firsthand.api import CheckItem, Progress, RecordingError, StorageError, StreamState
from firsthand.recording.recorder_settings import (
    DeviceChoice,
    RecorderSettings,
    RecorderState,
    RecorderStatus,
)
from firsthand.session.protocol import DataType
from firsthand.session.tools import Finished, RunningRecorder, Verdict
from firsthand.streams.health import GOOD, SILENT, HealthSnapshot


def health(stream: str, *, silent: bool = False, reason: str = "") -> HealthSnapshot:
    """A stream that does well, or is silent."""
    return HealthSnapshot(
        stream=stream,
        state=StreamState.STALLED if silent else StreamState.LIVE,
        reason=reason,
        word=SILENT if silent else GOOD,
        rate_hz=0.0 if silent else 30.0,
        nominal_hz=30.0,
        silence_s=9.0 if silent else 0.0,
        age_ms=5.0,
        drop_ratio=0.0,
        longest_drop_s=0.0,
        dropped=0,
        bad_times=0,
        packets=100,
        bytes=1000,
    )


@dataclass
class FakeRecorder:
    """A recorder that lives until it is stopped or ``dies``."""

    settings: RecorderSettings
    pid: int
    alive: bool = True
    answers: bool = True
    state: RecorderState = RecorderState.RECORDING
    reason: str = ""
    streams: list[HealthSnapshot] = field(default_factory=lambda: [health("pv"), health("eet")])
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    stops: int = 0

    def dies(self) -> None:
        """End without a word."""
        self.alive = self.answers = False

    def status(self, timeout_s: float = 2.0) -> RecorderStatus:
        """What it is told to say."""
        if not self.answers:
            raise RecordingError(f"No answer within {timeout_s} s.")
        return RecorderStatus(
            state=self.state,
            elapsed_s=10.0,
            bytes_written=1000,
            free_bytes=10**12,
            time_left_s=None,
            streams=self.streams,
            warnings=[],
            logs=["packets.log"],
            reason=self.reason,
        )

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Remember a note."""
        if not self.answers:
            raise RecordingError("No answer.")
        self.notes.append((kind, dict(about)))

    def stop(self, timeout_s: float) -> RecorderStatus:
        """End; a second time is counted, so that a test can claim that there was none."""
        self.stops += 1
        status = self.status(timeout_s)
        self.alive = False
        return status

    def detach(self) -> None:
        """Nothing: it lives on."""


@dataclass
class FakeTools:
    """Everything a session asks for, remembered in ``done``."""

    verdict: Verdict = field(default_factory=lambda: Verdict(True, "good"))
    start_fails: str | None = None
    resume_fails: str | None = None
    finalise_fails: str | None = None
    recorders: list[FakeRecorder] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    refused: list[frozenset[DataType]] = field(default_factory=list)

    @property
    def recorder(self) -> FakeRecorder:
        """The one started last."""
        return self.recorders[-1]

    def look_over(self, devices: Sequence[DeviceChoice], timeout_s: float) -> Sequence[CheckItem]:
        """All well."""
        self.done.append("look_over")
        return [CheckItem(d.name, True, f"Looked at for {timeout_s:g} s.") for d in devices]

    def without(
        self, devices: Sequence[DeviceChoice], refused: Collection[DataType]
    ) -> list[DeviceChoice]:
        """The same devices; what was refused is remembered."""
        self.refused.append(frozenset(refused))
        return list(devices)

    def start_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """A fake recorder, or the failure that was asked for."""
        self.done.append("start")
        return self._made(settings, self.start_fails)

    def resume_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """As ``start_recorder``."""
        self.done.append("resume")
        return self._made(settings, self.resume_fails)

    def finalise(self, folder: Path, progress: Progress) -> Finished:
        """Nothing is made."""
        self.done.append("finalise")
        if self.finalise_fails is not None:
            raise StorageError(self.finalise_fails)
        progress(1.0, f"made {folder.name}")
        return Finished("complete", 100, 0, 1.0)

    def check(self, folder: Path, progress: Progress) -> Verdict:
        """The verdict that was asked for."""
        self.done.append("check")
        progress(1.0, f"looked at {folder.name}")
        return self.verdict

    def _made(self, settings: RecorderSettings, fails: str | None) -> RunningRecorder:
        if fails is not None:
            raise RecordingError(fails)
        self.recorders.append(FakeRecorder(settings, pid=1000 + len(self.recorders)))
        return self.recorder
