"""CSV: one table per stream, one row per packet (or reading), and one of all gaps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import BeforeValidator, Field

from firsthand.api import (
    Exporter,
    PluginConfig,
    Progress,
    RecordingView,
    StreamRole,
    StreamSchema,
    flat_columns,
)
from firsthand_exports.choice import first_of, named

_ROWS: Final = 20_000


def _names(value: Any) -> Any:
    """Names as people type them on a command line: one, or several with commas."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


class CsvConfig(PluginConfig):
    """Which streams become tables."""

    streams: Annotated[list[str], BeforeValidator(_names)] = Field(
        default_factory=list, description="Streams, with commas between; empty: all of them."
    )


class CsvExporter(Exporter):
    """Writes ``<stream>.csv`` per stream and ``gaps.csv``.

    Columns bear their unit in square brackets. ``time_s`` is seconds from the session's start,
    ``utc`` ISO 8601. What was not valid is empty. The gaze also has ``video_x`` and ``video_y``:
    where it falls in the picture nearest in time, empty where it does not.
    """

    name: ClassVar[str] = "csv"
    title: ClassVar[str] = "CSV: every stream as a table"
    Config: ClassVar[type[PluginConfig]] = CsvConfig
    config: CsvConfig

    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        chosen = [named(recording, name) for name in self.config.streams]
        chosen = chosen or list(recording.schemas.values())
        gaze = first_of(recording, StreamRole.GAZE)
        video = first_of(recording, StreamRole.VIDEO)
        written = []
        for number, schema in enumerate(chosen):
            extra: dict[str, Any] = {}
            if gaze is not None and video is not None and schema.name == gaze.name:
                pixels = recording.gaze_pixels()
                extra = {"video_x [px]": pixels[:, 0], "video_y [px]": pixels[:, 1]}

            def told(done: float, words: str = "", number: int = number) -> None:
                progress((number + done) / len(chosen), words)

            written.append(_table(recording, schema, out, extra, told))
        written.append(_gaps(recording, chosen, out))
        progress(1.0, "done")
        return written


def _table(
    recording: RecordingView,
    schema: StreamSchema,
    out: Path,
    extra: dict[str, Any],
    progress: Progress,
) -> Path:
    import pandas as pd

    path = out / f"{schema.name}.csv"
    times = recording.times_s(schema.name)
    records = recording.records(schema.name) if schema.columns else None
    with path.open("x", newline="", encoding="utf-8") as file:
        for at in range(0, max(1, len(times)), _ROWS):
            part = slice(at, at + _ROWS)
            columns: dict[str, Any] = {
                "time_s": np.round(times[part], 9),
                "utc": _utc(recording, times[part]),
            }
            if records is not None:
                for column in flat_columns(schema, records[part]):
                    unit = f" [{column.unit}]" if column.unit not in {"", "1"} else ""
                    columns[column.name + unit] = _plain(column.values)
            columns |= {name: np.round(values[part], 3) for name, values in extra.items()}
            pd.DataFrame(columns).to_csv(
                file, index=False, header=at == 0, lineterminator="\n", encoding="utf-8"
            )
            progress(min(1.0, (at + _ROWS) / max(1, len(times))), f"writing {path.name}")
    return path


def _plain(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Truth values as 0 and 1, which every program reads."""
    return values.astype(np.uint8) if values.dtype.kind == "b" else values


def _utc(recording: RecordingView, times: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    micros = recording.start_utc_ns // 1000 + np.round(times * 1e6).astype(np.int64)
    text = np.datetime_as_string(micros.astype("datetime64[us]"))
    return np.char.add(text, "Z")


def _gaps(recording: RecordingView, chosen: Sequence[StreamSchema], out: Path) -> Path:
    import pandas as pd

    rows = [
        (gap.stream, *np.round(edges, 6).tolist(), gap.cause, gap.packets_lost)
        for schema in chosen
        for gap, edges in zip(
            recording.gaps(schema.name), recording.gaps_s(schema.name), strict=True
        )
    ]
    names = ["stream", "start_s", "stop_s", "cause", "packets_lost"]
    path = out / "gaps.csv"
    with path.open("x", newline="", encoding="utf-8") as file:
        pd.DataFrame(rows, columns=names).to_csv(file, index=False, lineterminator="\n")
    return path
