"""Turns the front camera on and off, and sets it up."""

import contextlib
import logging
import threading
import time
from typing import Final

from firsthand.api import DeviceSink
from firsthand_hl2ss import dial
from firsthand_hl2ss.config import PvConfig
from firsthand_hl2ss.dial import Address, Stopped
from firsthand_hl2ss.remote import Remote, RemoteError
from firsthand_hl2ss.watch import tell_settings
from firsthand_hl2ss.wire import Port
from firsthand_hl2ss.wire_config import CAMERA_STOP_REQUEST, pack_camera_start

log = logging.getLogger(__name__)

_POLL_S: Final = 0.04
_POLLS_A_SESSION: Final = 20
_LAST_WORD_S: Final = 1.0


class Camera:
    """The front camera's switch. Used by the thread that receives its pictures."""

    def __init__(
        self,
        config: PvConfig,
        address: Address,
        remote: Remote,
        sink: DeviceSink,
        connect_s: float,
        camera_s: float,
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._address = address
        self._remote = remote
        self._sink = sink
        self._connect_s = connect_s
        self._camera_s = camera_s
        self._stop = stop
        self._used = False
        self._set_up = False

    def turn_on(self, *, blindly: bool = False) -> bool:
        """Make sure that the camera is on and set up; False if it does not turn on.

        A camera found on is left running, for a start would restart it under whoever uses it. When
        remote configuration does not tell, a start is sent only ``blindly``, and True given.
        Raises ``OSError`` when the port cannot be reached, or ``Stopped``.
        """
        try:
            on = self._ask()
        except RemoteError:
            if blindly:
                self._start()
                self._used = True
            return True
        if not on:
            self._set_up = False
            self._start()
            self._used = True
            if not self._wait():
                return False
        elif not self._used:
            log.info("the front camera is on already")
            self._used = True
        if not self._set_up:
            self._apply()
        return True

    def turn_off(self) -> None:
        """Turn the camera off if it was used here and should not stay on. Takes a second or two at
        the most, and does not mind a headset that is gone."""
        if not (self._used and self._config.stop_camera):
            return
        with contextlib.suppress(OSError, Stopped):
            self._send(CAMERA_STOP_REQUEST, min(self._connect_s, _LAST_WORD_S), threading.Event())
            log.info("the front camera is turned off")

    def _start(self) -> None:
        self._send(pack_camera_start(self._config.opening), self._connect_s, self._stop)

    def _send(self, request: bytes, timeout_s: float, stop: threading.Event) -> None:
        sock = dial.dial(self._address.of(Port.PERSONAL_VIDEO), timeout_s, stop)
        try:
            sock.settimeout(timeout_s)
            sock.sendall(request)
        finally:
            sock.close()

    def _ask(self) -> bool:
        with self._remote.session() as session:
            return session.camera_is_on()

    def _wait(self) -> bool:
        limit = time.monotonic() + self._camera_s
        while time.monotonic() < limit:
            # Between sessions others have their turn: clocks are compared meanwhile.
            with contextlib.suppress(RemoteError), self._remote.session() as session:
                for _ in range(_POLLS_A_SESSION):
                    if session.camera_is_on():
                        return True
                    if self._stop.wait(_POLL_S):
                        raise Stopped
            if self._stop.wait(_POLL_S):
                raise Stopped
        return False

    def _apply(self) -> None:
        commands = self._config.camera.commands()
        if commands:
            try:
                refused = self._remote.apply(commands)
            except RemoteError as error:
                log.warning("the camera's settings could not be sent: %s", error)
                return
            tell_settings(self._sink, "camera_settings", commands, refused)
        self._set_up = True
