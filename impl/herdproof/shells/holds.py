"""
Holds of a loop: the time in which it does what has come, and looks at no connection.

Whoever writes meanwhile waits for so long, and so does every timer. It is measured around the
loop's own waiting, so that nothing of what a process does in its loop is left out.

A hold is kept short by taking up few connections at a time, whatever many of them say at once. On
Linux those that were not taken up come first the next time; elsewhere all of them are taken up.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Gauge

Result = TypeVar("Result")

AT_ONCE = 20
"""Number of connections taken up at a time: more than a process has timers due meanwhile."""


class Holds:
    """The longest hold since the start, by the clock and by this thread's own time alone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.longest_s = self.longest_cpu_s = 0.0
        longest = Gauge(
            "herdproof_longest_hold_seconds",
            "The longest time since the start in which the loop looked at no connection.",
            registry=registry,
        )
        longest.set_function(lambda: self.longest_s)
        at_work = Gauge(
            "herdproof_longest_hold_cpu_seconds",
            "The longest such time, without that in which the system let it wait.",
            registry=registry,
        )
        at_work.set_function(lambda: self.longest_cpu_s)

    def held(self, clock_s: float, cpu_s: float) -> None:
        """A hold has lasted so long, by the clock and by the thread's own time."""
        if clock_s > self.longest_s:
            self.longest_s = clock_s
        if cpu_s > self.longest_cpu_s:
            self.longest_cpu_s = cpu_s

    def run(self, main: Coroutine[None, None, Result]) -> Result:
        """Run this in a loop whose holds are measured."""
        with asyncio.Runner(loop_factory=self.loop) as runner:
            return runner.run(main)

    def loop(self) -> asyncio.AbstractEventLoop:
        """A loop whose holds are measured; make one only."""
        return asyncio.SelectorEventLoop(_Measured(self))


class _Measured(selectors.DefaultSelector):
    """The loop's waiting; `holds` is told what lies between."""

    def __init__(self, holds: Holds) -> None:
        super().__init__()
        self._holds = holds
        self._since: tuple[float, float] | None = None
        poller = getattr(self, "_selector", None)
        if isinstance(poller, getattr(select, "epoll", ())):
            self._selector = _Few(poller)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for what comes: here one hold ends, and the next one begins."""
        if self._since is not None:
            clock, cpu = self._since
            self._holds.held(time.perf_counter() - clock, time.thread_time() - cpu)
        found = super().select(timeout)
        self._since = time.perf_counter(), time.thread_time()
        return found


class _Few:
    """An epoll that tells of few files at a time."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        """The events that have come: files, and their masks."""
        found: list[tuple[int, int]] = self._poller.poll(timeout, min(most, AT_ONCE))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)
