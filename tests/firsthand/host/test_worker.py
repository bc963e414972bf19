"""Workers: what comes back, and the words for everything that may go wrong in one."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from firsthand.api import Cancelled, PluginError, RecordingError
from firsthand.children.channel import ChannelError
from firsthand.host import Fault, WorkerError, run_in_worker
from firsthand.testing.claims import comes_true

pytestmark = pytest.mark.process

MIB = 1024**2


@pytest.fixture(autouse=True)
def _targets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def run(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
    settings: dict[str, Any] = {"deadline_s": 60.0, "memory_bytes": 512 * MIB, **more}
    return run_in_worker(
        f"worker_targets:{name}", arguments or {}, plugin="mine", what="counting", **settings
    )


def fault(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        run(name, arguments, **more)
    assert "'mine'" in caught.value.message
    assert "counting" in caught.value.message
    return caught.value


def test_a_result_and_progress_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    told: list[tuple[float, str]] = []
    result = run("adds", {"numbers": [1, 2, 3]}, on_progress=lambda *each: told.append(each))
    assert result["sum"] == 6
    assert told[0] == (0.5, "half")
    assert told[-1] == (1.0, "all")
    assert result["folder"] != str(Path.cwd())
    assert not Path(result["folder"]).exists()
    assert "SOME_API_KEY" not in result["environment"]


def test_what_the_target_raises_is_told_with_the_plugins_name() -> None:
    error = fault("raises")
    assert error.fault is Fault.RAISED
    assert "ValueError: the third column is empty" in error.message


def test_what_the_target_says_in_words_comes_through() -> None:
    with pytest.raises(RecordingError) as caught:
        run("says")
    assert caught.value.message == "There is no sound in it."
    assert caught.value.try_this == "Export another format."


@pytest.mark.parametrize("name", ["hangs", "freezes"])
def test_a_target_that_hangs_is_ended_at_the_deadline(name: str) -> None:
    error = fault(name, deadline_s=0.3)
    assert error.fault is Fault.HUNG
    assert "did not finish counting within 0.3 s" in error.message


@pytest.mark.parametrize("name", ["leaks", "giant"])
def test_a_target_that_eats_memory_is_ended(name: str) -> None:
    error = fault(name, memory_bytes=300 * MIB)
    assert error.fault is Fault.LEAKED
    assert "more than 300 MiB" in error.message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("floods", "messages a second"),
        ("sends_much", "more than 16 MiB at once"),
        ("prints", "printed without end"),
    ],
)
def test_a_target_that_floods_is_ended(name: str, words: str) -> None:
    error = fault(name)
    assert error.fault is Fault.FLOODED
    assert words in error.message


@pytest.mark.parametrize("name", ["sends_nonsense", "sends_no_message"])
def test_a_message_nobody_knows_ends_the_work(name: str) -> None:
    assert fault(name).fault is Fault.UNREADABLE


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exits", "exit code 3"),
        ("sys_exits", "ended its process"),
        ("crashes", "crashed while counting"),
    ],
)
def test_a_target_that_ends_its_process_is_told(name: str, words: str) -> None:
    error = fault(name, {"code": 3})
    assert error.fault is Fault.CRASHED
    assert words in error.message


@pytest.mark.parametrize("name", ["returns_bytes", "returns_much"])
def test_a_result_that_cannot_be_sent_is_told(name: str) -> None:
    assert fault(name).fault is Fault.RAISED


def test_a_target_that_is_not_there_is_told() -> None:
    assert "AttributeError" in fault("no_such_function").message


def test_work_is_stopped_when_asked() -> None:
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        run("works_until_stopped", cancel=cancel, on_progress=lambda *_: cancel.set())


def test_work_that_does_not_listen_is_stopped_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firsthand.host.worker.GRACE_S", 0.1)
    cancel = threading.Event()
    with pytest.raises(Cancelled, match="'mine' was stopped while counting"):
        run("ignores_being_stopped", cancel=cancel, on_progress=lambda *_: cancel.set())


@pytest.mark.skipif(os.name != "posix", reason="daemons are a matter of POSIX")
def test_a_daemon_that_work_left_behind_is_ended_too() -> None:
    pid = run("leaves_a_daemon")
    assert comes_true(lambda: not _runs(pid), 5.0)


@pytest.mark.skipif(os.name != "posix", reason="a child's own children are found on POSIX")
def test_a_worker_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    work = (
        "from firsthand.host import run_in_worker\n"
        "run_in_worker('worker_targets:tells_its_number', {{'file': {!r}}},"
        " deadline_s=600, memory_bytes=2**29)\n".format(str(tmp_path / "pid"))
    )
    with subprocess.Popen([sys.executable, "-c", work]) as parent:
        assert comes_true((tmp_path / "pid").exists, 30.0)
        worker = int((tmp_path / "pid").read_text(encoding="utf-8"))
        parent.kill()
    assert comes_true(lambda: not _runs(worker), 10.0)


def test_a_listener_that_raises_ends_the_work() -> None:
    def broken(done: float, words: str) -> None:
        raise KeyError(f"{done} {words}")

    with pytest.raises(KeyError):
        run("adds", {"numbers": []}, on_progress=broken)


def test_arguments_that_are_not_json_are_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ChannelError, match="JSON"):
        run("adds", {"numbers": b"1"})
    assert time.monotonic() - began < 30.0


def test_the_name_of_the_module_stands_in_for_a_plugins() -> None:
    with pytest.raises(PluginError, match="'worker_targets' failed while working"):
        run_in_worker("worker_targets:raises", {}, deadline_s=60.0, memory_bytes=512 * MIB)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
