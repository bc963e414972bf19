"""Whoever opens a recording that others may have made comes past here first.

HDF5 files can lead to other files, unpack without end, or break the library. So the structure is
looked over in a child with little memory and time, before this process asks HDF5 anything.
"""

import json
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firsthand.api import DamagedError, RecordingError
from firsthand.children.process import Limits, start

_log = logging.getLogger(__name__)
MODULE: Final = "firsthand.recording.gate_child"
_MEMORY_BYTES: Final = 512 * 1024 * 1024
_DEADLINE_S: Final = 20.0
_OPEN_FILES: Final = 64
_RESULT_BYTES: Final = 1024 * 1024
# No filter that is not built in is ever loaded, whatever a file or the environment names.
_NO_PLUGINS: Final = {"HDF5_PLUGIN_PRELOAD": "::", "HDF5_PLUGIN_PATH": ""}


@dataclass(frozen=True, slots=True)
class LookedOver:
    """What the gate saw of a file that it lets pass."""

    streams: tuple[str, ...]
    objects: int
    bytes: int


def inspect_file(
    path: Path, *, deadline_s: float = _DEADLINE_S, memory_bytes: int = _MEMORY_BYTES
) -> LookedOver:
    """Let ``path`` be looked over in a limited child.

    Raises ``RecordingError`` where there is no file, ``DamagedError`` saying why it is refused.
    """
    if not path.is_file():
        raise RecordingError(f"There is no file {path}.", try_this="Check the path.")
    result = _ask(path.resolve(), deadline_s, memory_bytes)
    if result is None:
        raise _refused(path, "looking at it used up its time or memory, or broke the HDF5 library.")
    if not result.get("good"):
        raise _refused(path, str(result.get("why", "it could not be looked at.")))
    return LookedOver(
        tuple(str(name) for name in result["streams"]), int(result["objects"]), int(result["bytes"])
    )


def _ask(path: Path, deadline_s: float, memory_bytes: int) -> dict[str, Any] | None:
    with tempfile.TemporaryDirectory(prefix="fh-gate-") as place:
        log = Path(place, "result")
        limits = Limits(memory_bytes=memory_bytes, cpu_s=deadline_s, open_files=_OPEN_FILES)
        child = start(
            MODULE, [str(path)], limits=limits, log=log, environment=_NO_PLUGINS, folder=Path(place)
        )
        with child:
            code = child.wait(deadline_s)
        if code != 0:
            _log.warning("a file made the process that looked at it end with %s", code)
            return None
        with log.open("rb") as file:
            lines = file.read(_RESULT_BYTES).splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _refused(path: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{path} was not opened: {why}",
        try_this="If it is one of yours, copy it from the computer that recorded it once more.",
    )
