"""One stream of a recording as numbers: times, records, tables."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firsthand.api import GapRow, StreamSchema, flat_columns
from firsthand.recording.reader.store import StreamStore
from firsthand.recording.reader.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd


class Stream:
    """Any stream. Times are seconds from the session's start."""

    def __init__(self, store: StreamStore, timeline: Timeline) -> None:
        self.schema: StreamSchema = store.schema
        self._store = store
        self._timeline = timeline
        self._times: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        """Number of packets."""
        return len(self._store)

    @property
    def header(self) -> npt.NDArray[np.void]:
        """``device_ns, arrival_ns, seq, crc32, flags`` of every packet."""
        return self._store.header

    @property
    def records(self) -> npt.NDArray[np.void]:
        """Records in the schema's ``dtype``: one per packet, or one per row."""
        return self._store.records()

    def row(self, index: int) -> Any:
        """One record, as a numpy record."""
        return self._store.records(index, index + 1)[0]

    @property
    def gaps(self) -> list[GapRow]:
        """Intervals without packets, times by the stream's own clock."""
        return self._store.gaps()

    @property
    def times_s(self) -> npt.NDArray[np.float64]:
        """Time of every record."""
        if self._times is None:
            clock = self.schema.clock
            self._times = self._timeline.times_s(clock, self.device_ns, self._arrival_ns())
        return self._times

    @property
    def gaps_s(self) -> npt.NDArray[np.float64]:
        """Start and stop of each of ``gaps`` in seconds of the session: (n, 2).

        Gaps begin and end at packets, so these tell; where a gap has an end of its own (skipped
        packets, the recording's end) its distance in device time to the nearest packet is added.
        """
        edges = np.array([(gap.start_ns, gap.stop_ns) for gap in self.gaps], np.int64)
        edges = edges.reshape(-1, 2)
        header = self._store.header
        if not len(header):
            return np.full(edges.shape, np.nan)
        device_ns = header["device_ns"].astype(np.int64)
        times = self._timeline.times_s(self.schema.clock, device_ns, header["arrival_ns"])
        order = np.argsort(device_ns, kind="stable")
        after = np.clip(np.searchsorted(device_ns[order], edges), 0, len(order) - 1)
        before = np.maximum(after - 1, 0)
        late, early = device_ns[order][after] - edges, edges - device_ns[order][before]
        nearest = order[np.where(np.abs(late) <= np.abs(early), after, before)]
        return np.asarray(times[nearest] + (edges - device_ns[nearest]) / 1e9)

    @property
    def device_ns(self) -> npt.NDArray[np.int64]:
        """Time of every record by the stream's own clock."""
        if self.schema.row_time is not None:
            return self._store.column(self.schema.row_time).astype(np.int64)
        return self._store.header["device_ns"]

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """For each packet the index of its first record."""
        if self.schema.row_time is None:
            return np.arange(len(self), dtype=np.int64)
        return self._store.index["row"].astype(np.int64)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of all records. Raises ``KeyError`` where there is none of that name."""
        if all(column.name != name for column in self.schema.columns):
            raise KeyError(name)
        return self._store.column(name)

    def table(self) -> "pd.DataFrame":
        """All records as a pandas table, one column per number, by time (``time_s``, the index).

        Besides the stream's columns there are ``utc`` and ``device_ns``. What the device said to
        be not valid is NaN.
        """
        import pandas as pd

        times = self.times_s
        start_ns = self._timeline.start_utc_ns
        columns: dict[str, Any] = {
            "utc": pd.to_datetime(start_ns + np.round(times * 1e9).astype(np.int64), utc=True),
            "device_ns": self.device_ns,
        }
        for column in flat_columns(self.schema, self.records):
            columns[column.name if column.name not in columns else f"{column.name}_"] = (
                column.values
            )
        return pd.DataFrame(columns, index=pd.Index(times, name="time_s"))

    def _arrival_ns(self) -> npt.NDArray[np.int64]:
        arrival: npt.NDArray[np.int64] = self._store.header["arrival_ns"]
        if self.schema.row_time is None:
            return arrival
        return np.repeat(arrival, self._store.index["rows"])
