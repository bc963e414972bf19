"""Records devices into a session folder: a plain object, run by the recorder's process."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from firsthand.api import Device, Packet, StorageError, StreamSchema
from firsthand.recording.diskspace import free_bytes
from firsthand.recording.logfile import LogFile, open_log_file
from firsthand.recording.manifest import Moment, app_facts
from firsthand.recording.recorder_clock import UtcClock
from firsthand.recording.recorder_devices import Devices, Driven, schemas_of
from firsthand.recording.recorder_disk import DiskWatch
from firsthand.recording.recorder_log import QUEUE_BYTES, RecorderLog
from firsthand.recording.recorder_manifest import RecorderManifest
from firsthand.recording.recorder_settings import RecorderSettings, RecorderState, RecorderStatus
from firsthand.recording.recorder_sink import RecorderSink
from firsthand.recording.recorder_stream import RecordedStream
from firsthand.recording.recorder_warnings import Warnings
from firsthand.recording.session_folder import next_segment_number
from firsthand.streams.fanout import FanOut

_UTC_EVERY_S: Final = 10.0
_HEALTH_EVERY_S: Final = 1.0
_MANIFEST_S: Final = 5.0
"""How long a disk may take for the manifest when everything else is done."""

_log = logging.getLogger(__name__)


class Recorder:
    """Takes what devices deliver, stores it, keeps the accounts, and then shows it.

    Making it raises ``SettingsError`` where two devices name a stream alike, ``begin``
    ``StorageError`` where nothing can be written; after that nothing raises: trouble is in
    ``status`` and in the log. When it ends by itself (no room, nothing can be written) ``ended``
    is set.
    """

    def __init__(
        self,
        settings: RecorderSettings,
        devices: Sequence[Device],
        *,
        plugins: Sequence[dict[str, str]] = (),
        opener: Callable[[Path], LogFile] = open_log_file,
        free: Callable[[Path], int] = free_bytes,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self.ended: Final = threading.Event()
        self.fanout: Final = FanOut()
        self._settings = settings
        self._plugins = list(plugins)
        self._opener = opener
        self._free = free
        self._queue_bytes = queue_bytes
        self._schemas = schemas_of(devices)
        self._to_open = list(devices)
        self._start = Moment.now()
        self._stop: Moment | None = None
        self._state = RecorderState.STARTING
        self._reason = ""
        self._warnings = Warnings()
        self._stopping = threading.Lock()
        self._quiet = threading.Event()
        self._utc = UtcClock()
        self._streams: dict[str, RecordedStream] = {}
        self._devices: Devices | None = None
        self._keeper = threading.Thread(target=self._keep, name="recorder-keeper", daemon=True)

    @property
    def schemas(self) -> Mapping[str, StreamSchema]:
        """Every stream of the recording by name."""
        return self._schemas

    def start(self) -> None:
        """Begin, and open the devices."""
        self.begin()
        self.open_devices()

    def begin(self) -> None:
        """Open the log and be ready for packets."""
        self._log = self._begin_log()
        started_ns = self._start.host_ns
        for schema in self._schemas.values():
            self._streams[schema.name] = RecordedStream(schema, self._log, self._show, started_ns)
        self._disk = DiskWatch(
            self._log,
            self._settings.reserve_bytes,
            self._settings.fallback_folder,
            self._free,
            self._warnings,
        )
        self._measure_utc()
        self._look_at_disk()
        self._keeper.start()

    def open_devices(self) -> None:
        """Let the devices deliver. One that cannot be opened is told of in the status."""
        driven = []
        for device in self._to_open:
            names = [schema.name for schema in device.schemas()]
            streams = {name: self._streams[name] for name in names}
            sink = RecorderSink(device.name, streams, self._log, self._warnings.warn)
            driven.append(Driven(device, sink))
        with self._stopping:
            if self._stop is not None:
                return
            self._devices = Devices(driven, self._warnings.warn)
            self._state = RecorderState.RECORDING
        self._devices.open()

    def status(self) -> RecorderStatus:
        """How it is doing now. Any thread, at any time after ``start``."""
        now_ns = time.perf_counter_ns()
        return RecorderStatus(
            state=self._state,
            elapsed_s=((self._stop.host_ns if self._stop else now_ns) - self._start.host_ns) / 1e9,
            bytes_written=self._log.bytes_written,
            free_bytes=self._disk.space.free_bytes,
            time_left_s=self._disk.space.time_left_s,
            streams=[stream.snapshot(now_ns) for stream in self._streams.values()],
            warnings=self._warnings.list(),
            logs=[str(path) for path in self._log.paths],
            reason=self._reason,
        )

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Store a fact of the session's. Raises ``TypeError`` or ``ValueError`` for other than
        JSON."""
        self._log.write(lambda to: to.note(kind, about))

    @property
    def devices(self) -> Devices | None:
        """The devices once they are open, for the hook that is told of errors in threads."""
        return self._devices

    def stop(self, reason: str = "The recording was stopped.", close_s: float = 6.0) -> None:
        """Close the recording, then the devices (for at most ``close_s``). Once; who calls later
        waits for the first."""
        with self._stopping:
            if self._stop is not None:
                return
            self._stop = Moment.now()
            self._state = RecorderState.STOPPING
            self._reason = reason
            self._quiet.set()
            for stream in self._streams.values():
                stream.close(reason)
            self._close_log()
            if self._devices is not None:
                self._devices.close(close_s)
            if self._keeper is not threading.current_thread():
                self._keeper.join(_HEALTH_EVERY_S)
            self.fanout.close()
            self.ended.set()

    def _close_log(self) -> None:
        try:
            self._tell_health()
            self._log.close(self._reason)
        except Exception:  # noqa: BLE001  (the manifest and the devices must be closed all the same)
            _log.exception("the log could not be closed in order")
        failed = self._log.failed is not None
        now_ns = time.perf_counter_ns()
        rows = [stream.snapshot(now_ns) for stream in self._streams.values()]
        streams = {
            row.stream: {"packets": row.packets, "lost": row.dropped, "bytes": row.bytes}
            for row in rows
        }
        stop = self._stop or Moment.now()
        write = self._aside(
            lambda: self._manifest.end(self._reason, stop, streams, written=not failed)
        )
        write.join(_MANIFEST_S)
        self._state = RecorderState.FAILED if failed else RecorderState.STOPPED
        _log.info("recording closed, %d bytes in the log", self._log.bytes_written)

    # -- the log ---------------------------------------------------------------------------------

    def _begin_log(self) -> RecorderLog:
        """Open the log at home, or else in the fall-back folder; write the manifest."""
        home, fallback = self._settings.folder, self._settings.fallback_folder
        try:
            return self._begin_log_in(home, fallback)
        except StorageError as error:
            if fallback is None:
                raise
            elsewhere = fallback / home.name
            try:
                elsewhere.mkdir(parents=True, exist_ok=True)
                log = self._begin_log_in(elsewhere, None)
            except (OSError, StorageError):
                raise error from None
            self._warnings.warn(f"{error} The recording goes into {elsewhere} instead.")
            return log

    def _begin_log_in(self, folder: Path, fallback: Path | None) -> RecorderLog:
        manifest = RecorderManifest(self._settings, self._plugins, self._start)
        log = RecorderLog(
            folder,
            self._about(),
            fallback=fallback,
            first=max(next_segment_number(folder), next_segment_number(self._settings.folder)),
            flush_every_s=self._settings.flush_every_s,
            queue_bytes=self._queue_bytes,
            opener=self._opener,
            on_segment=self._on_segment,
            on_failure=self._on_failure,
        )
        for schema in self._schemas.values():
            log.declare(schema)
        log.start()  # from here on the disk knows the session and its streams
        try:
            manifest.begin(log.paths[0])
        except StorageError:
            log.close("The manifest could not be written.")
            raise
        self._manifest = manifest
        return log

    def _about(self) -> dict[str, Any]:
        return {
            **self._settings.session,
            "start": self._start.model_dump(),
            "rehearsal": self._settings.rehearsal,
            "devices": [device.model_dump(mode="json") for device in self._settings.devices],
            "app": app_facts(),
            "plugins": self._plugins,
        }

    def _on_segment(self, path: Path, error: StorageError) -> None:
        self._warnings.warn(f"{error} The recording goes on in {path}.", "segment")
        # The home's disk may hang, and this is the thread that writes packets.
        self._aside(lambda: self._manifest.segment(path, error.message))

    def _on_failure(self, error: StorageError) -> None:
        words = f"{error} What was recorded until then is good."
        self._warnings.warn(words)
        self._end_by_itself(words)

    # -- once a second ---------------------------------------------------------------------------

    def _keep(self) -> None:
        next_utc_s = time.monotonic() + _UTC_EVERY_S
        while not self._quiet.wait(_HEALTH_EVERY_S):
            try:
                self._tell_health()
                self._look_at_disk()
                self._look_at_losses()
                if time.monotonic() >= next_utc_s:
                    next_utc_s += _UTC_EVERY_S
                    self._measure_utc()
            except Exception:  # noqa: BLE001  (housekeeping must not end before the recording)
                _log.exception("the recorder's housekeeping stumbled")

    def _tell_health(self) -> None:
        now_ns = time.perf_counter_ns()
        rows = [stream.snapshot(now_ns) for stream in self._streams.values()]
        self._log.write(lambda to: to.health(rows, now_ns))

    def _measure_utc(self) -> None:
        pair, epoch = self._utc.measure()
        if epoch is not None:
            self._log.write(lambda to: to.epoch(epoch))
            self._warnings.warn(epoch.reason)
        self._log.write(lambda to: to.clock(pair))

    def _look_at_disk(self) -> None:
        self._disk.look()
        if self._disk.full:
            self._end_by_itself(self._disk.space.words)

    def _aside(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="recorder-manifest", daemon=True)
        thread.start()
        return thread

    def _end_by_itself(self, words: str) -> None:
        # A thread of its own: the stop waits for the writing and the keeping one.
        threading.Thread(target=self.stop, args=(words,), name="recorder-stop", daemon=True).start()

    def _look_at_losses(self) -> None:
        for name, stream in self._streams.items():
            if stream.behind:
                words = (
                    f"The disk is too slow: {stream.behind} packets of {name} could not be stored "
                    "and stand in the recording as a gap. End what else uses the disk."
                )
                self._warnings.warn(words, f"behind {name}", loud=False)
            if stream.unfit:
                words = (
                    f"{stream.unfit} packets of {name} did not fit what the stream declared and "
                    "stand in the recording as a gap."
                )
                self._warnings.warn(words, f"unfit {name}", loud=False)

    def _show(self, packet: Packet) -> None:
        self.fanout.put(packet)
