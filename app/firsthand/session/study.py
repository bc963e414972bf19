"""A study: a folder with its settings, its protocol, its participants and their sessions."""

import csv
import io
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from firsthand.api import FirsthandError, SettingsError, StorageError
from firsthand.recording.manifest import Manifest, read_manifest
from firsthand.recording.recorder_settings import DeviceChoice
from firsthand.recording.session_folder import SESSIONS
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.names import checked_participant, parse_session_id, participant_code

STUDY_FILE: Final = "study.toml"
PARTICIPANTS_FILE: Final = "participants.csv"
_FORMAT: Final = "firsthand-study"
_HEADER: Final = ("code", "added_utc", "excluded")


@dataclass(frozen=True, slots=True)
class Participant:
    """Somebody known by a code alone."""

    code: str
    added_utc: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session as the study's overview shows it."""

    id: str
    participant: str
    phase: str
    number: int
    state: str
    """The recording's state; ``not recorded`` where nothing was."""
    task: str
    duration_s: float | None
    folder: Path


@dataclass(frozen=True, slots=True)
class Study:
    """An opened study. Reading never changes it."""

    folder: Path
    name: str
    title: str
    protocol: LoadedProtocol
    devices: tuple[DeviceChoice, ...] = ()

    @classmethod
    def create(
        cls,
        folder: Path,
        protocol: Path,
        *,
        title: str | None = None,
        devices: Sequence[DeviceChoice] = (),
    ) -> Self:
        """Make a study in ``folder``, which is new or empty, with a copy of ``protocol``.

        The copy is what the study goes by: a change in the original changes no study. Raises
        ``ProtocolError``, ``SettingsError`` or ``StorageError``; there is no study then.
        """
        loaded = load_protocol(protocol)
        name = folder.resolve().name
        if not re.fullmatch(r"[\w][\w .\-]{0,79}", name):
            raise SettingsError(
                f"A study cannot be called {name[:80]!r}.",
                try_this="Use letters, digits, spaces, points, hyphens and underscores.",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise SettingsError(
                    f"The folder {folder} is not empty.",
                    try_this="Choose a new folder: nothing is ever written over.",
                )
            home = folder / "protocol"
            for part in loaded.files:
                goal = home / part
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(protocol.resolve().parent / part, goal)
            (folder / SESSIONS).mkdir()
            about = {
                "format": _FORMAT,
                "version": 1,
                "name": name,
                "title": title or loaded.content.title,
                "protocol": f"protocol/{protocol.name}",
                "created_utc": _now(),
            }
            _write(folder / PARTICIPANTS_FILE, _csv([]))
            # Last of all: a folder with this file is a study, and without it is not.
            _write(folder / STUDY_FILE, _toml(about, devices))
        except OSError as error:
            raise StorageError(
                f"The study could not be made in {folder}: {error.strerror or error}.",
                try_this="Choose a folder that may be written to.",
            ) from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The study in ``folder``. Raises ``SettingsError`` or ``ProtocolError`` in words."""
        path = folder / STUDY_FILE
        try:
            about = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingsError(
                f"{folder} is not a study: it has no {STUDY_FILE}.",
                try_this="Make one with: firsthand study new DIR",
            ) from None
        except (OSError, ValueError) as error:  # TOML's and UTF-8's errors are ValueErrors
            raise SettingsError(f"{path} cannot be read: {error}.") from None
        try:
            if about["format"] != _FORMAT or about["version"] != 1:
                raise SettingsError(f"{path} is of a kind that this version does not know.")
            protocol = str(about["protocol"])
            devices = tuple(
                DeviceChoice(name=str(d["name"]), settings=dict(d.get("settings", {})))
                for d in about.get("devices", [])
            )
            name, title = str(about["name"]), str(about["title"])
        except (KeyError, TypeError, AttributeError) as error:
            raise SettingsError(f"{path} lacks or misspells a key ({error}).") from None
        return cls(folder, name, title, load_protocol(folder / protocol), devices)

    def participants(self) -> list[Participant]:
        """Everybody in the order of their coming. Raises ``SettingsError`` with the line."""
        path = self.folder / PARTICIPANTS_FILE
        found: list[Participant] = []
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                for row in csv.DictReader(file):
                    code = checked_participant((row.get("code") or "").strip())
                    excluded = (row.get("excluded") or "").strip().lower() in {"1", "true", "yes"}
                    found.append(Participant(code, row.get("added_utc") or "", excluded))
        except FileNotFoundError:
            return []
        except SettingsError as error:
            raise SettingsError(
                f"{path.name}, line {len(found) + 2}: {error.message}", try_this=error.try_this
            ) from None
        except (OSError, ValueError, csv.Error) as error:
            raise SettingsError(f"{path} cannot be read: {error}.") from None
        return found

    def add_participant(self, code: str | None = None) -> Participant:
        """Register somebody under ``code`` or a new one that tells nothing about them.

        Raises ``SettingsError`` where the code is taken: it would be a second person's data under
        the first one's name.
        """
        known = self.participants()
        taken = {participant.code for participant in known}
        new = checked_participant(code) if code is not None else participant_code(taken)
        if new in taken:
            raise SettingsError(
                f"There is a participant {new!r} already.", try_this="Choose another code."
            )
        added = Participant(new, _now())
        _write(self.folder / PARTICIPANTS_FILE, _csv([*known, added]))
        return added

    def participant(self, code: str) -> Participant:
        """A registered participant. Raises ``SettingsError`` for one who is not, or is excluded."""
        found = next((p for p in self.participants() if p.code == code), None)
        if found is None:
            raise SettingsError(
                f"There is no participant {code[:40]!r} in this study.",
                try_this="Add one with: firsthand study participants DIR --add",
            )
        if found.excluded:
            raise SettingsError(f"The participant {code!r} is excluded from this study.")
        return found

    def sessions(self) -> Iterator[SessionSummary]:
        """Every session, by participant, phase and number."""
        home = self.folder / SESSIONS
        for folder in sorted(home.iterdir()) if home.is_dir() else ():
            parts = parse_session_id(folder.name)
            if parts is None or not folder.is_dir():
                continue
            yield _summary(folder, parts)


def _summary(folder: Path, parts: tuple[str, str, int]) -> SessionSummary:
    manifest: Manifest | None = None
    try:
        manifest = read_manifest(folder)
        state = manifest.state.value
    except FirsthandError:
        state = "damaged" if (folder / "manifest.json").exists() else "not recorded"
    task, duration = "", None
    if manifest is not None:
        task = str(manifest.session.get("task", {}).get("id", ""))
        if manifest.start and manifest.stop:
            duration = (manifest.stop.host_ns - manifest.start.host_ns) / 1e9
    return SessionSummary(folder.name, *parts, state, task, duration, folder)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _csv(participants: Sequence[Participant]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_HEADER)
    rows.writerows((p.code, p.added_utc, "yes" if p.excluded else "") for p in participants)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    """Replace a file whole: whoever reads sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}.",
            try_this="Look whether the disk is there and has room.",
        ) from error


def _toml(about: Mapping[str, Any], devices: Sequence[DeviceChoice]) -> str:
    lines = [f"{key} = {_toml_value(value)}" for key, value in about.items()]
    for device in devices:
        lines += ["", "[[devices]]", f"name = {_toml_value(device.name)}"]
        lines.append(f"settings = {_toml_value(dict(device.settings))}")
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    """A value as TOML in one line; TOML has no null, so what is None is left out."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(k)} = {_toml_value(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(part) for part in value) + "]"
    # JSON's texts, numbers and truth values are TOML's, but for the sign of deletion.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
