"""Remote configuration byte by byte, as the protocol document has it."""

import struct

import pytest

from firsthand_hl2ss import wire_rc
from firsthand_hl2ss.wire import WireError
from firsthand_hl2ss.wire_rc import Op

pytestmark = pytest.mark.unit

# Opcode, fixed bytes of arguments, bytes of the reply (None: no reply; "n": by count).
COMMANDS = {
    0x00: (0, 8),
    0x01: (0, 8),
    0x02: (4, None),
    0x03: (0, 1),
    0x04: (20, None),
    0x05: (4, None),
    0x06: (4, None),
    0x07: (4, None),
    0x08: (8, None),
    0x09: (4, None),
    0x0A: (8, None),
    0x0B: (4, None),
    0x0C: (4, None),
    0x0D: (4, None),
    0x0E: (4, None),
    0x0F: (4, None),
    0x10: (4, None),
    0x11: (4, None),
    0x12: (4, None),
    0x13: (20, None),
    0x14: (8, None),
    0x15: (4, None),
    0x16: (12, "n"),
    0x17: (4, "n"),
    0x18: (4, 8),
    0x19: (8, None),
    0x20: (4, None),
    0x21: (4, None),
    0x22: (8, None),
}


def test_every_documented_command_is_there_and_no_other() -> None:
    assert {op.value for op in Op} == set(COMMANDS)


@pytest.mark.parametrize("op", list(Op))
def test_arguments_and_replies_have_the_documented_sizes(op: Op) -> None:
    arguments, reply = COMMANDS[op]
    assert wire_rc.ARGUMENTS[op].size == arguments
    if isinstance(reply, int):
        assert wire_rc.REPLIES[op].size == reply
    else:
        assert op not in wire_rc.REPLIES


def test_commands_are_an_opcode_and_little_endian_arguments() -> None:
    assert wire_rc.pack(Op.VERSION) == b"\x00"
    assert wire_rc.pack(Op.PRESENT_TIME, 1).hex() == "1801000000"
    assert wire_rc.pack(Op.PV_EXPOSURE, 0, 66_000).hex() == "0800000000d0010100"
    assert wire_rc.pack(Op.PV_FOCUS, 2, 2, 0, 1000, 0).hex() == (
        "04" "02000000" "02000000" "00000000" "e8030000" "00000000"
    )  # fmt: skip
    assert wire_rc.pack(Op.THREAD_PRIORITY, 3810, -2).hex() == "14e20e0000feffffff"
    assert wire_rc.pack(Op.SI_DELAY, -1).hex() == "19" + "ff" * 8


def test_commands_with_a_tail_carry_its_items_behind_the_count() -> None:
    points = [(1.0, 2.0), (3.0, 4.0)]
    data = wire_rc.pack(Op.RM_MAP_POINTS, 3800, 1, len(points), tail=points)
    assert data[1:13] == struct.pack("<3I", 3800, 1, 2)
    assert data[13:] == struct.pack("<4f", 1, 2, 3, 4)
    data = wire_rc.pack(Op.RIG_POSES, 1, tail=[(7,)])
    assert data.hex() == "17" + "01000000" + "0700000000000000"


def test_replies_read_as_written() -> None:
    assert wire_rc.pack_reply(Op.VERSION, 1, 0, 37, 0).hex() == "0100000025000000"
    assert wire_rc.parse_reply(Op.VERSION, bytes.fromhex("0100000025000000")) == (1, 0, 37, 0)
    with pytest.raises(WireError):
        wire_rc.parse_reply(Op.UTC_OFFSET, b"short")


@pytest.mark.parametrize("code", [0x1A, 0x1F, 0x23, 0xFF])
def test_unknown_opcodes_are_refused(code: int) -> None:
    with pytest.raises(WireError):
        wire_rc.read_op(lambda _: bytes([code]))


def test_three_commands_need_research_mode() -> None:
    assert {op.value for op in wire_rc.NEEDS_RESEARCH_MODE} == {0x0E, 0x16, 0x17}


def test_camera_settings_are_told_from_the_rest() -> None:
    assert {op.value for op in wire_rc.NEEDS_CAMERA} == {
        *range(0x04, 0x0D), 0x0F, 0x10, 0x11, 0x12, 0x13,
    }  # fmt: skip
