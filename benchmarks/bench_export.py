"""MP4 with sound from a 1080p recording: how many times faster than it was recorded."""

import statistics
import tempfile
import time
from pathlib import Path

import firsthand
from big_recording import nobody, recording
from firsthand.recording.export import export
from firsthand.recording.reader.recording import Recording
from firsthand_exports.movie import Mp4Config, Mp4Exporter
from report import Row, arguments, finish


def main() -> None:
    asked = arguments(__doc__ or "").parse_args()
    repeat = 6 if asked.short else 60
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "s", Path(place) / "out"
        recording(folder, 10.0, repeat=repeat)
        out.mkdir()
        silent, sound, worker = [], [], []
        for n in range(1 if asked.short else 3):  # in turn, since the machine is never quiet
            with firsthand.open(folder) as rec:
                duration_s = rec.duration_s
                silent.append(_timed(rec, out, sound=False))
                sound.append(_timed(rec, out, sound=True))
            began = time.perf_counter()
            (path,) = export(folder, "mp4", Path(place) / f"worker-{n}")
            worker.append(time.perf_counter() - began)
            path.unlink()
    silent_s, sound_s, worker_s = (statistics.median(took) for took in (silent, sound, worker))
    rows = [
        Row(
            "MP4 with sound, in a worker process, from start to end",
            duration_s / worker_s,
            "× real time",
            100,
            at_most=False,
        ),
        Row("MP4 with sound", duration_s / sound_s, "× real time"),
        Row("MP4 without sound", duration_s / silent_s, "× real time"),
    ]
    notes = (
        f"{duration_s / 60:.0f} min of 1080p30 at 10 Mbit/s with stereo sound, coded as AAC; "
        "medians of three rounds."
    )
    finish("Exporting an MP4", rows, asked.json, notes)


def _timed(rec: Recording, out: Path, *, sound: bool) -> float:
    began = time.perf_counter()
    exporter = Mp4Exporter(Mp4Config(sound=sound))
    (path,) = exporter.export(rec, out, nobody)
    took_s = time.perf_counter() - began
    path.unlink()
    return took_s


if __name__ == "__main__":
    main()
