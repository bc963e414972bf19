"""What may go wrong with the simulated headset on request, and when.

``KINDS`` is the list of faults; ``docs/simulator.md`` says what each looks like from outside. Three
sorts: *packet* faults befall the next packet of a stream (or every packet within ``for_s``),
*lasting* ones hold for ``for_s`` (0: to the end), and *headset* ones befall the device as a whole
and are carried out by ``fault_runner``.
"""

import difflib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from firsthand.api import SettingsError, SimulatedFault
from firsthand_hl2ss.wire import STREAM_PORTS

REMOTE: Final = "rc"
STREAMS: Final = (*STREAM_PORTS, REMOTE)
"""Names that a fault may be for; "" is all of them."""


class Sort(StrEnum):
    PACKET = "packet"
    LASTING = "lasting"
    HEADSET = "headset"


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind: its sort, the streams it makes sense for (none: all), and its own settings."""

    sort: Sort
    words: str
    streams: tuple[str, ...] = ()
    about: Mapping[str, type | tuple[type, ...]] | None = None


_NUMBER: Final = (int, float)
_EYES: Final = ("eet", "si")

KINDS: Final[dict[str, FaultKind]] = {
    "stall": FaultKind(Sort.LASTING, "no data comes and nothing is closed"),
    "half_open": FaultKind(
        Sort.LASTING, "the connection is dead and neither end is told; a reset ends it"
    ),
    "throttle": FaultKind(
        Sort.LASTING, "the link carries so many bytes a second", about={"bytes_per_s": int}
    ),
    "jitter": FaultKind(Sort.LASTING, "packets leave late by chance", about={"ms": _NUMBER}),
    "slices": FaultKind(Sort.LASTING, "packets leave in slivers", about={"bytes": int}),
    "stale_si": FaultKind(
        Sort.LASTING,
        "spatial input has cleared bits in front of old numbers",
        ("si",),
        {"parts": str},
    ),
    "empty_pv": FaultKind(Sort.PACKET, "the encoder yields nothing", ("pv",)),
    "not_worn": FaultKind(Sort.LASTING, "nobody wears the headset", _EYES),
    "not_calibrated": FaultKind(Sort.LASTING, "the eyes are not calibrated", ("eet",)),
    "lost_tracking": FaultKind(
        Sort.LASTING, "the headset cannot locate itself: poses are all zero"
    ),
    "disconnect": FaultKind(Sort.PACKET, "the connection is closed"),
    "reset": FaultKind(Sort.PACKET, "the connection is reset"),
    "truncate": FaultKind(
        Sort.PACKET, "a packet is cut and the connection closed", about={"keep": _NUMBER}
    ),
    "corrupt": FaultKind(
        Sort.PACKET,
        "bits are flipped in length, timestamp, payload, metadata or pose",
        about={"part": str, "bits": int, "value": int},
    ),
    "refuse": FaultKind(Sort.LASTING, "the port refuses connections", about={"keep": bool}),
    "permission_denied": FaultKind(Sort.LASTING, "the wearer refused permission"),
    "ghost_client": FaultKind(Sort.LASTING, "somebody else holds the port and never lets go"),
    "clock_step": FaultKind(Sort.HEADSET, "the wall clock is set", about={"ms": _NUMBER}),
    "drift": FaultKind(
        Sort.HEADSET, "a clock runs fast or slow", about={"ppm": _NUMBER, "clock": str}
    ),
    "restart": FaultKind(Sort.HEADSET, "the app on the headset is started again"),
    "reboot": FaultKind(Sort.HEADSET, "the headset itself is started again"),
}

DEADLY: Final = frozenset({"disconnect", "reset"})
CORRUPT_PARTS: Final = ("length", "timestamp", "payload", "metadata", "pose")
STALE_PARTS: Final = ("head", "eye", "left", "right")
_COUNTS: Final = frozenset({"bytes_per_s", "bytes", "bits"})
_FOREVER_NS: Final = 1 << 62


@dataclass(eq=False, slots=True)
class Planned:
    """A fault with its times on the host's clock."""

    kind: str
    streams: frozenset[str]
    start_ns: int
    stop_ns: int
    """Equal to ``start_ns`` for something that happens once."""
    about: Mapping[str, Any]

    @property
    def once(self) -> bool:
        return self.stop_ns == self.start_ns

    @property
    def seen_by_streams(self) -> bool:
        """Whether the serving threads see to it; the rest is done by ``fault_runner``."""
        if self.kind in DEADLY:
            return not self.once
        return KINDS[self.kind].sort is not Sort.HEADSET

    def holds(self, now_ns: int) -> bool:
        return self.start_ns <= now_ns < self.stop_ns


