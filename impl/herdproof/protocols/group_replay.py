"""
The replay of one group's trace: members, partitions and offsets that its lines tell.

Lines of version 2 tell places as lists of topic, number and offset. A partition's name is
`topic-number`; of its offsets the spec has ranks, since it only compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.values import Values
from herdspec.protocols.group import Member, Partition


def places(line: TraceLine, of: str = "partitions") -> Iterator[tuple[str, int]]:
    """The partitions that a line tells, by their names, and offsets."""
    return ((f"{topic}-{number}", offset) for topic, number, offset in line.arguments.get(of, ()))


class GroupReplay:
    """One group of one run, as it is replayed: finds what its lines tell among the spec's terms."""

    kept: ClassVar[tuple[str, ...]] = ("committed", "finished", "end")
    """The spec's fields that an offset which was stored before the trace begins shows in."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._stored: dict[str, int] = {}
        """Offsets that were stored before the trace begins, by partition's name."""

    def initial(self) -> Mapping[tuple[str, Any], int]:
        """The entries of the initial state that stored offsets make otherwise."""
        self._partitions, self._members = list(Partition), list(Member)
        return {
            (kept, self._partition(name)): self._values.rank("offset", offset, name)
            for name, offset in self._stored.items()
            for kept in self.kept
        }

    def _mention(self, line: TraceLine, of: str = "partitions") -> None:
        """Make a line's partitions and offsets known, before any is settled."""
        for name, offset in places(line, of):
            self._values.element("Partition", name)
            self._values.rank("offset", offset, name)

    def _member(self, name: str) -> Member:
        found: Member = self._values.element("Member", name)
        return found

    def _partition(self, name: str) -> Partition:
        found: Partition = self._values.element("Partition", name)
        return found

    def _places(self, line: TraceLine, of: str = "partitions") -> Iterator[tuple[Partition, int]]:
        """The partitions that a line tells, and the ranks of their offsets."""
        for name, offset in places(line, of):
            yield self._partition(name), self._values.rank("offset", offset, name)
