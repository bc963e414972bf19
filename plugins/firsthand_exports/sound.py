"""Sound for an MP4: taken by the session's time, so that it stays in step, and coded as AAC."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api import RecordingView, StreamSchema

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet

FRAME: Final = 1024
"""Samples that AAC codes at once."""


class SoundTrack:
    """A sound track that begins with the session; holes are silent.

    ``upto`` and ``rest`` may run in another thread than the one that muxes, one at a time. They
    code; muxing is the caller's.
    """

    def __init__(
        self, output: "OutputContainer", recording: RecordingView, schema: StreamSchema, kbit: int
    ) -> None:
        self._recording = recording
        self._schema = schema
        self._rate = round(schema.sample_hz)
        self._channels = min(2, schema.channels)
        layout = "stereo" if self._channels == 2 else "mono"
        stream: Any = output.add_stream("aac", rate=self._rate, layout=layout)
        stream.codec_context.bit_rate = kbit * 1000
        # The thorough search for the best coding takes twice the time and is not heard in speech.
        stream.codec_context.options = {"aac_coder": "fast"}
        self._stream = stream
        self._layout = layout
        self._done = 0
        times = recording.times_s(schema.name)
        self._end_s = float(times.max()) + 1.0 / max(schema.nominal_hz, 1.0)

    def upto(self, until_s: float) -> "list[Packet[AudioStream]]":
        """Code the sound up to a moment, in whole frames."""
        from av import AudioFrame

        until_s = min(until_s, self._end_s)
        frames = int(until_s * self._rate) // FRAME - self._done // FRAME
        if frames <= 0:
            return []
        samples = self._samples(frames * FRAME)
        packets: list[Packet[AudioStream]] = []
        for at in range(0, len(samples), FRAME):
            block = np.ascontiguousarray(samples[at : at + FRAME].T)
            frame = AudioFrame.from_ndarray(block, format="fltp", layout=self._layout)
            frame.sample_rate = self._rate
            frame.pts = self._done + at
            packets += self._stream.encode(frame)
        self._done += len(samples)
        return packets

    def rest(self) -> "list[Packet[AudioStream]]":
        """Code what is left, and the encoder's own rest."""
        packets = self.upto(self._end_s + FRAME / self._rate)
        return packets + list(self._stream.encode(None))

    def _samples(self, count: int) -> npt.NDArray[np.float32]:
        start_s = self._done / self._rate
        sound = self._recording.sound(self._schema.name, start_s, start_s + count / self._rate)
        samples = sound.samples
        if self._schema.channels > 2:
            # A microphone array: the two at the top left and right.
            samples = samples[:, [0, 2]]
        short = count - len(samples)
        return np.pad(samples, ((0, max(0, short)), (0, 0)))[:count]
