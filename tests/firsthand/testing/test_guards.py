"""The guards fail a test that leaks or reaches out, and let an honest one pass."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HONEST = """
import socket, threading
def test_it():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        server.accept()[0].close()
"""
THREAD = """
import threading, time
def test_it():
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
"""
CHILD = """
import subprocess, sys
kept = []
def test_it():
    kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(6)"]))
"""
SOCKET = """
import socket
kept = []
def test_it():
    kept.append(socket.create_server(("127.0.0.1", 0)))
"""
WINDOW = """
from PySide6.QtWidgets import QApplication, QWidget
kept = []
def test_it():
    kept.append(QApplication.instance() or QApplication([]))
    kept.append(QWidget())
    kept[-1].show()
"""
REACHES_OUT = """
import socket
def test_it():
    try:
        with socket.socket() as out:
            out.settimeout(0.1)
            out.connect(("192.0.2.1", 9))
    except BaseException:
        pass
"""
LOOKS_UP = """
import socket
def test_it():
    try:
        socket.getaddrinfo("firsthand.example", 80)
    except BaseException:
        pass
"""
LETS_OTHERS_IN = """
import socket
def test_it():
    try:
        socket.create_server(("0.0.0.0", 0)).close()
    except BaseException:
        pass
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "firsthand.testing.guards"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_honest_test_passes(tmp_path: Path) -> None:
    done = run(tmp_path, HONEST)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (THREAD, "threads"),
        (CHILD, "processes"),
        (SOCKET, "sockets"),
        (WINDOW, "windows"),
        (REACHES_OUT, "192.0.2.1"),
        (LOOKS_UP, "firsthand.example"),
        (LETS_OTHERS_IN, "0.0.0.0"),
    ],
)
def test_a_test_that_leaks_or_reaches_out_fails(tmp_path: Path, text: str, told: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == 1, done.stdout
    assert told in done.stdout
