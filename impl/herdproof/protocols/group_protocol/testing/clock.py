"""A clock that stands still until a test advances it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

START_MS = 1_767_225_600_000
"""The first of January 2026: whatever is stored with a time is so in every run alike."""


@dataclass(eq=False)
class HeldAlarm:
    """Something that is to be done at a time."""

    due_ms: int
    deed: Callable[[], None]
    clock: HeldClock

    def cancel(self) -> None:
        """Have it not done."""
        if self in self.clock.alarms:
            self.clock.alarms.remove(self)


class HeldClock:
    """A time that passes by `advance` alone, and what is to be done by then."""

    def __init__(self) -> None:
        self.alarms: list[HeldAlarm] = []
        self._now_ms = START_MS

    def now_ms(self) -> int:
        """The time."""
        return self._now_ms

    def call_later(self, wait_ms: int, deed: Callable[[], None]) -> HeldAlarm:
        """Do something once the time is advanced so far; what is due now, in the next round."""
        alarm = HeldAlarm(self._now_ms + wait_ms, deed, self)
        self.alarms.append(alarm)
        if wait_ms <= 0:
            asyncio.get_running_loop().call_soon(self.advance, 0)
        return alarm

    def advance(self, by_ms: int) -> None:
        """Let time pass: what is due by then is done at its own time, one after the other."""
        end_ms = self._now_ms + by_ms
        while due := [alarm for alarm in self.alarms if alarm.due_ms <= end_ms]:
            alarm = min(due, key=lambda each: each.due_ms)
            alarm.cancel()
            self._now_ms = max(self._now_ms, alarm.due_ms)
            alarm.deed()
        self._now_ms = end_ms
