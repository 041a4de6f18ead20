"""
Lines in the order in which things happened, whoever wrote them and however they came.

The lines of one process come by their numbers. Its node's processes, and the nodes among each
other, are merged by time, which never goes back within a node; but where clocks are apart, what
causes a line (a message, a transaction, a generation that was written) comes before it all the
same. A line that is there twice is known by its numbers, and so is one that is missing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise
from operator import attrgetter, lt
from typing import Any, Generic, Protocol, TypeVar

from herdproof.conformance.traces.chained import UNNAMED, process_of
from herdproof.conformance.traces.line import MOST, TraceError, TraceLine


class Numbered(Protocol):
    """The common part of a trace's lines."""

    @property
    def run(self) -> str:
        """The run that it belongs to."""

    @property
    def group(self) -> str:
        """The group; empty for what concerns all of its run."""

    @property
    def node(self) -> str:
        """Who wrote it."""

    @property
    def role(self) -> str:
        """The writer's role: a node's processes of different roles number their lines apart."""

    @property
    def sequence(self) -> int:
        """Its number: 1, 2, 3, … for each process."""

    @property
    def time_ns(self) -> int:
        """Its node's clock."""

    @property
    def epoch(self) -> int:
        """The coordinator's; 0 where the line tells none."""

    @property
    def generation(self) -> int:
        """The group's; 0 where the line tells none."""

    @property
    def action(self) -> str:
        """The step."""

    @property
    def place(self) -> str:
        """Where the line stands."""

    @property
    def previous(self) -> int:
        """The number of the line that it repeats; 0: of none."""

    @property
    def after(self) -> tuple[int, ...] | None:
        """The line that it comes after, and its process; None: it does not say."""

    @property
    def shared(self) -> bool:
        """Tells whether its process's numbers run through the lines of several groups."""

    def follows(self, before: Any, /) -> bool:
        """Tells whether it can be the next line of the process that has told the other one."""

    def written(self) -> str:
        """The line as it stands in a file, without its end."""


L = TypeVar("L", bound=Numbered)
Node = tuple[str, str]
"""A role and a node."""


@dataclass
class Ordered(Generic[L]):
    """Lines in their order, what was there twice, and which lines come after a gap."""

    lines: list[L] = field(default_factory=list)
    twice: list[L] = field(default_factory=list)
    gaps: dict[int, str] = field(default_factory=dict)
    """By the index of a line: what is missing before it."""
    contradicted: bool = False
    """True if causes come after what they cause by the clocks: these are apart, or stand still."""


Link = tuple[Sequence[Hashable], Sequence[Hashable]]
"""The things that a line needs to have been said before, and those that it says itself."""

Links = Callable[[L], "Link | None"]
"""Told of each node's lines in their order."""

Entry = tuple[int, int, int, L, str, "Link | None"]
"""A line with its time, its node, its place there; what is missing before it; its link."""


def ordered(lines: Iterable[L], links: Links[L] | None = None) -> Ordered[L]:
    """All lines of a group, or of a run, in their order; the same for any order of the input."""
    of: dict[Node, list[L]] = defaultdict(list)
    found: Ordered[L] = Ordered()
    for line in lines:
        of[line.role, line.node].append(line)
    merged: list[Entry[L]] = []
    for number, node in enumerate(sorted(of)):
        time, index = -MOST, 0  # a clock of a test's own may begin below 0
        for process in processes(of[node], found.twice):
            before: L | None = None
            for line in process:
                if line.time_ns > time:
                    time = line.time_ns
                missing = missing_between(before, line)
                before = line
                link = links(line) if links is not None else None
                merged.append((time, number, index, line, missing, link))
                index += 1
    merged.sort()  # no two have the same node and index, so that lines are never compared
    if links is not None and not _is_caused(merged):
        merged = _excused(merged)
        found.contradicted = not _is_caused(merged)
        merged = _by_cause(merged)
    found.lines = [entry[3] for entry in merged]
    found.gaps = {at: entry[4] for at, entry in enumerate(merged) if entry[4]}
    found.twice.sort(key=lambda line: (line.time_ns, line.role, line.node, line.sequence))
    return found


