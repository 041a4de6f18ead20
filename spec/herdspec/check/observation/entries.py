"""Entries of a state's fields: which one is meant, and what is kept of a field."""

from __future__ import annotations

from typing import Any


class AnyElement:
    """Any element: all entries of a field; `ANY` is the only one."""

    __slots__ = ()

    def __reduce__(self) -> str:
        """There is one of it wherever it arrives: what is not to be believed stays so."""
        return "ANY"


ANY = AnyElement()
Entry = tuple[str, Any]
"""A field's name, and a key: an element, a tuple of several, or () where the field is no map."""


class Entries(dict[Any, Any]):
    """One field; an entry of which nothing was said is the default."""

    __slots__ = ("default",)

    def __init__(self, default: Any) -> None:
        super().__init__()
        self.default = default

    def __missing__(self, key: Any) -> Any:
        return self.default
