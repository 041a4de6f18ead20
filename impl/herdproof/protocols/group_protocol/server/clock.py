"""The clock that a group coordinator goes by: the time of the day, or one that is in a hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class GroupAlarm(Protocol):
    """Something that is done at a time, unless it is cancelled."""

    def cancel(self) -> None:
        """Have it not done."""


class GroupClock(Protocol):
    """A time, in ms, and alarms that go by it."""

    def now_ms(self) -> int:
        """The time; one that went back is put right by whoever asks."""

    def call_later(self, wait_ms: int, deed: Callable[[], None]) -> GroupAlarm:
        """Do something after that time."""


class DayClock:
    """The time of the day, since the expiry of offsets is stored; alarms of the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def call_later(self, wait_ms: int, deed: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something after that time."""
        return self._loop.call_later(wait_ms / 1000, deed)
