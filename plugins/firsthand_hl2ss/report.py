"""What is told of one stream: packets in order, where it stands, why something is missing."""

import base64
import logging
import time
from typing import Final

from firsthand.api import DeviceSink, GapCause, Packet, PacketFlags, StreamState
from firsthand_hl2ss.framing import Damaged
from firsthand_hl2ss.parsers import Parsed

log = logging.getLogger(__name__)

_NO_FLAGS: Final = PacketFlags.NONE
_QUARANTINED: Final = 100


class StreamReport:
    """Tells the sink, each thing once. Lives as long as the stream, over all connections."""

    def __init__(self, name: str, title: str, sink: DeviceSink) -> None:
        self.name = name
        self.title = title
        self.packets = 0
        """Packets handed over so far."""
        self.interruption = (GapCause.STALLED, "")
        """The last cause that was told for missing packets."""
        self._sink = sink
        self._told: tuple[StreamState, str] | None = None
        self._live = False
        self._gap_told = False
        self._quarantined = 0

    @property
    def state(self) -> StreamState | None:
        """The state that was told last."""
        return self._told[0] if self._told else None

    def tell(self, state: StreamState, words: str = "") -> bool:
        """Tell where the stream stands; whether that was news."""
        if self._told == (state, words):
            return False
        self._told = (state, words)
        self._live = state is StreamState.LIVE
        log.info("%s is %s", self.name, state)
        self._sink.state(self.name, state, words)
        return True

    def interrupted(self, cause: GapCause, words: str, *, again: bool = False) -> None:
        """Tell why packets will be missing. The first cause of a hole is its cause, unless we know
        better (``again``)."""
        if again or not self._gap_told:
            self._gap_told = True
            self.interruption = (cause, words)
            self._sink.interrupted(self.name, cause, words)

    def packet(
        self, device_ns: int, arrival_ns: int, parsed: Parsed, more_flags: PacketFlags
    ) -> None:
        """Hand a packet over; the stream is live now."""
        if not self._live:
            self.tell(StreamState.LIVE)
            self._gap_told = False
        number, self.packets = self.packets, self.packets + 1
        # Flags are slow to combine, and there is seldom a reason to.
        flags = parsed.flags | more_flags if more_flags is not _NO_FLAGS else parsed.flags
        self._sink.packet(
            Packet(self.name, number, device_ns, arrival_ns, parsed.fields, parsed.payload, flags)
        )

    def empty(self, device_ns: int) -> None:
        """A packet without content came."""
        self._sink.skipped(self.name, GapCause.EMPTY_PACKET, device_ns, 1)

    def damaged(self) -> None:
        """A packet came that cannot be stored. Its time is not to be believed."""
        if self.packets:
            self._sink.skipped(self.name, GapCause.DAMAGED_PACKET, None, 1)

    def quarantine(self, damage: Damaged) -> None:
        """Put damaged input aside, for whoever looks into it later."""
        log.warning("%s: %s", self.name, damage.reason)
        if self._quarantined == _QUARANTINED:
            return
        self._quarantined += 1
        self._sink.note(
            "quarantine",
            {
                "stream": self.name,
                "reason": damage.reason,
                "host_ns": time.perf_counter_ns(),
                "after_packets": self.packets,
                "bytes_base64": base64.b64encode(damage.context).decode("ascii"),
            },
        )
