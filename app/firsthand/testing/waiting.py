"""Waits for what must come to be, and fails in words when it does not."""

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], what: str, *, within_s: float = 10.0) -> None:
    """Return as soon as ``true()`` is; fail after ``within_s``, naming ``what`` did not happen."""
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"within {within_s:g} s this did not happen: {what}")
        time.sleep(0.005)
