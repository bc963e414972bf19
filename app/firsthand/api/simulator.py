"""The face of a simulator: a stand-in for a device, on this computer, over real sockets."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from firsthand.api.config import PluginConfig


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """Something that goes wrong on purpose.

    ``kind`` is the simulator's own word (``stall``, ``disconnect`` …), ``stream`` the stream it
    befalls or "" for all, ``at_s`` seconds after the simulator's start, ``for_s`` how long.
    """

    kind: str
    stream: str = ""
    at_s: float = 0.0
    for_s: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)


class Simulator(ABC):
    """Stands in for the device of the same ``name``; the device plugin cannot tell."""

    name: ClassVar[str]
    title: ClassVar[str]
    Config: ClassVar[type[PluginConfig]]

    def __init__(self, config: PluginConfig) -> None:
        self.config = config

    @abstractmethod
    def start(self) -> None:
        """Listen and serve from threads of its own, and return when clients can connect.

        Raises ``DeviceError`` where an address or port cannot be had, naming it.
        """

    @abstractmethod
    def stop(self) -> None:
        """Close every socket, write what is written at the end, join all threads. May be called
        twice."""

    @abstractmethod
    def device_settings(self) -> Mapping[str, Any]:
        """Settings with which the device of the same name reaches this simulator (JSON types)."""

    @abstractmethod
    def fault(self, fault: SimulatedFault) -> None:
        """Let something go wrong. Raises ``SettingsError`` for a kind it does not know."""

    @abstractmethod
    def words(self) -> str:
        """One sentence that says what it shows and where it listens."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
