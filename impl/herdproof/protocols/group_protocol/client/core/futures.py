"""Futures of requests: a value or an error, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from herdproof.errors import HerdError

T = TypeVar("T")


class RequestFuture(Generic[T]):
    """A value or an error, once: whoever completes it again is not heard."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: HerdError | None = None
        self._value: T | None = None
        self._listeners: list[Callable[[RequestFuture[T]], None]] = []

    @property
    def succeeded(self) -> bool:
        """True if the future has a value."""
        return self.is_done and self.error is None

    @property
    def value(self) -> T:
        """The value, once it has succeeded."""
        assert self.succeeded, "there is no value"
        return self._value  # type: ignore[return-value]  # T may be None itself

    def add_listener(self, listener: Callable[[RequestFuture[T]], None]) -> None:
        """Call this once it is done, which may be now."""
        if self.is_done:
            listener(self)
        else:
            self._listeners.append(listener)

    def chain(self, other: RequestFuture[T]) -> None:
        """Complete another one as this one is."""
        self.add_listener(other.settle)

    def complete(self, value: T) -> None:
        """It has succeeded."""
        self._end(value, None)

    def fail(self, error: HerdError) -> None:
        """It has failed."""
        self._end(None, error)

    def settle(self, done: RequestFuture[T]) -> None:
        """It is as that one, which is done."""
        self._end(done._value, done.error)

    def _end(self, value: T | None, error: HerdError | None) -> None:
        if self.is_done:
            return
        self.is_done, self._value, self.error = True, value, error
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(self)


def failed(error: HerdError) -> RequestFuture[T]:
    """A future that has failed."""
    future: RequestFuture[T] = RequestFuture()
    future.fail(error)
    return future
