"""The plugins of this process, by kind and name; the only door to code of plugins."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from firsthand.api import Device, Exporter, PluginError, SettingsError, Simulator
from firsthand.host.guard import Guard
from firsthand.host.info import PluginInfo
from firsthand.host.kinds import kinds
from firsthand.host.loading import DEADLINE_S, Loaded, load_all
from firsthand.host.settings import checked
from firsthand.host.suggest import did_you_mean

T = TypeVar("T")


def load_plugins(
    *,
    extra: Iterable[object] = (),
    only: Collection[str] | None = None,
    probe: bool = True,
    deadline_s: float = DEADLINE_S,
) -> "PluginHost":
    """Load every installed plugin, and ``extra`` modules or objects. Never fails: what cannot be
    used is listed as refused, with its reason.

    Plugins of other distributions are loaded in a worker first (``probe``). A child process whose
    parent has done that passes ``probe=False`` and, in ``only``, the names of the plugins that it
    needs: nothing else is imported there.
    """
    return PluginHost(load_all(extra, only, probe=probe, deadline_s=deadline_s))


class PluginHost:
    """What was loaded. Classes are given by kind; objects are made with checked settings."""

    def __init__(self, loaded: Sequence[Loaded]) -> None:
        self.plugins: Final[Sequence[PluginInfo]] = tuple(each.info for each in loaded)
        self.guard: Final = Guard()
        self._classes: dict[str, dict[str, type[Any]]] = {k.name: {} for k in kinds().values()}
        self._owners: dict[tuple[str, str], PluginInfo] = {}
        for each in loaded:
            for kind, cls in each.classes:
                self._classes[kind.name][cls.name] = cls
                self._owners[kind.name, cls.name] = each.info

    def devices(self) -> Mapping[str, type[Device]]:
        return cast(Mapping[str, type[Device]], self._classes["device"])

    def exporters(self) -> Mapping[str, type[Exporter]]:
        return cast(Mapping[str, type[Exporter]], self._classes["exporter"])

    def simulators(self) -> Mapping[str, type[Simulator]]:
        return cast(Mapping[str, type[Simulator]], self._classes["simulator"])

    def device(self, name: str) -> type[Device]:
        """Raises ``SettingsError`` with did-you-mean for a name that nobody offers."""
        return cast(type[Device], self._named("device", name))

    def exporter(self, name: str) -> type[Exporter]:
        """As ``device``."""
        return cast(type[Exporter], self._named("exporter", name))

    def simulator(self, name: str) -> type[Simulator]:
        """As ``device``."""
        return cast(type[Simulator], self._named("simulator", name))

    def make_device(self, name: str, settings: Mapping[str, Any]) -> Device:
        """A device with checked settings, not yet opened.

        Raises ``SettingsError`` naming what is wrong with the settings and what was meant,
        ``PluginError`` where the plugin fails.
        """
        return cast(Device, self._make("device", name, settings))

    def make_exporter(self, name: str, settings: Mapping[str, Any]) -> Exporter:
        """As ``make_device``. An exporter is used in a worker process only."""
        return cast(Exporter, self._make("exporter", name, settings))

    def make_simulator(self, name: str, settings: Mapping[str, Any]) -> Simulator:
        """As ``make_device``; the simulator is not yet started."""
        return cast(Simulator, self._make("simulator", name, settings))

    def owner(self, kind: str, name: str) -> PluginInfo:
        """The plugin that offers ``name``; its own name is what ``only`` takes."""
        self._named(kind, name)
        return self._owners[kind, name]

    def guarded(
        self, plugin: str, what: str, call: Callable[[], T], *, deadline_s: float | None = None
    ) -> T:
        """Call code of ``plugin`` (see ``Guard.guarded``)."""
        return self.guard.guarded(plugin, what, call, deadline_s=deadline_s)

    def _named(self, kind: str, name: str) -> type[Any]:
        offered = self._classes[kind]
        if name not in offered:
            refused = [plugin.name for plugin in self.plugins if plugin.refused]
            also = f" These plugins were refused: {', '.join(refused)}." if refused else ""
            raise SettingsError(
                f"There is no {kind} {name!r}.", try_this=did_you_mean(name, offered) + also
            )
        return offered[name]

    def _make(self, kind: str, name: str, settings: Mapping[str, Any]) -> object:
        cls = self._named(kind, name)
        owner = self._owners[kind, name].name

        def make() -> object:
            return cls(checked(f"the {kind} {name!r}", cls.Config, settings))

        made: object = self.guard.guarded(owner, f"making the {kind} {name!r}", make)
        if not isinstance(made, cls):
            raise PluginError(f"The plugin {owner!r} made something else than the {kind} {name!r}.")
        return made
