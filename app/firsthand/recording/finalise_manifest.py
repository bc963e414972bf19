"""The finaliser's part of ``manifest.json``: which logs there are, and what became of them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firsthand.api import DamagedError, StorageError
from firsthand.recording.finalise_segments import Joined
from firsthand.recording.finalise_streams import StreamWriter
from firsthand.recording.layout import MANIFEST, RAW
from firsthand.recording.manifest import (
    FileFacts,
    LogSegment,
    Manifest,
    Moment,
    RecordingState,
    read_manifest,
)
from firsthand.recording.session_folder import segments

_log = logging.getLogger(__name__)
_DAMAGES_TOLD: Final = 100
FINISHED: Final = frozenset({RecordingState.COMPLETE, RecordingState.RECOVERED})


@dataclass(frozen=True, slots=True)
class Built:
    """The file that was made, as the manifest tells of it."""

    sha256: str
    bytes: int
    writers: Mapping[str, StreamWriter]
    joined: Joined


def load(folder: Path) -> Manifest:
    """The manifest, or an empty one where it is missing or damaged: the log knows enough.

    Raises ``RecordingError`` where a newer version wrote it.
    """
    if not (folder / MANIFEST).is_file():
        return Manifest()
    try:
        return read_manifest(folder)
    except DamagedError as error:
        _log.warning("a recording with a damaged manifest is finished from its log: %s", error)
        return Manifest()


def find_segments(folder: Path, manifest: Manifest) -> list[Path]:
    """The log's segments in order: those that the manifest lists, and any others in the folder.

    Raises ``StorageError`` where a listed one is missing while the recording is not complete: what
    it holds must not be given up without a word.
    """
    missing = [log.path for log in manifest.logs if not (folder / log.path).is_file()]
    if missing and manifest.state not in FINISHED:
        raise StorageError(
            f"A part of the recording is missing: {missing[0]}.",
            try_this="Connect the disk that holds it and run recover again.",
        )
    return segments(folder)


def completed(manifest: Manifest, built: Built) -> Manifest:
    """The manifest of the finished recording; logs stay listed until they are removed."""
    joined = built.joined
    whole = joined.ended is not None
    last_ns = joined.last_host_ns
    start = Moment(host_ns=joined.start.host_ns, utc_ns=joined.start.utc_ns)
    stop = Moment(host_ns=last_ns, utc_ns=start.utc_ns + last_ns - start.host_ns)
    changes: dict[str, Any] = {
        "state": RecordingState.COMPLETE if whole else RecordingState.RECOVERED,
        "session": manifest.session or dict(joined.session),
        "start": start,
        "stop": manifest.stop or stop,
        "reason": manifest.reason or joined.ended or "The recorder ended without closing its log.",
        "recorder": None,
        "files": {**manifest.files, RAW: FileFacts(sha256=built.sha256, bytes=built.bytes)},
        "streams": {name: _stream(writer) for name, writer in built.writers.items()},
        "damage": [
            {"log": log, "offset": d.offset, "bytes": d.length, "why": d.reason, "torn": d.torn}
            for log, d in joined.damages[:_DAMAGES_TOLD]
        ],
        "notes": _notes(joined),
    }
    return manifest.model_copy(update=changes)


def without_logs(manifest: Manifest) -> Manifest:
    """The manifest once the logs are gone."""
    return manifest.model_copy(update={"logs": list[LogSegment]()})


def notes_of(manifest: Manifest) -> tuple[str, ...]:
    """What finishing had to say about the recording."""
    return tuple(str(note) for note in (manifest.model_extra or {}).get("notes") or ())


def _stream(writer: StreamWriter) -> dict[str, Any]:
    return {
        "packets": writer.packets,
        "bytes": writer.bytes,
        "gaps": writer.gaps,
        "lost": writer.lost,
    }


def _notes(joined: Joined) -> list[str]:
    notes = []
    real = [damage for _, damage in joined.damages if not damage.torn]
    if joined.ended is None:
        notes.append(
            "The recorder ended without closing its log; everything up to then was recovered."
        )
    if joined.restarts:
        notes.append(f"The recorder was started again {joined.restarts} time(s).")
    if real:
        notes.append(
            f"The log was damaged in {len(real)} place(s), {sum(d.length for d in real)} bytes;"
            " packets lost there stand in the gaps."
        )
    if joined.unfit:
        notes.append(f"{joined.unfit} packet(s) did not fit what their stream declared.")
    return notes
