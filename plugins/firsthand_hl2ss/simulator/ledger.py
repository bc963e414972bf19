"""The account of every packet that the simulated headset sent or did not send: ground truth.

A stream's sensor delivers on a grid of slots that belongs to the headset, so each slot is either
in a row ``sent`` or inside a row ``unsent`` that says why. Rows of one boot and grid never overlap
and leave nothing out between a stream's first packet and the end.

File: JSON lines. The first names the format; each further one is a row
(``{"row": "sent", …}``, ``{"row": "unsent", …}``) or an event (``{"row": "event", …}``), such as a
fault or a restart.
"""

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from firsthand.api import DamagedError, StorageError

FORMAT: Final = "firsthand-hl2ss-ledger"
FORMAT_VERSION: Final = 1

_FLUSH_AFTER_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class SentRow:
    """A packet that was given to a connection.

    ``grid`` tells sensors' rates apart (a client may ask for another), ``boot`` counts reboots:
    both with ``stream`` say which slots may be compared. ``number`` counts packets in the
    connection from 0.
    """

    stream: str
    boot: int
    grid: str
    slot: int
    connection: int
    number: int
    timestamp_hns: int
    length: int
    """N of the header: payload without the pose."""
    crc32: int
    """Of the N payload bytes as they went out."""
    picture_crc32: int | None
    """Of the encoded picture without metadata; video only."""
    complete: bool
    """False: the connection ended within the packet (or it was cut on purpose)."""
    empty: bool
    """A packet without content: PV without a picture, EET without a reading."""
    damage: str
    """Part that was damaged on purpose, or ""."""
    host_ns: int
    """When the last byte was given to the system."""


@dataclass(frozen=True, slots=True)
class UnsentRow:
    """``count`` slots from ``slot`` on that no connection got, and why."""

    stream: str
    boot: int
    grid: str
    slot: int
    count: int
    reason: str
    timestamp_hns: int
    """What the first of them would have been stamped with."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that befell the headset."""

    kind: str
    stream: str
    host_ns: int
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Count:
    """How many slots of a stream were sent whole, cut short, or not sent, by reason."""

    sent: int
    cut: int
    unsent: Mapping[str, int]

    @property
    def slots(self) -> int:
        return self.sent + self.cut + sum(self.unsent.values())


