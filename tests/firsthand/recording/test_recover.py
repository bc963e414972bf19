"""What a crash left behind is finished, once, wherever it lies."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firsthand.api import RecordingError
from firsthand.recording.manifest import (
    LogSegment,
    Manifest,
    RecordingState,
    read_manifest,
    write_manifest,
)
from firsthand.recording.recover import recorder_alive, recover, recover_all, unfinished
from firsthand.testing.recordings import make_recording, small_world, write_log
from firsthand.testing.recordings import write_manifest as leave_manifest

pytestmark = pytest.mark.process


def crashed(folder: Path, recorder: dict[str, Any] | None = None) -> None:
    write_log(folder, small_world(0.5, streams=["si"]), end=None)
    leave_manifest(folder, state=RecordingState.RECORDING)
    if recorder is not None:
        manifest = read_manifest(folder)
        write_manifest(folder, manifest.model_copy(update={"recorder": recorder}))


def this_process(started: datetime) -> dict[str, Any]:
    return {"pid": os.getpid(), "started_utc": started.isoformat()}


def test_every_unfinished_session_below_a_folder_is_finished(tmp_path: Path) -> None:
    crashed(tmp_path / "study" / "sessions" / "a-demonstration-01")
    crashed(tmp_path / "study" / "sessions" / "b-demonstration-01", {"pid": 2**22 + 5})
    make_recording(tmp_path / "study" / "sessions" / "c-demonstration-01", seconds=0.3)
    done = recover_all(tmp_path)
    assert [outcome.folder.name for outcome in done] == ["a-demonstration-01", "b-demonstration-01"]
    for outcome in done:
        assert outcome.report is not None
        assert outcome.report.state == "recovered"
        assert "recovered, 30 packets" in outcome.words
        assert read_manifest(outcome.folder).state is RecordingState.RECOVERED
    assert recover_all(tmp_path) == []


def test_a_recording_whose_recorder_lives_is_left_alone(tmp_path: Path) -> None:
    crashed(tmp_path / "s", this_process(datetime.now(UTC)))
    (outcome,) = recover_all(tmp_path)
    assert outcome.report is None
    assert outcome.error is None
    assert "left alone" in outcome.words
    assert outcome.to_json()["still_recording"] is True
    assert (tmp_path / "s" / "packets.log").is_file()


def test_a_later_process_with_the_number_of_a_dead_recorder_is_not_taken_for_it() -> None:
    long_ago = datetime.now(UTC) - timedelta(days=300)
    assert not recorder_alive(Manifest(recorder=this_process(long_ago)))
    assert recorder_alive(Manifest(recorder=this_process(datetime.now(UTC))))
    assert not recorder_alive(Manifest(recorder={"pid": "nonsense"}))
    assert not recorder_alive(Manifest())


def test_one_that_cannot_be_finished_does_not_keep_others_from_it(tmp_path: Path) -> None:
    crashed(tmp_path / "a")
    write_manifest(
        tmp_path / "a",
        read_manifest(tmp_path / "a").model_copy(
            update={"logs": [LogSegment(path=str(tmp_path / "gone" / "packets.log"))]}
        ),
    )
    crashed(tmp_path / "b")
    first, second = recover_all(tmp_path)
    assert "part of the recording is missing" in first.words
    assert second.report is not None


def test_a_log_without_any_manifest_is_found(tmp_path: Path) -> None:
    write_log(tmp_path / "s", small_world(0.3, streams=["si"]), end=None)
    assert list(unfinished(tmp_path)) == [tmp_path / "s"]
    assert recover(tmp_path / "s").report is not None


def test_a_copy_in_a_fall_back_folder_leads_to_its_home(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home" / "s", tmp_path / "other" / "s"
    crashed(home)
    elsewhere.mkdir(parents=True)
    (elsewhere / "packets-001.log").write_bytes(b"")
    manifest = read_manifest(home)
    copy = manifest.model_copy(update={"home": str(home)})
    write_manifest(elsewhere, copy)
    assert list(unfinished(tmp_path / "other")) == [home]


def test_links_are_not_followed(tmp_path: Path) -> None:
    crashed(tmp_path / "real" / "s")
    (tmp_path / "looked" / "at").mkdir(parents=True)
    (tmp_path / "looked" / "link").symlink_to(tmp_path / "real")
    assert list(unfinished(tmp_path / "looked")) == []


def test_a_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no folder"):
        recover_all(tmp_path / "nothing")
