"""The front camera's subsystem: opened and closed through port 3810, set through port 3809.

Settings act only while it is on and not shared, and are forgotten when it stops or starts again.
"""

import logging
import threading
from dataclasses import dataclass, field, replace
from typing import Final

from firsthand_hl2ss.simulator.source import PvMetadata
from firsthand_hl2ss.wire_config import Format, MixedReality
from firsthand_hl2ss.wire_rc import Op

log = logging.getLogger(__name__)

SHARED_FORMAT: Final = Format(1920, 1080, 30)
"""What another app has chosen when the camera is shared: a client's wish is then ignored."""

_RANGES: Final[dict[Op, tuple[tuple[int, int], ...]]] = {
    Op.PV_FOCUS: ((0, 3), (0, 2), (0, 2), (170, 10_000), (0, 1)),
    Op.PV_TEMPORAL_DENOISING: ((0, 1),),
    Op.PV_WHITE_BALANCE_PRESET: ((0, 7),),
    Op.PV_WHITE_BALANCE_VALUE: ((92, 300),),
    Op.PV_EXPOSURE: ((0, 1), (100, 66_000)),
    Op.PV_EXPOSURE_PRIORITY: ((0, 1),),
    Op.PV_ISO: ((0, 1), (100, 3200)),
    Op.PV_BACKLIGHT_COMPENSATION: ((0, 1),),
    Op.PV_SCENE_MODE: ((0, 12),),
    Op.PV_OPTIMISATION: ((0, 6),),
    Op.PV_PRIMARY_USE: ((0, 2),),
    Op.PV_OPTICAL_STABILISATION: ((0, 1),),
    Op.PV_HDR: ((0, 2),),
}
"""What each setter takes; anything else is ignored without a word."""

_VALUE_MEANS_NOTHING_IF_AUTOMATIC: Final = frozenset({Op.PV_EXPOSURE, Op.PV_ISO})
_PRESET_MANUAL: Final = 1
_FOCUS_MANUAL: Final = 3
_MANUAL: Final = 0
_KELVIN_PER_STEP: Final = 25
_BREATHING: Final = 0.03
"""Share by which the focal length changes over the lens's whole way, about what autofocus does."""


@dataclass(slots=True)
class Camera:
    """On or off, how it was opened, and what was set since."""

    is_on: bool = False
    opening: MixedReality = field(default_factory=MixedReality)
    settings: dict[Op, tuple[float, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def opened(self, opening: MixedReality) -> None:
        """The camera is open now. Shared access with holograms in the picture does not work."""
        with self.lock:
            self.opening = opening
            self.settings = {}
            self.is_on = not (opening.shared and opening.holograms)

    def close(self) -> None:
        with self.lock:
            self.is_on = False
            self.settings = {}

    @property
    def shared(self) -> bool:
        return self.is_on and self.opening.shared

    def set(self, op: Op, values: tuple[float, ...]) -> None:
        """A command of remote configuration; ignored while off or shared, or out of range."""
        with self.lock:
            if not self.is_on or self.opening.shared:
                return
            ranges = _RANGES.get(op, ())
            if op in _VALUE_MEANS_NOTHING_IF_AUTOMATIC and values[0] != _MANUAL:
                ranges = ranges[:1]
            if not all(low <= v <= high for v, (low, high) in zip(values, ranges, strict=False)):
                log.debug("camera setting %s ignored: %s", op.name, values)
                return
            settings = {**self.settings, op: values}
            if op is Op.PV_WHITE_BALANCE_PRESET and values[0] != _PRESET_MANUAL:
                settings.pop(Op.PV_WHITE_BALANCE_VALUE, None)
            self.settings = settings

    def applied(self, metadata: PvMetadata) -> PvMetadata:
        """What the camera tells beside a picture, with the settings made so far."""
        settings = self.settings
        if not settings:
            return metadata
        if (focus := settings.get(Op.PV_FOCUS)) and focus[0] == _FOCUS_MANUAL:
            grow = 1 + _BREATHING * (focus[3] - metadata.lens_position) / 10_000
            fx, fy = metadata.focal_length
            metadata = replace(
                metadata,
                lens_position=int(focus[3]),
                focus_state=3,
                focal_length=(fx * grow, fy * grow),
            )
        if (exposure := settings.get(Op.PV_EXPOSURE)) and exposure[0] == _MANUAL:
            metadata = replace(metadata, exposure_ns=int(exposure[1]) * 1000)
        if (iso := settings.get(Op.PV_ISO)) and iso[0] == _MANUAL:
            metadata = replace(metadata, iso=int(iso[1]))
        if balance := settings.get(Op.PV_WHITE_BALANCE_VALUE):
            metadata = replace(metadata, white_balance_k=int(balance[0]) * _KELVIN_PER_STEP)
        return metadata
