"""Both phases of a study on a simulated device, without a person: for newcomers and for tests."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from firsthand.api import FirsthandError
from firsthand.paths import study_protocols_dir
from firsthand.recording.recorder_settings import DeviceChoice, RecorderStatus
from firsthand.session.autopilot import Script, fly
from firsthand.session.notices import Notice
from firsthand.session.plan import make_plan
from firsthand.session.result import Result
from firsthand.session.session import Session
from firsthand.session.stand_in import StandIn
from firsthand.session.study import Study
from firsthand.session.tools import Tools

DEVICE: Final = "hl2ss"
_VIDEO: Final = {"pv": {"width": 960, "height": 540, "fps": 30}}
"""Smaller than a headset's default, since the simulator makes every picture on this computer."""
_QUEUE_S: Final = 15.0
"""A headset drops what it could not send for a second. Here a busy computer makes pictures late,
and late ones are better than none."""
TASK: Final = "organize_room/by_type"
PARTICIPANTS: Final = {"demonstration": "sim01", "replication": "sim02"}
"""Codes that say at every place that nobody real was there."""
_ANSWERS: Final = {
    "why": "The heavy things first, since they decide where the shelf is full.",
    "what": "That the boxes at the back are empty and may be used.",
    "how": "When nothing of that kind lay on the table any more.",
    "preference": "Which shelf the books got. Another would have done as well.",
    "amounts": "Only the cups: never more than four beside each other.",
    "remarks": "The autopilot has no complaints.",
}


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Where the demonstration study goes and how long each task is recorded."""

    out: Path
    seconds: float = 25.0
    host: str = "127.0.0.1"
    base_port: int | None = None
    """The simulator's first port; None takes the standard ones where they are free."""


@dataclass(frozen=True, slots=True)
class DemoPhase:
    """What one phase left behind."""

    phase: str
    result: Result
    exports: tuple[Path, ...]
    trouble: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        verdict = self.result.verdict
        return verdict is not None and verdict.good and not self.trouble

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON types."""
        finished, verdict = self.result.finished, self.result.verdict
        return {
            "phase": self.phase,
            "session": self.result.folder.name,
            "folder": str(self.result.folder),
            "outcome": self.result.outcome.value,
            "good": self.good,
            "packets": finished.packets if finished else 0,
            "lost": finished.lost if finished else 0,
            "verdict": verdict.words if verdict else "",
            "findings": list(verdict.findings) if verdict else [],
            "reason": self.result.reason,
            "trouble": [*self.result.trouble, *self.trouble],
            "exports": [str(path) for path in self.exports],
        }


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the whole demonstration left behind."""

    out: Path
    phases: tuple[DemoPhase, ...]
    seconds: float
    interrupted: bool = False

    @property
    def good(self) -> bool:
        """Whether both phases are there and both recordings are good."""
        return len(self.phases) == len(PARTICIPANTS) and all(phase.good for phase in self.phases)

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON types."""
        return {
            "good": self.good,
            "interrupted": self.interrupted,
            "study": str(self.out),
            "seconds": round(self.seconds, 1),
            "phases": [phase.to_json() for phase in self.phases],
        }


class DemoWatcher(Protocol):
    """Told what happens, from the thread that runs the demonstration."""

    def stage(self, words: str) -> None:
        """Something begins."""

    def notice(self, notice: Notice) -> None:
        """The session says something."""

    def tick(self, status: RecorderStatus | None, spent_s: float, of_s: float) -> None:
        """A task is being recorded."""


class DemoTools(Tools, Protocol):
    """What a demonstration needs besides a session's tools."""

    def export(
        self, recording: Path, to: str, settings: Mapping[str, Any], out: Path
    ) -> Sequence[Path]:
        """Write a recording in another format; gives the files."""


def run_demo(
    settings: DemoSettings,
    tools: DemoTools,
    watcher: DemoWatcher,
    stop: threading.Event,
) -> DemoReport:
    """Make a study, run both phases, check and export them. ``stop`` ends it early: what was
    recorded until then is finished and kept. Raises ``FirsthandError`` where nothing can begin."""
    began = time.monotonic()
    watcher.stage("Making a study")
    study = Study.create(
        settings.out, study_protocols_dir() / "mica.yaml", title="A demonstration of Firsthand"
    )
    phases: list[DemoPhase] = []
    for phase, participant in PARTICIPANTS.items():
        if stop.is_set() or any(done.result.verdict is None for done in phases):
            break
        study.add_participant(participant)
        shown = phases[0].result.folder if phases else None
        phases.append(_phase(settings, study, phase, shown, tools, watcher, stop))
    seconds = time.monotonic() - began
    return DemoReport(settings.out, tuple(phases), seconds, stop.is_set())


def _phase(
    settings: DemoSettings,
    study: Study,
    phase: str,
    shown: Path | None,
    tools: DemoTools,
    watcher: DemoWatcher,
    stop: threading.Event,
) -> DemoPhase:
    title = study.protocol.phase(phase).title
    watcher.stage(f"{title}: starting a simulated headset")
    truth = settings.out / "truth" / phase
    truth.mkdir(parents=True)
    with ExitStack() as open_things:
        stand_in = open_things.enter_context(
            StandIn(
                DEVICE,
                settings.host,
                base_port=settings.base_port,
                source=f"scene:{phase}",
                truth_folder=str(truth),
                queue_s=_QUEUE_S,
            )
        )
        stand_in.wait()
        session = Session(
            make_plan(
                study.folder,
                study.name,
                PARTICIPANTS[phase],
                study.protocol,
                phase,
                task=TASK,
                devices=[
                    DeviceChoice(name=DEVICE, settings={**stand_in.choice.settings, **_VIDEO})
                ],
                demonstration=shown,
                rehearsal=True,
            ),
            tools,
            watcher.notice,
        )
        watcher.stage(f"{title}: the session {session.folder.name}")
        script = Script(task_s=settings.seconds, texts=_ANSWERS)
        result = fly(session, script, tick=watcher.tick, stop=stop)
    exports, trouble = _export(settings.out, result, tools, watcher)
    return DemoPhase(phase, result, exports, trouble)


def _export(
    out: Path, result: Result, tools: DemoTools, watcher: DemoWatcher
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    if result.verdict is None:
        return (), ()
    watcher.stage(f"Exporting {result.folder.name}: a video with sound, and the gaze as a table")
    goal = out / "exports" / result.folder.name
    files: list[Path] = []
    trouble: list[str] = []
    gaze = result.verdict.numbers.gaze_stream
    for kind, asked in (("mp4", {}), ("csv", {"streams": [gaze] if gaze else []})):
        try:
            files += tools.export(result.folder, kind, asked, goal)
        except FirsthandError as error:
            trouble.append(str(error))
    return tuple(files), tuple(trouble)
