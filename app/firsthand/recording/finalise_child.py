"""The process that finishes a session: ``python -m firsthand.recording.finalise_child FOLDER``.

With ``--channel ADDRESS`` (and the key on standard input) it reports to its parent, else it prints.
It may be killed at any moment and started again.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from firsthand.api import FirsthandError
from firsthand.children.channel import ChannelClosed, connect
from firsthand.recording.finalise import finalise
from firsthand.recording.finalise_process import describe


def main(arguments: list[str]) -> int:
    """Finish the session in the folder that ``arguments`` begin with."""
    folder = Path(arguments[0])
    tell: Callable[[Mapping[str, Any]], None] = _say
    if "--channel" in arguments:
        address = arguments[arguments.index("--channel") + 1]
        channel = connect(address, sys.stdin.buffer.read(), 30.0)
        tell = channel.send

    def progress(done: float, words: str = "") -> None:
        tell({"kind": "progress", "done": done, "words": words})

    try:
        report = finalise(folder, progress=progress)
    except ChannelClosed:
        return 1  # nobody waits any more: whoever recovers begins again
    except FirsthandError as error:
        tell(describe(error))
        return 1
    tell({"kind": "done", "report": report.to_json()})
    return 0


def _say(message: Mapping[str, Any]) -> None:
    match message["kind"]:
        case "progress":
            print(f"{message['done']:4.0%} {message['words']}", flush=True)
        case "done":
            print(f"{message['report']['state']}: {message['report']['packets']} packets")
        case _:
            print(f"{message['message']} {message['try_this'] or ''}", file=sys.stderr)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # HDF5 tries once more to write what a full disk did not take, and dies of it.
    os._exit(code)
