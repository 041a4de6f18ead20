"""Lines that are missing: after which line they can have been, and before which."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from herdproof.conformance.traces.chained import UNNAMED, Chained, process_of
from herdproof.conformance.traces.ordering import Ordered
from herdproof.conformance.traces.repeated import disputes

NOTHING: Mapping[str, str] = MappingProxyType({})


class MissingNumbers(NamedTuple):
    """Lines that are missing of who numbers his through all groups, as `Numbers` knows it."""

    until_ns: int
    """The time of the first line after them."""
    why: str
    since_ns: int = 0
    """The time of the last line before them."""
    role: str = ""
    node: str = ""
    first: int = 0
    last: int = 0
    """Their numbers."""
    process: int = UNNAMED
    """The process whose numbers they are."""


class Gap(NamedTuple):
    """Lines that are missing: the indices of the first lines that can be after some, and all."""

    begin: int
    end: int
    why: str
    role: str
    node: str
    lines: int
    exact: bool = True
    """True if no more than these can be missing."""


class Doubted(NamedTuple):
    """The index of the first line that another one contradicts, and why the two do."""

    at: int
    why: str


def doubted_in(lines: Sequence[Any], contested: Mapping[str, str] = NOTHING) -> Doubted | None:
    """The first of some lines, in their order, that another contradicts, or that is `contested`."""
    found = [Doubted(dispute.at, dispute.why) for dispute in disputes(lines)]
    if contested:
        found += [
            Doubted(at, contested[line.place])
            for at, line in enumerate(lines)
            if line.place in contested
        ]
    return min(found, default=None)


def contested_in(found: Ordered[Any]) -> dict[str, str]:
    """By the place of a line, why it is in doubt: there is another one of its number."""
    if not found.twice:
        return {}
    numbers = {_number_of(line) for line in found.twice}
    of: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for line in found.lines:
        if _number_of(line) in numbers:
            of[_number_of(line)].append(line)
    why: dict[str, str] = {}
    for other in found.twice:
        told = of[_number_of(other)]
        if other.written() in {line.written() for line in told}:
            continue
        for line in told:
            why[line.place] = (
                f"{line.place} and {other.place} contradict each other: both are line"
                f" {line.sequence} of {line.node}, and they say different things"
            )
    return why


def _number_of(line: Any) -> tuple[Any, ...]:
    return line.role, line.node, line.sequence, line.time_ns


@dataclass(frozen=True)
class Filled:
    """A group's lines with those that others tell of, and what is missing all the same."""

    own: Sequence[Any]
    gaps: Sequence[Gap]
    last: set[int]
    """Each process's last line."""
    closed: Sequence[Gap] = ()
    """Gaps that are none: all that is missing in them is told by others."""
    doubted: Doubted | None = None
    """Where its lines contradict each other first: from there on nothing is decided."""


def gaps_of(found: Ordered[Any], *, alone: bool, missing: Iterable[MissingNumbers]) -> list[Gap]:
    """
    Where lines are missing, as their own numbers tell, and others.

    A line that is not there, and that the next one of its process repeats, should be among them
    (`with_repeated`): then it is no gap, nor are numbers that are other groups'. Of a group `alone`
    others know of no gap that its own numbers do not tell: told twice, none would be closed.
    """
    gaps = []
    for index, why in found.gaps.items():
        line = found.lines[index]
        if is_gap(line, alone=alone) or (line.previous and line.group):
            before = _before(found.lines, index)
            last = 0
            if before is not None and process_of(found.lines[before]) == process_of(line):
                last = found.lines[before].sequence
            begin = 0 if before is None else before + 1
            many = lines_between(last, line.sequence)
            exact = 0 < last < line.sequence  # else a former process may have gone on
            gaps.append(Gap(begin, index, why, line.role, line.node, many, exact))
    missing = [*missing]
    if alone or not missing:
        return gaps
    known, concerning = Repeated(found.lines), Concerning(found.lines)
    own = (concerning.of(each) for each in missing if not known.tells(each))
    return [*gaps, *placed(found.lines, (each for each in own if each is not None))]


