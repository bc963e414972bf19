"""A simulated device in a process of its own, for demonstrations and rehearsals."""

import errno
import os
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from firsthand.api import DeviceError, SettingsError
from firsthand.children.process import Child, start
from firsthand.recording.recorder_settings import DeviceChoice

PORTS: Final = 22
"""A simulated headset listens on so many ports in a row."""
_FIRST: Final = 3800
_TRIES: Final = 60
_START_S: Final = 60.0
_GRACE_S: Final = 8.0
_LOOK_S: Final = 0.1
_READY: Final = "Press Ctrl-C"
"""The simulator says how to end it once it listens."""


class StandIn:
    """The simulator of ``device``, running until ``close``. Reached by ``choice``.

    Takes the standard ports of ``host`` where they are free, else the next that are. Raises
    ``DeviceError`` where it does not come up, with what it said.
    """

    def __init__(
        self, device: str, host: str, *, base_port: int | None = None, **settings: Any
    ) -> None:
        self.device = device
        self._settings: Mapping[str, Any] = settings
        self._host = host
        self._base_port = base_port if base_port is not None else free_base_port(host)
        self._child: Child | None = None
        self._open = ExitStack()

    @property
    def choice(self) -> DeviceChoice:
        """How the device plugin reaches it."""
        settings = {"host": self._host, "base_port": self._base_port}
        return DeviceChoice(name=self.device, settings=settings)

    def begin(self) -> None:
        """Start its process, and do not wait for it."""
        folder = self._open.enter_context(
            tempfile.TemporaryDirectory(prefix="firsthand-", ignore_cleanup_errors=True)
        )
        self._said = Path(folder) / "said.txt"
        arguments = ["simulate", self.device, "--host", self._host]
        arguments += ["--base-port", str(self._base_port)]
        for key, value in self._settings.items():
            arguments += ["--set", f"{key}={value}"]
        self._child = start(
            "firsthand", arguments, log=self._said, environment={"PYTHONUNBUFFERED": "1"}
        )

    def wait(self, timeout_s: float = _START_S) -> str:
        """Wait until it listens; gives what it says about itself."""
        if self._child is None:
            self.begin()
        child = self._child
        deadline = time.monotonic() + timeout_s
        while child is not None and child.poll() is None and time.monotonic() < deadline:
            said = self._words()
            if _READY in said:
                return said.partition(_READY)[0].strip().rpartition("\n")[2]
            time.sleep(_LOOK_S)
        last = self._words().strip().splitlines()[-2:]
        self.close()
        raise DeviceError(
            f"The simulated device {self.device!r} did not start: "
            f"{' '.join(last) or 'it said nothing'}",
            try_this=f"Try it alone: firsthand simulate {self.device} --host {self._host}",
        )

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def close(self) -> None:
        """End it. May be called twice."""
        if self._child is not None:
            self._child.stop(_GRACE_S)
            self._child = None
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _words(self) -> str:
        try:
            return self._said.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def free_base_port(host: str, first: int = _FIRST) -> int:
    """The first port of a row of free ones on ``host``; ``first`` itself where that is free.

    Raises ``SettingsError`` where ``host`` is no address of this computer or all is taken.
    """
    for number in range(_TRIES):
        base = first + number * (PORTS + 8)
        try:
            if all(_is_free(host, port) for port in range(base, base + PORTS)):
                return base
        except OSError as error:
            raise SettingsError(
                f"{host!r} is not an address that this computer can listen on.",
                try_this="Choose one that begins with 127, such as 127.0.0.1.",
            ) from error
    raise SettingsError(f"There are no {PORTS} free ports in a row on {host}.")


def _is_free(host: str, port: int) -> bool:
    """Whether nobody listens there. Raises ``OSError`` where ``host`` itself cannot be had."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if port == 0 or not host:
            raise OSError("no address")
        if os.name == "posix":  # where it means: not merely lately closed
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            return False
        except OSError as error:
            if error.errno is not None and _means_taken(error):
                return False
            raise
    return True


def _means_taken(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE or getattr(error, "winerror", None) in {10048, 10013}
