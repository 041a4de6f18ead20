"""
A thread in which the code under test is called, so that a call that hangs can be named.

What the test does between the calls can be run there, too: then no call changes threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class TimedOut(Exception):
    """A call did not return in time; its thread stays behind, as nobody can end it."""


class _Abandoned(BaseException):
    """Raised where a call came back after it was given up: nobody waits for what follows."""


class Worker:
    """
    Calls functions one after the other in a thread of its own; in the caller's with no `timeout`.

    `timeout` is in seconds. After a call that timed out no further one is made.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self.hangs = False
        """True if a call did not return: its thread is left behind."""
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answered = threading.Semaphore(0)
        self._answer: tuple[Any, BaseException | None] = (None, None)
        self._thread: threading.Thread | None = None
        self._since: float | None = None

    @property
    def thread(self) -> threading.Thread | None:
        """The thread in which calls are made, if it was started."""
        return self._thread

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, and return or raise what it does; `TimedOut` if neither in time."""
        if self.timeout is None:
            return function(*arguments)
        if threading.current_thread() is self._thread:
            return self._watched(function, *arguments)
        return self.run(lambda: self._watched(function, *arguments))

    def run(self, body: Callable[[], Any]) -> Any:
        """Run a test's own code; raises `TimedOut` if one of its calls hangs."""
        if self.timeout is None or threading.current_thread() is self._thread:
            return body()
        if self.hangs:
            raise TimedOut
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="code under test", daemon=True)
            self._thread.start()
        self._calls.put(body)
        left = self.timeout
        while not self._answered.acquire(timeout=left):
            since = self._since
            left = self.timeout if since is None else since + self.timeout - time.monotonic()
            if left <= 0:
                self.hangs = True
                self._calls.put(None)  # should it ever come back
                raise TimedOut
        value, error = self._answer
        self._answer = (None, None)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the thread, unless it hangs."""
        if self._thread is not None and not self.hangs:
            self._calls.put(None)
            self._thread.join()
            self._thread = None

    def _watched(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._since = time.monotonic()
        try:
            return function(*arguments)
        finally:
            self._since = None
            if self.hangs:
                raise _Abandoned

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                answer = call(), None
            except _Abandoned:
                return
            except BaseException as error:  # handed to the caller, whatever it is
                answer = None, error  # type: ignore[assignment]
            self._answer = answer
            del call, answer
            self._answered.release()
