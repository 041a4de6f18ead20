"""
Lines of a process that say which of its lines was the last one about the same group.

A process numbers its lines through all groups that it serves, so a number that is not there may be
of any of them. A line about a group names its process's last line about that group, or about all
groups: whatever is missing between the two is about others. It names its process, too: the next
process of the same node begins its numbers anew.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from herdproof.conformance.traces.line import MOST, After

GROUPS = 100_000
"""Of so many groups a process remembers the number of its last line."""

PROCESSES = 100_000
"""Numbers of processes are drawn below it."""


class Chain:
    """Knows which line was the last one about each group, of one process's lines."""

    def __init__(self, begun_ns: int) -> None:
        self._process = zlib.crc32(b"%d" % begun_ns) % PROCESSES
        self._last: dict[str, int] = {}
        """By group, those that were told of last at the end; empty: about all."""
        self._forgotten = 0
        """The number of the latest line about a group that is not remembered."""

    def after(self, group: str, number: int) -> After:
        """The line that the next one comes after, which is of this number and about this group."""
        last, about_all = self._last, self._last.get("", 0)
        own = last.pop(group, self._forgotten)
        last[group] = number
        if len(last) > GROUPS:
            oldest = next(name for name in last if name)
            self._forgotten = max(self._forgotten, last.pop(oldest))
        return (about_all, self._process, own) if own < about_all else (own, self._process)


Process = tuple[str, str, int]
"""A role, a node, and the number of its process."""

UNNAMED = -1
"""The process of a line that names none."""


def process_of(line: Any) -> int:
    """The number of a line's process, if it names one."""
    return UNNAMED if line.after is None else int(line.after[1])


class Chained:
    """
    The lines of a group, and those about all, that say which they come after: by their processes.

    What they say of missing lines depends on those after them alone.
    """

    def __init__(self, lines: Iterable[Any]) -> None:
        self._of: dict[Process, list[Any]] = defaultdict(list)
        for line in lines:
            if line.after is not None:
                self._of[line.role, line.node, process_of(line)].append(line)
        self._begun: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        """By role and node, when each process was heard first."""
        for (role, node, process), own in self._of.items():
            own.sort(key=_number)
            self._begun[role, node][process] = own[0].time_ns

    def latest(self, whose: Process, number: int) -> tuple[int, int]:
        """
        The last line up to this number that may be about the group or all, and who says so, when.

        A higher number, if any line up to this one may be: since another one is missing after it.
        If none comes after them, the next process says so. If nobody does, the time is the last.
        """
        own = self._of.get(whose, [])
        at = bisect_right(own, number, key=_number)
        before, about_all = own[at - 1] if at else None, None
        for line in own[at:]:
            if line.group:
                latest, _, *alone = line.after
                if before is not None and before.sequence > latest:
                    break  # the two contradict each other
                if about_all is not None and alone:
                    latest = max(about_all.after[0], *alone)
                return latest, line.time_ns
            before, about_all = line, about_all or line
        begun = self._begun.get(whose[:2], {})
        since_ns = begun.get(whose[2], -MOST)
        return MOST, min((ns for ns in begun.values() if ns > since_ns), default=MOST)


_number = attrgetter("sequence")
