"""From the name of a source to the source."""

import functools
from pathlib import Path
from typing import Final

from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.looped import LoopedSource
from firsthand_hl2ss.simulator.source import SensorSource

_SCENE: Final = "scene:"


def open_source(config: SimulatorConfig) -> SensorSource:
    """The built-in scene or a folder. Raises ``SettingsError`` for a folder that has nothing."""
    source = _plain(config)
    return LoopedSource(source, config.ahead_s) if config.ahead_s else source


def _plain(config: SimulatorConfig) -> SensorSource:
    if config.source.startswith(_SCENE):
        scene = config.source.removeprefix(_SCENE)
        return _scene(scene, config.seed, config.duration_s, config.loop, config.voice)
    from firsthand_hl2ss.simulator.folder_source import FolderSource

    return FolderSource(Path(config.source), loop=config.loop)


@functools.lru_cache(maxsize=2)
def _scene(
    scene: str, seed: int, duration_s: float | None, loop: bool, voice: bool
) -> SensorSource:
    # Kept, since a scene holds nothing but memory, never changes, and takes a moment to make.
    from firsthand_hl2ss.simulator.scene import SceneSource

    return SceneSource(scene, seed=seed, duration_s=duration_s, loop=loop, voice=voice)
