"""Did you mean …? For names that people typed."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question naming the closest of ``known``, or else a sentence listing them."""
    names = sorted(known)
    if close := get_close_matches(word, names, n=1, cutoff=0.6):
        return f"Did you mean {close[0]!r}?"
    if not names:
        return "There is none."
    return f"There is: {', '.join(names)}."
