"""The clock that a process goes by: it never goes back, nor stands still."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's boot time counts what a suspended machine slept through; elsewhere monotonic time."""


def now_ms() -> int:
    """
    Milliseconds since some point in the past, the same one as long as the process lives.

    A lease has to run out while its holder's machine sleeps, so monotonic time will not do, which
    on Linux stands still meanwhile; and wall time goes back.
    """
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
