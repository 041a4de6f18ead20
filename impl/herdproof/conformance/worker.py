"""A thread in which the code under test is called, so that a call that hangs can be named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class TimedOut(Exception):
    """A call did not return in time; its thread stays behind, as nobody can end it."""


class Worker:
    """
    Calls functions one after the other in a thread of its own; in the caller's with no `timeout`.

    `timeout` is in seconds. After a call that timed out no further one is made.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answered = threading.Semaphore(0)
        self._answer: tuple[Any, BaseException | None] = (None, None)
        self._thread: threading.Thread | None = None
        self._hangs = False

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """What the function returns, or raises; `TimedOut` if it does neither in time."""
        if self.timeout is None:
            return function(*arguments, **named)
        if self._hangs:
            raise TimedOut
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="code under test", daemon=True)
            self._thread.start()
        self._calls.put(lambda: function(*arguments, **named))
        if not self._answered.acquire(timeout=self.timeout):
            self._hangs = True
            self._calls.put(None)  # should it ever come back
            raise TimedOut
        value, error = self._answer
        self._answer = (None, None)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the thread, unless it hangs."""
        if self._thread is not None and not self._hangs:
            self._calls.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                answer = call(), None
            except BaseException as error:  # handed to the caller, whatever it is
                answer = None, error  # type: ignore[assignment]
            self._answer = answer
            del call, answer
            self._answered.release()
