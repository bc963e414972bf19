"""Checks a recording in a worker process: decoding every picture would make a window stutter."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, FirsthandError, GapCause, StreamRole
from firsthand.host import run_in_worker
from firsthand.recording.check_report import CheckReport
from firsthand.recording.check_report import Verdict as Word
from firsthand.session.tools import InNumbers, Verdict

TARGET: Final = "firsthand.session.check_work:work"
_LEAST_S: Final = 300.0
_PER_BYTE_S: Final = 1e-6
_MEMORY_BYTES: Final = 2 << 30


def work(arguments: Mapping[str, Any], progress: Callable[..., None]) -> dict[str, Any]:
    """The worker's part: check the recording in ``folder``."""
    from firsthand.recording.check import check

    folder = Path(arguments["folder"])
    found = verdict_of(check(folder, progress=progress))
    try:
        found["numbers"] = asdict(numbers_of(folder))
    except FirsthandError:
        found["numbers"] = {}  # a recording that cannot be opened: the verdict has said so
    return found


def check_in_worker(folder: Path, progress: Callable[[float, str], None]) -> Verdict:
    """The verdict on the recording in ``folder``. Raises ``FirsthandError``."""
    size = sum(path.stat().st_size for path in folder.glob("*.h5"))
    found = run_in_worker(
        TARGET,
        {"folder": str(folder.resolve())},
        deadline_s=_LEAST_S + size * _PER_BYTE_S,
        memory_bytes=_MEMORY_BYTES,
        on_progress=progress,
        plugin="firsthand",
        what="checking the recording",
    )
    return Verdict(
        bool(found["good"]),
        str(found["words"]),
        tuple(found["findings"]),
        InNumbers(**found["numbers"]),
    )


def verdict_of(report: CheckReport) -> dict[str, Any]:
    """A report in the words of a session's end: one line, and what is not as it should be."""
    wrong = [finding for finding in report.findings if finding.verdict is not Word.GOOD]
    if report.verdict is Word.GOOD:
        words = f"The recording is good: it passed all {len(report.findings)} checks."
    else:
        words = f"The recording is {report.verdict.value}: {len(wrong)} of "
        words += f"{len(report.findings)} checks found something."
    return {
        "good": report.verdict is Word.GOOD,
        "words": words,
        "findings": [f"{each.about} ({each.what}): {each.words}" for each in wrong],
    }


def numbers_of(folder: Path) -> InNumbers:
    """The recording in ``folder`` in numbers. Raises ``RecordingError`` where it cannot be read."""
    import firsthand

    with firsthand.open(folder, trusted=True) as recording:
        roles = {schema.role for schema in recording.schemas.values()}
        sound_s = None
        if StreamRole.MICROPHONE in roles:
            sound = recording.stream_of(StreamRole.MICROPHONE)
            samples = int(recording.records(sound.schema.name)["samples"].sum())
            sound_s = samples / sound.schema.sample_hz if sound.schema.sample_hz else None
        valid = gaze_stream = None
        if StreamRole.GAZE in roles:
            gaze_stream = recording.gaze.schema.name
            valid = _share(recording.records(gaze_stream)["valid"])
        hands_seen = None
        if StreamRole.HANDS in roles:
            hands = recording.records(recording.hands.schema.name)
            hands_seen = _share(hands["left_valid"] | hands["right_valid"])
        residuals = [
            fit.residual_p95_ns / 1e6
            for clock, fits in recording.clock.items()
            if clock != Clock.UTC
            for fit in fits
        ]
        return InNumbers(
            duration_s=recording.duration_s,
            pictures=len(recording.video) if StreamRole.VIDEO in roles else 0,
            gaze_valid=valid,
            gaze_stream=gaze_stream,
            hands_seen=hands_seen,
            sound_s=sound_s,
            gaps=sum(gap.cause != GapCause.NOT_STARTED for gap in recording.gaps()),
            clock_residual_ms=max(residuals, default=None),
        )


def _share(of: npt.NDArray[np.bool_]) -> float | None:
    return float(of.mean()) if len(of) else None
