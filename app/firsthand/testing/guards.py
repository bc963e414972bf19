"""A pytest plugin: a test fails that leaves something running or leaves this computer.

Guarded are threads, child processes, sockets and windows; and any attempt to reach an address that
is not this computer's own.
"""

import gc
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

_SETTLE_S: Final = 3.0
_LIBRARY_THREADS: Final = ("pymp-", "QDBus", "OpenCV")
_TAKES_AN_ADDRESS: Final = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"}
_watching: list[str] = []
_reached_out: list[str] = []


class LeftThisComputerError(AssertionError):
    """A test tried to reach another computer."""


def is_loopback(address: Any) -> bool:
    """Whether a socket address stays on this computer (Unix sockets do)."""
    if not isinstance(address, tuple) or not address:
        return True
    host = str(address[0])
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host.split("%", maxsplit=1)[0]).is_loopback
    except ValueError:
        return False


def is_every_address(address: Any) -> bool:
    """Whether listening on ``address`` would let other computers in."""
    if not isinstance(address, tuple) or not address:
        return False
    try:
        return address[0] == "" or ipaddress.ip_address(str(address[0])).is_unspecified
    except ValueError:
        return False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in _TAKES_AN_ADDRESS:
        address = arguments[1]
        if event == "socket.bind" and is_every_address(address):
            _reached_out.append(f"{event} {address}")
            raise LeftThisComputerError(
                f"{_watching[-1]} listens on every address of this computer"
            )
        if not is_loopback(address):
            _reached_out.append(f"{event} {address}")
            raise LeftThisComputerError(f"{_watching[-1]} tried to reach {address}")
    elif event == "socket.getaddrinfo" and not is_loopback((arguments[0] or "",)):
        _reached_out.append(f"{event} {arguments[0]}")
        raise LeftThisComputerError(f"{_watching[-1]} looked up {arguments[0]}")


sys.addaudithook(_audit)


def _threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        if thread.is_alive() and not thread.name.startswith(_LIBRARY_THREADS)
    }


def _children() -> set[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return {child for child in found if child.is_running() and child.status() != "zombie"}


def _zombies() -> set[psutil.Process]:
    return {c for c in psutil.Process().children() if c.status() == psutil.STATUS_ZOMBIE}


def _sockets() -> set[int]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return set()
    found = set()
    for entry in folder.iterdir():
        try:
            if entry.readlink().name.startswith("socket:"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def _windows() -> set[int]:
    widgets = sys.modules.get("PySide6.QtWidgets")
    if widgets is None or widgets.QApplication.instance() is None:
        return set()
    return {id(w) for w in widgets.QApplication.topLevelWidgets() if w.isVisible()}


def _everything() -> dict[str, set[Any]]:
    return {
        "threads": _threads(),
        "processes": _children(),
        "unreaped processes": _zombies(),
        "sockets": _sockets(),
        "windows": _windows(),
    }


def _left(before: dict[str, set[Any]]) -> dict[str, set[Any]]:
    now = _everything()
    return {what: now[what] - before[what] for what in now if now[what] - before[what]}


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _everything()
    yield
    limit = time.monotonic() + _SETTLE_S
    left = _left(before)
    while left and time.monotonic() < limit:
        gc.collect()
        time.sleep(0.02)
        left = _left(before)
    if left:
        words = "; ".join(f"{what}: {sorted(map(str, found))}" for what, found in left.items())
        pytest.fail(f"{request.node.name} left behind {words}", pytrace=False)


@pytest.fixture(autouse=True)
def _stays_on_this_computer(request: pytest.FixtureRequest) -> Iterator[None]:
    _watching.append(request.node.name)
    _reached_out.clear()
    yield
    _watching.pop()
    # Code under test may have swallowed the exception: the attempt itself fails the test.
    if _reached_out:
        pytest.fail(f"{request.node.name} left this computer: {_reached_out}", pytrace=False)


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that was free a moment ago on a loopback address."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
