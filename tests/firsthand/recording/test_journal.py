"""The journal: nothing written is lost, nothing torn spoils the rest, nothing changed hides."""

import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.api import RecordingError, StorageError
from firsthand.recording.journal import Journal, JournalDamage, JournalEvent, read_journal

pytestmark = pytest.mark.unit


def write_some(path: Path, count: int, start: int = 0) -> None:
    ticks = itertools.count(1000)
    with Journal(path, host_ns=lambda: next(ticks), utc_ns=lambda: 5_000_000_000) as journal:
        for n in range(start, start + count):
            journal.write("step.begun", {"n": n, "text": "Grüße\n\u2028"}, by="administrator")


def read(path: Path) -> tuple[list[JournalEvent], list[JournalDamage]]:
    damage: list[JournalDamage] = []
    return list(read_journal(path, damage.append)), damage


def test_events_come_back_in_order_with_both_times_and_their_doer(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_some(path, 3)
    events, damage = read(path)
    assert [(ev.n, ev.host_ns, ev.about["n"]) for ev in events] == [
        (0, 1000, 0),
        (1, 1001, 1),
        (2, 1002, 2),
    ]
    assert events[0].by == "administrator"
    assert events[0].utc.isoformat() == "1970-01-01T00:00:05+00:00"
    assert damage == []


def test_a_journal_may_be_opened_again_and_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_some(path, 2)
    write_some(path, 2, start=2)
    events, damage = read(path)
    assert [ev.n for ev in events] == [0, 1, 2, 3]
    assert damage == []


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(1, 600))
def test_a_tail_torn_anywhere_costs_only_the_torn_event(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    write_some(path, 4)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] if cut < len(whole) else b"")
    left = whole.count(b"\n", 0, len(whole) - cut + 1) if cut < len(whole) else 0
    assert [ev.n for ev in read(path)[0]] == list(range(left))
    write_some(path, 2, start=left)
    events, damage = read(path)
    assert [ev.n for ev in events] == list(range(left + 2))
    assert len(damage) <= 1


def test_every_changed_byte_of_a_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_some(path, 3)
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for at in range(second, whole.index(b"\n", second)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read(path)[1], f"byte {at} was changed unseen"


def test_a_line_taken_out_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_some(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert read(path)[1] == [JournalDamage(2, "event 1 is missing before event 2")]


def test_a_line_rewritten_with_a_right_hash_of_its_own_is_found_in_the_next(tmp_path: Path) -> None:
    path, other = tmp_path / "journal.jsonl", tmp_path / "other.jsonl"
    write_some(path, 3)
    with Journal(other) as journal:
        journal.write("step.begun", {"n": 99})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(other.read_bytes() + lines[1] + lines[2])
    assert [d.line for d in read(path)[1]] == [2]


def test_a_second_writer_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path), pytest.raises(RecordingError, match="another program"):
        Journal(path)
    Journal(path).close()


def test_events_from_many_threads_are_each_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:

        def write_twenty() -> None:
            for _ in range(20):
                journal.write("note")

        threads = [threading.Thread(target=write_twenty) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events, damage = read(path)
    assert len(events) == 80
    assert damage == []


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("Not a kind", {}),
        ("note", {"number": float("nan")}),
        ("note", {"long": "x" * (1 << 20)}),
        ("note", {"half a sign": "\ud800"}),
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(
    tmp_path: Path, kind: str, about: dict[str, Any]
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        with pytest.raises(ValueError):  # noqa: PT011 – whichever part of the event is at fault
            journal.write(kind, about)
        journal.write("note", {"good": True})
    events, damage = read(path)
    assert [ev.about for ev in events] == [{"good": True}]
    assert damage == []


def test_after_a_failed_write_the_journal_says_so_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with Journal(tmp_path / "journal.jsonl") as journal:
        with monkeypatch.context() as patch:
            patch.setattr("firsthand.recording.journal.os.fsync", full)
            with pytest.raises(StorageError, match="No space left"):
                journal.write("note")
        with pytest.raises(StorageError, match="No space left"):
            journal.write("note")


def test_lines_that_are_not_ours_are_told_of_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_some(path, 1)
    good = path.read_bytes()
    for odd in (b"[1, 2]\n", b"{}\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"n": true}\n'):
        path.write_bytes(odd + good)
        events, damage = read(path)
        assert [ev.n for ev in events] == [0]
        assert damage == [JournalDamage(1, "the line cannot be read")]


@pytest.mark.process
def test_a_killed_writer_leaves_everything_it_had_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import sys; from pathlib import Path; from firsthand.recording.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "n = 0\n"
        "while True:\n"
        "    journal.write('note', {'n': n}); n += 1; print(n, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        for _ in range(20):
            said = int(child.stdout.readline())
        child.kill()
        said = max([said, *(int(line) for line in child.stdout if line.endswith(b"\n"))])
    events, _ = read(path)
    assert len(events) >= said
    with Journal(path) as journal:
        journal.write("note", json.loads('{"after": true}'))
    assert read(path)[0][-1].about == {"after": True}
