"""Keeps a session's recorder: starts, watches and stops it, and says what happened by commands."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from firsthand.api import FirsthandError
from firsthand.recording.recorder_settings import RecorderSettings, RecorderState, RecorderStatus
from firsthand.session import commands as c
from firsthand.session.tools import RunningRecorder
from firsthand.session.watching import StreamWatch

_STOP_S: Final = 20.0
_LINGER_S: Final = 40.0
_LOOK_S: Final = 0.1
_SILENT_LOOKS: Final = 5
"""So many unanswered looks in a row before the administrator is told."""
_log = logging.getLogger(__name__)


class RecorderKeeper:
    """The one holder of the recorder. Never raises for what the recorder does."""

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._lingering: RunningRecorder | None = None
        self.status: RecorderStatus | None = None
        """What it said last."""
        self.ever_started = False
        self._recorder: RunningRecorder | None = None
        self._streams = StreamWatch()
        self._unanswered = 0

    @property
    def pid(self) -> int | None:
        return self._recorder.pid if self._recorder is not None else None

    @property
    def is_silent(self) -> bool:
        """Whether it has just been found not to answer; true once for each silence."""
        return self._unanswered == _SILENT_LOOKS

    def start(
        self, start: Callable[[RecorderSettings], RunningRecorder], settings: RecorderSettings
    ) -> c.Command:
        """Start or resume the recorder by ``start``; gives what became of it."""
        try:
            self._recorder = start(settings)
        except FirsthandError as error:
            return c.RecorderFailed(str(error))
        self.ever_started = True
        self._streams = StreamWatch()
        self._unanswered = 0
        return c.RecorderStarted()

    def stop(self) -> c.Command:
        """Ask the recorder to close the recording and wait for it."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return c.RecorderStopped()
        try:
            self.status = recorder.stop(_STOP_S)
        except FirsthandError as error:
            # It was asked; on a slow disk it may still be closing. Never killed for being slow.
            if self._has_gone(recorder):
                return c.RecorderDied()
            self._lingering = recorder
            return c.RecorderFailed(str(error))
        return c.RecorderStopped()

    @property
    def is_lingering(self) -> bool:
        """Whether a recorder that was asked to stop is still there: its log must not be touched."""
        return self._lingering is not None and self._lingering.alive

    def look(self) -> list[c.Command]:
        """What has happened to the recorder and its streams since the last look."""
        recorder = self._recorder
        if recorder is None:
            return []
        try:
            status = recorder.status()
        except FirsthandError:
            if not recorder.alive:
                self._recorder = None
                return [c.RecorderDied()]
            self._unanswered += 1
            return []
        self._unanswered = 0
        self.status = status
        if status.state in {RecorderState.FAILED, RecorderState.STOPPED}:
            self._recorder = None
            return [c.RecorderFailed(status.reason or "It ended by itself.")]
        return self._streams.look(status.streams, status.elapsed_s)

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Write a fact into the recording, if there is one."""
        if self._recorder is None:
            return
        try:
            self._recorder.note(kind, about)
        except FirsthandError:
            _log.warning("a note could not be put into the recording")

    def _has_gone(self, recorder: RunningRecorder) -> bool:
        limit = self._clock_s() + _LINGER_S
        while recorder.alive and self._clock_s() < limit:
            self._sleep(_LOOK_S)
        return not recorder.alive

    def detach(self) -> None:
        """Let the recorder run on without this program."""
        if self._recorder is not None:
            self._recorder.detach()
            self._recorder = None
