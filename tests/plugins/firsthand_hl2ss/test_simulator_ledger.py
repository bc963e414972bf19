"""The account of packets: what it says, and what it refuses to read."""

import json
from pathlib import Path

import pytest

from firsthand.api import DamagedError
from firsthand_hl2ss.simulator.ledger import Ledger, LedgerWriter, SentRow, UnsentRow

pytestmark = pytest.mark.unit


def sent(slot: int, *, complete: bool = True, stream: str = "eet") -> SentRow:
    return SentRow(stream, 0, "g", slot, 0, slot, 1000 + slot, 92, 7, None, complete, False, "", 5)


def unsent(slot: int, count: int, reason: str = "stall") -> UnsentRow:
    return UnsentRow("eet", 0, "g", slot, count, reason, 1000 + slot)


def written(path: Path | None, *rows: SentRow | UnsentRow) -> LedgerWriter:
    writer = LedgerWriter(path, {"seed": 1})
    for row in rows:
        if isinstance(row, SentRow):
            writer.sent(row)
        else:
            writer.unsent(row)
    writer.event("restart", "", {"why": "a test"})
    return writer


@pytest.mark.parametrize("on_disk", [True, False])
def test_rows_come_back_as_they_were_written(tmp_path: Path, on_disk: bool) -> None:
    path = tmp_path / "deep" / "ledger.jsonl" if on_disk else None
    writer = written(path, sent(3), unsent(4, 2), sent(6, complete=False))
    before_close = writer.read()
    writer.close()
    writer.close()
    for ledger in (before_close, writer.read()):
        assert ledger.sent("eet", complete=False) == [sent(3), sent(6, complete=False)]
        assert ledger.sent("eet") == [sent(3)]
        assert ledger.unsent("eet") == [unsent(4, 2)]
        assert [event.kind for event in ledger.events] == ["restart"]
        assert ledger.streams() == ["eet"]
    if path is not None:
        assert Ledger.load(path).sent("eet") == [sent(3)]


def test_slots_between_two_packets_are_counted_by_what_became_of_them() -> None:
    writer = written(
        None, sent(1), unsent(2, 3), sent(5), sent(6, complete=False), unsent(7, 2, "late"), sent(9)
    )
    writer.close()
    ledger = writer.read()
    count = ledger.count("eet", 1001, 1009)
    assert (count.sent, count.cut, dict(count.unsent)) == (3, 1, {"stall": 3, "late": 2})
    assert count.slots == 9
    assert ledger.count("eet", 1005, 1009).slots == 5
    with pytest.raises(ValueError, match="no packet of eet"):
        ledger.count("eet", 1001, 1004)


def test_a_slot_that_no_row_or_two_rows_tell_of_is_found() -> None:
    good = written(None, sent(1), unsent(2, 3), sent(5))
    hole = written(None, sent(1), sent(3))
    double = written(None, sent(1), unsent(1, 2), sent(3))
    for writer in (good, hole, double):
        writer.close()
    assert good.read().holes("eet") == []
    assert len(hole.read().holes("eet")) == 1
    assert double.read().holes("eet") != []


def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, sent(1), sent(2)).close()
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:-20])
    assert Ledger.load(path).sent("eet") == [sent(1)]


@pytest.mark.parametrize(
    "text", ["", "[]\n", '{"format": "other"}\n', "hello\n"], ids=["empty", "list", "other", "text"]
)
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(text)
    with pytest.raises(DamagedError):
        Ledger.load(path)


def test_a_damaged_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, sent(1)).close()
    lines = path.read_text().splitlines()
    row = json.loads(lines[1])
    del row["crc32"]
    path.write_text("\n".join([lines[0], json.dumps(row), lines[2]]) + "\n")
    with pytest.raises(DamagedError, match="ledger"):
        Ledger.load(path)
