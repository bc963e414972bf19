"""Claims of the contract suites: each fails with a sentence that an author of a plugin can use."""

import time
from collections.abc import Callable

import pytest


def claim(holds: bool, words: str) -> None:
    """Fail the running test with ``words`` unless the claim holds."""
    if not holds:
        pytest.fail(words)


def comes_true(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether ``condition`` holds before the time is over; looked at every hundredth second."""
    limit = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True