class Repeated:
    """The knowledge of lines that repeat those before them, about what is missing there."""

    def __init__(self, lines: Sequence[Any]) -> None:
        self._of: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for line in lines:
            if line.before is not None:
                self._of[line.role, line.node].append(line)

    def tells(self, missed: MissingNumbers) -> bool:
        """
        True if it is known without these numbers which lines of the group are missing there.

        The next line about the group repeats its last one: from before them, or of them.
        """
        after = (
            line for line in self._of.get((missed.role, missed.node), ())
            if line.time_ns >= missed.until_ns and line.sequence > missed.last
        )  # fmt: skip
        line = next(after, None)
        if line is None:
            return False
        time_ns = line.time_ns - line.before.ago_ns
        if line.previous < missed.first:
            return time_ns <= missed.since_ns and bool(line.group)
        if line.previous > missed.last or time_ns < missed.since_ns:
            return False
        return line.previous == missed.first or bool(line.group and line.before.group)


HELD_NS = 60_000_000_000
"""Lines of a group wait so long at most for one that says whether those missing are about it."""


class Concerning:
    """Finds which of a process's missing lines may be about a group, as its later lines say."""

    def __init__(self, lines: Iterable[Any]) -> None:
        self._chained = Chained(lines)

    def of(self, missed: MissingNumbers) -> MissingNumbers | None:
        """
        Find those of these lines that may be about the group, or about all; None if none is.

        If the beginning of their process is missing, all may be: so may be the end of the one
        before.
        """
        if not _is_in_a_process(missed):
            return missed
        latest, _ = self._latest(missed)
        if latest < missed.first:
            return None
        return missed if latest > missed.last else missed._replace(last=latest)

    def is_decided(self, missed: MissingNumbers, until_ns: int) -> bool:
        """
        True if lines of that time, or a later one, could tell nothing else of these.

        So is what nobody tells for long: a group may have no more lines of this process.
        """
        if not _is_in_a_process(missed) or until_ns >= missed.until_ns + HELD_NS:
            return True
        latest, told_ns = self._latest(missed)
        return latest <= missed.last or told_ns < until_ns

    def _latest(self, missed: MissingNumbers) -> tuple[int, int]:
        return self._chained.latest((missed.role, missed.node, missed.process), missed.last)


def _is_in_a_process(missed: MissingNumbers) -> bool:
    """True if these lines are between two of a process that is known by its number."""
    return missed.process != UNNAMED and missed.first > 1


def placed(lines: Sequence[Any], missing: Iterable[MissingNumbers]) -> list[Gap]:
    """Where these can have been among a group's lines, of which some may be the same node's."""
    missing = [*missing]
    if not missing:
        return []
    latest = [*accumulate((line.time_ns for line in lines), max)]
    of: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        of[line.role, line.node].append(index)
    gaps = []
    for missed in missing:
        begin, end = bisect_left(latest, missed.since_ns), bisect_right(latest, missed.until_ns)
        for index in of.get((missed.role, missed.node), ()):
            line = lines[index]
            if line.time_ns <= missed.since_ns and line.sequence < missed.first:
                begin = max(begin, index + 1)
            elif line.time_ns >= missed.until_ns and line.sequence > missed.last:
                end = min(end, index)
                break
        many = missed.last - missed.first + 1
        exact = missed.first > 1
        gaps.append(Gap(begin, end, missed.why, missed.role, missed.node, many, exact))
    return gaps


def is_gap(line: Any, *, alone: bool) -> bool:
    """True if numbers that are not there are missing, and not another group's."""
    return alone or not line.shared


def lines_between(last: int, number: int) -> int:
    """The number of lines missing before one of this number; who begins anew begins with 1."""
    return number - 1 - (last if last < number else 0)


def last_lines(lines: Sequence[Any]) -> set[int]:
    """The indices of each process's last line."""
    of: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        of[line.role, line.node].append(index)
    found: set[int] = set()
    for own in of.values():
        found.update(
            k for k, after in pairwise(own)
            if lines[after].sequence <= lines[k].sequence
            or process_of(lines[after]) != process_of(lines[k])
        )  # fmt: skip
        found.add(own[-1])
    return found


def _before(lines: Sequence[Any], index: int) -> int | None:
    """The index of the last line of the same node before one."""
    node = (lines[index].role, lines[index].node)
    before = range(index - 1, -1, -1)
    return next((k for k in before if (lines[k].role, lines[k].node) == node), None)