def missing_between(before: Numbered | None, line: Numbered) -> str:
    """Which lines of a process are missing between two of it (None: its beginning), if any are."""
    last = 0 if before is None else before.sequence
    if line.previous and line.previous == last:
        return ""
    expected = last + 1
    if line.sequence != expected:
        return f"of {line.node}, lines {expected} to {line.sequence - 1}"
    if before is not None and not line.follows(before):
        return f"of {line.node}, what came before line {line.sequence}"
    return ""


def numbered(found: Ordered[L], start: str) -> list[L]:
    """
    The lines in their order; `TraceError` for numbers that cannot be.

    Two lines of one number must be the same; `start` is the action of the line with the number 1.
    """
    for line in found.lines:
        if (line.sequence == 1) != (line.action == start):
            raise TraceError(
                f"{line.place}: its number is {line.sequence}, its action {line.action}: a process"
                f" begins with {start!r}, which has the number 1, and goes on with 2, 3, …"
            )
    known = {(x.role, x.node, x.sequence, x.written()) for x in found.lines if found.twice}
    for line in found.twice:
        if (line.role, line.node, line.sequence, line.written()) not in known:
            raise TraceError(
                f"{line.place}: {line.node} has told another line {line.sequence} already: each"
                f" process of a node numbers its lines 1, 2, 3, …, and has them in one trace"
            )
    return found.lines


def _is_caused(entries: Sequence[Entry[L]]) -> bool:
    """Tells whether everything comes after what it needs, if that is there at all."""
    early: set[Hashable] = set()
    said: set[Hashable] = set()
    for entry in entries:
        link = entry[5]
        if link is not None:
            needs, says = link
            if needs and not said.issuperset(needs):
                early.update(needs)
                early -= said
            if says:
                if not early.isdisjoint(says):
                    return False
                said.update(says)
    return True


def _excused(entries: Sequence[Entry[L]]) -> list[Entry[L]]:
    """
    Entries of which none waits for what was said again after a gap.

    What one node says may be the same as before: who has heard it since lines of that node are
    missing may have heard one of these.
    """
    gaps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    last: dict[int, int] = {}
    said: dict[Hashable, tuple[int, int]] = {}
    for time, number, index, line, missing, link in entries:
        if missing and not line.shared:
            gaps[number].append((last.get(number, -MOST), index))
        last[number] = time
        for says in link[1] if link is not None else ():
            said.setdefault(says, (number, index))

    def is_needed(need: Hashable, time: int) -> bool:
        number, index = said.get(need, (-1, 0))
        return not any(since <= time and after <= index for since, after in gaps.get(number, ()))

    return [
        (*entry[:5], (tuple(n for n in entry[5][0] if is_needed(n, entry[0])), entry[5][1]))
        if gaps and entry[5] is not None else entry
        for entry in entries
    ]  # fmt: skip


def _by_cause(entries: Sequence[Entry[L]]) -> list[Entry[L]]:
    """Entries put in order, each as early as its time, its node and what it needs allow."""
    of: dict[int, deque[Entry[L]]] = defaultdict(deque)
    for entry in sorted(entries, key=lambda entry: entry[1:3]):
        of[entry[1]].append(entry)
    sayable = {says for entry in entries if entry[5] is not None for says in entry[5][1]}
    said: set[Hashable] = set()
    ready = [(own[0][0], number) for number, own in of.items()]
    heapify(ready)
    waiting: dict[Hashable, list[tuple[int, int]]] = {}
    found: list[Entry[L]] = []
    while ready or waiting:
        if not ready:  # what they wait for waits for them: lines contradict each other
            needs, _ = min(waiting.items(), key=lambda waits: min(waits[1]))
            said.add(needs)
            ready = waiting.pop(needs)
            heapify(ready)
        time, number = heappop(ready)
        needed, says = of[number][0][5] or ((), ())
        unmet = next((n for n in needed if n in sayable and n not in said), None)
        if unmet is not None:
            waiting.setdefault(unmet, []).append((time, number))
            continue
        found.append(of[number].popleft())
        if of[number]:
            heappush(ready, (of[number][0][0], number))
        for new in says:
            if new not in said:
                said.add(new)
                for freed in waiting.pop(new, ()):
                    heappush(ready, freed)
    return found


