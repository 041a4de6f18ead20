"""Slow functions over a state, and the state before a gap, of which nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from herdspec.check.observation.inconclusive import UNKNOWN


class Readings(dict[str, Callable[..., Any]]):
    """Slow functions over a state, by their names; made where they are needed: few are."""

    def __init__(self, code: Mapping[str, CodeType], space: dict[str, Any]) -> None:
        super().__init__()
        self._code = code
        self._space = space

    def __missing__(self, name: str) -> Callable[..., Any]:
        made = self[name] = FunctionType(self._code[name], self._space)
        return made


class Anything(dict[Any, Any]):
    """Entries of which nothing is known."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: Any) -> Any:
        return UNKNOWN


ANYTHING = Anything()
"""The state before a gap has ended."""
