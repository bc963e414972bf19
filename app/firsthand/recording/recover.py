"""Finishes recordings that a crash left behind: no decision needed, any number of times."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil

from firsthand.api import Cancelled, FirsthandError, Progress, RecordingError
from firsthand.recording.client import RecorderProcess
from firsthand.recording.finalise_manifest import FINISHED
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.finalise_report import FinaliseReport
from firsthand.recording.layout import MANIFEST, PARTIAL, RAW
from firsthand.recording.manifest import Manifest, read_manifest
from firsthand.recording.session_folder import segments

_log = logging.getLogger(__name__)
_DEPTH: Final = 6
_CLOCK_SLACK_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done about one folder. Just one of ``report`` and ``error`` is there, and neither
    where a recorder is still at work on it."""

    folder: Path
    report: FinaliseReport | None = None
    error: FirsthandError | None = None

    def to_json(self) -> dict[str, Any]:
        """What was done, as JSON types."""
        return {
            "folder": str(self.folder),
            "report": self.report.to_json() if self.report else None,
            "error": str(self.error) if self.error else None,
            "still_recording": self.is_recording,
        }

    @property
    def is_recording(self) -> bool:
        """Whether a recorder is still at work on it."""
        return self.report is None and self.error is None

    @property
    def words(self) -> str:
        name = self.folder.name
        if self.report is not None:
            lost = f", {self.report.lost} known to be missing" if self.report.lost else ""
            return f"{name}: {self.report.state}, {self.report.packets} packets{lost}."
        if self.error is not None:
            return f"{name}: {self.error}"
        return (
            f"{name}: is still being recorded and was left alone. If the program that began it is "
            "gone, the recorder stops by itself after ten minutes, or now with --stop."
        )


def recorder_alive(manifest: Manifest) -> bool:
    """Whether the recorder that the manifest names is running: same number, and not a later
    process that was given the number of a dead one."""
    recorder = manifest.recorder or {}
    try:
        pid = int(recorder["pid"])
        started = datetime.fromisoformat(str(recorder["started_utc"])).timestamp()
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(process.create_time() <= started + _CLOCK_SLACK_S)
    except psutil.AccessDenied:
        return True
    except (KeyError, TypeError, ValueError, psutil.Error):
        return False


def unfinished(path: Path) -> Iterator[Path]:
    """Session folders at or below ``path`` that are not finished, in order of name.

    A copy of a manifest in a fall-back folder leads to its home, if that is there.
    """
    found: dict[Path, None] = {}
    for folder in _folders(path, _DEPTH):
        home = _home(folder)
        if home is not None and _needs_work(home):
            found[home] = None
    yield from sorted(found)


def recover_all(
    path: Path,
    *,
    progress: Callable[[Path], Progress | None] | None = None,
    cancel: threading.Event | None = None,
) -> list[Recovered]:
    """Finish every unfinished session at or below ``path``, each in a child of its own.

    ``progress`` is asked for each folder. One that cannot be finished does not keep others from it.
    Raises ``RecordingError`` where ``path`` does not exist, ``Cancelled`` when ``cancel`` is set.
    """
    if not path.exists():
        raise RecordingError(f"There is no folder {path}.", try_this="Check the path.")
    return [
        recover(folder, progress=progress(folder) if progress else None, cancel=cancel)
        for folder in unfinished(path)
    ]


def stop_recorder(folder: Path) -> None:
    """Let the recorder that is at work in ``folder`` close its recording. Raises
    ``FirsthandError`` where it does not."""
    recorder = RecorderProcess.attach(folder)
    try:
        recorder.stop()
    finally:
        recorder.detach()


def recover(
    folder: Path, *, progress: Progress | None = None, cancel: threading.Event | None = None
) -> Recovered:
    """Finish one session, unless its recorder is still at work."""
    try:
        if (folder / MANIFEST).is_file() and recorder_alive(read_manifest(folder)):
            return Recovered(folder)
    except FirsthandError:
        _log.warning("a manifest could not be read; the log is asked instead")
    try:
        report = finalise_in_child(folder, progress=progress, cancel=cancel)
    except Cancelled:
        raise
    except FirsthandError as error:
        return Recovered(folder, error=error)
    _log.info("recovered a recording: %d packets", report.packets)
    return Recovered(folder, report)


def _folders(path: Path, depth: int) -> Iterator[Path]:
    """Folders that look like sessions; links are not followed, and not looked for inside one."""
    try:
        entries = list(os.scandir(path))
    except OSError as error:
        _log.warning("a folder could not be looked into: %s", error.strerror)
        return
    names = {entry.name for entry in entries}
    if MANIFEST in names or any(_is_log(name) for name in names):
        yield path
        return
    if depth:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _folders(Path(entry.path), depth - 1)


def _is_log(name: str) -> bool:
    return name.startswith("packets") and name.endswith(".log")


def _home(folder: Path) -> Path | None:
    manifest = _manifest(folder)
    if manifest is None or manifest.home is None:
        return folder
    home = Path(manifest.home)
    return home if home.is_dir() else folder


def _needs_work(folder: Path) -> bool:
    manifest = _manifest(folder)
    logs = segments(folder)
    if manifest is not None and manifest.state in FINISHED:
        return bool(logs) or (folder / PARTIAL).exists() or not (folder / RAW).exists()
    return bool(logs) or bool(manifest and manifest.logs)


def _manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except FirsthandError:
        return None
