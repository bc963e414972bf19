"""Notices from the recorder's health rows when a stream goes silent and when it comes back."""

from collections.abc import Sequence
from typing import Final

from firsthand.api import StreamState
from firsthand.session.commands import Command, StreamBack, StreamLost
from firsthand.streams.health import SILENT, HealthSnapshot

_PATIENCE_S: Final = 6.0
"""So long a stream may take to deliver for the first time (the camera turns on slowly)."""


class StreamWatch:
    """Compares what the streams do with what they did at the last look."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._lost: set[str] = set()

    def look(self, streams: Sequence[HealthSnapshot], elapsed_s: float) -> list[Command]:
        """What has changed: streams that went silent or never came, and those that are back."""
        commands: list[Command] = []
        for health in streams:
            name = health.stream
            silent = health.word == SILENT
            if not silent:
                self._seen.add(name)
                if name in self._lost:
                    self._lost.discard(name)
                    commands.append(StreamBack(name))
            elif name not in self._lost and self._is_due(health, elapsed_s):
                self._lost.add(name)
                commands.append(StreamLost(name, health.reason))
        return commands

    def _is_due(self, health: HealthSnapshot, elapsed_s: float) -> bool:
        if health.state is StreamState.REFUSED:
            return True
        return health.stream in self._seen or elapsed_s > _PATIENCE_S
