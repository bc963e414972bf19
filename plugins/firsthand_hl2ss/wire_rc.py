"""Remote configuration, port 3809: commands, their arguments and their replies.

Only commands with a reply answer. Setters give no acknowledgement: a query after them tells that
they are done, since commands are executed in order.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from firsthand_hl2ss.wire import Read, WireError


class Op(IntEnum):
    """Opcodes."""

    VERSION = 0x00
    UTC_OFFSET = 0x01
    PV_MARKER = 0x02
    PV_IS_ON = 0x03
    PV_FOCUS = 0x04
    PV_TEMPORAL_DENOISING = 0x05
    PV_WHITE_BALANCE_PRESET = 0x06
    PV_WHITE_BALANCE_VALUE = 0x07
    PV_EXPOSURE = 0x08
    PV_EXPOSURE_PRIORITY = 0x09
    PV_ISO = 0x0A
    PV_BACKLIGHT_COMPENSATION = 0x0B
    PV_SCENE_MODE = 0x0C
    FLAT_MODE = 0x0D
    RM_EYE_SELECTION = 0x0E
    PV_OPTIMISATION = 0x0F
    PV_PRIMARY_USE = 0x10
    PV_OPTICAL_STABILISATION = 0x11
    PV_HDR = 0x12
    PV_REGION = 0x13
    THREAD_PRIORITY = 0x14
    QUIET_MODE = 0x15
    RM_MAP_POINTS = 0x16
    RIG_POSES = 0x17
    PRESENT_TIME = 0x18
    SI_DELAY = 0x19
    ENCODER_BUFFERING = 0x20
    READER_BUFFERING = 0x21
    VLC_WORKAROUND = 0x22


class TimeSource(IntEnum):
    """Argument of ``PRESENT_TIME``."""

    QPC = 0
    UTC = 1


ARGUMENTS: Final[dict[Op, struct.Struct]] = {
    op: struct.Struct("<" + letters)
    for op, letters in {
        Op.VERSION: "",
        Op.UTC_OFFSET: "",
        Op.PV_MARKER: "I",
        Op.PV_IS_ON: "",
        Op.PV_FOCUS: "5I",
        Op.PV_TEMPORAL_DENOISING: "I",
        Op.PV_WHITE_BALANCE_PRESET: "I",
        Op.PV_WHITE_BALANCE_VALUE: "I",
        Op.PV_EXPOSURE: "2I",
        Op.PV_EXPOSURE_PRIORITY: "I",
        Op.PV_ISO: "2I",
        Op.PV_BACKLIGHT_COMPENSATION: "I",
        Op.PV_SCENE_MODE: "I",
        Op.FLAT_MODE: "I",
        Op.RM_EYE_SELECTION: "I",
        Op.PV_OPTIMISATION: "I",
        Op.PV_PRIMARY_USE: "I",
        Op.PV_OPTICAL_STABILISATION: "I",
        Op.PV_HDR: "I",
        Op.PV_REGION: "I4f",
        Op.THREAD_PRIORITY: "Ii",
        Op.QUIET_MODE: "I",
        Op.RM_MAP_POINTS: "3I",
        Op.RIG_POSES: "I",
        Op.PRESENT_TIME: "I",
        Op.SI_DELAY: "q",
        Op.ENCODER_BUFFERING: "I",
        Op.READER_BUFFERING: "I",
        Op.VLC_WORKAROUND: "2I",
    }.items()
}
"""Arguments of fixed size. ``RM_MAP_POINTS`` (n × 2 float32) and ``RIG_POSES`` (n × u64) have a
tail, whose length is in their last fixed argument."""

REPLIES: Final[dict[Op, struct.Struct]] = {
    Op.VERSION: struct.Struct("<4H"),
    Op.UTC_OFFSET: struct.Struct("<Q"),
    Op.PV_IS_ON: struct.Struct("<B"),
    Op.PRESENT_TIME: struct.Struct("<Q"),
}
"""Replies of fixed size. ``RM_MAP_POINTS`` gives n × 2 float32, ``RIG_POSES`` n × 64 bytes."""

NEEDS_RESEARCH_MODE: Final = frozenset({Op.RM_EYE_SELECTION, Op.RM_MAP_POINTS, Op.RIG_POSES})
"""Without Research Mode the app closes before it reads these commands' arguments."""
NEEDS_CAMERA: Final = frozenset(
    op for op in Op if op.name.startswith("PV_") and op not in {Op.PV_MARKER, Op.PV_IS_ON}
)
"""Camera settings: read and ignored while the camera is off or shared."""

TAIL_ITEM: Final = {Op.RM_MAP_POINTS: struct.Struct("<2f"), Op.RIG_POSES: struct.Struct("<Q")}

ROI_NORMALISED: Final = 1 << 8
ROI_AUTO_FOCUS: Final = 1 << 9
ROI_AUTO_EXPOSURE: Final = 1 << 10
ROI_SET: Final = 1 << 11
ROI_CLEAR_FIRST: Final = 1 << 12
ROI_FACE: Final = 1 << 7
ROI_WEIGHT_MASK: Final = 0x7F


def pack(op: Op, *arguments: Any, tail: Sequence[tuple[Any, ...]] = ()) -> bytes:
    """A command's bytes; ``tail`` has the items behind the fixed arguments."""
    head = bytes([op]) + ARGUMENTS[op].pack(*arguments)
    return head + b"".join(TAIL_ITEM[op].pack(*item) for item in tail)


def read_op(read: Read) -> Op:
    """The next command's opcode. Raises ``WireError`` for one that the app does not know."""
    (code,) = read(1)
    if code not in set(Op):
        raise WireError(f"there is no command {code:#04x}")
    return Op(code)


def read_arguments(op: Op, read: Read) -> tuple[Any, ...]:
    """A command's fixed arguments."""
    return ARGUMENTS[op].unpack(read(ARGUMENTS[op].size))


def read_tail(op: Op, count: int, read: Read) -> list[tuple[Any, ...]]:
    """The ``count`` items behind the fixed arguments of ``op``."""
    item = TAIL_ITEM[op]
    return [item.unpack(read(item.size)) for _ in range(count)]


def pack_reply(op: Op, *values: Any) -> bytes:
    return REPLIES[op].pack(*values)


def parse_reply(op: Op, data: bytes) -> tuple[Any, ...]:
    try:
        return REPLIES[op].unpack(data)
    except struct.error as error:
        raise WireError(f"a reply to {op.name} of {len(data)} bytes") from error
