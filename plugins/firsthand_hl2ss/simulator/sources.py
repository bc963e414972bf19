"""From the name of a source to the source."""

from pathlib import Path
from typing import Final

from firsthand_hl2ss.simulator.config import SimulatorConfig
from firsthand_hl2ss.simulator.source import SensorSource

_SCENE: Final = "scene:"


def open_source(config: SimulatorConfig) -> SensorSource:
    """The built-in scene or a folder. Raises ``SettingsError`` for a folder that has nothing."""
    if config.source.startswith(_SCENE):
        from firsthand_hl2ss.simulator.scene import SceneSource

        return SceneSource(
            config.source.removeprefix(_SCENE),
            seed=config.seed,
            duration_s=config.duration_s,
            loop=config.loop,
            voice=config.voice,
        )
    from firsthand_hl2ss.simulator.folder_source import FolderSource

    return FolderSource(Path(config.source), loop=config.loop)
