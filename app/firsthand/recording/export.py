"""Exports recordings through exporter plugins, each in a worker process."""

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from firsthand.api import PluginError, RecordingError, StorageError
from firsthand.host import PluginHost, load_plugins, run_in_worker
from firsthand.recording.gate import inspect_file
from firsthand.recording.reader.opening import find_raw, open_recording

_TARGET: Final = "firsthand.recording.export:work"
_MEMORY_BYTES: Final = 2 << 30
_LEAST_S: Final = 600.0
_PER_BYTE_S: Final = 2e-6


def export(
    path: Path,
    to: str,
    out: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    host: PluginHost | None = None,
    on_progress: Callable[[float, str], None] | None = None,
    cancel: threading.Event | None = None,
) -> list[Path]:
    """Write the recording at ``path`` in the format ``to`` into the folder ``out``.

    Files of an earlier export with the same names are replaced, each at once and only when the new
    one is whole. ``host`` are plugins already loaded.

    Raises ``SettingsError`` for a format that nobody offers or settings that it does not take,
    ``PluginError`` where the exporter fails, ``RecordingError`` and ``DamagedError`` about the
    recording, ``StorageError`` about ``out``, ``Cancelled``.
    """
    host = host or load_plugins()
    host.make_exporter(to, settings or {})  # wrong settings are told before anything is done
    owner = host.owner("exporter", to).name
    raw = find_raw(path)
    inspect_file(raw)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=out) as place:
            names = run_in_worker(
                _TARGET,
                {
                    "raw": str(raw),
                    "to": to,
                    "plugin": owner,
                    "settings": dict(settings or {}),
                    "out": str(Path(place).resolve()),
                },
                deadline_s=_LEAST_S + raw.stat().st_size * _PER_BYTE_S,
                memory_bytes=_MEMORY_BYTES,
                on_progress=on_progress,
                cancel=cancel,
                plugin=owner,
                what=f"exporting as {to}",
            )
            return [_taken(Path(place), str(name), out, owner) for name in names]
    except OSError as error:
        raise StorageError(
            f"Nothing could be written into {out}: {error.strerror or error}.",
            try_this="Choose a folder that you may write to, on a disk with room.",
        ) from error


def work(arguments: Mapping[str, Any], progress: Callable[..., None]) -> list[str]:
    """The worker's part: load the exporter's plugin alone, open, export, name the files."""
    host = load_plugins(only=[arguments["plugin"]])
    exporter = host.make_exporter(arguments["to"], arguments["settings"])
    out = Path(arguments["out"])
    # The parent had the file looked over just now.
    with open_recording(arguments["raw"], trusted=True) as recording:
        written: Sequence[Path] = exporter.export(recording, out, progress)
    names = []
    for path in written:
        if not path.resolve().is_relative_to(out.resolve()) or not path.is_file():
            raise RecordingError(f"The exporter {arguments['to']!r} wrote a file elsewhere.")
        names.append(path.relative_to(out).as_posix())
    return names


def _taken(place: Path, name: str, out: Path, owner: str) -> Path:
    """Move a file that the worker wrote to where it belongs."""
    source, goal = place / name, out / name
    if not source.resolve().is_relative_to(place.resolve()) or source.is_symlink():
        raise PluginError(f"The plugin {owner!r} wrote outside of its folder.")
    goal.parent.mkdir(parents=True, exist_ok=True)
    source.replace(goal)
    return goal
