"""From what a client asks of a video encoder to the encoder that the simulator has."""

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.wire import EncoderOption, VideoProfile
from firsthand_hl2ss.wire_config import Video

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.encode import VideoEncoder


_HEVC_THREADS: Final = 2
_HEVC_EASY_PX: Final = 1280 * 720
_HEVC_BITS_PER_PX: Final = Fraction(27, 1000)


def gop_of(video: Video, fps: Fraction) -> int:
    """Pictures from key frame to key frame."""
    return video.option(EncoderOption.GOP_SIZE) or max(1, round(fps))


def encoder_for(
    video: Video, width: int, height: int, fps: Fraction, config: SimulatorConfig
) -> "VideoEncoder":
    """A fresh encoder. Of the options GOP size counts; without it there is a key frame a second.

    The largest HEVC pictures get two threads and fewer bits than asked for: an ordinary computer
    could not make them in time otherwise, and a frame that is missing is worse than a soft one.
    """
    from firsthand_hl2ss.simulator.encode import VideoEncoder

    threads, bitrate = config.encoder_threads, video.bitrate
    if video.profile is VideoProfile.HEVC_MAIN and width * height > _HEVC_EASY_PX:
        threads = max(threads, _HEVC_THREADS)
        bitrate = min(bitrate, round(width * height * fps * _HEVC_BITS_PER_PX))
    return VideoEncoder(
        video.profile,
        width,
        height,
        fps,
        bitrate=bitrate,
        gop=gop_of(video, fps),
        threads=threads,
    )
