"""Looks into encoded pictures far enough to tell key frames: their flag is not transmitted."""

from typing import Final

_START: Final = b"\x00\x00\x01"
_H264_PICTURE: Final = range(1, 6)
_H264_KEY: Final = 5
_HEVC_PICTURE: Final = range(32)
_HEVC_KEY: Final = range(16, 22)


def is_key_frame(unit: bytes, *, hevc: bool) -> bool:
    """Whether an access unit (Annex B) can be decoded without earlier ones.

    Looks at NAL units up to the first slice: type 5 (H.264) or 16–21 (HEVC). False for bytes that
    hold no NAL unit at all.
    """
    at = unit.find(_START)
    while at >= 0 and at + 3 < len(unit):
        head = unit[at + 3]
        if hevc:
            kind = (head >> 1) & 0x3F
            if kind in _HEVC_PICTURE:
                return kind in _HEVC_KEY
        else:
            kind = head & 0x1F
            if kind in _H264_PICTURE:
                return kind == _H264_KEY
        at = unit.find(_START, at + 4)
    return False
