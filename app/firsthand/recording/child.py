"""The recorder's process: ``python -m firsthand.recording.child``, settings as JSON on its input.

It lives on its own. The app that started it may freeze, die or be closed; the recording goes on
until somebody says stop, the disk is full, or nobody has been attached for ``orphan_after_s``.
SIGTERM closes it well within two seconds; SIGINT (a Ctrl-C meant for the app) is ignored.
"""

import importlib
import logging
import signal
import sys
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from firsthand.api import Device, FirsthandError, RecordingError, SettingsError
from firsthand.children.channel import Listener
from firsthand.host import PluginHost, load_plugins
from firsthand.logs import configure
from firsthand.recording import rendezvous
from firsthand.recording.control import Control
from firsthand.recording.recorder import Recorder
from firsthand.recording.recorder_devices import install_hook
from firsthand.recording.recorder_settings import RecorderSettings

_LOOK_S: Final = 0.1
_LINGER_S: Final = 60.0
"""How long one that ended by itself stays to be asked why."""
_HURRY_S: Final = 1.0
"""For devices to close after SIGTERM; the log is closed before that."""

_log = logging.getLogger(__name__)


class ChildSettings(BaseModel):
    """What the process is handed: the settings, and where it tells how to be reached."""

    model_config = ConfigDict(extra="forbid")

    recorder: RecorderSettings
    note: Path


class RecorderChild:
    """The process as an object: builds the recorder, serves the app, knows when to end."""

    def __init__(self, settings: ChildSettings) -> None:
        self._settings = settings.recorder
        self._note = settings.note
        self._terminated = False
        self._recorder: Recorder | None = None

    def run(self) -> int:
        """Record until the end; give the exit code."""
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.platform == "win32":
            signal.signal(signal.SIGBREAK, self._on_terminate)
        host = self._load_plugins()
        recorder = Recorder(self._settings, self._make_devices(host), plugins=_versions(host))
        install_hook(lambda: recorder.devices)
        recorder.begin()
        listener = Listener()
        control = Control(recorder, listener, recorder.stop)
        try:
            rendezvous.announce(self._note, listener.address, listener.key)
            recorder.open_devices()
            _log.info("recording %d streams", len(recorder.schemas))
            self._wait(recorder, control)
        finally:
            recorder.stop("The recorder's process ended.", _HURRY_S)
            rendezvous.withdraw(self._note)
            control.close()
        return 0

    def _wait(self, recorder: Recorder, control: Control) -> None:
        """Until there is nothing left to do here."""
        while not recorder.ended.wait(_LOOK_S):
            if self._terminated:
                recorder.stop("The recorder was told to end (SIGTERM).", _HURRY_S)
            elif control.alone_s > self._settings.orphan_after_s:
                minutes = self._settings.orphan_after_s / 60
                recorder.stop(
                    f"Nobody was attached to the recorder for {minutes:.0f} minutes, so it closed "
                    "the recording."
                )
        linger_s = min(self._settings.orphan_after_s, _LINGER_S)
        while not (self._terminated or control.stop_answered.wait(_LOOK_S)):
            if control.alone_s > linger_s:
                return

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True  # and no more: a handler must not take locks

    def _load_plugins(self) -> PluginHost:
        extra = []
        for name in self._settings.extra_plugins:
            try:
                extra.append(importlib.import_module(name))
            except ImportError as error:
                raise SettingsError(f"The plugin module {name!r} cannot be imported.") from error
        only = self._settings.plugins
        return load_plugins(extra=extra, only=only, probe=only is None)

    def _make_devices(self, host: PluginHost) -> list[Device]:
        return [host.make_device(one.name, one.settings) for one in self._settings.devices]


def _versions(host: PluginHost) -> list[dict[str, str]]:
    return [
        {"name": plugin.name, "version": plugin.version, "distribution": plugin.distribution}
        for plugin in host.plugins
        if not plugin.refused
    ]


def main() -> int:
    """Read the settings, record, and say in the note what kept it from beginning."""
    configure("recorder")
    try:
        settings = ChildSettings.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        _log.error("the settings cannot be used: %s", error.errors(include_input=False))
        return 2
    try:
        return RecorderChild(settings).run()
    except FirsthandError as error:
        _log.error("the recorder ends: %s", type(error).__name__)
        rendezvous.announce_failure(settings.note, error)
    except Exception as error:  # noqa: BLE001  (the process's end: the app must learn why)
        _log.exception("the recorder ends")
        words = f"The recorder broke inside ({type(error).__name__}). Its log file has the details."
        rendezvous.announce_failure(settings.note, RecordingError(words))
    return 1


if __name__ == "__main__":
    sys.exit(main())
