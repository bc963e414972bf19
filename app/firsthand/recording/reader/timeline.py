"""The session's time: seconds from its start, from what each clock said."""

from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, RecordingError
from firsthand.streams.clock import ClockTable

Moment = float | datetime
"""Seconds from the start of the session, or a UTC ``datetime`` (with its time zone)."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Timeline:
    """Turns device times into seconds of the session, and these into UTC and back."""

    def __init__(self, table: ClockTable, start_host_ns: int, start_utc_ns: int) -> None:
        self.table = table
        self.start_host_ns = start_host_ns
        self.start_utc_ns = start_utc_ns

    def times_s(
        self, clock: Clock, device_ns: npt.NDArray[np.int64], arrival_ns: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Seconds of the session for times of ``clock``, by the clock's fit."""
        host_ns = self.table.to_host_ns(clock, device_ns, arrival_ns)
        return np.asarray((host_ns - self.start_host_ns) / 1e9)

    def seconds(self, moment: Moment) -> float:
        """Seconds of the session. Raises ``RecordingError`` for a ``datetime`` without a zone."""
        if not isinstance(moment, datetime):
            return float(moment)
        if moment.tzinfo is None:
            raise RecordingError(
                "A time of day without a time zone could mean any moment.",
                try_this="Use datetime(..., tzinfo=datetime.UTC), or seconds from the start.",
            )
        since = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
        return (since - self.start_utc_ns) / 1e9

    def utc(self, time_s: float) -> datetime:
        """The moment as UTC ``datetime`` (whole microseconds)."""
        ns = self.start_utc_ns + round(time_s * 1e9)
        return _EPOCH + timedelta(microseconds=ns // 1000)
