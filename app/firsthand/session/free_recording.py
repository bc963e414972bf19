"""A recording without a protocol: start, look, stop, finish, check."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from firsthand.api import FirsthandError, Progress, RecordingError, StorageError
from firsthand.recording.recorder_settings import DeviceChoice, RecorderSettings, RecorderStatus
from firsthand.session import commands as c
from firsthand.session.diary import Diary
from firsthand.session.keeper import RecorderKeeper
from firsthand.session.tools import RunningRecorder, Tools


@dataclass(frozen=True, slots=True)
class FreeResult:
    """What a recording without a protocol left behind."""

    folder: Path
    good: bool
    words: str
    findings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON types."""
        return {
            "folder": str(self.folder),
            "good": self.good,
            "words": self.words,
            "findings": list(self.findings),
        }


class FreeRecording:
    """One recorder and its journal. Made by ``begin``."""

    def __init__(self, folder: Path, device: DeviceChoice, tools: Tools) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"The folder {folder} could not be made: {error.strerror}.",
                try_this="Choose one on a disk that can be written to.",
            ) from error
        self._tools = tools
        self._settings = RecorderSettings(
            folder=folder, devices=tools.without([device], ()), session={"id": folder.name}
        )
        self._trouble: list[str] = []
        self._keeper = RecorderKeeper()
        self._diary = Diary(folder, self._trouble.append)

    @classmethod
    def begin(cls, folder: Path, device: DeviceChoice, tools: Tools) -> Self:
        """Start recording ``device`` into ``folder``, which is new.

        Raises ``RecordingError`` with the reason where that is not possible.
        """
        made = cls(folder, device, tools)
        made._diary.write("recording.made", {"device": device.name})
        if not made._start(tools.start_recorder):
            made._diary.close()
            raise RecordingError(made._trouble[-1])
        return made

    @property
    def recorder_pid(self) -> int | None:
        """The recorder's process, while there is one."""
        return self._keeper.pid

    def look(self) -> RecorderStatus | None:
        """How it does; None when it has ended and cannot go on. A recorder that died is started
        anew at once."""
        for news in self._keeper.look():
            match news:
                case c.RecorderDied():
                    self._diary.write("cue.recorder_died")
                    if not self._start(self._tools.resume_recorder):
                        return None
                case c.RecorderFailed(reason=reason):
                    self._diary.write("recorder.failed", {"reason": reason})
                    self._trouble.append(reason)
                    return None
                case c.StreamLost(stream=stream, reason=reason):
                    self._diary.write("cue.stream_lost", {"stream": stream, "reason": reason})
                case c.StreamBack(stream=stream):
                    self._diary.write("cue.stream_back", {"stream": stream})
        return self._keeper.status

    def finish(self, progress: Progress) -> FreeResult:
        """Stop, make the recording's file, check it."""
        folder = self._settings.folder
        try:
            stopped = self._keeper.stop()
            if isinstance(stopped, c.RecorderFailed):
                self._trouble.append(stopped.reason)
            self._diary.write("recorder.stopped")
            if self._keeper.is_lingering:
                words = "The recorder is still closing the recording."
                raise RecordingError(words, try_this=f"Later, run: firsthand recover {folder}")
            self._tools.finalise(folder, progress)
            verdict = self._tools.check(folder, progress)
        except FirsthandError as error:
            return FreeResult(folder, False, str(error), tuple(self._trouble))
        finally:
            self._diary.close()
        words = f"Saved: {verdict.numbers.words}. {verdict.words} It is in {folder}."
        good = verdict.good and not self._trouble
        return FreeResult(folder, good, words, (*self._trouble, *verdict.findings))

    def _start(self, start: Callable[[RecorderSettings], RunningRecorder]) -> bool:
        news = self._keeper.start(start, self._settings)
        if isinstance(news, c.RecorderFailed):
            self._diary.write("recorder.failed", {"reason": news.reason})
            self._trouble.append(news.reason)
            return False
        self._diary.write("recorder.started", {"pid": self._keeper.pid})
        return True
