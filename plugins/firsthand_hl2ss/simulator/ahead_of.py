"""What to encode before a client has asked: read from the settings."""

import re
from typing import Final

from firsthand_hl2ss import wire
from firsthand_hl2ss.wire import EncoderOption, VideoProfile
from firsthand_hl2ss.wire_config import Format, Video

_GOP: Final = 15
"""What our client asks for by default."""
_PROFILES: Final = {"h264": VideoProfile.H264_MAIN, "hevc": VideoProfile.HEVC_MAIN}
_ASKED: Final = re.compile(r"(h264|hevc):(\d{3,4})x(\d{3,4})@(\d{1,2})")


def read_ahead_of(text: str) -> tuple[Video, Format]:
    """What ``hevc:1920x1080@30`` asks for, as our client does by default. Raises ``ValueError``."""
    found = _ASKED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} does not say what to encode; write it as hevc:1920x1080@30")
    profile = _PROFILES[found[1]]
    width, height, fps = (int(found[i]) for i in (2, 3, 4))
    if (width, height, fps) not in wire.PV_FORMATS:
        raise ValueError(f"the camera has no {width}x{height}@{fps}")
    bitrate = wire.default_bitrate(width, height, fps, profile)
    options = ((int(EncoderOption.GOP_SIZE), _GOP),)
    video = Video(profile, wire.LEVEL_CHOSEN_BY_ENCODER, bitrate, options)
    return video, Format(width, height, fps)
