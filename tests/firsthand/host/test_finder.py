"""Plugins are found by metadata alone, in one order, and bad metadata hides nobody else's."""

from pathlib import Path

import pytest

from firsthand.host.finder import OURS, Found, find, import_target
from firsthand.testing.bad_plugins import BAD, install, install_good

pytestmark = pytest.mark.unit


def strangers() -> list[Found]:
    return [found for found in find() if not found.ours]


def announce(folder: Path, name: str, text: bytes) -> None:
    install(folder, name, "")
    (folder / f"stranger_{name}-1.0.dist-info" / "entry_points.txt").write_bytes(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_ours_come_first_and_the_rest_by_distribution(site: Path) -> None:
    for name in ("beta", "alpha"):
        install_good(site, name)
    found = find()
    assert [each.name for each in found[-2:]] == ["alpha", "beta"]
    assert {each.distribution for each in found[:-2]} == {OURS}


def test_finding_runs_nothing_of_a_plugin(site: Path) -> None:
    install(site, "exits", BAD["exits"])
    (found,) = strangers()
    assert (found.name, found.target, found.version) == ("exits", "stranger_exits", "1.0")


def test_an_entry_point_that_names_no_module_says_so(site: Path) -> None:
    announce(site, "nowhere", b"[firsthand]\nnowhere = this is no module\n")
    (found,) = strangers()
    assert "not of the form 'module'" in found.broken


@pytest.mark.parametrize("text", [b"[firsthand]\n\xff\xfe = x\n", b"[firsthand]\njust words\n"])
def test_metadata_that_cannot_be_read_hides_no_other_plugin(site: Path, text: bytes) -> None:
    announce(site, "torn", text)
    install_good(site)
    assert "good" in {found.name for found in strangers() if not found.broken}


def test_a_distribution_that_is_found_twice_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        install_good(tmp_path / name)
        monkeypatch.syspath_prepend(str(tmp_path / name))
    assert [found.name for found in strangers()] == ["good"]


def test_a_target_may_be_an_object_in_a_module() -> None:
    assert import_target("firsthand.host.finder:Found") is Found
    assert import_target("firsthand.host.finder:Found.words") is Found.words
    with pytest.raises(AttributeError):
        import_target("firsthand.host.finder:Lost")
