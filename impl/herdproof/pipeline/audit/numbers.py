"""
Which numbers of a process's lines have been seen, where its lines belong to several groups.

A coordinator numbers its lines through, whichever group they are about; so a group's lines alone do
not tell whether one of its coordinator's is missing. Whoever reads lines notes their numbers, as
intervals, and every group of the run is told where some are missing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from herdproof.conformance.traces.chained import UNNAMED
from herdproof.conformance.traces.ordering import RESTART_NS
from herdproof.pipeline.judging.gaps import MissingNumbers

Node = tuple[str, str]
"""A role and a node."""

FOR_EVER = 2**64


class NumberRange(NamedTuple):
    """Lines without a gap: their numbers, and the times of the first and the last one."""

    since_ns: int
    first: int
    last: int
    until_ns: int
    process: int = UNNAMED
    """The number of their process."""


@dataclass
class Numbers:
    """The intervals of each node; a node's processes each begin with 1."""

    seen: dict[Node, list[NumberRange]] = field(default_factory=lambda: defaultdict(list))
    _elsewhere: set[Node] = field(default_factory=set)
    """Nodes of which others read lines too: the next number may be a later process's."""

    def note(
        self, role: str, node: str, sequence: int, time_ns: int, process: int = UNNAMED
    ) -> None:
        """A line was read, of the process of this number."""
        of = self.seen[role, node]
        since_ns, first, last, until_ns, its = of[-1] if of else _NOTHING
        if process != UNNAMED:
            if process == its and sequence == last + 1:
                of[-1] = NumberRange(since_ns, first, sequence, max(until_ns, time_ns), process)
            else:
                of.append(NumberRange(time_ns, sequence, sequence, time_ns, process))
            return
        if of and sequence not in (1, last + 1):
            self._elsewhere.add((role, node))
        longest_ns = RESTART_NS if (role, node) in self._elsewhere else FOR_EVER
        if of and sequence == last + 1 and 0 <= time_ns - until_ns < longest_ns:
            of[-1] = NumberRange(since_ns, first, sequence, time_ns)
        else:
            of.append(NumberRange(time_ns, sequence, sequence, time_ns))

    def add(self, packed: bytes) -> None:
        """Add the numbers that somebody else has noted."""
        for role, node, intervals in json.loads(packed):
            self.seen[role, node] += [NumberRange(*interval) for interval in intervals]

    @property
    def packed(self) -> bytes:
        """The noted numbers, for somebody else to `add`."""
        told = [(role, node, intervals) for (role, node), intervals in sorted(self.seen.items())]
        return json.dumps(told).encode()

    def gaps(self) -> list[MissingNumbers]:
        """When lines are missing, and which."""
        return sorted(
            MissingNumbers(
                after.since_ns, f"of {node}, lines {before + 1} to {after.first - 1}", since_ns,
                role, node, before + 1, after.first - 1, after.process,
            )
            for (role, node), intervals in self.seen.items()
            for before, since_ns, after in _all_gaps(intervals)
        )  # fmt: skip

    def compact(self, before_ns: int) -> None:
        """Join what is without a gap, up to a time before which nothing will come any more."""
        for node, intervals in self.seen.items():
            done = [i for i in intervals if i.until_ns < before_ns]
            kept = [i for i in intervals if i.until_ns >= before_ns]
            self.seen[node] = [*_joined(done), *kept]


def _all_gaps(intervals: Iterable[NumberRange]) -> Iterator[tuple[int, int, NumberRange]]:
    """As `_gaps`, of processes that are named, and of all others."""
    of: dict[int, list[NumberRange]] = defaultdict(list)
    for interval in intervals:
        of[interval.process].append(interval)
    yield from _gaps(of.pop(UNNAMED, []))
    for own in of.values():
        own.sort(key=attrgetter("first", "last"))
        begun_ns, last, since_ns = min(own).since_ns, 0, 0
        if own[0].first > 1:  # whatever its node has told before
            ended_ns = (i.until_ns for i in intervals if i.since_ns < begun_ns)
            since_ns = max(ended_ns, default=0)
        for interval in own:
            if interval.first > last + 1:
                yield last, since_ns, interval
            last, since_ns = max(last, interval.last), max(since_ns, interval.until_ns)


def _gaps(intervals: list[NumberRange]) -> Iterator[tuple[int, int, NumberRange]]:
    """The last number before each gap and its time, and the interval after it."""
    began_ns, last, since_ns = None, 0, 0
    for interval in sorted(intervals):
        if interval.first == 1 and interval.since_ns != began_ns:
            began_ns, last = interval.since_ns, 0  # a process starts
        elif interval.first <= last and interval.since_ns > since_ns:
            last = 0  # so does one of which the first line is missing
        if interval.first > last + 1:
            yield last, since_ns, interval
        last, since_ns = max(last, interval.last), max(since_ns, interval.until_ns)


def _joined(intervals: list[NumberRange]) -> list[NumberRange]:
    """Intervals in order, with those joined that follow each other."""
    found: list[NumberRange] = []
    for interval in sorted(intervals, key=_in_turn):
        before = found[-1] if found else None
        if (
            before is not None
            and before.process == interval.process
            and interval.first == before.last + 1
        ):
            found[-1] = before._replace(last=interval.last, until_ns=interval.until_ns)
        else:
            found.append(interval)
    return found


def _in_turn(interval: NumberRange) -> tuple[int, ...]:
    """A key to sort by: a process that is named by its numbers, all others by time."""
    by_number = () if interval.process == UNNAMED else (interval.first,)
    return (interval.process, *by_number, *interval[:4])


_NOTHING = NumberRange(0, 0, 0, 0)
