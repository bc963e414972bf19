"""The room on the disk: warned of early, and never used up."""

from pathlib import Path

import pytest

from firsthand.api import StorageError
from firsthand.recording.diskspace import (
    LEAST_RESERVE,
    Room,
    SpaceGuard,
    check_room,
    free_bytes,
    recording_time_s,
)

pytestmark = pytest.mark.unit

MB = 1_000_000


def rooms(free_at_start: int, rate: int, seconds: int) -> list[tuple[Room, float | None]]:
    """What the guard says once a second while ``rate`` bytes a second are written."""
    guard = SpaceGuard(LEAST_RESERVE)
    said = []
    for second in range(seconds):
        space = guard.look(float(second), free_at_start - second * rate, second * rate)
        said.append((space.room, space.time_left_s))
    return said


def test_time_left_has_room_for_the_log_and_the_file_built_from_it() -> None:
    free = LEAST_RESERVE + 2 * 3600 * MB
    said = rooms(free, MB, 20)
    assert said[0] == (Room.ENOUGH, None)
    room, left_s = said[19]
    assert room is Room.ENOUGH
    # 19 s are recorded: of the room for an hour of log and file, 19 s are gone from both.
    assert left_s == pytest.approx(3600 - 19)


def test_warnings_come_half_an_hour_and_five_minutes_before_the_end() -> None:
    free = LEAST_RESERVE + 2 * 40 * 60 * MB
    said = rooms(free, MB, 90 * 60)
    first = {room: next(s for s, (r, _) in enumerate(said) if r is room) for room in Room}
    assert first[Room.EARLY] == 10 * 60
    assert first[Room.LATE] == 35 * 60
    assert first[Room.NOT_TO_FINISH] == 40 * 60
    assert first[Room.NONE] == 80 * 60 - 2  # what may come before the next look is left free
    assert [r for r, _ in said] == sorted(r for r, _ in said)


def test_every_warning_says_what_to_do() -> None:
    guard = SpaceGuard(LEAST_RESERVE)
    for second in range(10):
        space = guard.look(float(second), LEAST_RESERVE + 400 * MB, second * MB)
    assert "about 3 more minutes" in space.words
    assert "Make room" in space.words
    assert "make room" in guard.look(10.0, LEAST_RESERVE + 5 * MB, 10 * MB).words
    assert "ends here" in guard.look(11.0, LEAST_RESERVE - 1, 10 * MB).words


def test_the_reserve_cannot_be_set_below_what_closing_needs() -> None:
    assert SpaceGuard(0).reserve_bytes == LEAST_RESERVE
    assert SpaceGuard(0).look(0.0, LEAST_RESERVE, 0).room is Room.NONE


def test_a_silent_recording_has_no_time_left_to_tell() -> None:
    assert {left for _, left in rooms(LEAST_RESERVE + MB, 0, 20)} == {None}


def test_a_folder_that_takes_nothing_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"Nothing can be written.*Choose"):
        check_room(tmp_path / "file" / "session", 0)
    with pytest.raises(StorageError, match=r"too full.*Make room"):
        check_room(tmp_path / "session", free_bytes(tmp_path) + 10**9)
    check_room(tmp_path / "new" / "session", 0)
    assert list((tmp_path / "new" / "session").iterdir()) == []


def test_recording_time_at_an_expected_rate_counts_log_and_file(tmp_path: Path) -> None:
    free = free_bytes(tmp_path)
    assert recording_time_s(tmp_path, 1e6, 0) == pytest.approx(
        (free - LEAST_RESERVE) / 2e6, rel=0.05
    )
    assert recording_time_s(tmp_path, 1e6, free * 2) == 0
