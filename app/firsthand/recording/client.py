"""The app's side of a recorder: start its process, find it again, ask, stop, let go."""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import psutil

from firsthand.api import FirsthandError, RecordingError
from firsthand.children.channel import Channel, ChannelClosed, ChannelError, connect
from firsthand.children.process import STDIN_LIMIT, Child, start
from firsthand.paths import log_dir
from firsthand.recording import rendezvous
from firsthand.recording.child import ChildSettings
from firsthand.recording.diskspace import check_room
from firsthand.recording.manifest import read_manifest
from firsthand.recording.recorder_settings import DeviceChoice, RecorderSettings, RecorderStatus
from firsthand.recording.rendezvous import Rendezvous, find, note_path

__all__ = ["DeviceChoice", "RecorderProcess", "RecorderSettings", "RecorderStatus"]

_START_S: Final = 30.0
_CONNECT_S: Final = 5.0
_LOOK_S: Final = 0.01

_log = logging.getLogger(__name__)


class RecorderProcess:
    """A recorder that runs in a process of its own and would outlive this one.

    Any thread. ``detach`` when done: the recorder records on.
    """

    def __init__(self, found: Rendezvous, channel: Channel, child: Child | None = None) -> None:
        self._found = found
        self._channel: Channel | None = channel
        self._child = child
        self._asking = threading.Lock()
        self._number = 0

    @classmethod
    def start(cls, settings: RecorderSettings) -> Self:
        """Start a recorder and return when it records (devices may still be connecting).

        Raises ``StorageError`` before anything is started where the folder cannot be written or
        has no room, ``RecordingError`` where the session is being recorded already, and whatever
        kept the recorder from beginning, in its own words.
        """
        check_room(settings.folder, settings.reserve_bytes)
        return cls._launch(settings)

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Start another recorder for a session whose recorder died: it goes on in the next segment
        with the same settings. Raises as ``start``, and where the manifest does not tell how."""
        about = read_manifest(folder).recorder
        try:
            settings = RecorderSettings.model_validate((about or {})["settings"])
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(
                f"The recording in {folder} cannot be gone on with: it was closed, or its manifest "
                "does not say with which devices it was made.",
                try_this="Begin another session.",
            ) from error
        return cls._launch(settings.model_copy(update={"folder": folder}))

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """Find the recorder that records into ``folder``, whoever started it. Raises
        ``RecordingError`` where there is none."""
        found = find(note_path(folder))
        if found is None:
            raise RecordingError(
                f"Nothing is recording into {folder}.",
                try_this="Recover the session if it was not finished: `firsthand recover`.",
            )
        return cls(found, _connect(found))

    @classmethod
    def _launch(cls, settings: RecorderSettings) -> Self:
        note = note_path(settings.folder)
        present = find(note)
        if present is not None:
            raise RecordingError(
                f"{settings.folder} is being recorded already (process {present.pid}).",
                try_this="To stop it and keep what it recorded: "
                f"firsthand recover {settings.folder} --stop",
            )
        rendezvous.withdraw(note)
        handed = ChildSettings(recorder=settings, note=note).model_dump_json().encode()
        if len(handed) > STDIN_LIMIT:
            raise RecordingError(
                f"The session's settings are too long ({len(handed)} bytes; {STDIN_LIMIT} fit)."
            )
        child = start("firsthand.recording.child", stdin=handed, log=_output())
        try:
            found = _wait_for(child, note)
            return cls(found, _connect(found), child)
        except BaseException:
            child.stop(2.0)
            rendezvous.withdraw(note)
            raise

    @property
    def pid(self) -> int:
        return self._found.pid

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        if self._child is not None:
            return self._child.poll() is None
        return self._found.alive

    def status(self, timeout_s: float = 2.0) -> RecorderStatus:
        """How the recording is doing. Raises ``RecordingError`` where the recorder is gone or
        does not answer in time."""
        return _status(self._ask({"ask": "status"}, timeout_s))

    def note(self, kind: str, about: Mapping[str, Any], timeout_s: float = 2.0) -> None:
        """Store a fact in the recording (JSON types). Raises as ``status``."""
        self._ask({"ask": "note", "kind": kind, "about": dict(about)}, timeout_s)

    def stop(self, timeout_s: float = 20.0) -> RecorderStatus:
        """Close the recording and wait for the process to end. Raises as ``status``; the recorder
        is never killed for being slow."""
        deadline = time.monotonic() + timeout_s
        status = _status(self._ask({"ask": "stop"}, timeout_s))
        self._hang_up()
        left_s = max(deadline - time.monotonic(), 1.0)
        if self._child is not None:
            if self._child.wait(left_s) is None:
                _log.warning("the recorder's process takes its time to end")
        else:
            with contextlib.suppress(psutil.Error):
                psutil.Process(self.pid).wait(left_s)
        return status

    def detach(self) -> None:
        """Let go; the recorder records on. May be called twice."""
        self._hang_up()
        if self._child is not None:
            self._child.leave()

    def _ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        with self._asking:
            self._number += 1
            try:
                try:
                    return self._exchange(question, deadline)
                except ChannelClosed:
                    self._hang_up()  # once more over a new connection: the recorder may be fine
                    return self._exchange(question, deadline)
            except ChannelError as error:
                self._hang_up()
                raise self._silent() from error

    def _exchange(self, question: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        if self._channel is None:
            if not self.alive:
                raise ChannelClosed("The recorder's process is gone.")
            self._channel = connect(self._found.address, self._found.key, _CONNECT_S)
        self._channel.send({"number": self._number, **question})
        while (left_s := deadline - time.monotonic()) > 0:
            message = self._channel.receive(left_s)
            if message is not None and message.header.get("number") == self._number:
                if "wrong" in message.header:
                    raise RecordingError(str(message.header["wrong"]))
                return message.header
        raise ChannelError("The recorder did not answer in time.")

    def _silent(self) -> RecordingError:
        if not self.alive:
            return RecordingError(
                "The recorder's process is gone. What it recorded until then is safe.",
                try_this="Start it again to go on, or finish the session to recover it.",
            )
        return RecordingError(
            "The recorder did not answer in time. It may still be recording.",
            try_this="Wait a moment and ask again.",
        )

    def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _status(answer: Mapping[str, Any]) -> RecorderStatus:
    try:
        return RecorderStatus.from_json(answer["status"])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError("The recorder's answer was not understood.") from error


def _connect(found: Rendezvous) -> Channel:
    try:
        return connect(found.address, found.key, _CONNECT_S)
    except ChannelError as error:
        raise RecordingError(
            f"The recorder (process {found.pid}) is there but does not answer.",
            try_this="Wait a moment and try again.",
        ) from error


def _wait_for(child: Child, note: Path) -> Rendezvous:
    """Until the recorder has announced itself, or why it could not begin."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        found = find(note)
        if found is not None and found.pid == child.pid:
            return found
        code = child.poll()
        if code is not None:
            raise _why(note, code)
        time.sleep(_LOOK_S)
    raise RecordingError(
        f"The recorder did not start within {_START_S:.0f} s.",
        try_this="Close other programs and try again; its log file may say more.",
    )


def _why(note: Path, code: int) -> FirsthandError:
    told = rendezvous.failure(note)
    if told is not None:
        return told
    return RecordingError(
        f"The recorder's process ended at once (exit code {code}).",
        try_this=f"Its log file in {log_dir()} may say why.",
    )


def _output() -> Path | None:
    """Where what the process prints goes: warnings of the interpreter, mostly."""
    try:
        log_dir().mkdir(parents=True, exist_ok=True)
        path = log_dir() / "recorder-output.log"
        path.touch()
    except OSError:
        return None
    return path
