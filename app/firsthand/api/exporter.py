"""The face of an exporter plugin: it turns a recording into files that other programs read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from firsthand.api.config import PluginConfig
from firsthand.api.view import Progress, RecordingView


class Exporter(ABC):
    """Writes a recording in one format.

    Called in a worker process with a deadline and a memory limit. Writes only below ``out`` and
    only new files; raises ``FirsthandError`` for what a person can mend.
    """

    name: ClassVar[str]
    """What ``firsthand export --to`` calls it."""
    title: ClassVar[str]
    Config: ClassVar[type[PluginConfig]]

    def __init__(self, config: PluginConfig) -> None:
        self.config = config

    @abstractmethod
    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        """Write into the folder ``out``, which exists, and give the files written."""
