"""Finishes a session in a process of its own: a full disk can end HDF5's process without a word."""

import logging
import threading
import time
from pathlib import Path
from typing import Any, Final

from firsthand.api import (
    Cancelled,
    DamagedError,
    FirsthandError,
    Progress,
    RecordingError,
    StorageError,
)
from firsthand.children.channel import Channel, ChannelClosed, Listener
from firsthand.children.process import Child, start
from firsthand.recording.finalise_report import FinaliseReport

_log = logging.getLogger(__name__)
_NICE: Final = 10
_LOOK_S: Final = 0.25
_START_S: Final = 60.0
_KINDS: Final[dict[str, type[FirsthandError]]] = {
    kind.__name__: kind for kind in (DamagedError, RecordingError, StorageError)
}
MODULE: Final = "firsthand.recording.finalise_child"


def finalise_in_child(
    folder: Path, *, progress: Progress | None = None, cancel: threading.Event | None = None
) -> FinaliseReport:
    """``finalise`` in a child of low priority; the same errors.

    When the child dies (a full disk, a kill) that is a ``StorageError``: the log is still there,
    and the next try begins from it. ``cancel`` or a ``progress`` that raises ends the child.
    """
    with Listener() as listener:
        child = start(
            MODULE,
            [str(folder.resolve()), "--channel", listener.address],
            stdin=listener.key,
            nice=_NICE,
        )
        with child:
            channel = _connected(listener, child, folder)
            with channel:
                report = _watch(channel, child, folder, progress, cancel)
            child.wait(_START_S)
            return report


def _connected(listener: Listener, child: Child, folder: Path) -> Channel:
    limit = time.monotonic() + _START_S
    while (channel := listener.accept(_LOOK_S)) is None:
        if child.poll() is not None or time.monotonic() > limit:
            raise _died(folder)
    return channel


def _watch(
    channel: Channel,
    child: Child,
    folder: Path,
    progress: Progress | None,
    cancel: threading.Event | None,
) -> FinaliseReport:
    while True:
        if cancel is not None and cancel.is_set():
            raise Cancelled("Finishing the recording was stopped. It can be taken up at any time.")
        try:
            message = channel.receive(_LOOK_S)
        except ChannelClosed as error:
            raise _died(folder) from error
        if message is None:
            if child.poll() is not None and channel.closed:
                raise _died(folder)
            continue
        header = message.header
        match header.get("kind"):
            case "progress":
                if progress is not None:
                    progress(float(header["done"]), str(header["words"]))
            case "done":
                return FinaliseReport.from_json(header["report"])
            case "failed":
                raise _failure(header)
            case _:
                _log.warning("the finaliser said something unknown")


def _failure(header: Any) -> FirsthandError:
    kind = _KINDS.get(str(header.get("error")), RecordingError)
    try_this = header.get("try_this")
    return kind(str(header.get("message")), try_this=str(try_this) if try_this else None)


def _died(folder: Path) -> StorageError:
    return StorageError(
        f"Finishing the recording {folder.name} ended too early; the disk may be full.",
        try_this="It is safe in its log. Make room, and run recover.",
    )


def describe(error: FirsthandError) -> dict[str, Any]:
    """An error as a message to the parent."""
    return {
        "kind": "failed",
        "error": type(error).__name__,
        "message": error.message,
        "try_this": error.try_this,
    }
