"""
Lines of version 2 that tell again the line before them, and what that says where one is lost.

A line about a group repeats its process's last one about that group, or about all groups; a line
about all groups repeats the one right before it. So between two lines about a group it is known
whether another one is missing, though a process numbers its lines through all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from herdproof.conformance.traces.line import Predecessor, TraceLine

GROUPS = 1_000
"""Of so many groups a process remembers its last line."""


class Repeats:
    """Keeps what the next lines of a process repeat."""

    def __init__(self) -> None:
        self._last: dict[str, TraceLine] = {}
        """By group, those that were told of last at the end."""
        self._about_all: TraceLine | None = None
        self._latest: TraceLine | None = None
        self._is_all = True
        """True if no group was dropped for others."""

    def added(self, line: TraceLine) -> TraceLine:
        """A line as it is written: it says again what came before."""
        before = self._before(line.group)
        self._latest = line = replace(line, previous=0 if before is None else before.sequence)
        if line.group:
            self._last.pop(line.group, None)
            self._last[line.group] = line
            if len(self._last) > GROUPS:
                del self._last[next(iter(self._last))]
                self._is_all = False
        else:
            self._about_all = line
        if before is None:
            return line
        return replace(line, before=_former(before, line.time_ns - before.time_ns))

    def _before(self, group: str) -> TraceLine | None:
        if not group:
            return self._latest
        of_group, about_all = self._last.get(group), self._about_all
        if of_group is None:
            return about_all if self._is_all else None
        if about_all is None or about_all.sequence < of_group.sequence:
            return of_group
        return about_all


def _former(line: TraceLine, ago_ns: int) -> Predecessor:
    return Predecessor(
        action=line.action, ago_ns=ago_ns, previous=line.previous, group=line.group,
        since_ns=line.since_ns, arguments=line.arguments, seen=line.seen, sent=line.sent,
        received=line.received, zxid=line.zxid,
    )  # fmt: skip


def with_repeated(lines: Sequence[Any]) -> Sequence[Any]:
    """Lines of a run, or of a group of it, and those that only others' repetitions still tell."""
    repeat = [line for line in lines if line.before is not None]
    if not repeat:
        return lines
    groups = {"", *(line.group for line in lines)}
    there = {(line.role, line.node, line.sequence, line.time_ns) for line in lines}
    found: list[TraceLine] = []
    for line in repeat:
        again = _repeated(line, line.before)
        name = (again.role, again.node, again.sequence, again.time_ns)
        if again.group in groups and name not in there:
            there.add(name)
            found.append(again)
    return [*lines, *found] if found else lines


def _repeated(line: TraceLine, of: Predecessor) -> TraceLine:
    return replace(
        line, sequence=line.previous, time_ns=line.time_ns - of.ago_ns, action=of.action,
        group=of.group, since_ns=of.since_ns, arguments=of.arguments, seen=of.seen, sent=of.sent,
        received=of.received, zxid=of.zxid, previous=of.previous, before=None,
        place=f"the line before {line.place}",
    )  # fmt: skip
