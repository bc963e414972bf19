"""The page about protocols tells of everything that a protocol may hold, and its example runs."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest

from firsthand.paths import checkout_dir
from firsthand.recording.check_report import CheckLimits
from firsthand.session import protocol as p
from firsthand.session import tasks as t
from firsthand.session.loading import load_protocol

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def page() -> str:
    root = checkout_dir()
    assert root is not None
    return (root / "docs" / "protocols.md").read_text(encoding="utf-8")


def own_fields(shape: type) -> set[str]:
    return {field.name for field in dataclasses.fields(shape)}


@pytest.mark.parametrize(
    "shape",
    [p.Protocol, p.Phase, p.Scope, *p.STEP_KINDS, *p.FIELD_KINDS, t.Catalogue, t.Family, t.Variant],
)
def test_every_key_is_on_the_page(page: str, shape: type) -> None:
    assert {name for name in own_fields(shape) if f"`{name}" not in page} == set()


def test_every_kind_of_step_and_field_has_its_row(page: str) -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE))
    for shape in (*p.STEP_KINDS, *p.FIELD_KINDS):
        (kind,) = typing.get_args(typing.get_type_hints(shape)["kind"])
        assert kind in rows


def test_every_kind_of_data_and_every_limit_is_named(page: str) -> None:
    words = [*p.DataType, *CheckLimits.model_fields, *p.AtLimit, *p.Who]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_the_example_on_the_page_can_be_run(page: str, tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert example is not None
    (tmp_path / "consent.md").write_text("# Consent\n", encoding="utf-8")
    (tmp_path / "tea.yaml").write_text(example[1], encoding="utf-8")
    loaded = load_protocol(tmp_path / "tea.yaml")
    assert [step.kind for step in loaded.phase("show").steps] == [
        "consent",
        "headset_check",
        "record",
        "end",
    ]
