"""Runs a call of plugin code in a thread and stops waiting when it takes too long."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TookTooLong(Exception):  # noqa: N818  (a fact for the caller, who puts it into words)
    """A call did not come back in time. Its thread cannot be ended and is left behind."""


class Left(Exception):  # noqa: N818  (as above)
    """A call tried to end the whole process (``SystemExit`` and the like)."""


def within(deadline_s: float, call: Callable[[], T]) -> T:
    """The result of ``call``, or what it raises; ``TookTooLong`` after ``deadline_s``.

    It runs in a daemon thread, since nothing else in a process can be abandoned. Code that holds
    Python's lock inside a C library cannot be left even so; workers are for that.
    """
    done = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            failures.append(error)
        done.set()

    threading.Thread(target=run, name="plugin-call", daemon=True).start()
    if not done.wait(deadline_s):
        raise TookTooLong
    if results:
        return results[0]
    error = failures[0]
    if isinstance(error, Exception):
        raise error
    raise Left(type(error).__name__)
