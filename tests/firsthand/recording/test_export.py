"""Exports run in a worker, replace what was there only when whole, and say what is wrong."""

from pathlib import Path

import pytest

from firsthand.api import DamagedError, RecordingError, SettingsError, StorageError
from firsthand.recording.export import export
from firsthand.testing.recordings import make_recording

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("export") / "s"
    make_recording(made, seconds=1.0)
    return made


def test_an_export_leaves_its_files_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    told: list[float] = []
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    (out / "video.mp4").write_bytes(b"an earlier one")
    files = export(folder, "mp4", out, on_progress=lambda done, words: told.append(done))
    assert files == [out / "video.mp4"]
    assert [path.name for path in out.iterdir()] == ["video.mp4"]
    assert (out / "video.mp4").stat().st_size > 1000
    assert told[-1] == 1.0


def test_a_format_that_nobody_offers_is_told_before_anything_is_done(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="mp4"):
        export(folder, "mp5", tmp_path / "out")
    with pytest.raises(SettingsError, match="sound_kbit"):
        export(folder, "mp4", tmp_path / "out", settings={"sound_kbits": 3})
    assert not (tmp_path / "out").exists()


def test_what_an_exporter_says_comes_through(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no stream 'gaze'"):
        export(folder, "csv", tmp_path / "out", settings={"streams": ["gaze"]})
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_the_gate_refuses_is_not_exported(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes((folder / "raw.h5").read_bytes()[:-100])
    with pytest.raises(DamagedError, match="cut off"):
        export(path, "csv", tmp_path / "out")


def test_a_place_that_takes_nothing_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageError, match="could be written"):
        export(folder, "csv", tmp_path / "file" / "out")
