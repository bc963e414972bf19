"""Child processes: what they see, how they are limited, and that nothing of them is left."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from firsthand.children.environment import scrubbed
from firsthand.children.process import STDIN_LIMIT, Child, Limits, start
from firsthand.testing.claims import comes_true

pytestmark = pytest.mark.process

MIB = 1024**2
Runs = Callable[..., Child]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Starts a child that runs the given source."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(source: str, *arguments: str, **more: object) -> Child:
        (tmp_path / "child_under_test.py").write_text(source, encoding="utf-8")
        return start("child_under_test", arguments, log=tmp_path / "log", **more)  # type: ignore[arg-type]  # passed on as they are

    return run


def printed(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text(encoding="utf-8")


def test_a_child_gets_arguments_and_input_and_its_output_is_kept(
    runs: Runs, tmp_path: Path
) -> None:
    child = runs("import sys; print(sys.argv[1:], sys.stdin.read())", "a", "b c", stdin=b"secret")
    assert child.wait(20.0) == 0
    assert printed(tmp_path).strip() == "['a', 'b c'] secret"


def test_keys_in_the_environment_do_not_reach_a_child(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", "canary")
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", "kept")
    child = runs("import os; print(dict(os.environ))", environment={"MORE": "added"})
    assert child.wait(20.0) == 0
    told = printed(tmp_path)
    assert "canary" not in told
    assert "kept" in told
    assert "'MORE': 'added'" in told


def test_the_path_of_python_modules_is_passed_on_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["some/where", ""]))
    assert scrubbed()["PYTHONPATH"] == str(Path("some/where").absolute())


def test_a_child_does_not_import_from_the_folder_it_works_in(runs: Runs, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "colorsys.py").write_text("raise SystemExit(9)", encoding="utf-8")
    child = runs("import colorsys, os; print(os.getcwd())", folder=place)
    assert child.wait(20.0) == 0
    assert printed(tmp_path).strip() == str(place)


def test_an_open_file_of_the_parent_is_not_handed_down(runs: Runs, tmp_path: Path) -> None:
    with (tmp_path / "mine").open("w") as mine:
        os.set_inheritable(mine.fileno(), True)
        child = runs(f"import os; os.fstat({mine.fileno()})")
        assert child.wait(20.0) == 1
    assert "Bad file descriptor" in printed(tmp_path)


def test_more_input_than_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="channel"):
        start("this", stdin=bytes(STDIN_LIMIT + 1))


def test_waiting_ends_in_time_and_the_exit_code_is_told(runs: Runs) -> None:
    child = runs("import sys; sys.stdin.read(); sys.exit(7)")
    assert child.wait(20.0) == 7
    assert child.poll() == 7
    with runs("import time; time.sleep(600)") as sleeper:
        assert sleeper.wait(0.05) is None
        assert sleeper.poll() is None
    assert not psutil.pid_exists(sleeper.pid)


def test_a_child_that_ends_when_asked_is_not_killed(runs: Runs, tmp_path: Path) -> None:
    child = runs(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    assert comes_true(lambda: "up" in printed(tmp_path), 20.0)
    assert child.stop(20.0) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions of POSIX")
def test_stopping_ends_whatever_ignores_it_and_all_that_it_started(
    runs: Runs, tmp_path: Path
) -> None:
    child = runs(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "one = subprocess.Popen(sleep)\n"
        "two = subprocess.Popen(sleep, start_new_session=True)\n"
        "print(one.pid, two.pid, 'up', flush=True)\n"
        "time.sleep(600)\n"
    )
    assert comes_true(lambda: "up" in printed(tmp_path), 20.0)
    grandchildren = [psutil.Process(int(pid)) for pid in printed(tmp_path).split()[:2]]
    assert child.stop(0.1) == -9
    _, alive = psutil.wait_procs(grandchildren, timeout=5.0)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_a_child_that_uses_too_much_memory_is_ended(runs: Runs) -> None:
    child = runs(
        "hold = []\nwhile True:\n    hold.append(bytearray(b'x' * 5_000_000))\n",
        limits=Limits(memory_bytes=150 * MIB),
    )
    assert child.wait(30.0) == -9
    assert child.over_memory


def test_memory_of_grandchildren_counts_too(runs: Runs) -> None:
    child = runs(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c',\n"
        "    'import time; hold = bytearray(b\"x\" * 200_000_000); time.sleep(600)'])\n"
        "time.sleep(600)\n",
        limits=Limits(memory_bytes=150 * MIB),
    )
    assert child.wait(30.0) == -9
    assert child.over_memory


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux alone")
def test_one_giant_allocation_fails_inside_the_child(runs: Runs, tmp_path: Path) -> None:
    child = runs("bytearray(60 * 1024**3)", limits=Limits(memory_bytes=150 * MIB))
    assert child.wait(20.0) == 1
    assert not child.over_memory
    assert "MemoryError" in printed(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_open_files_core_dumps_and_priority_are_limited(runs: Runs, tmp_path: Path) -> None:
    child = runs(
        "import os, resource\n"
        "for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_CPU):\n"
        "    print(resource.getrlimit(each)[0])\n"
        "print(os.nice(0))\n",
        limits=Limits(open_files=64, cpu_s=100),
        nice=5,
    )
    assert child.wait(20.0) == 0
    assert printed(tmp_path).split() == ["64", "0", "100", str(os.nice(0) + 5)]


@pytest.mark.skipif(sys.platform == "win32", reason="reaping is a matter of POSIX")
def test_a_child_that_was_left_lives_on_and_is_reaped_later(runs: Runs, tmp_path: Path) -> None:
    child = runs("print('up', flush=True); import time; time.sleep(600)")
    assert comes_true(lambda: "up" in printed(tmp_path), 20.0)
    left = psutil.Process(child.pid)
    child.leave()
    del child
    assert left.is_running()
    left.kill()
    assert comes_true(lambda: left.status() == psutil.STATUS_ZOMBIE, 5.0)
    with runs("import time; time.sleep(0)") as other:
        assert other.wait(20.0) == 0
    assert not psutil.pid_exists(left.pid)


def test_a_kill_is_told_as_the_signal(runs: Runs) -> None:
    child = runs("import time; time.sleep(600)")
    began = time.monotonic()
    assert child.kill() == -9
    assert child.stop(60.0) == -9
    assert time.monotonic() - began < 50.0
