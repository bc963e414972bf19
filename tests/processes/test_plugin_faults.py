"""Strangers' plugins that misbehave, installed for real: the program starts all the same and says
which were refused and why."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from firsthand.testing import bad_plugins
from firsthand.testing.bad_plugins import install_bad, install_good
from firsthand.testing.claims import comes_true

pytestmark = pytest.mark.process

LOAD = """
import json, sys
from firsthand.host import load_plugins
host = load_plugins(deadline_s=float(sys.argv[1]), probe=sys.argv[2] == "probe")
print(json.dumps({
    "plugins": [plugin.to_json() for plugin in host.plugins],
    "devices": sorted(host.devices()),
    "imported": sorted(name for name in sys.modules if name.startswith("stranger_")),
}))
"""


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


def load(folder: Path, *, deadline_s: float = 30.0, probe: bool = True) -> dict[str, Any]:
    """Load plugins in a fresh process. It must end well, whatever they do."""
    how = "probe" if probe else "trust"
    ended = python(folder, "-W", "error", "-c", LOAD, str(deadline_s), how)
    assert ended.returncode == 0, ended.stderr
    loaded: dict[str, Any] = json.loads(ended.stdout)
    return loaded


def refused(loaded: dict[str, Any]) -> dict[str, str]:
    return {
        plugin["name"]: plugin["refused"]
        for plugin in loaded["plugins"]
        if plugin["distribution"].startswith("stranger-") and plugin["refused"] is not None
    }


QUICK = {
    "missing_import": "No module named 'a_library_that_nobody_has'",
    "syntax_error": "SyntaxError: invalid syntax (stranger_syntax_error.py, line 1)",
    "raises_at_import": "RuntimeError: no licence was found",
    "raises_in_hooks": "ValueError: not today",
    "raises_in_exporters": "ValueError: not today",
    "nonsense_in_hooks": "firsthand_devices gave 42",
    "nothing_in_hooks": "firsthand_devices gave None",
    "not_classes": "'two', which is not a class",
    "endless_offers": "more than 100 classes",
    "floods_messages": "messages a second",
    "floods_bytes": "more than 16 MiB at once",
    "prints_endlessly": "printed without end",
    "giant": "of memory while loading",
    "exits": "ended its process while loading (exit code 3)",
    "sys_exits": "ended its process while loading",
    "crashes": "crashed while loading",
    "misspelt": "Did you mean 'firsthand_devices'?",
    "unmarked": "not marked with @hookimpl",
    "wrong_arguments": "firsthand_devices takes app",
    "no_hooks": "implements no hook",
}
SLOW = {"hangs_at_import", "hangs_in_hook", "spins_at_import", "freezes_python", "forks_and_hangs"}


def test_each_misdeed_is_refused_in_its_own_words_and_the_good_plugin_loads(
    tmp_path: Path,
) -> None:
    install_bad(tmp_path, *QUICK)
    install_good(tmp_path)
    loaded = load(tmp_path)
    told = refused(loaded)
    assert set(told) == set(QUICK)
    for name, words in QUICK.items():
        assert words in told[name], name
    assert "quiet" in loaded["devices"]
    assert loaded["imported"] == ["stranger_good"]


def test_plugins_that_never_come_back_are_refused_and_nothing_of_them_is_left(
    tmp_path: Path,
) -> None:
    install_bad(tmp_path, *SLOW)
    install_good(tmp_path)
    loaded = load(tmp_path, deadline_s=1.5)
    told = refused(loaded)
    # The machine may be too busy to load even the good one in the time that hanging is given.
    assert set(told) - {"good"} == SLOW
    for words in told.values():
        assert "did not finish loading within 1.5 s" in words
    assert not set(loaded["imported"]) - {"stranger_good"}
    assert comes_true(lambda: not _still_here(str(tmp_path)), 5.0)


def test_a_plugin_that_leaks_while_it_loads_is_refused(tmp_path: Path) -> None:
    install_bad(tmp_path, "leaks")
    assert "more than 1024 MiB of memory" in refused(load(tmp_path))["leaks"]


def test_every_misdeed_is_tried() -> None:
    assert set(bad_plugins.BAD) == set(QUICK) | SLOW | {"leaks"}


def test_one_of_two_strangers_with_one_device_is_refused_and_both_are_told(tmp_path: Path) -> None:
    install_good(tmp_path, "beta")
    install_good(tmp_path, "alpha")
    loaded = load(tmp_path)
    told = refused(loaded)
    assert set(told) == {"beta"}
    assert "'quiet' of plugin 'beta' is already offered by plugin 'alpha'" in told["beta"]
    (alpha,) = (plugin for plugin in loaded["plugins"] if plugin["name"] == "alpha")
    assert "'beta' was refused" in alpha["notes"][0]


def test_a_stranger_cannot_take_the_name_of_a_plugin_of_ours(tmp_path: Path) -> None:
    install_good(tmp_path, "hl2ss")
    loaded = load(tmp_path)
    assert "same name as 'hl2ss' (from firsthand" in refused(loaded)["hl2ss"]
    assert loaded["imported"] == []


def test_a_child_whose_parent_has_looked_loads_without_looking_again(tmp_path: Path) -> None:
    install_good(tmp_path)
    install_bad(tmp_path, "raises_in_hooks")
    loaded = load(tmp_path, probe=False)
    assert refused(loaded) == {"raises_in_hooks": "it failed while loading: ValueError: not today"}
    assert "quiet" in loaded["devices"]


def test_the_command_lists_plugins_and_ends_with_1_when_one_is_refused(tmp_path: Path) -> None:
    install_good(tmp_path)
    install_bad(tmp_path, "misspelt")
    ended = python(tmp_path, "-m", "firsthand", "plugins")
    assert ended.returncode == 1
    assert "good  (stranger-good 1.0)" in ended.stdout
    assert "device quiet: A device that is quiet" in ended.stdout
    assert "REFUSED: there is no hook 'firsthand_device'. Did you mean" in ended.stdout
    machine = python(tmp_path, "-m", "firsthand", "plugins", "--json")
    assert machine.returncode == 1
    listed = {plugin["name"]: plugin for plugin in json.loads(machine.stdout)["plugins"]}
    assert listed["good"]["hooks"] == ["firsthand_devices"]
    assert listed["good"]["version"] == "1.0"
    assert listed["misspelt"]["offers"] == []


def test_every_plugin_of_ours_is_taken(tmp_path: Path) -> None:
    ended = python(tmp_path, "-m", "firsthand", "plugins", "--json")
    listed = json.loads(ended.stdout)["plugins"]
    assert {plugin["name"]: plugin["refused"] for plugin in listed} == {
        "hl2ss": None,
        "exports": None,
    }
    assert ended.returncode == 0


def _still_here(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.environ().get("PYTHONPATH", ""):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found
