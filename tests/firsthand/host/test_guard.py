"""The guard keeps failures in, counts them, and switches off what keeps failing."""

import sys
import threading

import pytest

from firsthand.api import DeviceError, PluginError
from firsthand.host import Guard

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def fails() -> int:
    return int("not a number")


def fail(guard: Guard, plugin: str = "shaky") -> None:
    with pytest.raises(PluginError):
        guard.guarded(plugin, "trying", fails)


def test_what_a_call_gives_comes_through() -> None:
    assert Guard().guarded("steady", "adding", lambda: 1 + 1) == 2
    assert Guard().guarded("steady", "adding", lambda: 1 + 1, deadline_s=5.0) == 2


def test_a_failure_names_the_plugin_and_what_it_was_doing() -> None:
    with pytest.raises(PluginError, match="'shaky' failed while trying: ValueError: invalid"):
        Guard().guarded("shaky", "trying", fails)


def test_three_failures_within_a_minute_switch_a_plugin_off() -> None:
    clock = Clock()
    guard = Guard(clock)
    for _ in range(3):
        assert not guard.is_off("shaky")
        fail(guard)
        clock.seconds += 29.0
    assert guard.is_off("shaky")
    called = []
    with pytest.raises(PluginError, match="switched off"):
        guard.guarded("shaky", "trying", lambda: called.append(1))
    assert not called
    assert guard.guarded("steady", "adding", lambda: 2) == 2


def test_failures_that_are_far_apart_do_not() -> None:
    clock = Clock()
    guard = Guard(clock)
    for _ in range(10):
        fail(guard)
        clock.seconds += 31.0
    assert not guard.is_off("shaky")


def test_what_a_plugin_says_in_words_comes_through_and_does_not_count() -> None:
    guard = Guard()

    def unplugged() -> None:
        raise DeviceError("The cable is out.", try_this="Plug it in.")

    for _ in range(5):
        with pytest.raises(DeviceError, match="Plug it in"):
            guard.guarded("steady", "opening", unplugged)
    assert not guard.is_off("steady")


@pytest.mark.parametrize("deadline_s", [None, 5.0])
def test_a_plugin_cannot_end_the_program(deadline_s: float | None) -> None:
    with pytest.raises(PluginError, match="tried to end the whole program"):
        Guard().guarded("rude", "trying", lambda: sys.exit(1), deadline_s=deadline_s)


def test_a_call_that_does_not_come_back_is_given_up() -> None:
    release = threading.Event()
    guard = Guard()
    with pytest.raises(PluginError, match=r"did not come back within 0\.05 s"):
        guard.guarded("slow", "thinking", release.wait, deadline_s=0.05)
    release.set()


def test_the_programs_own_interruption_is_not_a_failure() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guard().guarded("steady", "working", interrupted)
