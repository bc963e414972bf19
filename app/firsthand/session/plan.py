"""Everything that is settled before a session begins, checked before anything is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from firsthand.api import SettingsError
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.recording.session_folder import SESSIONS
from firsthand.session.loading import LoadedProtocol
from firsthand.session.machine import StepShape
from firsthand.session.names import checked_participant
from firsthand.session.pairing import Pairing, pair
from firsthand.session.protocol import AtLimit, Break, Consent, Phase, Record, Step
from firsthand.session.tasks import Task


class Varied(StrEnum):
    """What may differ between a demonstration's surroundings and a later session's."""

    OBJECTS = "objects"
    """Other pieces of the same kinds of things."""
    USERS = "users"
    LAYOUT = "layout"
    """The room or the furniture is arranged otherwise."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was varied, ticked and in words."""

    varied: frozenset[Varied] = frozenset()
    notes: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the session's facts."""
        return {"varied": sorted(self.varied), "notes": self.notes}


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One participant going through one phase once."""

    study_folder: Path
    study: str
    participant: str
    protocol: LoadedProtocol
    phase: Phase
    task: Task | None
    devices: tuple[DeviceChoice, ...]
    pairing: Pairing | None = None
    surroundings: Surroundings = Surroundings()
    rehearsal: bool = False
    """Whether the devices are simulated: marked on the screen and in the file."""
    fallback_folder: Path | None = None

    def shapes(self) -> tuple[StepShape, ...]:
        """The steps as the machine sees them."""
        return tuple(_shape(step) for step in self.phase.steps)

    def facts(self, session: str) -> dict[str, Any]:
        """What is kept with the session: ids, versions and hashes, never names of people."""
        used = [step.sheet for step in self.phase.steps if hasattr(step, "sheet")]
        sheets = {name: self.protocol.sheets[name].version for name in used}
        facts: dict[str, Any] = {
            "id": session,
            "study": self.study,
            "participant": self.participant,
            "phase": self.phase.id,
            "protocol": self.protocol.content.name,
            "protocol_hash": self.protocol.hash,
            "sheets": sheets,
            "check_limits": self.protocol.content.check_limits.model_dump(),
            "surroundings": self.surroundings.to_json(),
        }
        if self.task is not None:
            facts["task"] = {"id": self.task.id}
            if self.pairing is None:  # who follows a demonstration follows its amounts
                facts["task"]["amounts"] = dict(self.task.amounts)
        if self.pairing is not None:
            facts["demonstration"] = self.pairing.to_json()
        return facts

    def task_sheet(self) -> str:
        """The second sheet as this participant gets it: the task, or one broad sentence where
        a demonstration is to be followed that must not be given away."""
        if self.task is None:
            return ""
        return self.task.sheet if self.pairing is None else self.task.goal_sheet


def make_plan(
    study_folder: Path,
    study: str,
    participant: str,
    protocol: LoadedProtocol,
    phase: str,
    *,
    task: str | None,
    devices: Sequence[DeviceChoice],
    demonstration: Path | None = None,
    override: str | None = None,
    surroundings: Surroundings = Surroundings(),
    rehearsal: bool = False,
    fallback_folder: Path | None = None,
) -> SessionPlan:
    """A plan, or words that say why there cannot be one (``SettingsError``, ``ProtocolError``)."""
    checked_participant(participant)
    chosen = protocol.phase(phase)
    drawn: Task | None = None
    if protocol.catalogue is not None:
        if task is None:
            raise SettingsError(
                "No task is chosen.",
                try_this=f"Choose one of: {', '.join(protocol.catalogue.ids())}.",
            )
        before = len([*(study_folder / SESSIONS).glob(f"{participant}-{phase}-*")])
        drawn = protocol.catalogue.task(task, f"{study} {participant} {phase} {before}")
    elif task is not None:
        raise SettingsError("The protocol has no task catalogue, so no task can be chosen.")
    if chosen.records and not devices:
        raise SettingsError(
            "The phase records something, and no device is chosen.",
            try_this="Name one in study.toml, or give --device and --set, such as host=ADDRESS.",
        )
    return SessionPlan(
        study_folder=study_folder,
        study=study,
        participant=participant,
        protocol=protocol,
        phase=chosen,
        task=drawn,
        devices=tuple(devices),
        pairing=pair(chosen, participant, task or "", demonstration, override),
        surroundings=surroundings,
        rehearsal=rehearsal,
        fallback_folder=fallback_folder,
    )


def _shape(step: Step) -> StepShape:
    limit_s = step.limit_s if isinstance(step, Record | Break) else None
    return StepShape(
        id=step.id,
        records=isinstance(step, Record),
        skippable=step.skippable,
        limit_s=limit_s,
        next_at_limit=isinstance(step, Record | Break) and step.at_limit is AtLimit.NEXT,
        refusable=isinstance(step, Consent),
    )
