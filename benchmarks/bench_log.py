"""The packet log against a plain append, mcap and one HDF5 dataset per packet: processor time.

All write the same packets of the core set, in the same order, handed over in batches of a quarter
second; no way is given a sync, except where it is named. Rounds are interleaved and each figure is
the median of its rounds.
"""

import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mcap.writer import CompressionType, Writer

from firsthand.api import Packet
from firsthand.recording.packetlog import LogWriter
from firsthand.testing.devices import FakeStream
from report import Row, arguments, finish

CORE_SET = (
    FakeStream(name="pv", hz=30.0, record_bytes=130, payload_bytes=41_000),
    FakeStream(name="eet", hz=90.0, record_bytes=200),
    FakeStream(name="si", hz=60.0, record_bytes=2_100),
    FakeStream(name="mic", hz=62.5, payload_bytes=3_072),
)
BATCH_S = 0.25
Batches = list[list[Packet]]


def batches(seconds: float) -> Batches:
    """The core set's packets in order of time, a quarter second each."""
    found: Batches = [[] for _ in range(round(seconds / BATCH_S))]
    for stream in CORE_SET:
        for seq in range(int(seconds * stream.hz)):
            found[int(seq / stream.hz / BATCH_S)].append(stream.packet(seq, seq))
    for batch in found:
        batch.sort(key=lambda packet: packet.device_ns)
    return found


def plain(path: Path, work: Batches) -> None:
    """The limit: the bytes alone, gathered by the system without a copy of ours."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    for batch in work:
        parts = [part for p in batch for part in (p.fields, p.payload)]
        if hasattr(os, "writev"):
            os.writev(handle, parts)
        else:
            os.write(handle, b"".join(parts))
    os.close(handle)


def log(path: Path, work: Batches, *, sync: bool = False) -> None:
    writer = LogWriter(path, {})
    for stream in CORE_SET:
        writer.declare(stream.declared())
    for batch in work:
        for packet in batch:
            writer.packet(packet)
        writer.flush()
        if sync:
            writer.sync()
    writer.close()


def log_synced(path: Path, work: Batches) -> None:
    log(path, work, sync=True)


def mcap(path: Path, work: Batches) -> None:
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("packet", "", b"")
        channels = {s.name: writer.register_channel(s.name, "", schema) for s in CORE_SET}
        for batch in work:
            for p in batch:
                writer.add_message(
                    channels[p.stream],
                    p.arrival_ns,
                    p.fields + bytes(p.payload),
                    p.device_ns,
                    p.seq,
                )
            file.flush()
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types


def h5_naive(path: Path, work: Batches) -> None:
    import h5py
    import numpy as np

    with h5py.File(path, "w") as file:
        groups = {s.name: file.create_group(s.name) for s in CORE_SET}
        for batch in work:
            for p in batch:
                data = np.frombuffer(p.fields + bytes(p.payload), "u1")
                dataset = groups[p.stream].create_dataset(str(p.seq), data=data)
                dataset.attrs["device_ns"] = p.device_ns
                dataset.attrs["arrival_ns"] = p.arrival_ns
            file.flush()


WAYS: dict[str, Callable[[Path, Batches], None]] = {
    "plain append": plain,
    "packet log": log,
    "packet log, synced": log_synced,
    "mcap, no compression": mcap,
    "HDF5, a dataset per packet": h5_naive,
}


def measured(rounds: int, work: Batches) -> dict[str, list[float]]:
    """Processor seconds of each way in each round."""
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            # Another order each round: what one way leaves behind must not always hit the same.
            for name in random.Random(number).sample(list(WAYS), len(WAYS)):
                path = Path(folder) / "out"
                gc.collect()
                begin = time.process_time()
                WAYS[name](path, work)
                spent[name].append(time.process_time() - begin)
                path.unlink()
                if hasattr(os, "sync"):
                    os.sync()  # what one way leaves to be written must not slow down the next
    return spent


def main() -> int:
    chosen = arguments(__doc__ or "").parse_args()
    seconds, rounds = (5.0, 3) if chosen.short else (60.0, 11)
    work = batches(seconds)
    packets = sum(len(batch) for batch in work)
    size = sum(len(p.fields) + len(p.payload) for batch in work for p in batch)
    rounds_of = measured(rounds, work)
    spent = {name: statistics.median(times) for name, times in rounds_of.items()}

    def against(one: str, other: str) -> float:
        """How many times as long ``one`` takes as ``other``: median over the rounds' own ratios."""
        pairs = zip(rounds_of[one], rounds_of[other], strict=True)
        return statistics.median(a / b for a, b in pairs)

    share = "% of a core at real time"
    rows = [Row(name, 100 * s / seconds, share) for name, s in spent.items() if "log" not in name]
    rows += [
        Row("packet log", 100 * spent["packet log"] / seconds, share, 0.5),
        Row("packet log, synced 4/s", 100 * spent["packet log, synced"] / seconds, share, 0.5),
        Row("packet log / plain append", against("packet log", "plain append"), "×"),
        Row(
            "mcap / packet log",
            against("mcap, no compression", "packet log"),
            "×",
            2.0,
            at_most=False,
        ),
        Row(
            "a dataset per packet / packet log",
            against("HDF5, a dataset per packet", "packet log"),
            "×",
            20.0,
            at_most=False,
        ),
    ]
    notes = (
        f"{packets} packets, {size / 1e6:.0f} MB ({seconds:.0f} s of the core set) per way and "
        f"round, {rounds} rounds in turn; medians of processor time and of the rounds' ratios."
    )
    finish("Packet log: writing the core set", rows, chosen.json, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
