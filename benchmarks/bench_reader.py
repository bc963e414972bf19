"""Pictures by time and one after the other, against PyAV on an MP4 of the same video.

Both give RGB arrays. Each moment is asked of both in turn; the ratio is that of the medians.
"""

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import av

import firsthand
from big_recording import nobody, recording
from firsthand.recording.reader.recording import Recording
from firsthand_exports.movie import Mp4Config, Mp4Exporter
from report import Row, arguments, finish


class Peer:
    """What somebody writes who reads an MP4 with PyAV: seek, decode up to the picture."""

    def __init__(self, path: Path) -> None:
        self._movie = av.open(str(path))
        self._stream = self._movie.streams.video[0]

    def frame_at(self, time_s: float) -> Any:
        base = self._stream.time_base
        assert base is not None
        wanted = round(time_s / base)
        self._movie.seek(wanted, stream=self._stream)
        found = None
        for frame in self._movie.decode(self._stream):
            if frame.pts is not None and frame.pts > wanted:
                break
            found = frame
        assert found is not None
        return found.to_ndarray(format="rgb24")

    def all(self) -> int:
        self._movie.seek(0)
        return sum(
            frame.to_ndarray(format="rgb24") is not None
            for frame in self._movie.decode(self._stream)
        )

    def close(self) -> None:
        self._movie.close()


def timed(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(rec: Recording, peer: Peer, moments: int, rounds: int, codec: str) -> list[Row]:
    chosen = random.Random(1)
    exact, nearest, theirs = [], [], []
    times = rec.video.times_s
    for _ in range(moments):
        # Just after a picture, so that both mean the same one whatever they round.
        moment = float(times[chosen.randrange(len(times) - 1)]) + 0.002
        exact.append(timed(lambda at=moment: rec.video.frame_at(at)))
        theirs.append(timed(lambda at=moment: peer.frame_at(at)))
        nearest.append(timed(lambda at=moment: rec.video.frame_at(at, nearest_key=True)))
    mine_all, peer_all = [], []
    count = len(rec.video)
    for _ in range(rounds):
        mine_all.append(timed(lambda: sum(1 for _ in rec.video.frames())))
        peer_all.append(timed(peer.all))
    peer_s = statistics.median(theirs)
    exact_ratio = statistics.median(exact) / peer_s
    near_ratio = statistics.median(nearest) / peer_s
    rate = statistics.median(peer_all) / statistics.median(mine_all)
    return [
        Row(f"{codec}: exact picture by time, against PyAV seeking", exact_ratio, "×", 1.05),
        Row(f"{codec}: nearest key frame, against PyAV seeking", near_ratio, "×", 0.5),
        Row(f"{codec}: sequential decoding, against PyAV", rate, "×", 0.95, at_most=False),
        Row(f"{codec}: exact picture, median", statistics.median(exact) * 1e3, "ms"),
        Row(f"{codec}: sequential", count / statistics.median(mine_all), "pictures/s"),
    ]


def main() -> None:
    asked = arguments(__doc__ or "").parse_args()
    seconds, moments, rounds = (4.0, 40, 3) if asked.short else (20.0, 200, 7)
    rows: list[Row] = []
    for codec in ("h264", "hevc"):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "s"
            recording(folder, seconds, codec)
            with firsthand.open(folder) as rec:
                exporter = Mp4Exporter(Mp4Config(sound=False))
                (path,) = exporter.export(rec, Path(place), nobody)
                peer = Peer(path)
                rows += measure(rec, peer, moments, rounds, codec)
                peer.close()
    finish("Reading pictures (1080p30, 10 Mbit/s, GOP 15)", rows, asked.json)


if __name__ == "__main__":
    main()
