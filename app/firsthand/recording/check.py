"""Is a recording sound? Looks at everything and gives one verdict."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import h5py
from pydantic import ValidationError

from firsthand.api import (
    DamagedError,
    FirsthandError,
    Progress,
    SettingsError,
    StreamState,
)
from firsthand.recording.check_clock import check_clocks
from firsthand.recording.check_media import check_pictures, check_sound
from firsthand.recording.check_report import CheckLimits, CheckReport, Verdict
from firsthand.recording.check_streams import (
    check_losses,
    check_rate,
    check_records,
    check_times,
)
from firsthand.recording.finalise import sha256
from firsthand.recording.finalise_manifest import FINISHED, notes_of
from firsthand.recording.gate import inspect_file
from firsthand.recording.layout import RAW
from firsthand.recording.manifest import Manifest, RecordingState
from firsthand.recording.reader.opening import find_raw, manifest_beside
from firsthand.recording.reader.recording import Recording

_log = logging.getLogger(__name__)
_HASH_SHARE: Final = 0.1
_RECORDS_SHARE: Final = 0.2


def check(
    path: Path, *, limits: CheckLimits | None = None, progress: Progress | None = None
) -> CheckReport:
    """Check the recording at ``path`` (a session's folder or its file).

    ``limits`` go before those that the protocol put into the manifest. Damage is a finding, not an
    error. Raises ``RecordingError`` where there is no finished recording at all, ``SettingsError``
    where the manifest's limits are none.
    """
    tell = progress or _nobody
    raw = find_raw(path)
    report = CheckReport(str(path))
    manifest = manifest_beside(raw)
    _check_manifest(manifest, report)
    tell(0.0, "looking at the file")
    _check_hash(raw, manifest, report, _part(tell, 0.0, _HASH_SHARE, raw.stat().st_size))
    try:
        inspect_file(raw)
    except DamagedError as error:
        report.add("file", "structure", Verdict.BAD, error.message)
        return report
    report.add("file", "structure", Verdict.GOOD, "is as documented")
    try:
        with h5py.File(raw, "r", locking=False) as file:
            recording = Recording(raw.parent, file, manifest)
            _check_content(recording, limits or _limits(manifest), report, tell)
    except SettingsError:
        raise
    except (FirsthandError, OSError) as error:
        words = error.message if isinstance(error, FirsthandError) else str(error)
        report.add("file", "content", Verdict.BAD, f"could not be read to its end: {words}")
    tell(1.0, "done")
    return report


def _check_content(
    recording: Recording, limits: CheckLimits, report: CheckReport, tell: Progress
) -> None:
    facts = recording.facts
    for part in (facts.session, facts.calibration, facts.notes, facts.states, facts.health):
        len(part)  # read: what is damaged is then known
    if facts.damaged:
        words = f"damaged: {', '.join(facts.damaged)}"
        report.add("file", "facts", Verdict.BAD, words, damaged=facts.damaged)
    check_clocks(recording, limits, report)
    pictures = {
        name: len(recording.video_of(name))
        for name, schema in recording.schemas.items()
        if schema.payload.is_video
    }
    on_bytes = _part(tell, _HASH_SHARE, _RECORDS_SHARE, recording.bytes)
    rest = 1.0 - _HASH_SHARE - _RECORDS_SHARE
    on_picture = _part(tell, 1.0 - rest, rest, sum(pictures.values()))
    for name, stream in recording.streams.items():
        check_losses(stream, recording.duration_s, limits, report, _last_reason(recording, name))
        if not len(stream):
            continue
        check_rate(stream, limits, report)
        check_times(stream, report)
        check_records(recording.store(name), report, on_bytes)
        if stream.schema.payload.is_audio:
            check_sound(recording.audio_of(name), stream, limits, report)
    for name in pictures:
        check_pictures(recording.video_of(name), report, lambda _: on_picture(1))


def _last_reason(recording: Recording, stream: str) -> str:
    """What was said last of a stream while the recording went on."""
    states = recording.facts.states
    said = [
        row["reason"].decode("utf-8", "replace")
        for row in states[states["stream"] == stream.encode()]
        if row["state"] != StreamState.ENDED.value.encode() and row["reason"]
    ]
    return said[-1] if said else ""


def _check_manifest(manifest: Manifest, report: CheckReport) -> None:
    if not manifest.files and not manifest.created_utc:
        words = "is missing or damaged: nothing says that the file is the one that was made"
        report.add("file", "manifest", Verdict.DEGRADED, words)
        return
    damage = [d for d in (manifest.model_extra or {}).get("damage") or [] if not d.get("torn")]
    words = " ".join(notes_of(manifest))
    if manifest.state not in FINISHED:
        words = f"says that the recording is {manifest.state.value}"
        report.add("file", "manifest", Verdict.DEGRADED, words)
    elif damage:
        report.add("file", "manifest", Verdict.DEGRADED, words, damage=damage)
    else:
        whole = manifest.state is RecordingState.COMPLETE
        report.add(
            "file", "manifest", Verdict.GOOD, words or ("complete" if whole else "recovered")
        )


def _check_hash(
    raw: Path, manifest: Manifest, report: CheckReport, on_bytes: Callable[[int], None]
) -> None:
    facts = manifest.files.get(RAW)
    if facts is None:
        return
    size = raw.stat().st_size
    if size != facts.bytes:
        words = f"the file has {size} bytes and should have {facts.bytes}"
        report.add("file", "hash", Verdict.BAD, words)
        return
    found = sha256(raw, on_bytes)
    if found != facts.sha256:
        report.add("file", "hash", Verdict.BAD, "the file is not the one that was made")
    else:
        report.add("file", "hash", Verdict.GOOD, f"SHA-256 {found[:12]}… as in the manifest")


def limits_of(path: Path, asked: Mapping[str, float]) -> CheckLimits:
    """The limits of the recording's protocol, those in ``asked`` going before them.

    Raises ``RecordingError`` where there is no recording, ``SettingsError`` for limits that are
    none.
    """
    return _limits(manifest_beside(find_raw(path)), asked)


def _limits(manifest: Manifest, more: Mapping[str, float] | None = None) -> CheckLimits:
    asked = {**(manifest.session.get("check_limits") or {}), **(more or {})}
    try:
        return CheckLimits.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(
            f"The manifest's limits for checking cannot be used: {where}: {first['msg']}.",
            try_this="Mend check_limits in the study's protocol, or give limits as options.",
        ) from error


def _part(tell: Progress, begin: float, share: float, total: int) -> Callable[[int], None]:
    """Counts up to ``total`` and tells how far the whole check has come, ten times a second."""
    done, next_s = 0, 0.0

    def count(amount: int) -> None:
        nonlocal done, next_s
        done += amount
        now = time.monotonic()
        if now >= next_s:
            next_s = now + 0.1
            tell(begin + share * min(1.0, done / max(1, total)), "checking")

    return count


def _nobody(done: float, words: str = "") -> None:
    """Progress that nobody wants to see."""


__all__ = ["CheckLimits", "CheckReport", "Verdict", "check", "limits_of"]
