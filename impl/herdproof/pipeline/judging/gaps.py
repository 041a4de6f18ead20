"""Lines that are missing: after which line they can have been, and before which."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from herdproof.conformance.traces.ordering import Ordered


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


@dataclass(frozen=True)
class Filled:
    """A group's lines with those that others tell of, and what is missing all the same."""

    own: Sequence[Any]
    gaps: Sequence[Gap]
    last: set[int]
    """Each process's last line."""
    closed: Sequence[Gap] = ()
    """Gaps that are none: all that is missing in them is told by others."""


def gaps_of(found: Ordered[Any], *, alone: bool, missing: Iterable[MissingNumbers]) -> list[Gap]:
    """Where lines are missing, as their own numbers tell, and others."""
    gaps = []
    for index, why in found.gaps.items():
        line = found.lines[index]
        if is_gap(line, alone=alone):
            before = _before(found.lines, index)
            last = 0 if before is None else found.lines[before].sequence
            begin = 0 if before is None else before + 1
            many = lines_between(last, line.sequence)
            exact = 0 < last < line.sequence  # else a former process may have gone on
            gaps.append(Gap(begin, index, why, line.role, line.node, many, exact))
    return [*gaps, *placed(found.lines, missing)]


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
        )  # fmt: skip
        found.add(own[-1])
    return found


def _before(lines: Sequence[Any], index: int) -> int | None:
    """The index of the last line of the same node before one."""
    node = (lines[index].role, lines[index].node)
    before = range(index - 1, -1, -1)
    return next((k for k in before if (lines[k].role, lines[k].node) == node), None)
