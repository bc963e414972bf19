"""The packet log: what a recording is while it is being made.

An append-only file of checksummed frames, flushed and synced four times a second. A session
folder holds one or more segments: ``packets.log``, ``packets-001.log`` … in that order.

What whoever joins segments must know: packets of one recorder process count ``seq`` on over all of
its segments (a session entry with ``continues`` true) and may stand in two of them, since entries
not known to be on disk are written once more into the next. Between stored packets of a process a
hole in ``seq`` that no gap row accounts for was lost on the disk (cause ``disk``). A session entry
with ``continues`` false begins with ``seq`` 0 after a recorder that was down.
"""

from firsthand.recording.packetlog_entries import (
    CalibrationEntry,
    ClockEntry,
    Damage,
    EndEntry,
    EpochEntry,
    GapEntry,
    HealthEntry,
    LogEntry,
    NoteEntry,
    PacketEntry,
    SessionEntry,
    StateEntry,
    StreamEntry,
)
from firsthand.recording.packetlog_frames import record_crc32
from firsthand.recording.packetlog_reader import read_log
from firsthand.recording.packetlog_writer import LogWriter

__all__ = [
    "CalibrationEntry",
    "ClockEntry",
    "Damage",
    "EndEntry",
    "EpochEntry",
    "GapEntry",
    "HealthEntry",
    "LogEntry",
    "LogWriter",
    "NoteEntry",
    "PacketEntry",
    "SessionEntry",
    "StateEntry",
    "StreamEntry",
    "read_log",
    "record_crc32",
]
