"""Every dependency is explained, pinned and hashed, and no file names an index."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "packaging").glob("requirements-*.txt"))


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s><=;\[]", text, maxsplit=1)[0] for text in requirements}


def declared() -> set[str]:
    project = PROJECT["project"]
    names = named(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        names |= named(extra)
    for group in PROJECT["dependency-groups"].values():
        names |= named(group)
    return names


@pytest.mark.parametrize("name", sorted(declared()))
def test_each_dependency_has_its_reason_in_the_docs(name: str) -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), f"{name} is not explained"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_each_locked_package_has_one_version_and_hashes(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines
    for line in lines:
        assert re.match(r"^[A-Za-z0-9._-]+==[^\s;]+", line), line
        assert "--hash=sha256:" in line, line


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_an_address(lock: Path) -> None:
    assert "://" not in lock.read_text(encoding="utf-8")


def test_what_runs_has_the_same_versions_in_tests() -> None:
    def versions(name: str) -> set[str]:
        text = (ROOT / "packaging" / name).read_text(encoding="utf-8")
        return set(re.findall(r"^[A-Za-z0-9._-]+==[^\s;\\]+", text, re.MULTILINE))

    assert versions("requirements-run.txt") <= versions("requirements-dev.txt")
