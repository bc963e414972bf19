"""Exports a recording in a worker process: an exporter is a plugin's code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from firsthand.host import PluginHost, run_in_worker

TARGET: Final = "firsthand.session.export_work:work"
_LEAST_S: Final = 300.0
_PER_BYTE_S: Final = 1e-6
_MEMORY_BYTES: Final = 2 << 30


def work(arguments: Mapping[str, Any], progress: Callable[..., None]) -> list[str]:
    """The worker's part: one recording, one format."""
    import firsthand
    from firsthand.host import load_plugins

    host = load_plugins(only=[arguments["plugin"]], probe=False)
    exporter = host.make_exporter(arguments["to"], {})
    with firsthand.open(arguments["folder"], trusted=True) as recording:
        files = exporter.export(recording, Path(arguments["out"]), progress)
    return [str(path) for path in files]


def export_in_worker(host: PluginHost, folder: Path, to: str, out: Path) -> list[Path]:
    """Write the recording in ``folder`` as ``to`` into ``out``, which exists; gives the files.

    Raises ``FirsthandError``: nobody offers the format, or the exporter failed.
    """
    size = sum(path.stat().st_size for path in folder.glob("*.h5"))
    plugin = host.owner("exporter", to).name
    files = run_in_worker(
        TARGET,
        {
            "folder": str(folder.resolve()),
            "to": to,
            "out": str(out.resolve()),
            "plugin": plugin,
        },
        deadline_s=_LEAST_S + size * _PER_BYTE_S,
        memory_bytes=_MEMORY_BYTES,
        plugin=plugin,
        what="exporting",
    )
    return [Path(file) for file in files]
