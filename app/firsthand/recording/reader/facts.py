"""What a file holds besides streams: clock pairs, epochs, calibrations, notes, states, health."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from firsthand.api import Clock, ClockPair
from firsthand.recording import layout
from firsthand.streams.clock import Epoch


class Facts:
    """Read when asked for, and once."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file

    @cached_property
    def session(self) -> Mapping[str, Any]:
        """What the session told the recorder."""
        text = bytes(self._file[layout.SESSION][0]).decode()
        return dict(json.loads(text)) if text else {}

    @cached_property
    def pairs(self) -> list[ClockPair]:
        """Every measured pair, clock by clock."""
        group = self._file[layout.CLOCK]
        return [
            ClockPair(clock, int(before), int(after), int(device), int(epoch))
            for clock in Clock
            if clock.value in group
            for before, after, device, epoch in group[clock.value][:].tolist()
        ]

    @cached_property
    def epochs(self) -> list[Epoch]:
        """Where clocks were stepped or began anew."""
        rows = self._file[layout.CLOCK][layout.EPOCHS][:].tolist()
        return [
            Epoch(Clock(clock.decode()), epoch, host_ns, reason.decode())
            for clock, epoch, host_ns, reason in rows
        ]

    @cached_property
    def calibration(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Named arrays of every calibration."""
        return {
            name: {key: data[...] for key, data in group.items() if key != "about_text"}
            for name, group in self._file[layout.CALIBRATION].items()
        }

    @cached_property
    def notes(self) -> list[dict[str, Any]]:
        """Every note: ``host_ns``, ``kind``, ``about``."""
        group = self._file[layout.NOTES]
        text = group[layout.TEXT][:].tobytes()
        return [
            {
                "host_ns": host_ns,
                "kind": kind.decode(),
                "about": json.loads(text[offset : offset + length]),
            }
            for host_ns, kind, offset, length in group[layout.INDEX][:].tolist()
        ]

    @cached_property
    def states(self) -> npt.NDArray[np.void]:
        """Where each stream stood, from when on."""
        rows: npt.NDArray[np.void] = self._file[layout.STATES][:]
        return rows

    @cached_property
    def health(self) -> npt.NDArray[np.void]:
        """How each stream did, about once a second."""
        rows: npt.NDArray[np.void] = self._file[layout.HEALTH][:]
        return rows
