"""What the plugin pages say is what the hooks and classes are."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from firsthand.api import hooks
from firsthand.host import inspection, loading, worker
from firsthand.host.kinds import Kind, kinds
from firsthand.paths import checkout_dir
from firsthand.testing import contract_device, contract_exporter, contract_simulator

pytestmark = pytest.mark.unit

ROOT = checkout_dir()
assert ROOT is not None
PAGES = ROOT / "docs" / "plugins"
HOOK_HEADING = re.compile(r"^## `(firsthand_\w+\(.*)`$", re.MULTILINE)


def headings() -> dict[str, list[str]]:
    return {
        page.name: HOOK_HEADING.findall(page.read_text(encoding="utf-8"))
        for page in PAGES.glob("*.md")
    }


def written(hook: str) -> str:
    """A hook as its heading must have it, from the source of the specification."""
    (tree,) = ast.parse(inspect.getsource(getattr(hooks, hook))).body
    assert isinstance(tree, ast.FunctionDef)
    assert tree.returns is not None
    return f"{hook}({ast.unparse(tree.args)}) -> {ast.unparse(tree.returns)}"


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_every_hook_has_one_heading_with_its_exact_arguments(kind: Kind) -> None:
    assert headings()[f"{kind.name}s.md"] == [written(kind.hook)]


def test_no_page_speaks_of_a_hook_that_is_not_there() -> None:
    found = [heading for page in headings().values() for heading in page]
    assert sorted(found) == sorted(written(hook) for hook in kinds())


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_every_method_that_a_kind_asks_for_stands_on_its_page(kind: Kind) -> None:
    page = (PAGES / f"{kind.name}s.md").read_text(encoding="utf-8")
    for method in kind.face.__abstractmethods__:
        names = list(inspect.signature(getattr(kind.face, method)).parameters)[1:]
        assert f"`{method}({', '.join(names)})`" in page


def test_the_overview_has_every_kind_with_its_hook_page_and_contract() -> None:
    overview = (PAGES / "README.md").read_text(encoding="utf-8")
    contracts = {
        "device": contract_device.DeviceContract,
        "exporter": contract_exporter.ExporterContract,
        "simulator": contract_simulator.SimulatorContract,
    }
    assert set(contracts) == {kind.name for kind in kinds().values()}
    for kind in kinds().values():
        contract = contracts[kind.name]
        assert f"[{kind.name}]({kind.name}s.md)" in overview
        assert f"`{kind.hook}`" in overview
        assert f"| {kind.name} | `{contract.__module__}.{contract.__name__}` |" in overview


def test_the_limits_in_the_overview_are_those_of_the_code() -> None:
    overview = (PAGES / "README.md").read_text(encoding="utf-8")
    assert loading.DEADLINE_S == 10.0
    assert "within ten seconds" in overview
    assert f"{loading.MEMORY_BYTES // 1024**3} GiB" in overview
    assert f"{worker.MESSAGES_PER_S} messages a second" in overview
    assert f"printing stops at {worker.PRINTED_BYTES // 1024**2} MiB" in overview
    assert inspection.NAME_MOST == 40
    assert f"up to {inspection.NAME_MOST - 1} small letters" in overview


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
