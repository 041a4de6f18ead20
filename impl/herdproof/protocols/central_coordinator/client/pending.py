"""Commits of a consumer that are not settled: sent and not answered, or to be sent again."""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.consuming.offsets import Offset


@dataclass(frozen=True, slots=True)
class Pending:
    """A Commit that was sent and is not answered."""

    offsets: tuple[Offset, ...]
    generation: int
    deadline_ms: int
    asked: int | None = None
    """The number of the application's `CommitAsked`."""
    resolved: bool = False
    """True if it stores a start that was resolved by reset."""


@dataclass(frozen=True, slots=True)
class Unstored:
    """A resolved start that could not be stored: when to try again."""

    offset: Offset
    retry_ms: int
