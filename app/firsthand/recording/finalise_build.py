"""Builds the HDF5 file from what a session's log holds. No time of its own gets into it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from firsthand.api import Clock, ClockPair, GapRow, Packet, StreamSchema
from firsthand.recording import layout
from firsthand.recording.finalise_streams import StreamWriter
from firsthand.recording.finalise_tables import (
    ATTRIBUTE_LIMIT_BYTES,
    Blob,
    Rows,
    Table,
    cut,
    describe,
    set_text,
    text_dataset,
    units_of,
)
from firsthand.recording.packetlog import (
    CalibrationEntry,
    HealthEntry,
    NoteEntry,
    StateEntry,
)
from firsthand.streams.clock import Epoch


@dataclass(slots=True)
class Start:
    """When the session began, by both clocks of the recording computer."""

    host_ns: int = 0
    utc_ns: int = 0


class FileBuilder:
    """One file in the making. ``close`` writes what waits; without it the file is worthless."""

    def __init__(self, path: Path, libver: tuple[str, str] = layout.LIBVER) -> None:
        self._file = h5py.File(path, "w", libver=libver, locking=False)
        self._streams = self._file.create_group(layout.STREAMS)
        set_text(self._streams, "description", "one group per stream: what was sensed")
        self.writers: dict[str, StreamWriter] = {}
        self._pairs: dict[Clock, Table] = {}
        self._clock = self._file.create_group(layout.CLOCK)
        set_text(
            self._clock,
            "description",
            "measured pairs of readings per clock, against the recording computer's (host) clock",
        )
        self._epochs = Rows(layout.EPOCH_FIELDS)
        self._calibrations: dict[str, CalibrationEntry] = {}
        self._calibration = self._file.create_group(layout.CALIBRATION)
        set_text(self._calibration, "description", "calibrations as downloaded from the device")
        self._health = Table(
            self._file,
            layout.HEALTH,
            layout.table_dtype(layout.HEALTH_FIELDS),
            "how each stream did, about once a second",
            units_of(layout.HEALTH_FIELDS),
        )
        self._states = Rows(layout.STATE_FIELDS)
        notes = self._file.create_group(layout.NOTES)
        set_text(notes, "description", "facts told by devices: versions, settings sent, incidents")
        self._notes = Table(
            notes,
            layout.INDEX,
            layout.table_dtype(layout.NOTE_FIELDS),
            "one row per note",
            units_of(layout.NOTE_FIELDS),
        )
        self._note_text = Blob(notes, layout.TEXT, "each note's content, JSON in UTF-8")

    # -- streams -----------------------------------------------------------------------------

    def stream(self, name: str, schema: StreamSchema) -> None:
        self.writers[name] = StreamWriter(self._streams, name, schema)

    def packet(self, name: str, packet: Packet, seq: int, crc32: int, arrival_ns: int) -> None:
        self.writers[name].packet(packet, seq, crc32, arrival_ns)

    def gap(self, name: str, gap: GapRow) -> None:
        self.writers[name].gap(gap)

    # -- everything else -----------------------------------------------------------------------

    def pair(self, pair: ClockPair) -> None:
        dtype = layout.table_dtype(layout.PAIR_FIELDS)
        table = self._pairs.get(pair.clock)
        if table is None:
            table = self._pairs[pair.clock] = Table(
                self._clock,
                pair.clock.value,
                dtype,
                "readings of this clock, each between two readings of the host clock",
                units_of(layout.PAIR_FIELDS),
            )
        row = (pair.host_before_ns, pair.host_after_ns, pair.device_ns, pair.epoch)
        table.append(np.array([row], dtype))

    def epoch(self, epoch: Epoch) -> None:
        self._epochs.append(epoch.clock.value, epoch.epoch, epoch.host_ns, epoch.reason)

    def calibration(self, entry: CalibrationEntry) -> None:
        """Keep a calibration; the same one again is not kept twice."""
        name, number = entry.name, 1
        while name in self._calibrations:
            if _same(self._calibrations[name], entry):
                return
            number += 1
            name = f"{entry.name}~{number}"
        self._calibrations[name] = entry
        group = self._calibration.create_group(layout.group_name(name))
        group.attrs["host_ns"] = np.int64(entry.host_ns)
        _set_json(group, "about", entry.about)
        for key, values in entry.values.items():
            array = np.atleast_1d(values)
            if array.dtype.kind == "V":
                array = np.frombuffer(array.tobytes(), "u1")
            dataset = group.create_dataset(
                layout.group_name(key),
                data=array,
                chunks=_chunks(array),
                maxshape=array.shape if array.size else (None,) * array.ndim,
                fletcher32=True,
            )
            units = entry.about.get("units", {})
            unit = units.get(key, "1") if isinstance(units, Mapping) else "1"
            describe(dataset, f"{key} of {entry.name}", str(unit))

    def note(self, entry: NoteEntry, host_ns: int) -> None:
        text = json.dumps(entry.about, ensure_ascii=False, separators=(",", ":")).encode()
        offset = self._note_text.append(text)
        row = (host_ns, cut(entry.kind, layout.NAME_BYTES), offset, len(text))
        self._notes.append(np.array([row], layout.table_dtype(layout.NOTE_FIELDS)))

    def state(self, entry: StateEntry, host_ns: int) -> None:
        self._states.append(host_ns, entry.stream, entry.state.value, entry.reason)

    def health(self, entry: HealthEntry, host_ns: int) -> None:
        dtype = layout.table_dtype(layout.HEALTH_FIELDS)
        rows = []
        for snapshot in entry.rows:
            row: list[Any] = [host_ns]
            for part in layout.HEALTH_FIELDS[1:]:
                value = snapshot.get(part.name)
                if part.dtype.startswith("S"):
                    row.append(cut(str(value or ""), int(part.dtype[1:])))
                else:
                    row.append(0 if value is None else value)
            rows.append(tuple(row))
        self._health.append(np.array(rows, dtype))

    def close(self, session: Mapping[str, Any], start: Start, app: Mapping[str, Any]) -> None:
        """Write what waits and what describes the whole, and close the file."""
        file = self._file
        for table in (self._health, self._notes, *self._pairs.values()):
            table.finish()
        self._note_text.finish()
        for writer in self.writers.values():
            writer.finish()
        self._epochs.write(
            self._clock,
            layout.EPOCHS,
            "where a clock was stepped or began anew: what follows is of this epoch",
        )
        self._states.write(file, layout.STATES, "where each stream stood, from when on")
        text = json.dumps(session, ensure_ascii=False, separators=(",", ":"))
        text_dataset(file, layout.SESSION, text, "what the session told the recorder, JSON")
        set_text(file, "format", layout.FORMAT)
        file.attrs["format_version"] = np.int64(layout.FORMAT_VERSION)
        file.attrs["start_host_ns"] = np.int64(start.host_ns)
        file.attrs["start_utc_ns"] = np.int64(start.utc_ns)
        set_text(file, "created", utc_words(start.utc_ns))
        set_text(file, "session_id", str(session.get("id", "")))
        set_text(file, "protocol_hash", str(session.get("protocol_hash", "")))
        set_text(file, "app_version", str(app.get("version", "")))
        _set_json(file, "consent", session.get("consent", []))
        file.close()

    def abandon(self) -> None:
        """Close the file without finishing it."""
        self._file.close()


def utc_words(utc_ns: int) -> str:
    """UTC nanoseconds as ISO 8601, whole microseconds."""
    moment = np.datetime64(utc_ns // 1000, "us")
    return f"{moment}Z"


def _same(a: CalibrationEntry, b: CalibrationEntry) -> bool:
    return (
        a.about == b.about
        and a.values.keys() == b.values.keys()
        and all(
            a.values[key].dtype == b.values[key].dtype
            and np.array_equal(
                a.values[key], b.values[key], equal_nan=a.values[key].dtype.kind == "f"
            )
            for key in a.values
        )
    )


def _set_json(node: h5py.Group | h5py.File, name: str, about: Any) -> None:
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) <= ATTRIBUTE_LIMIT_BYTES:
        set_text(node, name, text)
        return
    text_dataset(node, f"{name}_text", text, f"{name}, JSON")


def _chunks(array: "np.ndarray[Any, Any]") -> tuple[int, ...]:
    """Whole rows of about a chunk's size."""
    row_bytes = max(1, array.nbytes // max(1, array.shape[0]))
    rows = max(1, min(array.shape[0], layout.BLOB_CHUNK_BYTES // row_bytes))
    return (rows, *(max(1, n) for n in array.shape[1:]))
