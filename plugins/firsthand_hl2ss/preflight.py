"""Looks a headset over before a participant sits down: receives for a moment, stores nothing."""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt

from firsthand.api import (
    CheckItem,
    Clock,
    ClockPair,
    Device,
    GapCause,
    Packet,
    StreamSchema,
    StreamState,
)
from firsthand_hl2ss.config import Hl2ssConfig
from firsthand_hl2ss.wire import SINCE_PV_SIZE_IN_METADATA

_ENOUGH_PACKETS: Final = 3
_GOOD_CLOCK_MS: Final = 5.0


class _Onlooker:
    """A sink that counts, and remembers what it was told last."""

    def __init__(self, wanted: set[str]) -> None:
        self._changed = threading.Condition()
        self._wanted = wanted
        self.packets = dict.fromkeys(wanted, 0)
        self.states: dict[str, tuple[StreamState, str]] = {}
        self.app: Mapping[str, Any] | None = None
        self.pair: ClockPair | None = None
        self.calibrations: set[str] = set()
        self.refused_settings: list[str] = []

    def wait(self, timeout_s: float) -> None:
        """Until every stream has delivered and the app has told its version, or for so long."""
        limit = time.monotonic() + timeout_s
        with self._changed:
            while not self._complete() and (left := limit - time.monotonic()) > 0:
                self._changed.wait(left)

    def _complete(self) -> bool:
        return self.app is not None and min(self.packets.values()) >= _ENOUGH_PACKETS

    def packet(self, packet: Packet) -> None:
        self.packets[packet.stream] += 1
        if self.packets[packet.stream] == _ENOUGH_PACKETS:
            with self._changed:
                self._changed.notify_all()

    def skipped(self, stream: str, cause: GapCause, device_ns: int | None, packets: int) -> None:
        """Nothing is stored, so nothing is missing."""

    def interrupted(self, stream: str, cause: GapCause, reason: str) -> None:
        """As above."""

    def epoch(self, clock: Clock, epoch: int, reason: str) -> None:
        """Without meaning for a short look."""

    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        self.states[stream] = (state, reason)

    def clock(self, pair: ClockPair) -> None:
        if pair.clock is Clock.DEVICE:
            self.pair = pair

    def calibration(
        self, name: str, values: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]
    ) -> None:
        del values, about  # only that it came is of interest
        self.calibrations.add(name)

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        with self._changed:
            if kind == "hl2ss_app":
                self.app = about
            elif kind in {"camera_settings", "app_settings"}:
                self.refused_settings += [row["command"] for row in about["refused"]]
            self._changed.notify_all()


def look_over(device: Device, config: Hl2ssConfig, timeout_s: float) -> list[CheckItem]:
    """Open the device, wait until every stream is live or ``timeout_s`` is over, close it."""
    streams = list(device.schemas())
    seen = _Onlooker({stream.name for stream in streams})
    device.open(seen)
    try:
        seen.wait(timeout_s)
    finally:
        device.close()
    items = [_app(seen, config.host), _clock(seen)]
    items += [_stream(seen, stream) for stream in streams]
    if config.pv is not None and config.pv.calibration:
        items.append(_calibration(seen))
    if seen.refused_settings:
        names = ", ".join(sorted(set(seen.refused_settings)))
        items.append(
            CheckItem(
                "Settings of the headset",
                False,
                f"The app on the headset did not take: {names}.",
                "Install hl2ss 1.0.37 or later, or leave these settings out.",
            )
        )
    return items


def _app(seen: _Onlooker, host: str) -> CheckItem:
    name = "hl2ss app"
    if seen.app is None:
        return CheckItem(
            name,
            False,
            f"The hl2ss app does not answer at {host}.",
            "Wake the headset, start the app on it, and check that both are in the same Wi-Fi.",
        )
    version = str(seen.app["version"])
    if tuple(map(int, version.split(".")[:3])) < SINCE_PV_SIZE_IN_METADATA:
        return CheckItem(
            name,
            False,
            f"The hl2ss app has version {version}, which speaks another protocol.",
            "Install version 1.0.37 or later on the headset.",
        )
    return CheckItem(name, True, f"The hl2ss app answers; it has version {version}.")


def _clock(seen: _Onlooker) -> CheckItem:
    name = "Clock"
    if seen.pair is None:
        return CheckItem(
            name,
            False,
            "The headset's clock could not be read.",
            "Make sure that no other program is connected to the headset, then check again.",
        )
    within_ms = seen.pair.uncertainty_ns / 1e6
    words = f"The headset's clock is known to within {within_ms:.1f} ms."
    if within_ms > _GOOD_CLOCK_MS:
        return CheckItem(
            name, False, words, "The Wi-Fi is slow: use an access point of your own, close by."
        )
    return CheckItem(name, True, words)


def _stream(seen: _Onlooker, stream: StreamSchema) -> CheckItem:
    count = seen.packets[stream.name]
    if count >= _ENOUGH_PACKETS:
        return CheckItem(stream.title, True, f"{stream.title} is live.")
    _, reason = seen.states.get(stream.name, (None, ""))
    words = reason or f"{stream.title}: nothing came."
    return CheckItem(
        stream.title,
        False,
        words,
        "Follow the hint, then check again; or switch the stream off in the settings.",
    )


def _calibration(seen: _Onlooker) -> CheckItem:
    name = "Camera calibration"
    if "pv" in seen.calibrations:
        return CheckItem(name, True, "The front camera's calibration was read.")
    return CheckItem(
        name,
        False,
        "The front camera's calibration could not be read.",
        "It is needed for the other cameras only; gaze on video works without it.",
    )
