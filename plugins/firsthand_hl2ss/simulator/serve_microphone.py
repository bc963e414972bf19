"""The microphone, port 3811: two voices as PCM or AAC, or the five-channel array.

A packet leaves when its last sample has been heard and is stamped with the time of its first.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.simulator.pump import Beat, Pump, Ready
from firsthand_hl2ss.simulator.source import F4
from firsthand_hl2ss.wire import (
    AAC_BYTES_PER_S,
    AAC_SAMPLES,
    HNS_PER_S,
    PCM_SAMPLES,
    SOUND_HZ,
    AudioProfile,
    WireError,
)
from firsthand_hl2ss.wire_config import AudioRequest

STREAM: Final = "mic"
_ARRAY_GAINS: Final = np.array([0.52, 0.61, 0.50, 0.44, 0.43], np.float32)
_FULL: Final = 32_767


class Microphone:
    """Serves port 3811."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset
        self.pump = Pump(headset, STREAM)

    def serve(self, connection: Connection) -> None:
        if self._headset.denied(STREAM):
            raise WireError("the audio device cannot be opened")
        request = AudioRequest.read(connection.receive)
        if request.profile is not AudioProfile.RAW:
            from firsthand_hl2ss.simulator.encode import AacEncoder

            encoder = AacEncoder(AAC_BYTES_PER_S[request.profile])
            try:
                self._run(
                    connection,
                    AAC_SAMPLES,
                    lambda sound: encoder.encode(_stereo(sound)),
                    delay_samples=encoder.delay_samples,
                )
            finally:
                encoder.close()
        elif request.is_array:
            self._run(connection, PCM_SAMPLES, _array)
        else:
            self._run(connection, PCM_SAMPLES, _pcm)

    def _run(
        self,
        connection: Connection,
        samples: int,
        pack: Callable[[F4], bytes],
        *,
        delay_samples: int = 0,
    ) -> None:
        """``delay_samples``: how much older than what was put in is what a packet decodes to."""
        period_s = Fraction(samples, SOUND_HZ)
        heard = Fraction(samples + delay_samples, SOUND_HZ) * HNS_PER_S
        source = self._headset.source

        def stamp(hns: int) -> int:
            return round(hns - heard)

        def make(beat: Beat) -> Ready:
            first_sample = round((beat.scene_s - float(period_s)) * SOUND_HZ)
            return Ready(stamp(beat.hns), [pack(source.sound(first_sample, samples))])

        self.pump.run(connection, period_s, make, stamp=stamp)


def _stereo(sound: F4) -> F4:
    """(n, 2): what the system's voice processing gives, the same on both sides."""
    return np.repeat(sound[:, None], 2, axis=1)


def _pcm(sound: F4) -> bytes:
    whole = np.clip(np.rint(sound * _FULL), -_FULL - 1, _FULL).astype("<i2")
    return np.repeat(whole, 2).tobytes()


def _array(sound: F4) -> bytes:
    """Float32, interleaved: top left, centre, right, bottom left, right; unprocessed, so softer."""
    return np.outer(sound, _ARRAY_GAINS).astype("<f4").tobytes()
