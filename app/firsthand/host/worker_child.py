"""The worker's side: does one call and tells what came of it.

Started by ``firsthand.host.worker`` with the address to call; the key comes through stdin.
"""

import faulthandler
import importlib
import os
import sys
import threading
import time
from typing import Any

from firsthand.api import Cancelled, FirsthandError
from firsthand.children.channel import Channel, ChannelError, connect
from firsthand.host.worker import WORDS_MOST

_CONNECT_S = 10.0
_BETWEEN_S = 0.05
_ERROR_MOST = 2000


class _Telling:
    """The ``progress`` that plugin code gets: at most 20 messages a second, and the end."""

    def __init__(self, channel: Channel, cancelled: threading.Event) -> None:
        self._channel = channel
        self._cancelled = cancelled
        self._told_at = 0.0
        self._told_end = False

    def __call__(self, done: float, words: str = "") -> None:
        if self._cancelled.is_set():
            raise Cancelled("The work was stopped before it was done.")
        now = time.monotonic()
        ends = done >= 1.0 and not self._told_end
        if ends or now - self._told_at >= _BETWEEN_S:
            self._told_at = now
            self._told_end = done >= 1.0
            self._channel.send({"done": float(done), "words": str(words)[:WORDS_MOST]})


def _listen(channel: Channel, cancelled: threading.Event) -> None:
    """Wait for the word to stop. Without a parent nobody wants the result: end at once."""
    try:
        while (message := channel.receive()) is not None:
            if "cancel" in message.header:
                cancelled.set()
    except ChannelError:
        os._exit(1)


def _call(target: str, arguments: dict[str, Any], progress: _Telling) -> dict[str, Any]:
    try:
        module, _, name = target.partition(":")
        return {"result": getattr(importlib.import_module(module), name)(arguments, progress)}
    except FirsthandError as error:
        return _error(type(error).__name__, error.message, error.try_this)
    except Exception as error:  # noqa: BLE001  (the boundary: it is told to the parent)
        return _error(type(error).__name__, str(error), None)
    # SystemExit goes through: that the plugin wanted to end the process is told by its end.


def _error(kind: str, message: str, try_this: str | None) -> dict[str, Any]:
    return {
        "error": {"kind": kind, "message": message[:_ERROR_MOST], "try_this": try_this},
    }


def main() -> None:
    """Do the call that the parent asks for."""
    faulthandler.enable()
    channel = connect(sys.argv[1], sys.stdin.buffer.read(), _CONNECT_S)
    job = channel.receive(_CONNECT_S)
    if job is None:
        raise SystemExit(1)
    cancelled = threading.Event()
    threading.Thread(target=_listen, args=(channel, cancelled), daemon=True).start()
    answer = _call(job.header["target"], job.header["arguments"], _Telling(channel, cancelled))
    try:
        channel.send(answer)
    except ChannelError as error:
        channel.send(_error("ResultError", error.message, None))


if __name__ == "__main__":
    main()