class Causes:
    """The causes of lines of version 2: messages by their ids, transactions in their order."""

    def __init__(self, lines: Iterable[TraceLine]) -> None:
        placed = sorted({line.zxid for line in lines if line.zxid})
        self._before = dict(pairwise(placed[::-1]))

    def __call__(self, line: TraceLine) -> Link | None:
        """The things that a line needs to have been said before, and those that it says."""
        if not (line.sent or line.received or line.zxid):
            return None
        needs: list[Hashable] = [("message", name) for name in line.received]
        says: list[Hashable] = [("message", name) for name in line.sent]
        if line.zxid:
            says.append(("zxid", line.zxid))
            if line.zxid in self._before:
                needs.append(("zxid", self._before[line.zxid]))
        return needs, says


def processes(lines: Iterable[L], twice: list[L]) -> list[list[L]]:
    """One node's lines by process, as these started, each in the order of its numbers."""
    of: dict[int, list[L]] = defaultdict(list)
    for line in lines:
        of[process_of(line)].append(line)
    found = _unnamed_processes(of.pop(UNNAMED, []), twice)
    if of:
        for named in of.values():
            found += _numbered(sorted(named, key=_BY_NUMBERS), twice)
        found.sort(key=lambda own: own[0].time_ns)
    return found


def _unnamed_processes(lines: Iterable[L], twice: list[L]) -> list[list[L]]:
    """One node's lines by process, if none says of which it is."""
    every = sorted(lines, key=_BY_NUMBERS)
    starts = sorted({line.time_ns for line in every if line.sequence == 1})
    last = last_words(every, attrgetter("time_ns")) if starts else set[int]()
    before, every = _headless(every, starts)
    of: dict[int, list[L]] = defaultdict(list)
    for line in every:
        number = max(0, bisect_right(starts, line.time_ns) - 1)
        of[number - (id(line) in last)].append(line)
    before += of.pop(-1, [])
    found = [of[number] for number in sorted(of)]
    parts = [before, *found] if before else found
    return [own for part in parts for one in _restarted(part) for own in _numbered(one, twice)]


def last_words(lines: Sequence[L], turn_of: Callable[[L], int]) -> set[int]:
    """
    Lines that a process told at the very time at which its node's next one began, by their ids.

    The next one goes on with other numbers, or not at all.
    """
    begun = {turn_of(line) for line in lines if line.sequence == 1}
    of: dict[tuple[int, str, str], list[L]] = defaultdict(list)
    for line in lines:
        if (turn := turn_of(line)) in begun:
            of[turn, line.role, line.node].append(line)
    found: set[int] = set()
    for (turn, *node), own in of.items():
        own.sort(key=attrgetter("sequence"))
        told, more = 1, list[L]()
        for line in own:
            if line.sequence <= told + 1:
                told = line.sequence
            else:
                more.append(line)
        if not more or own[0].sequence > 1:
            continue
        later = [x for x in lines if [x.role, x.node] == node and turn_of(x) > turn]
        goes_on = min((turn_of(x), x.sequence) for x in later)[1] if later else 1
        if goes_on == told + 1 or (goes_on == 1 and told == 1):
            found.update(map(id, more))
    return found


