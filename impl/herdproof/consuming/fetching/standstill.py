"""Time for which something has stood still, as far as whoever looks at it was awake to see that."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


class Standstill:
    """
    Told again and again what something is like: how long that has not changed.

    Between two looks no more than `at_most_s` counts: who was paused with it has seen nothing.
    """

    def __init__(self, at_most_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_most_s = at_most_s
        self._clock = clock
        self._like: Hashable = object()
        self._seen_s = 0.0
        self._lasts_s = 0.0

    def lasts_s(self, like: Hashable) -> float:
        """For how long it has been like this; 0 when it was something else before."""
        now = self._clock()
        if like == self._like:
            self._lasts_s += min(now - self._seen_s, self._at_most_s)
        else:
            self._like, self._lasts_s = like, 0.0
        self._seen_s = now
        return self._lasts_s
