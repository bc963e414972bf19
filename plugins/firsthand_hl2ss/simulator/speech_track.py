"""What the microphone hears over time: speech, things being put down, a quiet room."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from firsthand_hl2ss.simulator.scene_script import Line
from firsthand_hl2ss.simulator.source import F4, SOUND_HZ
from firsthand_hl2ss.simulator.speech import Spoken

_PAUSE_S: Final = 0.15
_ROOM_S: Final = 7
_THUD_S: Final = 0.18


@dataclass(frozen=True, slots=True)
class Heard:
    """A sound at a place in time."""

    start: int
    """First sample."""
    samples: F4

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)


def thud() -> F4:
    """A thing put down on wood; its onset is its first sample."""
    t = np.arange(round(_THUD_S * SOUND_HZ)) / SOUND_HZ
    wave = np.sin(2 * np.pi * 165 * t) * np.exp(-t / 0.030)
    wave += 0.5 * np.sin(2 * np.pi * 430 * t) * np.exp(-t / 0.012)
    return (0.22 * wave).astype(np.float32)


class SoundTrack:
    """Mixes on demand: an hour of scene costs no more memory than its sentences."""

    def __init__(
        self, lines: Sequence[Line], spoken: Sequence[Spoken], thuds_s: Sequence[float], seed: int
    ) -> None:
        self.said: list[tuple[Line, Spoken, float]] = []
        heard: list[Heard] = []
        free_s = 0.0
        for line, sound in zip(lines, spoken, strict=True):
            start = round(max(line.start_s, free_s) * SOUND_HZ)
            heard.append(Heard(start, sound.samples))
            self.said.append((line, sound, start / SOUND_HZ))
            free_s = start / SOUND_HZ + sound.length_s + _PAUSE_S
        bump = thud()
        heard += [Heard(round(at * SOUND_HZ), bump) for at in thuds_s]
        self._heard = sorted(heard, key=lambda h: h.start)
        self._starts = [h.start for h in self._heard]
        self._longest = max((len(h.samples) for h in self._heard), default=0)
        noise = np.random.default_rng([seed, 99]).standard_normal(_ROOM_S * SOUND_HZ)
        soft = np.convolve(noise, np.ones(8) / 8, mode="same")
        self._room = (0.0010 * soft).astype(np.float32)

    def mix(self, start: int, count: int) -> F4:
        """``count`` samples from sample ``start`` on; silence before 0."""
        out = np.zeros(count, np.float32)
        skip = min(count, max(0, -start))
        if skip == count:
            return out
        at = np.arange(start + skip, start + count) % len(self._room)
        out[skip:] = self._room[at]
        first = bisect_left(self._starts, start - self._longest)
        for heard in self._heard[first:]:
            if heard.start >= start + count:
                break
            low, high = max(start, heard.start), min(start + count, heard.stop)
            if low < high:
                out[low - start : high - start] += heard.samples[
                    low - heard.start : high - heard.start
                ]
        return np.clip(out, -1.0, 1.0)
