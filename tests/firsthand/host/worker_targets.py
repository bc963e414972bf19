"""Functions that workers are sent to by the tests beside this file."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from firsthand.api import Progress, RecordingError
from firsthand.children.channel import Channel

Arguments = dict[str, Any]


def _channel() -> Channel:
    (channel,) = (each for each in gc.get_objects() if isinstance(each, Channel))
    return channel


def adds(arguments: Arguments, progress: Progress) -> Any:
    progress(0.5, "half")
    progress(1.0, "all")
    return {
        "sum": sum(arguments["numbers"]),
        "folder": str(Path.cwd()),
        "environment": [*os.environ],
    }


def raises(arguments: Arguments, progress: Progress) -> None:
    raise ValueError("the third column is empty")


def says(arguments: Arguments, progress: Progress) -> None:
    raise RecordingError("There is no sound in it.", try_this="Export another format.")


def hangs(arguments: Arguments, progress: Progress) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def freezes(arguments: Arguments, progress: Progress) -> None:
    print(3**900_000_000 % 7)


def leaks(arguments: Arguments, progress: Progress) -> None:
    hold = []
    while True:
        hold.append(bytearray(b"x" * 5_000_000))


def giant(arguments: Arguments, progress: Progress) -> None:
    bytearray(60 * 1024**3)


def exits(arguments: Arguments, progress: Progress) -> None:
    os._exit(int(arguments["code"]))


def sys_exits(arguments: Arguments, progress: Progress) -> None:
    sys.exit(0)


def crashes(arguments: Arguments, progress: Progress) -> None:
    ctypes.string_at(0)


def floods(arguments: Arguments, progress: Progress) -> None:
    channel = _channel()
    while True:
        channel.send({"done": 0.5, "words": ""})


def sends_much(arguments: Arguments, progress: Progress) -> None:
    _channel()._road.send_bytes(bytes(20 * 1024 * 1024))
    time.sleep(600)


def sends_nonsense(arguments: Arguments, progress: Progress) -> None:
    _channel().send({"who": "knows"})
    time.sleep(600)


def sends_no_message(arguments: Arguments, progress: Progress) -> None:
    _channel()._road.send_bytes(b"\x80\x04N.")
    time.sleep(600)


def prints(arguments: Arguments, progress: Progress) -> None:
    while True:
        print("x" * 100_000, flush=True)


def returns_bytes(arguments: Arguments, progress: Progress) -> bytes:
    return b"not JSON"


def returns_much(arguments: Arguments, progress: Progress) -> str:
    return "x" * (17 * 1024 * 1024)


def works_until_stopped(arguments: Arguments, progress: Progress) -> None:
    while True:
        progress(0.1, "still at it")
        time.sleep(0.01)


def ignores_being_stopped(arguments: Arguments, progress: Progress) -> None:
    progress(0.1, "deaf")
    time.sleep(600)


def leaves_a_daemon(arguments: Arguments, progress: Progress) -> int:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    script = (
        "import subprocess as s\n"
        f"print(s.Popen({sleep!r}, start_new_session=True, stdout=s.DEVNULL).pid)"
    )
    told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    return int(told.stdout)


def tells_its_number(arguments: Arguments, progress: Progress) -> None:
    file = Path(arguments["file"])
    part = file.with_suffix(".part")
    part.write_text(str(os.getpid()), encoding="utf-8")
    part.rename(file)
    time.sleep(600)
