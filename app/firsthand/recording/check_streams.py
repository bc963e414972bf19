"""Checks of one stream's numbers: checksums, order of times, rate, losses."""

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, GapCause, GapRow, PacketFlags, StreamRole
from firsthand.recording.check_report import CheckLimits, CheckReport, Verdict
from firsthand.recording.reader.store import StreamStore
from firsthand.recording.reader.stream import Stream

_JUMP_PERIODS = 2.5
"""A step of more periods than this between regular packets must stand in a gap row."""
_NO_LOSS = {GapCause.NOT_STARTED.value, GapCause.NO_READING.value}
_NAMED = 5


def check_records(store: StreamStore, report: CheckReport, on_bytes: Callable[[int], None]) -> None:
    """Every packet must hold what its checksum promises."""
    name = store.schema.name
    checks = store.header["crc32"]
    bad = []
    for start, stop in store.batches(0, len(store)):
        for i, (fields, payload) in enumerate(store.contents(start, stop), start):
            on_bytes(len(fields) + len(payload))
            if crc32(payload, crc32(fields)) != int(checks[i]):
                bad.append(i)
    if bad:
        named = ", ".join(str(i) for i in bad[:_NAMED]) + (" …" if len(bad) > _NAMED else "")
        words = f"{len(bad)} of {len(store)} packets are damaged: {named}"
        report.add(name, "checksums", Verdict.BAD, words, damaged=bad[:1000])
    else:
        report.add(name, "checksums", Verdict.GOOD, f"all {len(store)} packets hold")


def check_times(stream: Stream, report: CheckReport) -> None:
    """Times must go up; where the device itself set one back, the packet is marked."""
    header = stream.header
    wall = stream.schema.clock is Clock.DEVICE_WALL
    if wall and stream.schema.row_time is None:
        steps = np.diff(stream.times_s)  # the clock's own steps are taken out
    else:
        steps = np.diff(header["device_ns"])
    back = np.flatnonzero(steps <= 0) + 1
    marks = int(PacketFlags.TIME_WENT_BACK | PacketFlags.FIRST_AFTER_GAP)
    marked = (header["flags"][back] & marks) != 0
    silent = back[~marked]
    name = stream.schema.name
    if len(silent):
        words = f"{len(silent)} packets have times that do not go up, the first is {silent[0]}"
        report.add(name, "times", Verdict.BAD, words, packets=silent[:1000].tolist())
    elif len(back):
        words = f"the device set its time back {len(back)} times; the packets are marked"
        report.add(name, "times", Verdict.DEGRADED, words, packets=back[:1000].tolist())
    else:
        report.add(name, "times", Verdict.GOOD, "go up")


def check_rate(stream: Stream, limits: CheckLimits, report: CheckReport) -> None:
    """Packets per second while the stream ran, gaps left out."""
    schema = stream.schema
    device_ns = stream.header["device_ns"].astype(np.int64)
    if len(device_ns) < 2 or schema.nominal_hz <= 0:
        return
    span_ns = int(device_ns.max() - device_ns.min())
    missing_ns = sum(
        max(0, gap.stop_ns - gap.start_ns)
        for gap in stream.gaps
        if gap.cause != GapCause.NOT_STARTED.value
    )
    ran_s = max(span_ns - missing_ns, 1) / 1e9
    rate = (len(device_ns) - 1) / ran_s if span_ns > missing_ns else 0.0
    good = rate >= limits.rate_share * schema.nominal_hz
    words = f"{rate:.2f} Hz of {schema.nominal_hz:g}"
    verdict = Verdict.GOOD if good else Verdict.DEGRADED
    report.add(schema.name, "rate", verdict, words, rate_hz=rate, nominal_hz=schema.nominal_hz)


def check_losses(
    stream: Stream, duration_s: float, limits: CheckLimits, report: CheckReport, reason: str = ""
) -> None:
    """What is missing, and whether all of it is told; ``reason`` is what the device said last."""
    name = stream.schema.name
    gaps = stream.gaps
    if not len(stream):
        words = f"nothing was received. {reason}" if reason else "nothing was received"
        report.add(name, "losses", Verdict.BAD, words, lost=0)
        return
    losses = [gap for gap in gaps if gap.cause not in _NO_LOSS]
    lost = sum(max(0, gap.packets_lost) for gap in losses)
    longest_s = max(((gap.stop_ns - gap.start_ns) / 1e9 for gap in losses), default=0.0)
    share = lost / (lost + len(stream))
    untold = _untold(stream, gaps)
    values = {"lost": lost, "share": share, "longest_gap_s": longest_s, "gaps": len(losses)}
    words = f"{lost} packets lost ({share:.2%}), longest gap {longest_s:.2f} s"
    if untold:
        first_s = untold[0]
        words = f"{len(untold)} holes that no gap tells of, the first at {first_s:.2f} s"
        report.add(name, "losses", Verdict.BAD, words, **values, untold_s=untold[:1000])
    elif share > limits.bad_lost_share:
        report.add(name, "losses", Verdict.BAD, words, **values)
    elif share > limits.lost_share or longest_s > limits.longest_gap_s:
        report.add(name, "losses", Verdict.DEGRADED, words, **values)
    else:
        report.add(name, "losses", Verdict.GOOD, words, **values)
    ends_s = duration_s - float(stream.times_s.max())
    if ends_s > limits.ends_early_s + stream.schema.stalls_after_s:
        words = f"ends {ends_s:.1f} s before the recording does"
        report.add(name, "end", Verdict.DEGRADED, words, early_s=ends_s)


def _untold(stream: Stream, gaps: Sequence[GapRow]) -> list[float]:
    """Seconds at which something is missing that no gap row covers."""
    schema, header = stream.schema, stream.header
    device_ns = header["device_ns"].astype(np.int64)
    holes = np.zeros(len(device_ns), bool)
    holes[1:] |= np.diff(header["seq"].astype(np.int64)) != 1
    sound = schema.role is StreamRole.MICROPHONE
    if schema.regular and schema.period_ns and schema.row_time is None and not sound:
        holes[1:] |= np.diff(device_ns) > _JUMP_PERIODS * schema.period_ns
    times_s = packet_times_s(stream)
    return [
        float(times_s[i - 1])
        for i in np.flatnonzero(holes).tolist()
        if not told(gaps, int(device_ns[i - 1]), int(device_ns[i]))
    ]


def told(gaps: Sequence[GapRow], before_ns: int, after_ns: int) -> bool:
    """Whether a gap row covers something between two times of the stream's clock."""
    low, high = min(before_ns, after_ns), max(before_ns, after_ns)
    return any(
        gap.start_ns <= high and gap.stop_ns >= low
        for gap in gaps
        if gap.packets_lost != 0 or gap.cause in _NO_LOSS
    )


def packet_times_s(stream: Stream) -> npt.NDArray[np.float64]:
    """Time of every packet, for streams of many rows that of the first row."""
    if stream.schema.row_time is None:
        return stream.times_s
    return stream.times_s[np.minimum(stream.first_rows, max(0, len(stream.times_s) - 1))]
