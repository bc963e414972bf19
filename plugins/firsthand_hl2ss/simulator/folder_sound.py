"""Sound of a file, decoded once to mono 48 kHz."""

import logging
from pathlib import Path
from typing import Final

import av
import numpy as np
import numpy.typing as npt

from firsthand_hl2ss.simulator.folder_video import unreadable
from firsthand_hl2ss.simulator.source import F4, SOUND_HZ

_log = logging.getLogger(__name__)

SUFFIXES: Final = {".wav", ".flac", ".mp3", ".m4a", ".ogg", ".opus", ".aac"}
_LONGEST_S: Final = 2 * 3600


class FolderSound:
    """Sound from ``start_s`` of the file's time on (the first picture's, where both are in one
    file). Kept as 16-bit samples: two hours take 700 MB at most, and what is longer is cut."""

    def __init__(self, path: Path, start_s: float = 0.0) -> None:
        self.path = path
        self.samples: npt.NDArray[np.int16] = np.zeros(0, np.int16)
        try:
            with av.open(str(path)) as container:
                if container.streams.audio:
                    self.samples = _decode(container, start_s)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise unreadable(path, error) from error

    @property
    def duration_s(self) -> float:
        return len(self.samples) / SOUND_HZ

    def mix(self, start: int, count: int, *, period: int | None) -> F4:
        """``count`` samples from sample ``start`` on. With ``period`` it begins again every so
        many samples; silence where there is nothing."""
        at = np.arange(start, start + count)
        if period:
            at = np.where(at >= 0, at % period, at)
        inside = (at >= 0) & (at < len(self.samples))
        out = np.zeros(count, np.float32)
        out[inside] = self.samples[at[inside]] / 32768
        return out


def _decode(container: av.container.InputContainer, start_s: float) -> npt.NDArray[np.int16]:
    stream = container.streams.audio[0]
    resampler = av.AudioResampler(format="s16", layout="mono", rate=SOUND_HZ)
    parts: list[npt.NDArray[np.int16]] = []
    first_s: float | None = None
    total = 0
    for frame in container.decode(stream):
        if first_s is None:
            first_s = float(frame.time or 0.0)
        for piece in resampler.resample(frame):
            parts.append(piece.to_ndarray().reshape(-1).astype(np.int16))
            total += len(parts[-1])
        if total > _LONGEST_S * SOUND_HZ:
            _log.warning("sound is cut after %d s", _LONGEST_S)
            break
    parts += [piece.to_ndarray().reshape(-1).astype(np.int16) for piece in resampler.resample(None)]
    samples = np.concatenate(parts) if parts else np.zeros(0, np.int16)
    late = round(((first_s or 0.0) - start_s) * SOUND_HZ)
    if late > 0:
        return np.concatenate([np.zeros(late, np.int16), samples])
    return samples[-late:] if late < 0 else samples
