"""Deeds: what was done to code that is held to its spec, so that it can be told, and done again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Case(Enum):
    """In which of the states where the spec may be a step is possible."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    OPEN = "open"
    """Nobody knows: the code chooses among more than can be tried."""


@dataclass(frozen=True)
class Deed:
    """
    A deed done to the code, noted so that it can be done again.

    `kind` is the method of `Held`: `offer`, `wait`, `disturb`, `start` or `put`. Of an offer,
    `case` says what the spec made of it, and `taken` what the code did.
    """

    kind: str
    name: str = ""
    arguments: tuple[Any, ...] = ()
    taken: bool | None = None
    case: Case | None = None
