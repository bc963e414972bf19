"""What a file holds besides streams: clock pairs, epochs, calibrations, notes, states, health."""

import json
import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, ClockPair
from firsthand.recording import layout
from firsthand.streams.clock import Epoch

_log = logging.getLogger(__name__)


class Facts:
    """Read when asked for, and once.

    A dataset that is damaged gives nothing, rather than numbers that may be wrong; ``damaged``
    names those met so far.
    """

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self.damaged: list[str] = []

    def _rows(self, dataset: h5py.Dataset) -> npt.NDArray[Any]:
        try:
            rows: npt.NDArray[Any] = dataset[...]
        except OSError:
            self.damaged.append(dataset.name)
            _log.warning("%s is damaged and left out", dataset.name)
            return np.zeros((0, *dataset.shape[1:]), dataset.dtype)
        return rows

    @cached_property
    def session(self) -> Mapping[str, Any]:
        """What the session told the recorder."""
        text = b"".join(bytes(row) for row in self._rows(self._file[layout.SESSION]))
        return dict(json.loads(text)) if text else {}

    @cached_property
    def pairs(self) -> list[ClockPair]:
        """Every measured pair, clock by clock."""
        group = self._file[layout.CLOCK]
        return [
            ClockPair(clock, int(before), int(after), int(device), int(epoch))
            for clock in Clock
            if clock.value in group
            for before, after, device, epoch in self._rows(group[clock.value]).tolist()
        ]

    @cached_property
    def epochs(self) -> list[Epoch]:
        """Where clocks were stepped or began anew."""
        rows = self._rows(self._file[layout.CLOCK][layout.EPOCHS]).tolist()
        return [
            Epoch(Clock(clock.decode()), epoch, host_ns, reason.decode())
            for clock, epoch, host_ns, reason in rows
        ]

    @cached_property
    def calibration(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Named arrays of every calibration."""
        return {
            name: {key: self._rows(data) for key, data in group.items() if key != "about_text"}
            for name, group in self._file[layout.CALIBRATION].items()
        }

    @cached_property
    def notes(self) -> list[dict[str, Any]]:
        """Every note: ``host_ns``, ``kind``, ``about``."""
        group = self._file[layout.NOTES]
        text = self._rows(group[layout.TEXT]).tobytes()
        index: Any = self._rows(group[layout.INDEX]) if text else ()
        return [
            {
                "host_ns": host_ns,
                "kind": kind.decode(),
                "about": json.loads(text[offset : offset + length]),
            }
            for host_ns, kind, offset, length in np.asarray(index).tolist()
        ]

    @cached_property
    def states(self) -> npt.NDArray[np.void]:
        """Where each stream stood, from when on."""
        rows: npt.NDArray[np.void] = self._rows(self._file[layout.STATES])
        return rows

    @cached_property
    def health(self) -> npt.NDArray[np.void]:
        """How each stream did, about once a second."""
        rows: npt.NDArray[np.void] = self._rows(self._file[layout.HEALTH])
        return rows
