"""
Troubles that last: told at once, again ever more seldom, and once more when they are over.

    troubles.tell("zookeeper", "ZooKeeper does not answer")
    …
    troubles.mend("zookeeper", "ZooKeeper answers")

Whoever notices a trouble tells it as often as it notices it; how loud that becomes is decided here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_WAIT_S = 2.0
"""The time for which a trouble that was told is not told again; that doubles each time."""
LONGEST_WAIT_S = 60.0
"""A trouble that lasts is told again after this at the latest."""


@dataclass(slots=True)
class _Trouble:
    """A trouble: since when, its last sentence and when that came, and when it is told again."""

    since: float
    said: str
    came: float
    lasts: bool
    wait_s: float
    again: float


class Troubles:
    """
    Troubles at present, by a name; written to `log` as warnings.

    `who` begins each sentence. Safe to be used from several threads.
    """

    def __init__(
        self, log: logging.Logger, who: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._who = who
        self._clock = clock
        self._lock = threading.RLock()
        self._told: dict[str, _Trouble] = {}
        self._asking: set[str] = set()
        """Troubles whose reason is being found out."""

    @property
    def present(self) -> tuple[str, ...]:
        """A sentence for each trouble that is not over, the oldest first."""
        with self._lock:
            return tuple(told.said for told in self._told.values() if told.lasts)

    def tell_why(self, name: str, find_out: Callable[[], str]) -> None:
        """
        Note that something is wrong, with a sentence that takes a while to be found out.

        That is done in a thread of its own, and only where it would be loud.
        """
        with self._lock:
            told = self._told.get(name)
            if name in self._asking or (told is not None and self._clock() < told.again):
                return
            self._asking.add(name)
        threading.Thread(target=self._find_out, args=(name, find_out), daemon=True).start()

    def _find_out(self, name: str, find_out: Callable[[], str]) -> None:
        said = find_out()
        with self._lock:
            if name in self._asking:  # it is not over meanwhile
                self._asking.remove(name)
                self.tell(name, said)

    def tell(self, name: str, said: str, *, lasts: bool = True) -> None:
        """
        Note that something is wrong; loud if it is new, or due again.

        What does not last, but just happens, is no trouble at present, and never over.
        """
        now = self._clock()
        with self._lock:
            told = self._told.get(name)
            is_new = told is None or now - told.came > LONGEST_WAIT_S
            if told is None or is_new:
                told = self._told[name] = _Trouble(now, said, now, lasts, FIRST_WAIT_S, now)
            told.said, told.came = said, now
            is_loud = now >= told.again
            if is_loud:
                told.again = now + told.wait_s
                told.wait_s = min(2 * told.wait_s, LONGEST_WAIT_S)
            lasted = f" (for {now - told.since:.0f} s)" if lasts and not is_new else ""
        level = logging.WARNING if is_loud else logging.DEBUG
        self._log.log(level, "%s%s%s", self._who, said, lasted)

    def mend(self, name: str, said: str) -> None:
        """Note that it is well again, with all whose names go on after this one and a blank."""
        with self._lock:
            mended = [each for each in self._told if f"{each} ".startswith(f"{name} ")]
            self._asking -= {each for each in self._asking if f"{each} ".startswith(f"{name} ")}
            since = [self._told.pop(each).since for each in mended]
        if since:
            lasted_s = self._clock() - min(since)
            self._log.warning("%srecovered after %.1f s: %s", self._who, lasted_s, said)
