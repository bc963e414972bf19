"""Keeps the manifest of a recording in step with its recorder."""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from firsthand.api import FirsthandError
from firsthand.recording.manifest import (
    LogSegment,
    Manifest,
    Moment,
    RecordingState,
    new_manifest,
    read_manifest,
    write_manifest,
)
from firsthand.recording.recorder_settings import RecorderSettings

_log = logging.getLogger(__name__)


class RecorderManifest:
    """The manifest while its recorder runs.

    Where a segment had to go into the fall-back folder, a copy lies there too and names its home,
    so that recovery finds it even if the home never comes back.
    """

    def __init__(
        self, settings: RecorderSettings, plugins: Sequence[dict[str, str]], start: Moment
    ) -> None:
        self._home = settings.folder
        self._elsewhere: Path | None = None
        self._lock = threading.Lock()
        self._manifest = _earlier(settings.folder) or new_manifest(
            settings.session, plugins=plugins, rehearsal=settings.rehearsal, start=start
        )
        self._manifest.state = RecordingState.RECORDING
        self._manifest.stop = None
        self._manifest.recorder = {
            "pid": os.getpid(),
            "started_utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "settings": settings.model_dump(mode="json"),
        }

    def begin(self, path: Path) -> None:
        """Write it for the first time, ``path`` being the first segment. Raises
        ``StorageError``."""
        with self._lock:
            self._list(path)
            write_manifest(path.parent, self._manifest)

    def segment(self, path: Path, ended: str) -> None:
        """Another segment was begun, the last one ended for the reason given."""
        with self._lock:
            self._manifest.logs[-1].ended = ended
            self._list(path)
            self._write()

    def end(self, reason: str, stop: Moment, streams: Mapping[str, Any], *, written: bool) -> None:
        """The recorder closed the recording; ``written`` whether the log's end stands in it."""
        with self._lock:
            self._manifest.state = RecordingState.RECORDED
            self._manifest.stop = stop
            self._manifest.reason = reason
            self._manifest.recorder = None
            self._manifest.streams = dict(streams)
            if self._manifest.logs and written:
                self._manifest.logs[-1].ended = reason
            self._write()

    def _list(self, path: Path) -> None:
        at_home = path.parent == self._home
        if not at_home:
            self._elsewhere = path.parent
        self._manifest.logs.append(LogSegment(path=path.name if at_home else str(path.absolute())))

    def _write(self) -> None:
        folders = [self._home] if self._elsewhere is None else [self._home, self._elsewhere]
        for folder in folders:
            manifest = self._manifest
            if folder != self._home:
                logs = [
                    LogSegment(path=str(self._home.absolute() / one.path), ended=one.ended)
                    for one in manifest.logs
                ]
                home = str(self._home.absolute())
                manifest = manifest.model_copy(update={"home": home, "logs": logs})
            try:
                if folder.is_dir():
                    write_manifest(folder, manifest)
            except FirsthandError as error:
                # The log itself says all that is needed to recover.
                _log.warning(
                    "a manifest could not be written: %s", getattr(error.__cause__, "strerror", "")
                )


def _earlier(folder: Path) -> Manifest | None:
    """The manifest of an earlier recorder of the same session."""
    try:
        return read_manifest(folder)
    except FirsthandError:
        return None
