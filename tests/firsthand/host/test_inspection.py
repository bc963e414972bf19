"""What keeps a plugin from being used is said in words that name the culprit and the cure."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

from firsthand.api import (
    Device,
    DeviceSink,
    Exporter,
    PluginConfig,
    PluginError,
    Progress,
    RecordingView,
    Simulator,
    StreamSchema,
    hookimpl,
)
from firsthand.host.inspection import class_problems, handed_in, hook_names, hook_problems
from firsthand.host.kinds import Kind, kinds

pytestmark = pytest.mark.unit

DEVICE, EXPORTER = kinds()["firsthand_devices"], kinds()["firsthand_exporters"]


class Config(PluginConfig):
    rate_hz: float = 1.0


class Good(Device):
    name = "good"
    title = "A good device"
    Config = Config

    def schemas(self) -> Sequence[StreamSchema]:
        return ()

    def open(self, sink: DeviceSink) -> None: ...

    def close(self) -> None: ...


def problems(cls: object, kind: Kind = DEVICE) -> str:
    return "; ".join(class_problems(kind, cls))


def test_the_kinds_are_read_from_the_hooks() -> None:
    faces = {kind.name: kind.face for kind in kinds().values()}
    assert faces == {"device": Device, "exporter": Exporter, "simulator": Simulator}


def test_a_good_class_has_no_problems() -> None:
    assert problems(Good) == ""


def test_methods_that_are_missing_are_named() -> None:
    class Half(Device):
        name, title, Config = "half", "Half a device", Config

        def close(self) -> None: ...

    assert problems(Half) == "class Half does not implement open, schemas"


def test_a_class_of_another_family_is_refused_with_what_it_lacks() -> None:
    class Lookalike:
        def open(self) -> None: ...

    assert "not a Device of firsthand.api and has no close, schemas" in problems(Lookalike)
    assert "not a Exporter" in problems(Good, EXPORTER)


def test_a_method_that_cannot_be_called_as_the_core_does_is_refused() -> None:
    class Deaf(Good):
        def open(self) -> None: ...  # type: ignore[override]  # what is tested

    assert "has open(), but it is called open(sink)" in problems(Deaf)


def test_a_method_with_more_optional_arguments_is_taken() -> None:
    class More(Good):
        def open(self, sink: DeviceSink, *, more: int = 1) -> None: ...

    assert problems(More) == ""


def test_a_static_method_with_the_right_arguments_is_taken() -> None:
    class Static(Exporter):
        name, title, Config = "static", "Static", Config

        @staticmethod
        def export(recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
            return ()

    assert problems(Static, EXPORTER) == ""


def test_a_method_that_is_no_method_is_refused() -> None:
    assert "close that is not a method" in problems(type("Strange", (Good,), {"close": 3}))


@pytest.mark.parametrize("bad", ["", "Big", "with space", "1st", "x" * 41, "tür", "a\n"])
def test_a_bad_name_is_refused(bad: str) -> None:
    assert "a name is a small letter" in problems(type("Named", (Good,), {"name": bad}))


@pytest.mark.parametrize("bad", ["", "  ", "x" * 81, "two\nlines", "\x1b[31mred"])
def test_a_bad_title_is_refused(bad: str) -> None:
    assert "title" in problems(type("Titled", (Good,), {"title": bad}))


def test_a_class_without_words_and_settings_is_told_all_at_once() -> None:
    class Bare(Device):
        def schemas(self) -> Sequence[StreamSchema]:
            return ()

        def open(self, sink: DeviceSink) -> None: ...

        def close(self) -> None: ...

    assert problems(Bare) == (
        "class Bare has no name; class Bare has no title; class Bare has no Config"
    )


def test_settings_that_take_unknown_keys_are_refused() -> None:
    class Lax(PluginConfig):
        model_config = ConfigDict(extra="ignore")

    assert "takes unknown keys" in problems(type("Loose", (Good,), {"Config": Lax}))
    assert "not a PluginConfig" in problems(type("Other", (Good,), {"Config": BaseModel}))


@pytest.mark.parametrize("thing", [3, None, Good(Config()), "text"])
def test_what_is_not_a_class_is_refused(thing: object) -> None:
    assert "which is not a class" in problems(thing)


class Implements:
    """A plugin object whose one hook gives what it is told."""

    def __init__(self, result: Any) -> None:
        self.result = result

    @hookimpl
    def firsthand_devices(self) -> Any:
        return self.result


def test_classes_come_with_their_kind() -> None:
    assert handed_in(Implements([Good])) == [(DEVICE, Good)]
    assert handed_in(Implements(iter((Good,)))) == [(DEVICE, Good)]
    assert handed_in(Implements([])) == []


@pytest.mark.parametrize("nonsense", [None, 42, "good", Good, b"x"])
def test_a_hook_that_gives_nonsense_is_refused(nonsense: object) -> None:
    with pytest.raises(PluginError, match=r"firsthand_devices gave .* and not classes in a list"):
        handed_in(Implements(nonsense))


def test_a_hook_that_never_stops_giving_is_refused() -> None:
    with pytest.raises(PluginError, match="more than 100"):
        handed_in(Implements(iter(int, 1)))


def test_a_result_that_cannot_even_be_shown_is_refused() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(PluginError, match="gave a Rude"):
        handed_in(Implements(Rude()))


def test_a_misspelt_hook_is_named_with_the_one_that_was_meant() -> None:
    class Misspelt:
        @hookimpl
        def firsthand_device(self) -> Iterable[type[Device]]:
            return ()

    assert hook_problems(Misspelt()) == [
        "there is no hook 'firsthand_device'. Did you mean 'firsthand_devices'?"
    ]


def test_a_marked_function_of_any_other_name_is_a_misspelt_hook_too() -> None:
    class Misspelt:
        @hookimpl
        def frsthand_exporters(self) -> Iterable[type[Exporter]]:
            return ()

    assert "Did you mean 'firsthand_exporters'?" in hook_problems(Misspelt())[0]


def test_a_hook_may_have_another_name_if_it_says_so() -> None:
    class Renamed:
        @hookimpl(specname="firsthand_devices")
        def mine(self) -> Iterable[type[Device]]:
            return [Good]

    assert hook_problems(Renamed()) == []
    assert hook_names(Renamed()) == ("firsthand_devices",)
    assert handed_in(Renamed()) == [(DEVICE, Good)]


def test_a_hook_without_its_mark_is_refused() -> None:
    class Unmarked:
        def firsthand_devices(self) -> Iterable[type[Device]]:
            return ()

    assert "not marked with @hookimpl" in hook_problems(Unmarked())[0]


def test_arguments_that_no_hook_has_are_named() -> None:
    class Wants:
        @hookimpl
        def firsthand_devices(self, app: object, settings: object) -> Iterable[type[Device]]:
            return ()

    assert hook_problems(Wants()) == [
        "firsthand_devices takes app, settings, but the hook is firsthand_devices()"
    ]


def test_a_wrapper_is_refused() -> None:
    class Wraps:
        @hookimpl(wrapper=True)
        def firsthand_devices(self) -> Iterator[None]:
            return (yield)

    assert "wraps nothing" in hook_problems(Wraps())[0]


def test_a_plugin_without_hooks_is_refused() -> None:
    assert "implements no hook" in hook_problems(object())[0]


def test_looking_for_hooks_runs_no_property() -> None:
    class Trap:
        ran: ClassVar[bool] = False

        @property
        def firsthand_trap(self) -> None:
            Trap.ran = True

        @hookimpl
        def firsthand_devices(self) -> Iterable[type[Device]]:
            return ()

    assert hook_problems(Trap()) == []
    assert not Trap.ran
