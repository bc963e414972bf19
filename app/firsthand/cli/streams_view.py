"""How recorded streams are shown in a terminal: a small table, or one line."""

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsthand.api import StreamState
from firsthand.recording.recorder_settings import RecorderStatus
from firsthand.streams.health import DEGRADED, GOOD, POOR, SILENT, HealthSnapshot

_COLOURS: Final = {GOOD: "green", DEGRADED: "yellow", POOR: "red", SILENT: "bold red"}
_TROUBLED: Final = (StreamState.STALLED, StreamState.REFUSED, StreamState.LOST)
_MB: Final = 1e6
_WARNINGS: Final = 3


def table(status: RecorderStatus) -> RenderableType:
    """Every stream with its word and the numbers behind it, and what the recorder warns of."""
    rows = Table("stream", "", "per second", "age", "lost", "MB", box=None, pad_edge=False)
    for stream in status.streams:
        rows.add_row(
            Text(stream.stream),
            Text(stream.word, style=_COLOURS.get(stream.word, "")),
            f"{stream.rate_hz:5.1f} of {stream.nominal_hz:g}",
            f"{stream.age_ms:.0f} ms",
            str(stream.dropped),
            f"{stream.bytes / _MB:.1f}",
        )
    reasons = [Text(words, style="yellow") for words in troubles(status)]
    warnings = [Text(words, style="yellow") for words in status.warnings[-_WARNINGS:]]
    return Group(rows, Text(summary(status), style="dim"), *reasons, *warnings)


def troubles(status: RecorderStatus) -> list[str]:
    """Why streams do not come, one sentence for each that says so."""
    return [each.reason for each in status.streams if each.reason and each.state in _TROUBLED]


def summary(status: RecorderStatus) -> str:
    """Elapsed time, bytes written, and for how long the disk has room."""
    words = f"{clock(status.elapsed_s)}   {status.bytes_written / _MB:.1f} MB written"
    if status.time_left_s is not None:
        words += f"   room for {_duration(status.time_left_s)}"
    return words


def line(status: RecorderStatus) -> str:
    """All streams in one line, for where nothing can be redrawn."""
    streams = ", ".join(_short(stream) for stream in status.streams)
    return f"{clock(status.elapsed_s)}  {streams}"


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are some."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:d}:{rest:02d}"


def _duration(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours >= 2 else f"{seconds / 60:.0f} min"


def _short(stream: HealthSnapshot) -> str:
    return f"{stream.stream} {stream.word} {stream.rate_hz:.0f}/s"
