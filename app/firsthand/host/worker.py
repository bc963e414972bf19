"""Runs one call of plugin code in a process of its own, with a deadline and limits.

Nothing that happens there reaches the caller but a JSON result, or a ``WorkerError`` that says
which plugin did what: it raised, hung, used too much memory, sent too much, or ended its process.
"""

import logging
import math
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import psutil

from firsthand import api
from firsthand.api import Cancelled, FirsthandError, PluginError
from firsthand.children.channel import (
    LIMIT_BYTES,
    Channel,
    ChannelClosed,
    ChannelError,
    Listener,
    MessageTooLarge,
)
from firsthand.children.process import Child, Limits, start

MESSAGES_PER_S: Final = 100
MESSAGES_AT_ONCE: Final = 500
"""Messages beyond the rate that do not matter: a parent that slept finds some waiting."""
PRINTED_BYTES: Final = 8 * 1024 * 1024
START_S: Final = 30.0
"""How long a worker may take before it has connected, on a slow and busy machine."""
WORDS_MOST: Final = 300
"""Characters in the words of one progress message."""
GRACE_S: Final = 2.0
_LOOK_S = 0.05
_MARK = "FIRSTHAND_WORKER"

_log = logging.getLogger(__name__)


class Fault(StrEnum):
    """What plugin code did in a worker."""

    RAISED = "raised"
    HUNG = "hung"
    LEAKED = "leaked"
    FLOODED = "flooded"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"


class WorkerError(PluginError):
    """Plugin code misbehaved in a worker; ``fault`` says how, ``plugin`` who, and ``words``
    go on from "it"."""

    def __init__(self, plugin: str, fault: Fault, words: str) -> None:
        super().__init__(f"The plugin {plugin!r} {words}.")
        self.plugin: Final = plugin
        self.words: Final = words
        self.fault: Final = fault


def run_in_worker(
    target: str,
    arguments: Mapping[str, Any],
    *,
    deadline_s: float,
    memory_bytes: int,
    on_progress: Callable[[float, str], None] | None = None,
    cancel: threading.Event | None = None,
    plugin: str | None = None,
    what: str = "working",
) -> Any:
    """Call ``target`` (``"module:function"``) as ``function(arguments, progress)`` in a worker.

    ``arguments`` and the result are JSON types; ``progress(done, words)`` reaches ``on_progress``
    and raises ``Cancelled`` over there once ``cancel`` is set. The worker sits in an empty folder
    of its own, so paths must be absolute; it and everything it started are gone on return.

    Raises ``WorkerError`` naming ``plugin`` (default: the target's module), ``Cancelled``, or the
    ``FirsthandError`` that the target raised.
    """
    run = _Run(plugin or target.partition(":")[0], what, deadline_s, memory_bytes)
    mark = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="fh-work-", ignore_cleanup_errors=True) as place:
        log, folder = Path(place, "printed"), Path(place, "work")
        folder.mkdir()
        with Listener() as listener:
            child = start(
                "firsthand.host.worker_child",
                [listener.address],
                stdin=listener.key,
                limits=Limits(
                    memory_bytes=memory_bytes,
                    # For a worker whose parent died before it could end it.
                    cpu_s=(deadline_s + START_S) * (os.cpu_count() or 1),
                ),
                log=log,
                environment={_MARK: mark},
                folder=folder,
            )
            try:
                with run.connected(listener, child, log) as channel:
                    channel.send({"target": target, "arguments": dict(arguments)})
                    result = run.watch(channel, child, log, on_progress, cancel)
                child.wait(GRACE_S)
                return result
            finally:
                child.kill()
                _end_strays(mark)


