"""Opens and closes a recording's devices, each on its own, and finds whose fault a fault is."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from firsthand.api import Device, FirsthandError, SettingsError, StreamSchema
from firsthand.recording.recorder_sink import RecorderSink

_OPEN_S: Final = 3.0
_CLOSE_S: Final = 6.0
"""A second more than devices are allowed."""

_log = logging.getLogger(__name__)


def schemas_of(devices: Sequence[Device]) -> dict[str, StreamSchema]:
    """Every stream by name. Raises ``SettingsError`` where two devices name one alike."""
    schemas: dict[str, StreamSchema] = {}
    owners: dict[str, str] = {}
    for device in devices:
        for schema in device.schemas():
            if schema.name in schemas:
                raise SettingsError(
                    f"The devices {owners[schema.name]} and {device.name} both deliver a stream "
                    f"called {schema.name!r}.",
                    try_this="Record them in two sessions, or switch one of the streams off.",
                )
            schemas[schema.name] = schema
            owners[schema.name] = device.name
    return schemas


@dataclass(slots=True)
class Driven:
    """A device and where its packets go."""

    device: Device
    sink: RecorderSink


class Devices:
    """The devices of one recording. One that raises, hangs or breaks leaves the others alone."""

    def __init__(self, driven: Sequence[Driven], warn: Callable[[str], None]) -> None:
        self._driven = list(driven)
        self._warn = warn

    def open(self) -> None:
        """Open all at once; go on after a moment without those that do not come back."""
        threads = self._each("open", self._open)
        _join(threads, _OPEN_S)
        for driven, thread in zip(self._driven, threads, strict=True):
            if thread.is_alive():
                _log.warning("device %s has not finished opening", driven.device.name)

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Close all at once. What they say from now on belongs to nobody."""
        for driven in self._driven:
            driven.sink.closed = True
        threads = self._each("close", self._close)
        _join(threads, timeout_s)
        for driven, thread in zip(self._driven, threads, strict=True):
            if thread.is_alive():
                _log.error("device %s did not close in %.0f s", driven.device.name, timeout_s)

    def thread_failed(self, error: BaseException, trace: TracebackType | None) -> bool:
        """A thread ended with ``error``. Ends the streams of the device whose code it ran; false
        where it was no device's."""
        modules = _modules(trace)
        guilty = [d for d in self._driven if _package(d.device) & modules]
        for driven in guilty:
            self._failed(driven, error)
        return bool(guilty)

    def _each(self, word: str, do: Callable[[Driven], None]) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=do, args=(d,), name=f"{word}-{d.device.name}", daemon=True)
            for d in self._driven
        ]
        for thread in threads:
            thread.start()
        return threads

    def _open(self, driven: Driven) -> None:
        try:
            driven.device.open(driven.sink)
        except Exception as error:  # noqa: BLE001  (a plugin: anything may come)
            self._failed(driven, error)

    def _close(self, driven: Driven) -> None:
        try:
            driven.device.close()
        except Exception:  # noqa: BLE001  (a plugin: anything may come)
            _log.exception("device %s raised while closing", driven.device.name)

    def _failed(self, driven: Driven, error: BaseException) -> None:
        name = driven.device.name
        if isinstance(error, FirsthandError):
            reason = str(error)
        else:
            reason = (
                f"The plugin of the device {name} broke ({type(error).__name__}). Its streams "
                "ended; the others go on."
            )
        _log.error("device %s failed", name, exc_info=error)
        driven.sink.failed(reason)
        self._warn(reason)


def _join(threads: Sequence[threading.Thread], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))


def _modules(trace: TracebackType | None) -> set[str]:
    """Modules and top packages of all code that a traceback went through."""
    names: set[str] = set()
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        names |= {name, name.partition(".")[0]}
        trace = trace.tb_next
    return names


def _package(device: Device) -> set[str]:
    """What names a device's own code: its package, or its module where that is one of ours."""
    module = type(device).__module__
    package = module.partition(".")[0]
    own = __name__.partition(".")[0]
    return {module if package == own or module == "__main__" else package}


def install_hook(devices: Callable[[], Devices | None]) -> None:
    """Let uncaught errors in threads end the streams of their device, for the whole process."""
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        present = devices()
        error = args.exc_value
        if present is None or error is None or not present.thread_failed(error, args.exc_traceback):
            before(args)

    threading.excepthook = hook