class Ledger:
    """Reads an account, from a file or from a simulator."""

    def __init__(
        self, sent: Sequence[SentRow], unsent: Sequence[UnsentRow], events: Sequence[EventRow]
    ) -> None:
        self.all_sent = sent
        self.all_unsent = unsent
        self.events = events

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. A last line that was cut short (a killed simulator) is left out.

        Raises ``DamagedError`` for anything else that is not a ledger.
        """
        with path.open(encoding="utf-8") as file:
            return cls.from_lines(file, path.name)

    @classmethod
    def from_lines(cls, lines: Iterable[str], name: str = "the ledger") -> Self:
        sent, unsent, events = [], [], []
        waiting = iter(lines)
        try:
            head = json.loads(next(waiting, "null"))
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise DamagedError(f"{name} is not a ledger of a simulated headset.")
            for line in waiting:
                if not line.endswith("\n"):
                    break
                row = json.loads(line)
                match row.pop("row"):
                    case "sent":
                        sent.append(SentRow(**row))
                    case "unsent":
                        unsent.append(UnsentRow(**row))
                    case "event":
                        events.append(EventRow(**row))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedError(f"{name} has a line that is no row of a ledger: {error}.") from error
        return cls(sent, unsent, events)

    def streams(self) -> list[str]:
        return sorted({row.stream for row in self.all_sent} | {r.stream for r in self.all_unsent})

    def sent(self, stream: str, *, complete: bool = True) -> list[SentRow]:
        """What was sent of a stream, in order; with ``complete=False`` also what was cut."""
        return [r for r in self.all_sent if r.stream == stream and (r.complete or not complete)]

    def unsent(self, stream: str) -> list[UnsentRow]:
        return [row for row in self.all_unsent if row.stream == stream]

    def count(self, stream: str, first_hns: int, last_hns: int, boot: int = 0) -> Count:
        """Slots stamped between two packets' times, both included, as integers.

        Give the times of packets that were sent: what lies between them must then equal what was
        stored plus what was recorded as lost. Raises ``ValueError`` when a time was never sent.
        """
        rows = {
            row.timestamp_hns: row
            for row in self.all_sent
            if row.stream == stream and row.boot == boot
        }
        if first_hns not in rows or last_hns not in rows:
            raise ValueError(f"no packet of {stream} was sent with such a time")
        first, last = rows[first_hns], rows[last_hns]
        if first.grid != last.grid:
            raise ValueError(f"{stream} was asked for another rate in between")
        inside = [
            row
            for row in self.all_sent
            if (row.stream, row.boot, row.grid) == (stream, boot, first.grid)
            and first.slot <= row.slot <= last.slot
        ]
        unsent: dict[str, int] = {}
        for gap in self.all_unsent:
            if (gap.stream, gap.boot, gap.grid) != (stream, boot, first.grid):
                continue
            start, stop = max(gap.slot, first.slot), min(gap.slot + gap.count, last.slot + 1)
            if stop > start:
                unsent[gap.reason] = unsent.get(gap.reason, 0) + stop - start
        whole = sum(row.complete for row in inside)
        return Count(whole, len(inside) - whole, unsent)

    def holes(self, stream: str) -> list[str]:
        """What contradicts that every slot is in exactly one row: sentences, or none."""
        found = []
        by_grid: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for row in self.all_sent:
            if row.stream == stream:
                by_grid.setdefault((row.boot, row.grid), []).append((row.slot, 1))
        for gap in self.all_unsent:
            if gap.stream == stream:
                by_grid.setdefault((gap.boot, gap.grid), []).append((gap.slot, gap.count))
        for (boot, grid), spans in by_grid.items():
            spans.sort()
            for (slot, count), (after, _) in itertools.pairwise(spans):
                if slot + count != after:
                    found.append(
                        f"{stream}, boot {boot}, grid {grid}: slot {slot + count} is expected "
                        f"and {after} follows"
                    )
        return found


class LedgerWriter:
    """Takes rows from the serving threads; cheap enough for thousands a second.

    Lines are queued and written by a thread of its own, five times a second, so that a slow disk
    never shows on the simulated network. Without a path they stay in memory.
    """

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._queue: deque[str] = deque()
        self._kept: list[str] = []
        self._closing = threading.Event()
        head = {"format": FORMAT, "version": FORMAT_VERSION, **about}
        self._queue.append(json.dumps(head) + "\n")
        self._file = None
        self._thread: threading.Thread | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("w", encoding="utf-8")
            except OSError as error:
                raise StorageError(
                    f"The ledger could not be written to {path}: {error.strerror}.",
                    try_this="Choose a file in a folder that can be written to.",
                ) from error
            self._thread = threading.Thread(target=self._run, name="hl2ss-sim ledger")
            self._thread.start()

    def sent(self, row: SentRow) -> None:
        picture = "null" if row.picture_crc32 is None else row.picture_crc32
        # Written by hand: a quarter of the cost of json.dumps, and nothing in it needs escaping.
        self._queue.append(
            f'{{"row":"sent","stream":"{row.stream}","boot":{row.boot},"grid":"{row.grid}",'
            f'"slot":{row.slot},"connection":{row.connection},"number":{row.number},'
            f'"timestamp_hns":{row.timestamp_hns},"length":{row.length},"crc32":{row.crc32},'
            f'"picture_crc32":{picture},"complete":{"true" if row.complete else "false"},'
            f'"empty":{"true" if row.empty else "false"},"damage":"{row.damage}",'
            f'"host_ns":{row.host_ns}}}\n'
        )

    def unsent(self, row: UnsentRow) -> None:
        self._queue.append(
            json.dumps(
                {
                    "row": "unsent",
                    "stream": row.stream,
                    "boot": row.boot,
                    "grid": row.grid,
                    "slot": row.slot,
                    "count": row.count,
                    "reason": row.reason,
                    "timestamp_hns": row.timestamp_hns,
                }
            )
            + "\n"
        )

    def event(self, kind: str, stream: str = "", about: Mapping[str, Any] | None = None) -> None:
        row = {
            "row": "event",
            "kind": kind,
            "stream": stream,
            "host_ns": time.perf_counter_ns(),
            "about": dict(about or {}),
        }
        self._queue.append(json.dumps(row) + "\n")

    def read(self) -> Ledger:
        """Everything so far."""
        self._write()
        if self._path is not None:
            return Ledger.load(self._path)
        with self._lock:
            lines = list(self._kept)
        return Ledger.from_lines(lines)

    def _run(self) -> None:
        while not self._closing.wait(_FLUSH_AFTER_S):
            self._write()

    def _write(self) -> None:
        with self._lock:
            lines = [self._queue.popleft() for _ in range(len(self._queue))]
            if self._path is None:
                self._kept += lines
            elif self._file is not None and lines:
                self._file.write("".join(lines))
                self._file.flush()

    def close(self) -> None:
        """Write what is queued. May be called twice; ``read`` still works afterwards."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._write()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
