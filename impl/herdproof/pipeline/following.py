"""
One group, or one bucket of groups, followed while lines come: what a stream keeps as its state.

A line waits until lines that happened before it cannot come any more: until `late_ns` has passed
since then, by the clocks of the lines themselves. Then it is told in its order. A line that comes
later than that goes to quarantine, and what was open is marked as not known. Without such lines,
the rows are those of a judge who has all lines before him (`judge.py`), however they came.

Everything here can be pickled between two parts.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from herdproof.pipeline.events import Missing
from herdproof.pipeline.history import History
from herdproof.pipeline.judge import CONFORMS, RAW, duplicate, is_gap
from herdproof.pipeline.numbers import Numbers
from herdproof.pipeline.protocols import PROTOCOLS
from herdproof.pipeline.tables import Row, Rows

NEVER = -(2**63)
FOR_EVER = 2**63 - 1

REMEMBERED = 4096
"""So many of a group's last lines are known again when they come twice."""


class Came(NamedTuple):
    """A line, and its record."""

    line: Any
    raw: bytes


class Following:
    """One group of one run."""

    def __init__(self, protocol: str, run: str, group: str) -> None:
        auditor = PROTOCOLS[protocol]
        self.protocol, self.run, self.group = protocol, run, group
        self._history = History(run, group, auditor.name, auditor.observable)
        self._teller = auditor.teller(run, group)
        self._waiting: list[Came] = []
        self._missing: list[tuple[int, str, int]] = []
        self.doubts: list[str] = []
        """What is missing, or came too late."""
        self._told_ns = NEVER
        """Every line before this was told."""
        self._last: dict[tuple[str, str], int] = {}
        """By role and node, the number of its last line."""
        self._known: dict[tuple[str, str, int, int], None] = {}
        """The last lines that were told."""

    def take(self, came: Iterable[Came]) -> list[Row]:
        """Lines that have come, in any order; rows for the quarantine."""
        aside = []
        for one in came:
            if one.line.time_ns >= self._told_ns:
                self._waiting.append(one)
            elif _name(one.line) in self._known:
                aside.append(duplicate(self.run, self.group, one.line))
            else:
                aside.append(self._late(one))
        return aside

    def miss(self, gaps: Iterable[tuple[int, str, int]]) -> None:
        """Lines of those who number theirs through all groups are missing."""
        self._missing += gaps

    def tell(self, until_ns: int) -> tuple[list[Row], list[Came]]:
        """Tell what happened before a time: rows for the quarantine, and the lines as told."""
        due = [one for one in self._waiting if one.line.time_ns < until_ns]
        self._waiting = [one for one in self._waiting if one.line.time_ns >= until_ns]
        self._told_ns = max(self._told_ns, until_ns)
        if not due:
            return [], []
        one_of = {id(one.line): one for one in due}
        aside: list[Row] = []
        told: list[Came] = []
        for part in _parts([one.line for one in due]):
            found = PROTOCOLS[self.protocol].ordered(part)
            aside += [duplicate(self.run, self.group, line) for line in found.twice]
            for line in found.lines:
                if self._is_known(line):
                    aside.append(duplicate(self.run, self.group, line))
                else:
                    self._tell(line)
                    told.append(one_of[id(line)])
        for name in list(self._known)[:-REMEMBERED]:
            del self._known[name]
        return aside, told

    def drain(self) -> Rows:
        """Rows that are finished."""
        return self._history.drain()

    def ended(self) -> tuple[Rows, list[Came], list[str]]:
        """If nothing came any more: the last rows, the lines told by then, and all doubts."""
        other: Following = pickle.loads(pickle.dumps(self))
        aside, told = other.tell(FOR_EVER)
        for _, why, _ in other._missing:
            other._doubt(why)
        return {**other._history.close(), "quarantine": aside}, told, other.doubts

    def _is_known(self, line: Any) -> bool:
        name = _name(line)
        if name in self._known:
            return True
        self._known[name] = None
        return False

    def _tell(self, line: Any) -> None:
        """The next line in order."""
        while self._missing and self._missing[0][0] <= line.time_ns:
            _, why, _ = self._missing.pop(0)
            self.doubts.append(why)
            self._history.feed(Missing(time_ns=line.time_ns, place=line.place, why=why))
        node = (line.role, line.node)
        wanted = 1 if line.sequence == 1 else self._last.get(node, 0) + 1
        self._last[node] = line.sequence
        if line.sequence != wanted and is_gap(line, alone=False):
            why = f"of {line.node}, lines {wanted} to {line.sequence - 1}"
            self.doubts.append(why)
            self._history.feed(
                Missing(time_ns=line.time_ns, place=line.place, node=line.node, why=why)
            )
        for event in self._teller.tell(line):
            self._history.feed(event)

    def _doubt(self, why: str) -> None:
        self.doubts.append(why)
        self._history.unsure(why)

    def _late(self, one: Came) -> Row:
        """A line that should have been told before others that were."""
        line = one.line
        behind = (self._told_ns - line.time_ns) / 1e9
        self._doubt(f"a line came late: {line.place}")
        return {
            "run": self.run, "group": self.group, "reason": "late",
            "why": f"it came when {behind:.3f} s after it had been judged",
            "place": line.place, "time_ns": line.time_ns, "raw": one.raw[:RAW],
        }  # fmt: skip


