"""How well each stream does, in numbers and in one word.

The word, from what is true now:

========  ==========================================================================
silent    not live, or nothing for longer than the stream's ``stalls_after_s``
poor      of the last ten seconds' packets more than 5 % lost, or less than half the
          nominal rate, or packets more than a second old when they arrive
degraded  more than 0.5 % lost or a bad timestamp in the last ten seconds, or less
          than 90 % of the nominal rate, or packets more than 250 ms old
good      everything else
========  ==========================================================================

Rates are over the last five seconds, or since the first packet where that is less. The age of a
packet is how much longer it took than the quickest one lately: arrival less device time, above its
running minimum.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from firsthand.api import StreamSchema, StreamState

GOOD: Final = "good"
DEGRADED: Final = "degraded"
POOR: Final = "poor"
SILENT: Final = "silent"

_SLICE_NS: Final = 250_000_000
_SLICES: Final = 40
_RATE_SLICES: Final = 20
_POOR_DROP: Final = 0.05
_DEGRADED_DROP: Final = 0.005
_POOR_RATE: Final = 0.5
_DEGRADED_RATE: Final = 0.9
_POOR_AGE_MS: Final = 1000.0
_DEGRADED_AGE_MS: Final = 250.0
_FORGIVE: Final = 2e-4
"""The minimum of arrival less device time may rise so fast: clocks drift apart by no more."""


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    """One stream's health at one moment."""

    stream: str
    state: StreamState
    reason: str
    word: str
    rate_hz: float
    nominal_hz: float
    silence_s: float
    """Time since the last packet, or since the start where there was none."""
    age_ms: float
    drop_ratio: float
    """Lost of all packets that should be there, since the start."""
    longest_drop_s: float
    dropped: int
    bad_times: int
    """Packets whose device time did not exceed their predecessor's."""
    packets: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """The snapshot as JSON types."""
        return {**asdict(self), "state": self.state.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The snapshot that ``to_json`` wrote. Raises ``KeyError``, ``TypeError``, ``ValueError``
        on anything else."""
        return cls(**{**data, "state": StreamState(data["state"])})


class StreamHealth:
    """Counts for one stream. ``packet`` is called for each packet and costs next to nothing."""

    def __init__(self, schema: StreamSchema, started_ns: int) -> None:
        self._schema = schema
        self._since_ns = started_ns
        self._state = StreamState.CONNECTING
        self._reason = ""
        self._packets = 0
        self._bytes = 0
        self._dropped = 0
        self._longest_s = 0.0
        self._bad_times = 0
        self._device_ns: int | None = None
        self._arrival_ns = started_ns
        self._floor_ns = 0.0
        self._age_ns = 0.0
        # A ring of quarter seconds: which one each place holds, and what happened in it.
        self._slice_of = [-1] * _SLICES
        self._got = [0] * _SLICES
        self._missed = [0] * _SLICES
        self._bad = [0] * _SLICES

    def packet(self, device_ns: int, arrival_ns: int, nbytes: int) -> None:
        """Count a packet that arrived."""
        self._packets += 1
        self._bytes += nbytes
        at = self._slice(arrival_ns)
        self._got[at] += 1
        delay_ns = arrival_ns - device_ns
        if self._device_ns is None:
            self._floor_ns = delay_ns
            self._since_ns = arrival_ns
        elif device_ns <= self._device_ns:
            self._bad_times += 1
            self._bad[at] += 1
            self._floor_ns = delay_ns  # the clock was set back: what it said before is no measure
        else:
            self._floor_ns = min(
                delay_ns, self._floor_ns + (arrival_ns - self._arrival_ns) * _FORGIVE
            )
        self._age_ns += ((delay_ns - self._floor_ns) - self._age_ns) / 8
        self._device_ns = device_ns
        self._arrival_ns = arrival_ns

    def lost(self, packets: int, seconds: float) -> None:
        """Count a gap of ``packets`` (−1: unknown, counted as none) that lasted ``seconds``. A gap
        of 0 is none: the device had nothing to send."""
        if packets == 0:
            return
        self._longest_s = max(self._longest_s, seconds)
        if packets > 0:
            self._dropped += packets
            self._missed[self._slice(self._arrival_ns)] += packets

    def state(self, state: StreamState, reason: str = "") -> None:
        """Remember where the stream stands."""
        self._state = state
        self._reason = reason

    def snapshot(self, now_ns: int) -> HealthSnapshot:
        """The health at host time ``now_ns``."""
        silence_s = max(0.0, (now_ns - self._arrival_ns) / 1e9)
        rate_hz = self._rate_hz(now_ns)
        age_ms = self._age_ns / 1e6
        expected = self._packets + self._dropped
        return HealthSnapshot(
            stream=self._schema.name,
            state=self._state,
            reason=self._reason,
            word=self._word(now_ns, silence_s, rate_hz, age_ms),
            rate_hz=rate_hz,
            nominal_hz=self._schema.nominal_hz,
            silence_s=silence_s,
            age_ms=age_ms,
            drop_ratio=self._dropped / expected if expected else 0.0,
            longest_drop_s=self._longest_s,
            dropped=self._dropped,
            bad_times=self._bad_times,
            packets=self._packets,
            bytes=self._bytes,
        )

    def _slice(self, host_ns: int) -> int:
        number = host_ns // _SLICE_NS
        at = number % _SLICES
        if self._slice_of[at] != number:
            self._slice_of[at] = number
            self._got[at] = self._missed[at] = self._bad[at] = 0
        return at

    def _sum(self, counts: list[int], now_ns: int, slices: int) -> int:
        """What the last whole ``slices`` hold, the running one left out."""
        running = now_ns // _SLICE_NS
        return sum(
            count
            for number, count in zip(self._slice_of, counts, strict=True)
            if running - slices <= number < running
        )

    def _rate_hz(self, now_ns: int) -> float:
        slices = self._rate_slices(now_ns)
        return self._sum(self._got, now_ns, slices) / (slices * _SLICE_NS / 1e9) if slices else 0.0

    def _rate_slices(self, now_ns: int) -> int:
        whole = now_ns // _SLICE_NS - self._since_ns // _SLICE_NS - 1
        return max(0, min(_RATE_SLICES, whole))

    def _word(self, now_ns: int, silence_s: float, rate_hz: float, age_ms: float) -> str:
        if self._state is not StreamState.LIVE or silence_s > self._schema.stalls_after_s:
            return SILENT
        got = self._sum(self._got, now_ns, _SLICES - 1)
        missed = self._sum(self._missed, now_ns, _SLICES - 1)
        bad = self._sum(self._bad, now_ns, _SLICES - 1)
        drop = missed / (got + missed) if missed else 0.0
        # A slow stream has a handful of packets in the window: one more or less says nothing.
        slices = self._rate_slices(now_ns)
        nominal_hz = self._schema.nominal_hz if slices else 0.0
        slack_hz = 1e9 / (slices * _SLICE_NS) if slices else 0.0
        if (
            drop > _POOR_DROP
            or rate_hz < _POOR_RATE * nominal_hz - slack_hz
            or age_ms > _POOR_AGE_MS
        ):
            return POOR
        if (
            drop > _DEGRADED_DROP
            or bad
            or rate_hz < _DEGRADED_RATE * nominal_hz - slack_hz
            or age_ms > _DEGRADED_AGE_MS
        ):
            return DEGRADED
        return GOOD
