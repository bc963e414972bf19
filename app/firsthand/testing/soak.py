"""How often a test does its worst: a few times in the suite, hundreds of times in a soak."""

import os


def times(short: int, long: int) -> int:
    """``short``, or ``long`` under ``FIRSTHAND_SOAK=1`` (what ``dev.py soak`` sets)."""
    return long if os.environ.get("FIRSTHAND_SOAK") == "1" else short