def _namesakes(lines: list[L], twice: list[L]) -> list[list[L]]:
    """
    The lines of several processes that have the same times, as their files have them; or nothing.

    Two lines of one number that say different things are no duplicates. A file has a process's
    lines one after the other, and each process is known by its first one.
    """
    said: dict[int, str] = {}
    if all(said.setdefault(x.sequence, x.written()) == x.written() for x in lines):
        return []
    parts: list[list[L]] = []
    for line in sorted(lines, key=_by_place):
        if not parts or line.sequence <= parts[-1][-1].sequence:
            parts.append([])
        parts[-1].append(line)
    known = set[tuple[int, str]]()
    found: list[list[L]] = []
    again: list[L] = []
    for part in parts:
        names = {(line.sequence, line.written()) for line in part}
        if names <= known:
            again += part
        elif known and part[0].sequence != 1:
            return []
        else:
            found.append(part)
            known |= names
    twice += again
    return found


def _by_place(line: Numbered) -> list[tuple[int, str]]:
    """A line's place for sorting, its numbers as such: line 9 is before line 10."""
    parts = _DIGITS.split(line.place)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


_DIGITS = re.compile(r"(\d+)")


RESTART_NS = 500_000_000
"""No process is silent for so long when its clock is set back."""


def _restarted(lines: list[L]) -> list[list[L]]:
    """
    One process's lines; or several's, where some began by a line that is missing.

    Another one has begun where numbers go back after a pause, or a number comes again at another
    time: then where they went back last.
    """
    if _counts_up(lines):
        return [lines]
    by_number = sorted(lines, key=attrgetter("sequence", "time_ns"))
    if all(
        a.time_ns < b.time_ns + RESTART_NS if a.sequence < b.sequence else a.time_ns == b.time_ns
        for a, b in pairwise(by_number)
    ):
        return [lines]
    found: list[list[L]] = [[]]
    told: dict[int, int] = {}
    back = 0
    for line in lines:
        own = found[-1]
        goes_back = bool(own) and line.sequence <= own[-1].sequence
        back = len(own) if goes_back else back
        if (goes_back and line.time_ns >= own[-1].time_ns + RESTART_NS) or (
            told.get(line.sequence, line.time_ns) != line.time_ns
        ):
            found.append(own[back:])
            del own[back:]
            told, back = {x.sequence: x.time_ns for x in found[-1]}, 0
        found[-1].append(line)
        told[line.sequence] = line.time_ns
    return found


def _headless(every: list[L], starts: Sequence[int]) -> tuple[list[L], list[L]]:
    """
    The lines of a process of which the first is missing, and all others: by numbers in both.

    Or by a long time, if none of the others goes on where these end: as those do whose clock was
    set back.
    """
    if not starts or every[0].time_ns >= starts[0]:
        return [], every
    at = next(k for k, line in enumerate(every) if line.time_ns >= starts[0])
    before, rest = every[:at], every[at:]
    if {line.sequence for line in before} & {line.sequence for line in rest}:
        return before, rest
    is_long_before = rest[0].time_ns >= before[0].time_ns + RESTART_NS
    least = min(line.sequence for line in before)
    if is_long_before and all(line.sequence < least for line in rest):
        return before, rest
    return [], every


_BY_NUMBERS = attrgetter("time_ns", "sequence", "place")
"""Of two lines with the same numbers, the one whose place comes first counts."""


def _counts_up(lines: Sequence[Numbered]) -> bool:
    """Tells whether each line's number is above that of the one before: as nearly all are."""
    numbers = [line.sequence for line in lines]
    return all(map(lt, numbers, islice(numbers, 1, None)))


def _numbered(lines: list[L], twice: list[L]) -> list[list[L]]:
    """A process's lines by number, of two with one number the first; or several processes'."""
    if _counts_up(lines):
        return [lines]
    if found := _namesakes(lines, twice):
        return found
    known: dict[int, L] = {}
    for line in lines:
        if known.setdefault(line.sequence, line) is not line:
            twice.append(line)
    return [[known[number] for number in sorted(known)]]
