"""Ground truth beside a recording: what was there, done, said and looked at, and when.

Five JSON files, each an object with ``about`` (what the file holds), ``clock`` and a list. Times
are seconds of the source; ``device_ns = clock.started_device_ns + seconds * 1e9`` gives them on the
headset's own clock. Positions are in the world of the source, metres.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from firsthand.api import StorageError
from firsthand_hl2ss.simulator.source import SensorSource

_ABOUT: Final = {
    "objects": "Each object and where it stood: position_m is the middle of its round mark.",
    "segments": "What was done, in order.",
    "utterances": "What was said; words is false where a murmur stands for speech.",
    "fixations": "What the eyes rested on, between saccades; blinks hide them for a moment.",
    "sounds": "Short sounds with an exact onset.",
}


def write_truth(
    folder: Path, source: SensorSource, clock: Mapping[str, Any] | None = None
) -> list[Path]:
    """Write ``objects.json``, ``segments.json``, ``utterances.json``, ``fixations.json`` and
    ``sounds.json`` into a folder, which is made. ``clock`` says how source time becomes device
    time (``started_device_ns``). Raises ``StorageError`` where that cannot be done.
    """
    truth = source.truth()
    lists: dict[str, dict[str, Any]] = {
        "objects": {"objects": truth.objects},
        "segments": {"segments": truth.segments},
        "utterances": {"utterances": truth.utterances},
        "fixations": {"fixations": truth.fixations, "blinks": truth.blinks},
        "sounds": {"sounds": truth.sounds},
    }
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in lists.items():
            path = folder / f"{name}.json"
            whole = {
                "about": _ABOUT[name],
                "source": dict(truth.source),
                "clock": dict(clock or {}),
                **content,
            }
            path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise StorageError(
            f"The ground truth could not be written to {folder}: {error.strerror or error}.",
            try_this="Choose a folder that can be written to.",
        ) from error
    return written
