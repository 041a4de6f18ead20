"""
Elements that stand for what comes and goes: a connection, a request, a session.

A spec is replayed at a size, while a trace may tell of thousands of connections. An element stands
for one of them as long as somebody counts on that; then it may stand for another one. So specs stay
as small as what is there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple


class NoElement(Exception):
    """More of them are there at once than the spec has elements."""


class Former(NamedTuple):
    """The thing that an element has stood for until now."""

    key: Any
    element: Any


class Standing:
    """Which element of a sort stands for which of the things that come and go, by their keys."""

    def __init__(
        self, elements: Sequence[Any], owner: Callable[[Any], Hashable] | None = None
    ) -> None:
        self._free = list(elements)
        self._owner = owner
        self._of: dict[Hashable, Any] = {}
        self._latest: dict[Any, Any] = {}
        """By element, the key of what it stands for; in the order in which these began."""

    def begin(self, key: Hashable, is_gone: Callable[[Former], bool]) -> Any:
        """
        An element stands for this from now on: one that is gone, its owner's latest first.

        Raises `NoElement` where all elements are counted on.
        """
        used = [Former(former, element) for element, former in self._latest.items()]
        if self._owner is not None:
            owner = self._owner(key)
            own = [former for former in used if self._owner(former.key) == owner]
            used = [*reversed(own), *used]
        element = next((former.element for former in used if is_gone(former)), None)
        if element is None:
            if not self._free:
                raise NoElement
            element = self._free.pop(0)
        self._latest.pop(element, None)
        self._of[key], self._latest[element] = element, key
        return element

    def get(self, key: Hashable) -> Any:
        """The element that has stood for this; None if none has."""
        return self._of.get(key)

    def stood_for(self, element: Any) -> Any:
        """The key of what an element stands for, or did at last."""
        return self._latest[element]
