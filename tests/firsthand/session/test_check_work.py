"""What a session's end says about its recording."""

from pathlib import Path

import pytest

from firsthand.recording.check import check
from firsthand.session.check_work import numbers_of, verdict_of
from firsthand.testing.recordings import make_recording, small_world

pytestmark = pytest.mark.unit


def test_a_recording_is_told_in_the_numbers_that_a_person_asks_for(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", small_world(2.0))
    numbers = numbers_of(tmp_path / "s")
    assert numbers.pictures == 60
    assert numbers.gaze_valid == 1.0
    assert numbers.hands_seen == 1.0
    assert "gaze valid 100 %, hands seen 100 %, no gaps" in numbers.words
    assert verdict_of(check(tmp_path / "s"))["words"].startswith("The recording is good: it passed")


def test_what_was_not_recorded_has_no_number(tmp_path: Path) -> None:
    make_recording(tmp_path / "s", small_world(1.0, streams=["pv"]))
    numbers = numbers_of(tmp_path / "s")
    assert numbers.gaze_valid is None
    assert numbers.hands_seen is None
    assert "seen" not in numbers.words