def not_replayed(protocol: str, run: str, group: str, why: str) -> Row:
    """The verdict on lines that were not replayed."""
    return {
        "run": run, "group": group, "protocol": protocol, "property": CONFORMS,
        "verdict": "unknown", "why": why, "checked": 0,
    }  # fmt: skip


def _parts(lines: list[Any]) -> Iterator[list[Any]]:
    """
    Lines in the order of time, in parts that begin where a process does.

    Who orders lines knows a node's processes apart by their first lines, of which the earlier one
    may have been told long ago.
    """
    starts = sorted({line.time_ns for line in lines if line.sequence == 1})
    parts: list[list[Any]] = [[] for _ in range(len(starts) + 1)]
    for line in lines:
        parts[bisect_right(starts, line.time_ns)].append(line)
    yield from (part for part in parts if part)


def _name(line: Any) -> tuple[str, str, int, int]:
    """What a line is known by."""
    return line.role, line.node, line.sequence, line.time_ns


@dataclass
class Part:
    """What a group's rows are after a part of the stream: finished ones, and those still open."""

    group: str
    rows: Rows
    told: list[Came] = field(default_factory=list)
    opened: Rows | None = None
    """All rows that stand if nothing comes any more; None where nothing has changed."""
    waiting: list[Came] = field(default_factory=list)
    """And the lines that would be told then."""
    doubts: list[str] = field(default_factory=list)
    """What is missing, or came too late, by then."""


class Bucket:
    """The groups of one run that share a bucket, with the lines that concern all of them."""

    def __init__(self, protocol: str, run: str) -> None:
        self.protocol, self.run = protocol, run
        self._groups: dict[str, Following] = {}
        self._common: list[Came] = []
        self._numbers = Numbers()
        self._gaps: set[tuple[int, str, int]] = set()
        self._latest_ns = NEVER

    def take(
        self, own: dict[str, list[Came]], common: Sequence[Came], numbers: Iterable[bytes],
        late_ns: int,
    ) -> list[Part]:  # fmt: skip
        """A part of the stream: lines by group, lines of all groups, what numbers were seen."""
        came = [*common, *(one for lines in own.values() for one in lines)]
        self._latest_ns = max([self._latest_ns, *(one.line.time_ns for one in came)])
        until_ns = self._latest_ns - late_ns
        gaps = self._new_gaps(numbers, until_ns)
        for group in own.keys() - self._groups.keys():
            self._groups[group] = Following(self.protocol, self.run, group)
            self._groups[group].miss(sorted(self._gaps))
            own[group] = [*self._common, *own[group]]
        self._common += common
        return [
            self._part(following, [*own.get(group, ()), *common], gaps, until_ns)
            for group, following in sorted(self._groups.items())
        ]

    def _new_gaps(self, numbers: Iterable[bytes], until_ns: int) -> list[tuple[int, str, int]]:
        """Numbers that are missing for good, since nothing from then will come any more."""
        for packed in numbers:
            self._numbers.add(packed)
        self._numbers.compact(until_ns)
        gaps = [gap for gap in self._numbers.gaps() if gap[0] < until_ns and gap not in self._gaps]
        self._gaps.update(gaps)
        return gaps

    def _part(
        self,
        following: Following,
        came: list[Came],
        gaps: list[tuple[int, str, int]],
        until_ns: int,
    ) -> Part:
        following.miss(gaps)
        aside = following.take(came)
        more, told = following.tell(until_ns)
        part = Part(following.group, {**following.drain(), "quarantine": aside + more}, told)
        if came or told or gaps:
            part.opened, part.waiting, part.doubts = following.ended()
        return part
