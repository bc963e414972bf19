"""What holds for every exporter. An exporter's test inherits ``ExporterContract``."""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import pytest

from firsthand.api import Cancelled, Exporter, FirsthandError, RecordingView
from firsthand.testing.claims import claim
from firsthand.testing.contract_class import ClassContract
from firsthand.testing.memory_recording import MemoryRecording


class ExporterContract(ClassContract):
    """Lets the exporter write ``recording()`` into an empty folder and looks at what it did."""

    kind = "exporter"

    @abstractmethod
    def plugin_class(self) -> type[Exporter]:
        """The exporter under test."""

    @abstractmethod
    def recording(self, folder: Path) -> RecordingView:
        """A recording that the exporter can write; ``folder`` is an empty one to put it in."""

    def _folders(self, tmp_path: Path) -> tuple[Path, Path]:
        inside, out = tmp_path / "recording", tmp_path / "out"
        inside.mkdir()
        out.mkdir()
        return inside, out

    def _export(
        self, recording: RecordingView, out: Path, told: list[float] | None = None
    ) -> list[Path]:
        progress = _Told()
        written = self.plugin_class()(self.config()).export(recording, out, progress)
        if told is not None:
            told.extend(done for done, _ in progress.all)
        return list(written)

    def test_it_writes_the_files_it_names_and_no_others(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)
        written = self._export(self.recording(inside), out)
        claim(bool(written), "export() names no file")
        named = {path.resolve() for path in written}
        there = {path.resolve() for path in out.rglob("*") if path.is_file()}
        claim(named == there, f"named and written files differ: {named ^ there}")
        claim(all(path.stat().st_size > 0 for path in there), "an empty file was written")

    def test_the_recording_is_the_same_afterwards(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)
        recording = self.recording(inside)
        before = _hashes(inside)
        self._export(recording, out)
        claim(_hashes(inside) == before, "exporting changed the recording's folder")

    def test_files_that_are_there_already_are_left_alone(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)
        recording = self.recording(inside)
        self._export(recording, out)
        mine = out / "notes of my own.txt"
        mine.write_text("do not touch", encoding="utf-8")
        before = _hashes(out)
        try:
            again = self._export(recording, out)
        except FirsthandError:
            again = []
        claim(
            {name: digest for name, digest in _hashes(out).items() if name in before} == before,
            "a second export into the same folder changed files of the first",
        )
        claim(not {str(p.relative_to(out)) for p in again} & set(before), "old files named as new")

    def test_progress_goes_from_0_to_1(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)
        told: list[float] = []
        self._export(self.recording(inside), out, told)
        claim(bool(told), "progress was never told")
        claim(told == sorted(told), f"progress went back: {told}")
        claim(told[0] >= 0.0 and told[-1] == 1.0, f"progress ran from {told[0]} to {told[-1]}")

    def test_it_ends_when_it_is_asked_to(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)

        def stop(done: float, words: str = "") -> None:
            raise Cancelled(f"Stopped at {done} {words}.")

        exporter = self.plugin_class()(self.config())
        with pytest.raises(Cancelled):
            exporter.export(self.recording(inside), out, stop)

    def test_a_recording_without_streams_is_told_in_words(self, tmp_path: Path) -> None:
        inside, out = self._folders(tmp_path)
        try:
            written = self._export(MemoryRecording(inside), out)
        except FirsthandError as error:
            claim(bool(error.message.strip()), "the error has no words")
        else:
            claim(all(path.is_file() for path in written), "a file was named and not written")


class _Told:
    """A ``Progress`` that keeps what it is told."""

    def __init__(self) -> None:
        self.all: list[tuple[float, str]] = []

    def __call__(self, done: float, words: str = "") -> None:
        self.all.append((done, words))


def _hashes(folder: Path) -> Mapping[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