class _Run:
    """One run: what is expected, and the words for what happened instead."""

    def __init__(self, plugin: str, what: str, deadline_s: float, memory_bytes: int) -> None:
        self._plugin = plugin
        self._what = what
        self._deadline_s = deadline_s
        self._memory_bytes = memory_bytes
        self._messages = 0
        self._looked_at = 0.0

    def connected(self, listener: Listener, child: Child, log: Path) -> Channel:
        limit = time.monotonic() + START_S
        while (channel := listener.accept(_LOOK_S)) is None:
            if child.poll() is not None:
                raise self._ended(child, log)
            if time.monotonic() > limit:
                raise self._fault(Fault.HUNG, f"could not be started within {START_S:g} s")
        return channel

    def watch(
        self,
        channel: Channel,
        child: Child,
        log: Path,
        on_progress: Callable[[float, str], None] | None,
        cancel: threading.Event | None,
    ) -> Any:
        began = time.monotonic()
        deadline = began + self._deadline_s
        cancelled_at: float | None = None
        while True:
            now = time.monotonic()
            if cancel is not None and cancel.is_set() and cancelled_at is None:
                cancelled_at = now
                with suppress(ChannelError):
                    channel.send({"cancel": True})
            if cancelled_at is not None and now > cancelled_at + GRACE_S:
                raise Cancelled(f"{self._plugin!r} was stopped while {self._what}.")
            if now > deadline:
                raise self._fault(
                    Fault.HUNG,
                    f"did not finish {self._what} within {self._deadline_s:g} s and was stopped",
                )
            self._look(child, log, now)
            try:
                message = channel.receive(min(_LOOK_S, max(deadline - now, 0.0)))
            except ChannelClosed:
                raise self._ended(child, log) from None
            except MessageTooLarge as error:
                raise self._fault(
                    Fault.FLOODED,
                    f"sent more than {LIMIT_BYTES // 1024**2} MiB at once while {self._what} and"
                    " was stopped",
                ) from error
            except ChannelError as error:
                raise self._fault(
                    Fault.UNREADABLE, f"sent something unreadable while {self._what}"
                ) from error
            if message is None:
                continue
            self._count(began)
            match message.header:
                case {"result": result}:
                    return result
                case {"error": {"kind": kind, "message": text, "try_this": try_this}}:
                    raise self._raised(str(kind), str(text), try_this)
                case {"done": float(done), "words": str(words)} if len(words) <= WORDS_MOST:
                    if on_progress is not None and math.isfinite(done):
                        on_progress(min(max(done, 0.0), 1.0), words)
                case _:
                    raise self._fault(
                        Fault.UNREADABLE, f"sent a message nobody knows while {self._what}"
                    )

    def _count(self, began: float) -> None:
        self._messages += 1
        if self._messages > MESSAGES_AT_ONCE + MESSAGES_PER_S * (time.monotonic() - began):
            raise self._fault(
                Fault.FLOODED,
                f"sent more than {MESSAGES_PER_S} messages a second while {self._what} and was"
                " stopped",
            )

    def _look(self, child: Child, log: Path, now: float) -> None:
        """See to memory and output: not at every message, since it takes a while."""
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        if child.poll() is not None and child.over_memory:
            raise self._leaked()
        if log.stat().st_size > PRINTED_BYTES:
            raise self._fault(
                Fault.FLOODED, f"printed without end while {self._what} and was stopped"
            )

    def _raised(self, kind: str, text: str, try_this: object) -> FirsthandError:
        known = getattr(api, kind, None)
        if kind == "MemoryError":
            return self._leaked()
        if isinstance(known, type) and issubclass(known, FirsthandError):
            return known(text, try_this=try_this if isinstance(try_this, str) else None)
        return self._fault(Fault.RAISED, f"failed while {self._what}: {kind}: {text}")

    def _ended(self, child: Child, log: Path) -> WorkerError:
        code = child.wait(GRACE_S)
        if child.over_memory:
            return self._leaked()
        printed = log.read_bytes()[-4000:].decode("utf-8", "replace") if log.exists() else ""
        _log.error("the worker of plugin %s ended with %s: %s", self._plugin, code, printed)
        if code is None:
            words = f"closed its connection while {self._what}"
        elif code < 0:
            words = f"crashed while {self._what} (signal {-code})"
        else:
            words = f"ended its process while {self._what} (exit code {code})"
        return self._fault(Fault.CRASHED, words)

    def _leaked(self) -> WorkerError:
        most = self._memory_bytes / 1024**2
        return self._fault(
            Fault.LEAKED,
            f"used more than {most:.0f} MiB of memory while {self._what} and was stopped",
        )

    def _fault(self, fault: Fault, words: str) -> WorkerError:
        _log.warning("plugin %s: %s", self._plugin, fault)
        return WorkerError(self._plugin, fault, words)


def _end_strays(mark: str) -> None:
    """End processes that left the worker's group and lost their parent: they still carry the
    worker's mark in their environment."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                _log.warning("a process that a worker left behind is ended: %d", process.pid)
                process.kill()
