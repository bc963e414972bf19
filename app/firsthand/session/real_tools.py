"""A session's tools as they are outside of tests: plugins, a recorder process, child processes."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from firsthand.api import CheckableDevice, CheckItem, Device, FirsthandError, Progress
from firsthand.host import PluginHost
from firsthand.recording.client import RecorderProcess
from firsthand.recording.export import export
from firsthand.recording.finalise_process import finalise_in_child
from firsthand.recording.recorder_settings import DeviceChoice, RecorderSettings
from firsthand.session.check_work import check_in_worker
from firsthand.session.consent import without_data
from firsthand.session.protocol import DataType
from firsthand.session.tools import Finished, RunningRecorder, Verdict

_SLACK_S: Final = 5.0
"""What a device's own check may take beyond its time before it is given up."""


class RealTools:
    """Tools made of the plugins that were loaded and of processes of this computer."""

    def __init__(self, host: PluginHost, *, extra_plugins: Sequence[str] = ()) -> None:
        self._host = host
        self._extra = list(extra_plugins)

    def look_over(self, devices: Sequence[DeviceChoice], timeout_s: float) -> Sequence[CheckItem]:
        """Each device's own check, with its plugin's errors as findings."""
        return [item for choice in devices for item in self._look_over(choice, timeout_s)]

    def without(
        self, devices: Sequence[DeviceChoice], refused: Collection[DataType]
    ) -> list[DeviceChoice]:
        """The devices with settings that leave the refused data out."""
        kept: list[DeviceChoice] = []
        for choice in devices:
            settings: Mapping[str, Any] | None = choice.settings
            if refused:
                settings = without_data(
                    self._host.make_device, choice.name, choice.settings, refused
                )
            if settings is not None:
                kept.append(DeviceChoice(name=choice.name, settings=dict(settings)))
        return kept

    def start_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """A recorder in its own process, which loads the plugins of its devices and no other."""
        owners = {self._host.owner("device", choice.name).name for choice in settings.devices}
        chosen = {"plugins": sorted(owners), "extra_plugins": self._extra}
        return RecorderProcess.start(settings.model_copy(update=chosen))

    def resume_recorder(self, settings: RecorderSettings) -> RunningRecorder:
        """Another recorder for the same folder; its settings stand in the manifest."""
        return RecorderProcess.resume(settings.folder)

    def finalise(self, folder: Path, progress: Progress) -> Finished:
        """The recording's file, made by a child process."""
        report = finalise_in_child(folder, progress=progress)
        return Finished(report.state, report.packets, report.lost, report.seconds, report.notes)

    def check(self, folder: Path, progress: Progress) -> Verdict:
        """Every record and picture looked at, in a worker."""
        return check_in_worker(folder, progress)

    def export(
        self, recording: Path, to: str, settings: Mapping[str, Any], out: Path
    ) -> Sequence[Path]:
        """The recording in another format, by the exporter of that name in a worker."""
        return export(recording, to, out, settings=settings, host=self._host)

    def _look_over(self, choice: DeviceChoice, timeout_s: float) -> Sequence[CheckItem]:
        try:
            device = self._host.make_device(choice.name, choice.settings)
            if not isinstance(device, CheckableDevice):
                words = f"{device.title} has no check of its own; watch its streams at the start."
                return [CheckItem(choice.name, True, words)]
            return self._host.guarded(
                self._host.owner("device", choice.name).name,
                "checking the device",
                lambda: _preflight(device, timeout_s),
                deadline_s=timeout_s + _SLACK_S,
            )
        except FirsthandError as error:
            return [CheckItem(choice.name, False, error.message, error.try_this or "")]


def _preflight(device: Device, timeout_s: float) -> Sequence[CheckItem]:
    with device:
        return list(device.preflight(timeout_s)) if isinstance(device, CheckableDevice) else []
