"""Which demonstration a session is given: one, of the same task, and never one's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firsthand.api import SettingsError
from firsthand.recording.manifest import RecordingState, read_manifest
from firsthand.session.protocol import Phase

_WHOLE: Final = {RecordingState.COMPLETE, RecordingState.RECOVERED}
_SHORTEST_REASON: Final = 10


@dataclass(frozen=True, slots=True)
class Pairing:
    """The one demonstration that a session uses; ``override`` says why it may be one's own."""

    session: str
    participant: str
    task: str
    override: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For the session's facts."""
        about = {"session": self.session, "participant": self.participant, "task": self.task}
        return about if self.override is None else {**about, "override": self.override}


def pair(
    phase: Phase,
    participant: str,
    task: str,
    demonstration: Path | None,
    override: str | None = None,
) -> Pairing | None:
    """The demonstration in the folder ``demonstration`` for a session of ``participant``.

    None where the phase takes none. Raises ``SettingsError`` where the pair must not be: one's own
    demonstration (unless ``override`` is a typed reason), another task, an unfinished recording.
    """
    if phase.pairs_with is None:
        if demonstration is not None:
            raise SettingsError(f"The phase {phase.id!r} is not given a demonstration.")
        return None
    if demonstration is None:
        raise SettingsError(
            f"The phase {phase.id!r} needs a recording of the phase {phase.pairs_with!r}.",
            try_this="Choose the session of another participant who did the same task.",
        )
    manifest = read_manifest(demonstration)
    facts = manifest.session
    name, its_task = str(facts.get("id", "")), _task_of(facts)
    if facts.get("phase") != phase.pairs_with:
        raise SettingsError(
            f"{name} is a session of the phase {facts.get('phase')!r}, and a recording of "
            f"{phase.pairs_with!r} is needed."
        )
    if its_task != task:
        raise SettingsError(
            f"{name} shows the task {its_task!r}, and this session is about {task!r}.",
            try_this="A demonstration belongs to one task; choose one that shows the same.",
        )
    if manifest.state not in _WHOLE:
        raise SettingsError(
            f"The recording {name} is not finished ({manifest.state.value}).",
            try_this=f"Run: firsthand recover {demonstration}",
        )
    shown_by = str(facts.get("participant", ""))
    if shown_by != participant:
        return Pairing(name, shown_by, task)
    reason = (override or "").strip()
    if len(reason) < _SHORTEST_REASON:
        raise SettingsError(
            f"{name} is this participant's own demonstration.",
            try_this="Choose somebody else's. If it must be this one, type the reason in a "
            "sentence; it is kept with the session.",
        )
    return Pairing(name, shown_by, task, reason)


def _task_of(facts: Mapping[str, Any]) -> str:
    task = facts.get("task")
    return str(task.get("id", "")) if isinstance(task, Mapping) else ""
