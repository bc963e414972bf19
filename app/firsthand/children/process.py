"""Child processes: started clean, limited, and ended together with everything they started."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

from firsthand.children.environment import scrubbed

STDIN_LIMIT: Final = 64 * 1024
"""What fits into a pipe, so that writing it waits for nobody."""
_LOOK_S = 0.05
_FAMILY_LOOK_S = 1.0  # finding a child's own children means reading the whole process table

_log = logging.getLogger(__name__)
_left: set[int] = set()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use; None is unlimited.

    ``memory_bytes`` counts resident memory of the child and its own children. It is looked at
    whenever the child is polled or waited for, and a child above it is killed. On Linux its
    address space is limited too (with room for what is reserved and never used), which stops
    one giant allocation before it happens.
    """

    memory_bytes: int | None = None
    cpu_s: float | None = None
    open_files: int | None = None


class Child:
    """A process started by ``start``, in a group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", module: str, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self.module: Final = module
        self.over_memory = False
        """Whether it was killed because it used more memory than its limit."""
        self._family_looked_at = time.monotonic()
        self._group_ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code (negative: ended by that signal), or None while it runs."""
        code = self._process.poll()
        limit = self._limits.memory_bytes
        if code is None and limit is not None and self._used() > limit:
            _log.warning(
                "%s (%d) used more memory than allowed and is ended", self.module, self.pid
            )
            self.over_memory = True
            return self.kill()
        return code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end; None when it still runs after ``timeout_s``."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            left = _LOOK_S if deadline is None else min(deadline - time.monotonic(), _LOOK_S)
            if left <= 0:
                return None
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(left)
        return code

    def memory_bytes(self) -> int:
        """Resident memory of the child and everything below it; 0 once it is gone."""
        return sum(_resident(process) for process in self._family())

    def stop(self, grace_s: float = 5.0) -> int:
        """Ask the child to end, and end its whole group when ``grace_s`` is over."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    os.kill(self.pid, signal.CTRL_BREAK_EVENT)
                else:
                    os.kill(self.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        return self.kill()

    def kill(self) -> int:
        """End the child and everything it started, now."""
        family = self._family()  # before the end: afterwards nobody knows whose they were
        if sys.platform != "win32" and not self._group_ended:
            self._group_ended = True  # once: later the number may be another group's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        for process in family:
            with suppress(psutil.Error):
                process.kill()
        return self._process.wait()

    def leave(self) -> None:
        """Let go of the child: it lives on and belongs to nobody here."""
        if self._process.poll() is None:
            _left.add(self.pid)
            self._process.returncode = 0  # said to Popen, which would warn of a child left running

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.kill()

    def _used(self) -> int:
        now = time.monotonic()
        if now - self._family_looked_at >= _FAMILY_LOOK_S:
            self._family_looked_at = now
            return self.memory_bytes()
        with suppress(psutil.Error):
            return _resident(psutil.Process(self.pid))
        return 0

    def _family(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.Error:
            return []


def start(
    module: str,
    arguments: Sequence[str] = (),
    *,
    stdin: bytes | None = None,
    limits: Limits | None = None,
    log: Path | None = None,
    nice: int = 0,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Child:
    """Start ``python -m module arguments`` in a session of its own and give a handle to it.

    Its environment is scrubbed (``environment`` is added), it inherits no handles, ``stdin`` (at
    most ``STDIN_LIMIT`` bytes: the place for keys, which must not be seen in a list of processes)
    is all it can read there, and what it prints is added to ``log`` or thrown away. It works in
    ``folder`` (default: the parent's) and does not import from there.
    """
    if stdin is not None and len(stdin) > STDIN_LIMIT:
        raise ValueError(f"{len(stdin)} bytes for a child's input: use a channel")
    _reap()
    limits = limits or Limits()
    plan = {
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
        "open_files": limits.open_files,
        "nice": nice,
    }
    command = [sys.executable, "-P", "-m", "firsthand.children.launch", json.dumps(plan), module]
    output = log.open("ab") if log is not None else None
    try:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=output or subprocess.DEVNULL,
            stderr=output or subprocess.DEVNULL,
            env=scrubbed(environment),
            cwd=folder,
            close_fds=True,
            start_new_session=sys.platform != "win32",
            creationflags=_windows_flags(),
        )
    finally:
        if output is not None:
            output.close()
    if process.stdin is not None:
        with suppress(BrokenPipeError):  # it has ended already; poll() tells
            process.stdin.write(stdin or b"")
        with suppress(BrokenPipeError):
            process.stdin.close()
    return Child(process, module, limits)


def _windows_flags() -> int:
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return 0


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _reap() -> None:
    """Take the exit codes of children that were left to themselves, so that no zombies stand."""
    if sys.platform != "win32":
        for pid in list(_left):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            _left.discard(pid)
