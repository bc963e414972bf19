"""Sound of a microphone by the session's time, at its nominal rate, holes known."""

import logging
from typing import Any, Final
from zlib import crc32

import av
import numpy as np
import numpy.typing as npt

from firsthand.api import PayloadKind, RecordingError, Sound
from firsthand.recording.reader.soundline import Stretch, stretches
from firsthand.recording.reader.store import StreamStore
from firsthand.recording.reader.timeline import Moment, Timeline

_log = logging.getLogger(__name__)
_WARM_UP_PACKETS: Final = 2
"""AAC frames overlap: the ones before are decoded too, and thrown away."""
_EDGE: Final = 2
"""Samples on either side that interpolation needs."""


class Audio:
    """One microphone. Times are seconds from the session's start, or UTC ``datetime``.

    Sample k of an answer lies exactly ``k / rate_hz`` after ``start``: where the microphone's
    crystal drifts against the session's clock, samples are interpolated (four points). Where
    nothing was recorded there are zeros; ``present`` tells them from silence.
    """

    def __init__(self, store: StreamStore, timeline: Timeline) -> None:
        schema = store.schema
        if not schema.payload.is_audio or schema.sample_hz <= 0 or schema.channels < 1:
            raise RecordingError(f"The stream {schema.name!r} holds no sound that can be read.")
        self.schema = schema
        self.rate_hz: Final = schema.sample_hz
        self.channels: Final = schema.channels
        self.damaged: set[int] = set()
        """Packets found to be damaged so far; they are holes."""
        self._store = store
        self._timeline = timeline
        self._stretches: list[Stretch] | None = None
        self._begins: npt.NDArray[np.int64] | None = None

    @property
    def stretches(self) -> list[Stretch]:
        """Unbroken stretches, in order."""
        if self._stretches is None:
            header = self._store.header
            clock = self.schema.clock
            times = self._timeline.times_s(clock, header["device_ns"], header["arrival_ns"])
            counts = self._counts()
            self._begins = np.concatenate(([0], np.cumsum(counts)))
            self._stretches = stretches(times, counts, header["flags"], self.rate_hz)
        return self._stretches

    def samples(self, start: Moment, stop: Moment) -> npt.NDArray[np.float32]:
        """Samples (n, channels) from −1 to 1, zeros where there are none."""
        return self.sound(start, stop).samples

    def present(self, start: Moment, stop: Moment) -> npt.NDArray[np.bool_]:
        """For each of ``samples`` whether it was recorded."""
        return self.sound(start, stop).present

    def sound(self, start: Moment, stop: Moment) -> Sound:
        """Samples and what of them was recorded."""
        start_s, stop_s = self._timeline.seconds(start), self._timeline.seconds(stop)
        count = max(0, round((stop_s - start_s) * self.rate_hz))
        samples = np.zeros((count, self.channels), np.float32)
        present = np.zeros(count, bool)
        for stretch in self.stretches:
            begin = int(np.ceil((stretch.start_s - start_s) * self.rate_hz - 0.5))
            end = int(np.ceil((stretch.stop_s - start_s) * self.rate_hz - 0.5))
            begin, end = max(0, begin), min(count, end)
            if begin < end:
                self._fill(stretch, start_s, begin, end, samples, present)
        return Sound(start_s, self.rate_hz, samples, present)

    def _fill(
        self,
        stretch: Stretch,
        start_s: float,
        begin: int,
        end: int,
        samples: npt.NDArray[np.float32],
        present: npt.NDArray[np.bool_],
    ) -> None:
        if stretch.steady:
            at = stretch.sample_at(np.array([start_s + begin / self.rate_hz]))
            first = round(float(at[0]))
            got, good = self._read(stretch, first, first + end - begin)
            samples[begin:end], present[begin:end] = got, good
            return
        times = start_s + np.arange(begin, end) / self.rate_hz
        at = stretch.sample_at(times)
        whole = np.floor(at).astype(np.int64)
        first = int(whole[0]) - _EDGE
        got, good = self._read(stretch, first, int(whole[-1]) + _EDGE + 1)
        index = whole - first
        samples[begin:end] = _cubic(got, index, (at - whole).astype(np.float32))
        present[begin:end] = good[index]

    # -- reading packets -----------------------------------------------------------------------

    def _counts(self) -> npt.NDArray[np.int64]:
        """Samples per channel in each packet: from the payload's length where that tells."""
        if self.schema.payload is PayloadKind.AAC_ADTS:
            return self._store.column("samples").astype(np.int64)
        lengths = self._store.index["length"].astype(np.int64)
        counts: npt.NDArray[np.int64] = lengths // (self._sample_bytes * self.channels)
        return counts

    @property
    def _sample_bytes(self) -> int:
        return 2 if self.schema.payload is PayloadKind.PCM_S16 else 4

    def _read(
        self, stretch: Stretch, first: int, stop: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Samples of a stretch by their count; zeros and False outside it and where damaged."""
        samples = np.zeros((stop - first, self.channels), np.float32)
        good = np.zeros(stop - first, bool)
        assert self._begins is not None  # noqa: S101  (made together with the stretches)
        base = int(self._begins[stretch.first])
        low, high = max(0, first), min(stretch.samples, stop)
        if low >= high:
            return samples, good
        begin = int(np.searchsorted(self._begins, base + low, "right")) - 1
        end = int(np.searchsorted(self._begins, base + high, "left"))
        for i, block in self._packets(stretch, begin, end):
            if block is None:
                self.damaged.add(i)
                continue
            at = int(self._begins[i]) - base - first
            a, b = max(0, at), min(stop - first, at + len(block))
            if a < b:
                samples[a:b] = block[a - at : b - at]
                good[a:b] = True
        return samples, good

    def _packets(
        self, stretch: Stretch, begin: int, end: int
    ) -> list[tuple[int, npt.NDArray[np.float32] | None]]:
        """Decoded packets; None where one is damaged."""
        aac = self.schema.payload is PayloadKind.AAC_ADTS
        start = max(stretch.first, begin - _WARM_UP_PACKETS) if aac else begin
        codec: Any = av.CodecContext.create("aac", "r") if aac else None
        found: list[tuple[int, npt.NDArray[np.float32] | None]] = []
        checks = self._store.header["crc32"]
        for first, stop in self._store.batches(start, end):
            for i, (fields, payload) in enumerate(self._store.contents(first, stop), first):
                if crc32(payload, crc32(fields)) != int(checks[i]):
                    block = None
                elif aac:
                    block = self._decode(codec, payload)
                else:
                    block = self._plain(payload)
                if i >= begin:
                    found.append((i, block))
        return found

    def _plain(self, payload: memoryview) -> npt.NDArray[np.float32]:
        usable = len(payload) // (self._sample_bytes * self.channels)
        count = usable * self.channels
        if self.schema.payload is PayloadKind.PCM_S16:
            whole = np.frombuffer(payload, "<i2", count).astype(np.float32)
            whole /= 32768.0
        else:
            whole = np.frombuffer(payload, "<f4", count)
        return whole.reshape(-1, self.channels)

    def _decode(self, codec: Any, payload: memoryview) -> npt.NDArray[np.float32] | None:
        try:
            frames = codec.decode(av.Packet(bytes(payload)))
        except av.error.FFmpegError as error:
            _log.warning("%s: a sound packet does not decode: %s", self.schema.name, error)
            return None
        if not frames:
            return None
        block = np.concatenate([frame.to_ndarray() for frame in frames], axis=1).T
        return np.ascontiguousarray(block[:, : self.channels], np.float32)


def _cubic(
    values: npt.NDArray[np.float32], index: npt.NDArray[np.int64], part: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Catmull-Rom interpolation of rows of ``values`` at ``index + part``."""
    t = part[:, None]
    before, here, after, later = (values[index + k] for k in (-1, 0, 1, 2))
    slope = (after - before) * 0.5
    slope_after = (later - here) * 0.5
    step = here - after
    result: npt.NDArray[np.float32] = (
        ((2 * step + slope + slope_after) * t - (3 * step + 2 * slope + slope_after)) * t + slope
    ) * t + here
    return result
