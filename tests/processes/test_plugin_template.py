"""The plugin template: generated, built, installed, and used by a fresh process."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DELIVERS = """
import json
from firsthand.host import load_plugins
from firsthand.testing.claims import comes_true
from firsthand.testing.collecting_sink import CollectingSink
host = load_plugins(only={"river_level"})
sink = CollectingSink()
with host.make_device("river_level", {"rate_hz": 100.0}) as device:
    device.open(sink)
    comes_true(lambda: len(sink.packets) >= 5, 30.0)
print(json.dumps([[packet.stream, packet.seq] for packet in sink.packets[:5]]))
"""


def run(*arguments: str, path: Path | None = None, cwd: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def new(name: str, out: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "firsthand", "plugins", "new", name, "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("generated")
    ended = new("river_level", out)
    assert ended.returncode == 0, ended.stderr
    return out / "firsthand_river_level"


@pytest.fixture(scope="module")
def site(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin installed in it, as an installer would: from its wheel."""
    dist, site = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(dist), cwd=project)
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_nothing_of_the_templates_own_name_is_left(project: Path) -> None:
    for path in project.rglob("*"):
        assert "newplugin" not in path.name.lower()
        if path.is_file():
            assert "newplugin" not in path.read_text(encoding="utf-8").lower(), path


def test_a_generated_plugin_that_is_installed_is_listed(site: Path) -> None:
    listed = json.loads(run("-m", "firsthand", "plugins", "--json", path=site))["plugins"]
    mine = [plugin for plugin in listed if plugin["distribution"] != "firsthand"]
    assert mine == [
        {
            "name": "river_level",
            "version": "0.1.0",
            "distribution": "firsthand-river-level",
            "hooks": ["firsthand_devices"],
            "offers": [
                {
                    "kind": "device",
                    "name": "river_level",
                    "title": "A slow wave, without hardware",
                }
            ],
            "refused": None,
            "notes": [],
        }
    ]


def test_its_device_delivers_packets(site: Path) -> None:
    assert json.loads(run("-c", DELIVERS, path=site)) == [["river_level", n] for n in range(5)]


def test_its_own_tests_pass(project: Path, site: Path) -> None:
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", path=site, cwd=project)
    assert "passed" in told


def test_a_plugin_is_not_written_over_another(project: Path) -> None:
    ended = new("river_level", project.parent)
    assert ended.returncode == 1
    assert "there already" in ended.stderr


@pytest.mark.parametrize("name", ["Big", "a-b", "1st", "class", "x"])
def test_a_name_no_module_can_bear_is_refused(name: str, tmp_path: Path) -> None:
    ended = new(name, tmp_path)
    assert ended.returncode == 2
    assert "cannot be called" in ended.stderr
    assert list(tmp_path.iterdir()) == []
