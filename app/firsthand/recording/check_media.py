"""Checks that pictures decode and sound goes on."""

import itertools
from collections.abc import Callable

import numpy as np

from firsthand.api import FirsthandError, PayloadKind
from firsthand.recording.check_report import CheckLimits, CheckReport, Verdict
from firsthand.recording.check_streams import told
from firsthand.recording.reader.audio import Audio
from firsthand.recording.reader.stream import Stream
from firsthand.recording.reader.video import Video

_NAMED = 5
_BLOCK_S = 20.0


def check_pictures(video: Video, report: CheckReport, on_picture: Callable[[int], None]) -> None:
    """Every picture must decode; those that build on packets lost earlier are known losses."""
    name = video.schema.name
    bad: list[int] = []
    lost: list[int] = []
    for index in video.undecodable(on_picture):
        (lost if video.builds_on_a_loss(index) else bad).append(index)
    if bad:
        named = ", ".join(str(i) for i in bad[:_NAMED]) + (" …" if len(bad) > _NAMED else "")
        words = f"{len(bad)} of {len(video)} pictures cannot be decoded: {named}"
        report.add(name, "pictures", Verdict.BAD, words, undecodable=bad[:1000])
    elif lost:
        words = f"{len(lost)} of {len(video)} pictures build on packets that were lost"
        report.add(name, "pictures", Verdict.DEGRADED, words, undecodable=lost[:1000])
    else:
        report.add(name, "pictures", Verdict.GOOD, f"all {len(video)} decode")


def check_sound(audio: Audio, stream: Stream, limits: CheckLimits, report: CheckReport) -> None:
    """Sound must go on without holes, and each hole must be told."""
    name = audio.schema.name
    header = stream.header
    stretches = audio.stretches
    holes_s, untold = [], []
    for before, after in itertools.pairwise(stretches):
        hole_s = after.start_s - before.stop_s
        holes_s.append(hole_s)
        first, last = (
            int(header["device_ns"][before.stop - 1]),
            int(header["device_ns"][after.first]),
        )
        if not told(stream.gaps, first, last):
            untold.append((before.stop_s, hole_s))
    missing_s = float(np.sum(np.maximum(holes_s, 0.0))) if holes_s else 0.0
    longest_s = max(holes_s, default=0.0)
    values = {"holes": len(holes_s), "missing_s": missing_s, "longest_s": longest_s}
    damaged = _decode_all(audio, stream)
    if damaged:
        words = f"{damaged} packets of sound cannot be decoded"
        report.add(name, "sound", Verdict.BAD, words, **values)
    elif untold:
        at_s, hole_s = untold[0]
        words = f"{len(untold)} holes that no gap tells of: {hole_s:.3f} s at {at_s:.2f} s"
        report.add(name, "sound", Verdict.BAD, words, **values)
    elif longest_s > limits.longest_gap_s:
        words = f"{missing_s:.2f} s are missing in {len(holes_s)} hole{'s' * (len(holes_s) != 1)}"
        report.add(name, "sound", Verdict.DEGRADED, words, **values)
    else:
        words = f"goes on, {missing_s:.3f} s missing" if holes_s else "goes on without a hole"
        report.add(name, "sound", Verdict.GOOD, words, **values)


def _decode_all(audio: Audio, stream: Stream) -> int:
    """Decode coded sound from end to end; the number of packets that do not."""
    if audio.schema.payload is not PayloadKind.AAC_ADTS or not len(stream):
        return 0
    at_s, end_s = float(stream.times_s.min()), float(stream.times_s.max())
    while at_s < end_s:
        try:
            audio.sound(at_s, min(end_s, at_s + _BLOCK_S))
        except FirsthandError:
            return 1
        at_s += _BLOCK_S
    return len(audio.damaged)
