"""Sentences for the administrator, kept until something newer takes their place."""

import logging
import threading
from typing import Final

_MOST: Final = 50

_log = logging.getLogger(__name__)


class Warnings:
    """The warnings of one recording; any thread."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._lock = threading.Lock()

    def warn(self, words: str, key: str | None = None, *, loud: bool = True) -> None:
        """Keep a sentence; one with the same ``key`` takes the place of the last.

        The app's own log hears of it (``loud``) without the words, which may name folders.
        """
        about = key or "of its own kind"
        key = key or words
        with self._lock:
            if self._words.pop(key, None) == words:
                loud = False
            self._words[key] = words
            while len(self._words) > _MOST:
                self._words.pop(next(iter(self._words)))
        if loud:
            _log.warning("a warning for the administrator (%s)", about)

    def clear(self, key: str) -> None:
        """What was warned of is over."""
        with self._lock:
            self._words.pop(key, None)

    def list(self) -> list[str]:
        """All of them, most recent last."""
        with self._lock:
            return [*self._words.values()]
