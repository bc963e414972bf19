"""Sound for an MP4: taken by the session's time, so that it stays in step, and coded as AAC.

Coding takes longer than everything else in an MP4. So stretches of some seconds are coded side by
side, each by an encoder of its own. An encoder's frame depends on a few before and after it: those
are coded too and thrown away, and the frames that are kept fit together.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api import RecordingView, StreamSchema

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet

FRAME: Final = 1024
"""Samples that AAC codes at once; an encoder's frames come one frame early."""
_STRETCH: Final = 384 * FRAME
_AROUND: Final = 8 * FRAME
_AHEAD: Final = 6

Coded = list[tuple[int, bytes]]


class SoundTrack:
    """A sound track that begins with the session; holes are silent."""

    def __init__(
        self,
        output: "OutputContainer",
        recording: RecordingView,
        schema: StreamSchema,
        kbit: int,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._recording = recording
        self._schema = schema
        self._rate = round(schema.sample_hz)
        self._layout = "stereo" if schema.channels > 1 else "mono"
        self._bit_rate = kbit * 1000
        stream: Any = output.add_stream("aac", rate=self._rate, layout=self._layout)
        stream.codec_context.bit_rate = self._bit_rate
        self._stream = stream
        self._pool = pool
        self._waiting: deque[Future[Coded]] = deque()
        last_s = float(recording.times_s(schema.name).max())
        samples = int((last_s + 1.0 / max(schema.nominal_hz, 1.0)) * self._rate)
        self._end = -(-max(samples, 1) // FRAME) * FRAME
        self._asked = 0
        self._given = 0

    def upto(self, until_s: float) -> "Iterator[Packet[AudioStream]]":
        """Coded sound up to a moment; what comes after it is being coded meanwhile."""
        until = min(self._end, round(until_s * self._rate))
        while self._given < until:
            while self._asked < self._end and len(self._waiting) < _AHEAD:
                self._ask()
            for at, data in self._waiting.popleft().result():
                yield self._packet(at, data)
            self._given = min(self._given + _STRETCH, self._end)

    def rest(self) -> "Iterator[Packet[AudioStream]]":
        """What is left."""
        return self.upto(self._end / self._rate)

    def _ask(self) -> None:
        start, stop = self._asked, min(self._asked + _STRETCH, self._end)
        self._asked = stop
        # Samples are read here: a recording is used from one thread.
        samples = self._samples(start - _AROUND, stop + _AROUND)
        # A frame bears the time of the samples before it: the last one is kept by whoever ends.
        last = stop if stop < self._end else stop + FRAME
        arguments = samples, start - _AROUND, start - FRAME, last - FRAME
        self._waiting.append(self._pool.submit(self._code, *arguments))

    def _samples(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Samples (channels, n) by their count from the session's start; silent before it."""
        first = max(0, start)
        sound = self._recording.sound(self._schema.name, first / self._rate, stop / self._rate)
        samples = sound.samples
        if self._schema.channels > 2:
            # A microphone array: the two at the top left and right.
            samples = samples[:, [0, 2]]
        padded = np.zeros((samples.shape[1], stop - start), np.float32)
        count = min(len(samples), stop - first)
        padded[:, first - start : first - start + count] = samples[:count].T
        return padded

    def _code(self, samples: npt.NDArray[np.float32], begin: int, first: int, stop: int) -> Coded:
        """Code samples that begin at ``begin``; keep the frames from ``first`` to ``stop``."""
        import av

        context: Any = av.CodecContext.create("aac", "w")
        context.sample_rate = self._rate
        context.layout = self._layout
        context.format = "fltp"
        context.bit_rate = self._bit_rate
        context.time_base = Fraction(1, self._rate)
        # What the thorough search and these tools gain at this rate is not heard in speech, and
        # they take more than half of the time.
        context.options = {"aac_coder": "fast", "aac_ms": "0", "aac_tns": "0"}
        coded: Coded = []
        for at in range(0, samples.shape[1], FRAME):
            block = np.ascontiguousarray(samples[:, at : at + FRAME])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=self._layout)
            frame.sample_rate = self._rate
            frame.pts = begin + at
            for packet in context.encode(frame):
                if first <= packet.pts < stop:
                    coded.append((packet.pts, bytes(packet)))
        return coded

    def _packet(self, at: int, data: bytes) -> "Packet[AudioStream]":
        import av

        packet: Any = av.Packet(data)
        packet.stream = self._stream
        packet.time_base = Fraction(1, self._rate)
        packet.pts = packet.dts = at
        packet.duration = FRAME
        packet.is_keyframe = True
        found: Packet[AudioStream] = packet
        return found