def plan(fault: SimulatedFault, started_ns: int, now_ns: int) -> Planned:
    """Check a fault and put it on the clock; a moment that has passed means now.

    Raises ``SettingsError`` for an unknown kind, stream or setting, with what may be meant.
    """
    kind = KINDS.get(fault.kind)
    if kind is None:
        raise _unknown("fault", fault.kind, KINDS)
    if fault.stream and fault.stream not in STREAMS:
        raise _unknown("stream", fault.stream, STREAMS)
    if fault.stream and kind.sort is Sort.HEADSET:
        raise SettingsError(
            f"The fault {fault.kind!r} befalls the whole headset, not {fault.stream!r} alone."
        )
    if kind.streams and fault.stream and fault.stream not in kind.streams:
        raise SettingsError(
            f"The fault {fault.kind!r} cannot befall the stream {fault.stream!r}.",
            try_this=f"It is for {' and '.join(kind.streams)}.",
        )
    if fault.at_s < 0 or fault.for_s < 0:
        raise SettingsError(f"The fault {fault.kind!r} has a time below zero.")
    _check_about(fault.kind, kind, fault.about)
    start_ns = max(now_ns, started_ns + round(fault.at_s * 1e9))
    lasts_ns = round(fault.for_s * 1e9)
    if kind.sort is Sort.LASTING and lasts_ns == 0:
        lasts_ns = _FOREVER_NS - start_ns
    streams = frozenset([fault.stream] if fault.stream else kind.streams or STREAMS)
    return Planned(fault.kind, streams, start_ns, start_ns + lasts_ns, dict(fault.about))


def _check_about(name: str, kind: FaultKind, about: Mapping[str, Any]) -> None:
    known = kind.about or {}
    for key, value in about.items():
        if key not in known:
            raise _unknown("setting", key, known, f" of the fault {name!r}")
        if not isinstance(value, known[key]) or (
            isinstance(value, bool) and known[key] is not bool
        ):
            raise SettingsError(f"The fault {name!r} cannot have {key}={value!r}.")
        if key in _COUNTS and about[key] < 1:
            raise SettingsError(f"The fault {name!r} needs {key} of at least 1.")
    if about.get("part", CORRUPT_PARTS[0]) not in CORRUPT_PARTS:
        raise _unknown("part of a packet", about["part"], CORRUPT_PARTS)
    if about.get("clock", "device") not in {"device", "wall"}:
        raise _unknown("clock", about["clock"], ("device", "wall"))
    for part in stale_parts(about):
        if part not in STALE_PARTS:
            raise _unknown("part of spatial input", part, STALE_PARTS)


def stale_parts(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Which parts of spatial input a fault makes stale: words joined by ``+``; all if not told."""
    return tuple(str(about["parts"]).split("+")) if "parts" in about else STALE_PARTS


def _unknown(what: str, word: str, known: Any, of: str = "") -> SettingsError:
    near = difflib.get_close_matches(word, list(known), n=1)
    if near:
        hint = f"Did you mean {near[0]!r}?"
    else:
        hint = f"There are: {', '.join(known)}." if known else "It has none."
    return SettingsError(f"The simulated headset knows no {what} {word!r}{of}.", try_this=hint)


class FaultBoard:
    """The faults that are planned, asked for by the serving threads at each packet.

    Looking costs next to nothing while a stream has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_stream: dict[str, tuple[Planned, ...]] = {}

    def add(self, planned: Planned) -> None:
        with self._lock:
            for stream in planned.streams:
                self._by_stream[stream] = (*self._by_stream.get(stream, ()), planned)

    def any_for(self, stream: str) -> bool:
        return bool(self._by_stream.get(stream))

    def holding(self, stream: str, kind: str, now_ns: int) -> Planned | None:
        """The lasting fault of this kind that a stream is under."""
        for planned in self._by_stream.get(stream, ()):
            if planned.kind == kind and planned.holds(now_ns):
                return planned
        return None

    def due(self, stream: str, kinds: frozenset[str], now_ns: int) -> Planned | None:
        """A packet fault for the packet that is sent now; one that happens once is used up."""
        for planned in self._by_stream.get(stream, ()):
            if planned.kind not in kinds or planned.start_ns > now_ns:
                continue
            if planned.once:
                self._remove(stream, planned)
                return planned
            if planned.holds(now_ns):
                return planned
        return None

    def _remove(self, stream: str, planned: Planned) -> None:
        with self._lock:
            left = tuple(p for p in self._by_stream.get(stream, ()) if p is not planned)
            self._by_stream[stream] = left
