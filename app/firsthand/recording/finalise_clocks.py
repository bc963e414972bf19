"""Epochs of clocks counted on over restarts of the recorder, which begins anew with 0."""

from dataclasses import replace
from typing import Final

from firsthand.api import Clock, ClockPair
from firsthand.streams.clock import Epoch

_SAME_NS: Final = 20_000_000
_DRIFT: Final = 3e-4
"""Two crystals stay together within this; a clock that was set or began anew does not."""


class EpochNumbers:
    """Gives the epochs of one segment after another numbers that go on.

    A recorder that began anew counts from 0 again. Its first pair tells whether the clock ran on
    meanwhile (same epoch) or was stepped or restarted (a new one).
    """

    def __init__(self) -> None:
        self._base: dict[Clock, int] = {}
        self._last: dict[Clock, ClockPair] = {}
        self._highest: dict[Clock, int] = {}
        self._undecided: dict[Clock, list[Epoch]] = {}
        self._anew: set[Clock] = set()

    def restart(self) -> None:
        """A recorder began anew: what every clock did meanwhile is not known yet."""
        self._anew = set(self._last)
        self._undecided = {clock: [] for clock in self._anew}

    def pair(self, pair: ClockPair) -> tuple[ClockPair, list[Epoch]]:
        """The pair with its number, and epochs that are now known to begin."""
        epochs: list[Epoch] = []
        clock = pair.clock
        if clock in self._anew:
            self._anew.discard(clock)
            last = self._last[clock]
            runs_on = _runs_on(last, pair)
            self._base[clock] = self._highest[clock] + (0 if runs_on else 1) - pair.epoch
            waiting = self._undecided.pop(clock)
            epochs = [self._numbered(epoch) for epoch in waiting if epoch.epoch > pair.epoch]
            if not runs_on:
                reason = "The recorder began anew, and the clock had been set or restarted."
                epochs.insert(
                    0, Epoch(clock, self._highest[clock] + 1, pair.host_before_ns, reason)
                )
        numbered = replace(pair, epoch=pair.epoch + self._base.get(clock, 0))
        self._last[clock] = numbered
        self._highest[clock] = max(self._highest.get(clock, 0), numbered.epoch)
        return numbered, epochs

    def epoch(self, epoch: Epoch) -> list[Epoch]:
        """The epoch with its number; none yet where it is not known how to count."""
        if epoch.clock in self._anew:
            self._undecided[epoch.clock].append(epoch)
            return []
        return [self._numbered(epoch)]

    def _numbered(self, epoch: Epoch) -> Epoch:
        number = epoch.epoch + self._base.get(epoch.clock, 0)
        self._highest[epoch.clock] = max(self._highest.get(epoch.clock, 0), number)
        return replace(epoch, epoch=number)


def _runs_on(before: ClockPair, after: ClockPair) -> bool:
    elapsed_ns = after.host_ns - before.host_ns
    moved_ns = (after.device_ns - before.device_ns) - elapsed_ns
    allowed_ns = _SAME_NS + _DRIFT * abs(elapsed_ns)
    return abs(moved_ns) <= allowed_ns + before.uncertainty_ns + after.uncertainty_ns
