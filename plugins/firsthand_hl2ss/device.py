"""The HoloLens 2 as a device: its streams, from opening to closing."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from firsthand.api import CheckableDevice, CheckItem, DeviceSink, PluginConfig, StreamSchema
from firsthand_hl2ss.camera import Camera
from firsthand_hl2ss.config import Hl2ssConfig
from firsthand_hl2ss.connection import Headset
from firsthand_hl2ss.dial import Address
from firsthand_hl2ss.link import StreamLink
from firsthand_hl2ss.path_probe import PathProbe
from firsthand_hl2ss.plan import plans
from firsthand_hl2ss.preflight import look_over
from firsthand_hl2ss.remote import Remote
from firsthand_hl2ss.schemas import schemas
from firsthand_hl2ss.watch import RemoteWatch

log = logging.getLogger(__name__)

_CLOSE_S: Final = 4.5


class Hl2ssDevice(CheckableDevice):
    """A headset that runs the hl2ss app, over its TCP ports."""

    name = "hl2ss"
    title = "HoloLens 2 (hl2ss)"
    Config = Hl2ssConfig
    config: Hl2ssConfig

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self._stop = threading.Event()
        self._links: list[StreamLink] = []
        self._watch: RemoteWatch | None = None
        self._path: PathProbe | None = None

    def schemas(self) -> Sequence[StreamSchema]:
        return schemas(self.config)

    def open(self, sink: DeviceSink) -> None:
        config, patience = self.config, self.config.patience
        self._stop = stop = threading.Event()
        address = Address(config.host, config.base_port)
        self._path = path = PathProbe(address)
        remote = Remote(address, patience.connect_s, patience.reply_s, stop, path.overtook)
        settings = config.app.commands(config.base_port)
        self._watch = watch = RemoteWatch(remote, sink, patience.clock_s, settings, stop)
        headset = Headset(address, patience, sink, watch, path, stop)
        for plan in plans(config):
            camera = None
            if plan.name == "pv" and config.pv is not None:
                camera = Camera(
                    config.pv, address, remote, sink, patience.connect_s, patience.camera_s, stop
                )
            self._links.append(StreamLink(plan, headset, camera))
        watch.start()
        path.start()
        for link in self._links:
            link.start()
        log.info("hl2ss: %d streams are opened", len(self._links))

    def close(self) -> None:
        self._stop.set()
        limit = time.monotonic() + _CLOSE_S
        if self._watch is not None:
            self._watch.wake()
        if self._path is not None:
            self._path.stop()
        for link in self._links:
            link.interrupt()
        for link in self._links:
            if not link.join(max(0.0, limit - time.monotonic())):
                log.error("hl2ss: a stream's thread does not end")
        if self._watch is not None:
            self._watch.join(max(0.0, limit - time.monotonic()))
        if self._path is not None:
            self._path.join(max(0.0, limit - time.monotonic()))
        self._links, self._watch, self._path = [], None, None

    def preflight(self, timeout_s: float) -> Sequence[CheckItem]:
        return look_over(Hl2ssDevice(self.config), self.config, timeout_s)
