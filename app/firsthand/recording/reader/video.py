"""Pictures of one video stream: by index, by time, one after the other."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from firsthand.api import DamagedError, Frame, PacketFlags, RecordingError
from firsthand.recording.reader.decoder import make_decoder, parameter_sets
from firsthand.recording.reader.store import StreamStore
from firsthand.recording.reader.timeline import Moment, Timeline

_log = logging.getLogger(__name__)
_READ_PACKETS: Final = 64


class Video:
    """One video stream. Times are seconds from the session's start, or UTC ``datetime``.

    Exact: a picture comes from its own packet, decoded from the key frame before it. After a loss
    inside the file pictures are absent up to the next key frame, never guessed. Use from one
    thread at a time.
    """

    def __init__(self, store: StreamStore, timeline: Timeline) -> None:
        self.schema = store.schema
        self._store = store
        self._timeline = timeline
        self._decoder: Final = make_decoder(store.schema)
        self._next = -1
        """The packet that the decoder can go on with, or −1."""
        self._connection = -1
        self._times: npt.NDArray[np.float64] | None = None
        self._ascending: npt.NDArray[np.float64] | None = None
        self._records: npt.NDArray[np.void] | None = None
        self._from: npt.NDArray[np.int64] | None = None
        self._links: npt.NDArray[np.int64] | None = None
        self._parameters: dict[int, bytes] = {}
        self._ready: dict[int, Any] = {}
        """Decoded pictures not asked for yet."""
        self._bad: dict[int, int] = {}
        """By key frame: the first picture after it that cannot be decoded."""
        self._read: list[memoryview] = []
        self._read_from = 0
        self.damaged: set[int] = set()
        """Pictures found to be damaged so far."""

    def __len__(self) -> int:
        return len(self._store)

    @property
    def times_s(self) -> npt.NDArray[np.float64]:
        """When each picture was taken."""
        if self._times is None:
            header = self._store.header
            self._times = self._timeline.times_s(
                self.schema.clock, header["device_ns"], header["arrival_ns"]
            )
        return self._times

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """Indices of the key frames."""
        if not self.schema.payload.value.startswith("h"):
            return np.arange(len(self), dtype=np.int64)
        return np.flatnonzero(self._store.header["flags"] & PacketFlags.KEY_FRAME)

    def index_at(self, moment: Moment) -> int:
        """The picture that was the latest at a moment; the first one for moments before it."""
        if not len(self):
            raise RecordingError(f"The stream {self.schema.name!r} holds no pictures.")
        if self._ascending is None:
            self._ascending = np.maximum.accumulate(self.times_s)
        time_s = self._timeline.seconds(moment)
        # A nanosecond's grace: a picture's own time must find that very picture.
        return max(0, int(np.searchsorted(self._ascending, time_s + 1e-9, "right")) - 1)

    def frame(self, index: int) -> Frame:
        """The picture of packet ``index`` (negative: from the end).

        Raises ``IndexError`` outside, ``DamagedError`` where it cannot be decoded.
        """
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"picture {index} of {count}")
        index %= count
        for found in self._decode([index]):
            return found
        raise DamagedError(
            f"Picture {index} of {self.schema.name} cannot be shown: it, or one that it builds on,"
            " is damaged or lost.",
            try_this="Pictures are good again from the next key frame on.",
        )

    def frame_at(self, moment: Moment, *, nearest_key: bool = False) -> Frame:
        """The latest picture at a moment, exactly.

        With ``nearest_key`` the key frame nearest in time instead: a fraction of the work, for
        scrubbing. Raises as ``frame``, and ``RecordingError`` where there are no pictures.
        """
        if not nearest_key:
            return self.frame(self.index_at(moment))
        keys = self.keys
        if not len(keys):
            raise RecordingError(f"The stream {self.schema.name!r} holds no key frame.")
        time_s = self._timeline.seconds(moment)
        return self.frame(int(keys[np.argmin(np.abs(self.times_s[keys] - time_s))]))

    def frames(
        self,
        start: Moment | None = None,
        stop: Moment | None = None,
        step: float | None = None,
    ) -> Iterator[Frame]:
        """Pictures taken from ``start`` up to and without ``stop``; with ``step`` (seconds) only
        the latest one at each step. Those that cannot be decoded are absent (see ``damaged``)."""
        times = self.times_s
        begin = -np.inf if start is None else self._timeline.seconds(start)
        end = np.inf if stop is None else self._timeline.seconds(stop)
        wanted = np.flatnonzero((times >= begin) & (times < end))
        if step is not None and len(wanted):
            first = times[wanted[0]] if start is None else begin
            last = times[wanted[-1]] if stop is None else end
            grid = np.arange(first, last, step) if last > first else np.array([first])
            wanted = np.unique([self.index_at(float(moment)) for moment in grid])
        return self._decode(wanted.tolist())

    def indices(self, wanted: Sequence[int]) -> Iterator[Frame]:
        """Pictures by index, ascending; those that cannot be decoded are absent."""
        return self._decode(list(wanted))

    def undecodable(self, on_picture: Callable[[int], None] | None = None) -> Iterator[int]:
        """Decode every picture and give the index of each that cannot be; ``on_picture`` is told
        of each that was tried."""
        last = len(self) - 1
        for index in range(len(self)):
            if self._picture(index, last) is None:
                yield index
            if on_picture is not None:
                on_picture(index)

    def builds_on_a_loss(self, index: int) -> bool:
        """Whether a picture cannot be decoded because packets before it were never stored."""
        return int(self._starts()[index]) < 0

    # -- decoding ------------------------------------------------------------------------------

    def _decode(self, wanted: Sequence[int]) -> Iterator[Frame]:
        """Pictures of ``wanted`` (ascending), decoding what they build on and no more.

        All state is the object's, so that somebody may look at another picture in between.
        """
        last = wanted[-1] if wanted else 0
        for index in wanted:
            picture = self._picture(index, last)
            if picture is None:
                self.damaged.add(index)
                continue
            yield self._frame(index, picture)

    def _picture(self, index: int, read_until: int) -> Any:
        """The decoded picture of a packet, or None."""
        begin = int(self._starts()[index])
        if begin < 0 or index >= self._bad.get(begin, len(self)):
            return None
        connection = int(self._connections()[index])
        if connection != self._connection or not begin <= self._next <= index:
            if index in self._ready:
                return self._ready.pop(index)
            self._decoder.restart(fresh=connection != self._connection)
            self._connection = connection
            self._next = begin
            self._ready.clear()
        while self._next <= index:
            if not self._feed(self._next, max(index, read_until)):
                self._bad[begin] = self._next
                self._next = -1
                return None
        for earlier in [shown for shown in self._ready if shown < index]:
            del self._ready[earlier]
        picture = self._ready.pop(index, None)
        return self._reordered(index, begin) if picture is None else picture

    def _reordered(self, index: int, begin: int) -> Any:
        """A picture that the decoder gives only after later packets (streams with B pictures)."""
        starts = self._starts()
        while self._next < len(self) and int(starts[self._next]) == begin:
            if not self._feed(self._next, self._next):
                break
            if index in self._ready:
                return self._ready.pop(index)
        self._ready.update(self._decoder.drain())
        self._next = -1
        return self._ready.pop(index, None)

    def _feed(self, index: int, read_until: int) -> bool:
        """Hand a packet to the decoder; whether that was good."""
        payload = self._payload(index, read_until)
        if not self._whole(index, payload):
            return False
        try:
            self._ready.update(self._decoder.feed(index, self._complete(index, payload)))
        except ValueError as error:
            _log.warning("%s: picture %d: %s", self.schema.name, index, error)
            return False
        self._next = index + 1
        return True

    def _payload(self, index: int, read_until: int) -> memoryview:
        """A payload; those that come next are read with it in one go."""
        if not self._read_from <= index < self._read_from + len(self._read):
            batches = self._store.batches(index, min(read_until + 1, len(self)), _READ_PACKETS)
            first, end = next(batches)
            self._read = self._store.payloads(first, end)
            self._read_from = first
        return self._read[index - self._read_from]

    def _complete(self, index: int, payload: memoryview) -> bytes | memoryview:
        """A key frame with parameter sets: an encoder may send them once per connection."""
        if self._starts()[index] != index or not self.schema.payload.value.startswith("h"):
            return payload
        if parameter_sets(payload[:512], self.schema.payload):
            return payload
        connection = int(self._connections()[index])
        sets = self._parameters.get(connection)
        if sets is None:
            first = self._store.payloads(connection, connection + 1)[0]
            sets = self._parameters[connection] = parameter_sets(first, self.schema.payload)
        return sets + bytes(payload)

    def _whole(self, index: int, payload: memoryview) -> bool:
        fields = self.records[index].tobytes() if self.schema.columns else b""
        return crc32(payload, crc32(fields)) == int(self._store.header["crc32"][index])

    def _frame(self, index: int, picture: Any) -> Frame:
        header = self._store.header[index]
        record: Any = self.records[index] if self.schema.columns else np.void(b"")
        return Frame(
            index=index,
            time_s=float(self.times_s[index]),
            device_ns=int(header["device_ns"]),
            is_key=bool(self._starts()[index] == index),
            rgb=self._decoder.rgb(picture),
            fields=record,
        )

    @property
    def records(self) -> npt.NDArray[np.void]:
        """The record of every picture: pose, intrinsics, exposure …"""
        if self._records is None:
            self._records = self._store.records()
        return self._records

    def _starts(self) -> npt.NDArray[np.int64]:
        """For each picture the key frame that decoding it begins at; −1 where that is lost.

        What the device handed over without a hole in ``seq`` builds on its predecessor, also over
        gaps that arose inside the device; a packet that we lost breaks the chain.
        """
        if self._from is None:
            header = self._store.header
            count = len(header)
            number = np.arange(count, dtype=np.int64)
            key = np.zeros(count, bool)
            key[self.keys] = True
            seq = header["seq"].astype(np.int64)
            breaks = np.ones(count, bool)
            breaks[1:] = np.diff(seq) != 1
            breaks |= (header["flags"] & PacketFlags.NEW_CONNECTION) != 0
            last_key = np.maximum.accumulate(np.where(key, number, -1)) if count else number
            last_break = np.maximum.accumulate(np.where(breaks, number, -1)) if count else number
            self._from = np.where(last_key >= last_break, last_key, -1)
        return self._from

    def _connections(self) -> npt.NDArray[np.int64]:
        """For each picture the first packet of its connection."""
        if self._links is None:
            flags = self._store.header["flags"]
            number = np.arange(len(flags), dtype=np.int64)
            new = (flags & PacketFlags.NEW_CONNECTION) != 0
            self._links = np.maximum.accumulate(np.where(new, number, 0))
        return self._links
