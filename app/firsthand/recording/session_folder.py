"""Names in a study's folder: sessions, and the segments of a packet log."""

import re
from pathlib import Path
from typing import Final

from firsthand.api import FirsthandError, SettingsError, StorageError
from firsthand.recording.manifest import read_manifest

SESSIONS: Final = "sessions"
LOG: Final = "packets.log"
_SEGMENT: Final = re.compile(r"packets(?:-(\d{3,}))?\.log")
_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,40}")
_RESERVED: Final = re.compile(r"(?i)con|prn|aux|nul|com\d|lpt\d")
_MANY: Final = 9999


def new_session_folder(study: Path, participant: str, phase: str) -> Path:
    """Make the folder of a participant's next session in ``phase``.

    Ids become part of file names on every system: letters, digits and underscores. Two programs
    that ask at once get two folders. Raises ``SettingsError`` or ``StorageError``.
    """
    for what, word in (("participant", participant), ("phase", phase)):
        if not _SLUG.fullmatch(word) or _RESERVED.fullmatch(word):
            raise SettingsError(
                f"{word!r} cannot be used as a {what}'s id.",
                try_this="Use up to 41 letters, digits and underscores, without spaces.",
            )
    for number in range(1, _MANY):
        folder = study / SESSIONS / f"{participant}-{phase}-{number:02d}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise StorageError(
                f"The folder {folder} could not be made: {error.strerror or error}.",
                try_this="Choose a place for the study that exists and can be written to.",
            ) from error
        return folder
    raise StorageError(f"There are too many sessions of {participant} in {study}.")


def segment_name(number: int) -> str:
    """``packets.log``, ``packets-001.log`` …"""
    return LOG if number == 0 else f"packets-{number:03d}.log"


def segment_number(path: Path) -> int | None:
    """Which segment a file is; None where it is none."""
    match = _SEGMENT.fullmatch(path.name)
    return int(match.group(1) or 0) if match else None


def segments(folder: Path) -> list[Path]:
    """The segments of a session that exist, in order: those in ``folder``, and those that the
    manifest says are elsewhere."""
    found: dict[int, Path] = {}
    for path in [*_listed(folder), *folder.glob("packets*.log")]:
        number = segment_number(path)
        if number is not None and path.is_file():
            found.setdefault(number, path)
    return [found[number] for number in sorted(found)]


def next_segment_number(folder: Path) -> int:
    """A number that no segment of the session has, wherever it is."""
    numbers = [segment_number(p) for p in [*_listed(folder), *folder.glob("packets*.log")]]
    return max((number for number in numbers if number is not None), default=-1) + 1


def _listed(folder: Path) -> list[Path]:
    try:
        return [folder / segment.path for segment in read_manifest(folder).logs]
    except FirsthandError:
        return []  # no manifest yet, or a damaged one: what lies in the folder counts
