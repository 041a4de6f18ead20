"""
Lines of version 2 that tell again the line before them, and what that says where one is lost.

A line about a group repeats its process's last one about that group, or about all groups; a line
about all groups repeats the one right before it. So between two lines about a group it is known
whether another one is missing, though a process numbers its lines through all groups; and a line
that was altered since is known by the next one, which says something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from herdproof.conformance.traces.line import START, Predecessor, TraceLine

GROUPS = 1_000
"""Of so many groups a process remembers its last line."""

AGAIN = "the line before "
"""The place of a line that only another one's repetition still tells begins so."""


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
    there = set(map(_name, lines))
    found: list[TraceLine] = []
    for line in repeat:
        again = _repeated(line, line.before)
        if again.group in groups and _name(again) not in there:
            there.add(_name(again))
            found.append(again)
    return [*lines, *found] if found else lines


def _repeated(line: TraceLine, of: Predecessor) -> TraceLine:
    return replace(
        line, sequence=line.previous, time_ns=line.time_ns - of.ago_ns, action=of.action,
        group=of.group, since_ns=of.since_ns, arguments=of.arguments, seen=of.seen, sent=of.sent,
        received=of.received, zxid=of.zxid, previous=of.previous, before=None,
        place=f"{AGAIN}{line.place}",
    )  # fmt: skip


# ── Lines that are repeated otherwise ───────────────────────────────────────────────────────


class Dispute(NamedTuple):
    """A line, by its place among others, that the next one of its process contradicts."""

    at: int
    line: TraceLine
    why: str


def disputes(lines: Sequence[Any]) -> Iterator[Dispute]:
    """The lines, of some in their order (`with_repeated`), that others contradict."""
    repeat = [line for line in lines if line.before is not None]
    if not repeat:
        return
    places = {id(line): at for at, line in enumerate(lines)}
    repetitions = Repetitions()
    for line in lines:
        before, why = repetitions.take(line)
        if why:
            yield Dispute(places[id(before)], before, why)
    at = {_name(line): place for place, line in enumerate(lines)}
    for line, by in _displaced(lines, repeat):
        yield Dispute(min(places[id(line)], at[_repeated_name(by)]), line, contradiction(line, by))


class Repetitions:
    """Holds what lines repeat, as they come in their order, against the lines themselves."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], TraceLine] = {}
        self._last: dict[tuple[str, str], dict[str, TraceLine]] = {}
        """By role and node, its process's last line about each group, and about all."""

    def take(self, line: Any) -> tuple[Any, str]:
        """The line that this one repeats, and why the two contradict each other, if they do."""
        node = (line.role, line.node)
        latest = self._latest.get(node)
        if latest is None or latest.sequence >= line.sequence:
            latest, self._last[node] = None, {}  # another process
        last = self._last[node]
        before = latest
        if line.group:
            known = [last[group] for group in (line.group, "") if group in last]
            before = max(known, key=lambda known: known.sequence, default=None)
        self._latest[node] = last[line.group] = line
        return before, "" if before is None else contradiction(before, line)


def contradiction(line: Any, by: Any) -> str:
    """Why a line and what a later one says of it cannot both be so; empty if they can."""
    said = by.before
    if said is None or line.sequence < by.previous:
        return ""
    both = f"{line.place} and {by.place} contradict each other"
    if line.sequence > by.previous:
        if not by.time_ns - said.ago_ns <= line.time_ns <= by.time_ns:
            return ""  # it may be another process's
        return (
            f"{both}: the latter says that line {by.previous} of {by.node} was the one before it,"
            f" the former is line {line.sequence}"
        )
    told = _former(line, by.time_ns - line.time_ns)
    fields = [f for f in said.__struct_fields__ if getattr(told, f) != getattr(said, f)]
    is_elsewhen = "ago_ns" in fields
    if not fields or (is_elsewhen and (len(fields) > 1 or line.action == START)):
        return ""  # what is told of another time may be another process's
    which = "time" if is_elsewhen else ", ".join(f"`{f}`" for f in fields)
    return f"{both}: the latter repeats line {line.sequence} of {line.node} with another {which}"


def _displaced(lines: Sequence[Any], repeat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """
    Lines that nobody repeats as of their time, and who repeats them as of another one.

    Another process may have told the like; but the line that they repeat is not there either.
    """
    repeated = {_repeated_name(line) for line in repeat}
    there = {_name(line) for line in lines if not line.place.startswith(AGAIN)}
    of: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
    for line in repeat:
        if _name(line) not in repeated and _repeated_name(line) not in there:
            of[line.role, line.node, line.sequence].append(line)
    for by in repeat:
        for line in of.get((by.role, by.node, by.previous), ()):
            if contradiction(line, by) and line.time_ns != by.time_ns - by.before.ago_ns:
                yield line, by


def _name(line: Any) -> tuple[str, str, int, int]:
    return line.role, line.node, line.sequence, line.time_ns


def _repeated_name(line: Any) -> tuple[str, str, int, int]:
    """The name of the line that one repeats."""
    return line.role, line.node, line.previous, line.time_ns - line.before.ago_ns
