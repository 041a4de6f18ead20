"""The one thread of a client's callbacks, so that each of them runs behind the one before."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

_LOOK_AROUND_S = 0.1
"""The period in which the thread looks around."""


class Courier:
    """
    One thread that runs what it is given, in order; outside its life, the giver does.

    Every tenth of a second or so it also runs `look_around`. An errand that fails is logged, and
    the next one goes on.
    """

    def __init__(self, look_around: Callable[[], None]) -> None:
        self._look_around = look_around
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._runs = False
        self._thread = threading.Thread(target=self._run, name="zookeeper-callbacks", daemon=True)

    def start(self) -> None:
        """Begin to run errands."""
        with self._lock:
            self._runs = True
        self._thread.start()

    def take(self, errand: Callable[[], None]) -> bool:
        """Have an errand run, behind those taken before; `False` if the thread does not live."""
        with self._lock:
            if self._runs:
                self._errands.put(errand)
            return self._runs

    def put(self, errand: Callable[[], None]) -> None:
        """Have an errand run, here and now if the thread does not live."""
        if not self.take(errand):
            errand()

    def is_this_thread(self) -> bool:
        """Tells whether an errand is asking."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Run what was given so far, then end."""
        with self._lock:
            if self._runs:
                self._errands.put(None)
            self._runs = False
        if self._thread.is_alive() and not self.is_this_thread():
            self._thread.join()

    def _run(self) -> None:
        """The thread's life."""
        looked = time.monotonic()
        while True:
            errand: Callable[[], None] | None = _nothing
            with contextlib.suppress(queue.Empty):
                errand = self._errands.get(timeout=_LOOK_AROUND_S)
            if errand is None:
                return
            try:
                errand()
            except Exception:
                log.exception("A callback of the ZooKeeper client failed; the next one goes on.")
            if time.monotonic() - looked > _LOOK_AROUND_S:
                looked = time.monotonic()
                self._look_around()


def _nothing() -> None:
    """The errand that is none."""
