"""
Simulated time: one line of events for the whole world, and a clock for each process, which drifts.

The world's time is true time, in milliseconds, and only the world knows it. A process reads its own
clock: it starts anywhere, goes a little too fast or too slow, and never back. What is to happen is
a call in a queue; what happens at one moment happens in the order in which it was put there, so a
run depends on nothing but its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

_ROUNDING = 1e-6
"""Milliseconds by which a float may miss the whole millisecond that is meant."""


class Timeline:
    """Events to come, by true time (ms); `now` is the moment that is being lived."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def at(self, time_ms: float, happen: Callable[..., None], *arguments: Any) -> None:
        """Call `happen(*arguments)` then; what would be past is called at the present moment."""
        when = time_ms if time_ms > self.now else self.now
        heappush(self._queue, (when, next(self._numbers), happen, arguments))

    def after(self, delay_ms: float, happen: Callable[..., None], *arguments: Any) -> None:
        """Call it so much later."""
        heappush(self._queue, (self.now + delay_ms, next(self._numbers), happen, arguments))

    def run_until(self, end_ms: float) -> None:
        """Live through everything up to this moment, which is then the present one."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            self.now, _, happen, arguments = heappop(queue)
            happen(*arguments)
        self.now = end_ms


class Clock:
    """
    A process' clock: whole milliseconds, `rate` of them in a true one.

    Two clocks whose rates lie within `1 - r` and `1 + r` measure one duration at most by the factor
    `(1 + r) / (1 - r)` differently: that is the drift which a lease has to allow for.
    """

    def __init__(self, timeline: Timeline, *, start_ms: float, rate: float) -> None:
        self._timeline = timeline
        self._since = timeline.now
        self._base = start_ms
        self.rate = rate

    def now_ms(self) -> int:
        """The time that the clock shows."""
        return int(self._base + (self._timeline.now - self._since) * self.rate + _ROUNDING)

    def when(self, shown_ms: int) -> float:
        """The true time at which the clock will show this (or showed it)."""
        return self._since + (shown_ms - self._base) / self.rate

    def drift(self, rate: float) -> None:
        """Go at another rate from now on."""
        now = self._timeline.now
        self._base += (now - self._since) * self.rate
        self._since, self.rate = now, rate
