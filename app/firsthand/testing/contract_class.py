"""What holds for every class that a plugin hands in, of whatever kind."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from firsthand.api import PluginConfig, SettingsError
from firsthand.host.inspection import class_problems
from firsthand.host.kinds import kinds
from firsthand.host.settings import checked
from firsthand.testing.claims import claim


class ClassContract(ABC):
    """Not inherited directly: see the contracts of the kinds."""

    kind: str
    """Name of the kind, set by its contract."""

    @abstractmethod
    def plugin_class(self) -> type[Any]:
        """The class under test."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Settings as they would stand in a file: JSON types."""

    def config(self, settings: Mapping[str, Any] | None = None) -> PluginConfig:
        """Checked settings, as the host makes them."""
        wanted = self.settings() if settings is None else settings
        return checked(self.plugin_class().__name__, self.plugin_class().Config, wanted)

    def test_the_host_takes_the_class(self) -> None:
        (kind,) = [each for each in kinds().values() if each.name == self.kind]
        problems = class_problems(kind, self.plugin_class())
        claim(not problems, f"the host refuses the class: {'; '.join(problems)}")

    def test_an_unknown_setting_is_refused_by_its_name(self) -> None:
        with pytest.raises(SettingsError, match="no_such_setting"):
            self.config({**self.settings(), "no_such_setting": 1})

    def test_settings_do_not_change_once_they_are_made(self) -> None:
        config = self.config()
        for name in type(config).model_fields:
            with pytest.raises(ValidationError):
                setattr(config, name, getattr(config, name))

    def test_settings_survive_being_written_and_read(self) -> None:
        config = self.config()
        again = self.config(config.model_dump(mode="json"))
        claim(again == config, f"written and read settings differ: {config!r} and {again!r}")
