"""Keeps failures of plugin code from spreading, and switches off what keeps failing."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from firsthand.api import FirsthandError, PluginError
from firsthand.host.calling import Left, TookTooLong, within

T = TypeVar("T")

FAILURES: Final = 3
WITHIN_S: Final = 60.0

_log = logging.getLogger(__name__)


class Guard:
    """Calls plugin code; ``FAILURES`` failures of one plugin in ``WITHIN_S`` switch it off until
    the program ends. ``now`` gives seconds and is there for tests."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._failures: dict[str, deque[float]] = {}
        self._off: set[str] = set()

    def guarded(
        self, plugin: str, what: str, call: Callable[[], T], *, deadline_s: float | None = None
    ) -> T:
        """The result of ``call``, a piece of ``plugin``'s code that is ``what`` (``"opening"``).

        What the plugin itself says in words (``FirsthandError``) comes through and is no failure.
        Everything else is logged, counted and raised as ``PluginError``, and so is a call that
        takes longer than ``deadline_s`` (its thread is left behind). A plugin that is switched
        off is not called.
        """
        if self.is_off(plugin):
            raise PluginError(
                f"The plugin {plugin!r} failed {FAILURES} times within a minute and is switched"
                " off for this session.",
                try_this="Start Firsthand again to use it again.",
            )
        try:
            return call() if deadline_s is None else within(deadline_s, call)
        except FirsthandError:
            raise
        except TookTooLong:
            words = f"did not come back within {deadline_s:g} s"
            raise self._failed(plugin, what, words) from None
        except (Left, SystemExit) as error:
            words = "tried to end the whole program"
            raise self._failed(plugin, what, words) from error
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise self._failed(plugin, what, words) from error

    def is_off(self, plugin: str) -> bool:
        """Whether ``plugin`` failed too often in this session."""
        with self._lock:
            return plugin in self._off

    def _failed(self, plugin: str, what: str, words: str) -> PluginError:
        _log.exception("plugin %s failed while %s", plugin, what)
        now = self._now()
        with self._lock:
            times = self._failures.setdefault(plugin, deque(maxlen=FAILURES))
            times.append(now)
            if len(times) == FAILURES and now - times[0] <= WITHIN_S and plugin not in self._off:
                self._off.add(plugin)
                _log.error("plugin %s is switched off for this session", plugin)
        return PluginError(f"The plugin {plugin!r} failed while {what}: {words}.")
