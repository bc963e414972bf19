"""Small file systems that tests may fill up."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """A small file system in memory; the test is left out where that is not allowed."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs Linux and root")
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def remount(place: Path, options: str) -> None:
    """Change how such a file system is mounted: ``ro`` or ``rw``."""
    command = ["mount", "-o", f"remount,{options}", str(place)]
    subprocess.run(command, check=True, capture_output=True)


def fill(place: Path, but_bytes: int) -> Path:
    """Fill a file system with one file, all but some bytes; gives the file."""
    ballast = place / "ballast"
    size = shutil.disk_usage(place).free - but_bytes
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return ballast
