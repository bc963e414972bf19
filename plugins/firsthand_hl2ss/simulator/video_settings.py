"""From what a client asks of a video encoder to the encoder that the simulator has."""

from fractions import Fraction
from typing import TYPE_CHECKING

from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.wire import EncoderOption
from firsthand_hl2ss.wire_config import Video

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.encode import VideoEncoder


def encoder_for(
    video: Video, width: int, height: int, fps: Fraction, config: SimulatorConfig
) -> "VideoEncoder":
    """A fresh encoder. Of the options GOP size counts; without it there is a key frame a second."""
    from firsthand_hl2ss.simulator.encode import VideoEncoder

    gop = video.option(EncoderOption.GOP_SIZE) or max(1, round(fps))
    return VideoEncoder(
        video.profile,
        width,
        height,
        fps,
        bitrate=video.bitrate,
        gop=gop,
        threads=config.encoder_threads,
    )
