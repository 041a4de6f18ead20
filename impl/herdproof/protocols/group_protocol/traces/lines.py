"""Members and owners that a coordinator's line tells, by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from herdproof.conformance.traces.line import TraceLine


def member(line: TraceLine) -> str:
    """The member whose request it is, or who is expelled."""
    told: str = line.arguments.get("member", "")
    return told


def members(line: TraceLine) -> Sequence[str]:
    """The members that a line tells."""
    told: Sequence[str] = line.arguments.get("members", ())
    return told


def owners(line: TraceLine) -> Iterator[tuple[str, str]]:
    """Members and the partitions that they are assigned, by their names."""
    told = line.arguments.get("owners", ())
    return ((who, f"{topic}-{number}") for who, topic, number in told)
