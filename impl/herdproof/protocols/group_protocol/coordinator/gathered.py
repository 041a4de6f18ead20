"""An answer that is put together of parts, each of which is known at its own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class GatheredAnswer(Generic[T]):
    """Parts by their place; once the last has come, `finish` is given all of them."""

    def __init__(self, size: int, finish: Callable[[tuple[T, ...]], None]) -> None:
        self._parts: dict[int, T] = {}
        self._size = size
        self._finish = finish
        self._check()

    def put(self, place: int, part: T) -> None:
        """One part is known."""
        self._parts[place] = part
        self._check()

    def _check(self) -> None:
        if len(self._parts) == self._size:
            self._finish(tuple(self._parts[place] for place in range(self._size)))
