"""Finishing a recording of the core set, in its own process of low priority, verified."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from big_recording import core_set_log
from firsthand.recording.finalise import finalise_in_child
from report import Row, arguments, finish


def plain_copy(source: Path, goal: Path) -> float:
    """Seconds to copy the log and bring it to the disk: what the disk itself costs."""
    began = time.perf_counter()
    with source.open("rb") as reading, goal.open("wb") as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        os.fsync(writing.fileno())
    return time.perf_counter() - began


def main() -> None:
    asked = arguments(__doc__ or "").parse_args()
    minutes = 1 if asked.short else 10
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "s"
        size = core_set_log(folder, minutes * 60)
        copy_s = plain_copy(folder / "packets.log", Path(place) / "copy")
        began = time.perf_counter()
        report = finalise_in_child(folder)
        took_s = time.perf_counter() - began
        bar_s = 5 + 0.02 * minutes * 60
        rows.append(Row(f"finishing {minutes} min of the core set", took_s, "s", bar_s))
        rows.append(Row("the same, megabytes a second", size / took_s / 1e6, "MB/s"))
        rows.append(Row("copying and syncing the log alone", copy_s, "s"))
        rows.append(Row("packets verified", report.packets, ""))
    notes = "Bar: 5 s + 2 % of the session's duration."
    finish("Finishing a recording", rows, asked.json, notes)
    sys.exit(0)


if __name__ == "__main__":
    main()
