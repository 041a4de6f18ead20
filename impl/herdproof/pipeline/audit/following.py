"""
One group, or one bucket of groups, followed while lines come: what a stream keeps as its state.

A line waits until lines that happened before it cannot come any more: until `late_ns` has passed
since then, by the clocks of the lines themselves. Then it is told in its order. A line that comes
later than that goes to quarantine, and what was open is marked as not known. Without such lines,
the rows are those of a judge who has all lines before him (`judge.py`), however they came; but a
gap in numbers begins to matter only when the line after it has come.

Everything here can be pickled between two parts.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from herdproof.conformance.traces.ordering import missing_between, processes
from herdproof.conformance.traces.repeated import Repetitions
from herdproof.pipeline.audit.judge import CONFORMS, RAW, duplicate
from herdproof.pipeline.audit.numbers import Node, Numbers
from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.judging.apart import APART
from herdproof.pipeline.judging.gaps import (
    Concerning,
    Gap,
    MissingNumbers,
    is_gap,
    last_lines,
    lines_between,
    placed,
)
from herdproof.pipeline.spark.tables import Row, Rows

NEVER = -(2**63)
FOR_EVER = 2**63 - 1

REMEMBERED = 4096
"""The number of a group's last lines that are known again when they come twice."""


class Came(NamedTuple):
    """A line, and its record."""

    line: Any
    raw: bytes


class Gaps:
    """Where lines of a group are missing: after which line they can have been, and before which."""

    def __init__(self) -> None:
        self.perhaps: Sequence[MissingNumbers] = ()
        """In numbers through all groups: what is not there yet, but can still come in time."""
        self._last: dict[Node, Any] = {}
        """By role and node, its last line that was told."""
        self._after: dict[Name, Gap] = {}
        """By line that waits: what is missing after it."""
        self._begin: list[Gap] = []
        """Gaps that begin with the next line, whoever tells it."""
        self._open: dict[Node, Gap] = {}
        """Gaps that last up to a node's next line."""
        self._shared: dict[MissingNumbers, bool | None] = {}
        """Gaps in numbers through all groups: True once one has begun, None once it has ended."""
        self._found: list[str] = []

    def miss(self, gaps: Iterable[MissingNumbers]) -> None:
        """Note the gaps of those who number their lines through all groups."""
        self._shared.update(dict.fromkeys(gaps, False))

    def whys(self) -> list[str]:
        """All that is missing."""
        return [*self._found, *(gap.why for gap in self._shared)]

    def foresee(
        self, lines: Iterable[Any], told_ns: int, until_ns: int
    ) -> tuple[dict[int, int], int]:
        """
        When each waiting line's turn is (by its id), and until when lines can be told.

        Before `until_ns` nothing comes any more. Who waits for a number that can still come is not
        told yet, nor is what happened since: else it would be told without the doubt. So is what
        waits for a line that says whether those that are missing are about the group.
        """
        turns: dict[int, int] = {}
        of: dict[Node, list[Any]] = defaultdict(list)
        for line in lines:
            turns[id(line)] = line.time_ns
            of[line.role, line.node].append(line)
        since = [missed.since_ns for missed in self.perhaps]
        since += self._concern(chain.from_iterable(of.values()), until_ns)
        self._after.clear()
        for node in sorted(of):
            since += self._foresee(node, of[node], turns, told_ns, until_ns)
        return turns, min([until_ns, *since])

    def _concern(self, lines: Iterable[Any], until_ns: int) -> list[int]:
        """
        Drop the missing lines that are about other groups, as those that wait say.

        Since when some are missing of which none says it yet.
        """
        undecided = [missed for missed, begun in self._shared.items() if begun is False]
        concerning = Concerning(lines if undecided else ())
        since = []
        for missed in undecided:
            if not concerning.is_decided(missed, until_ns):
                since.append(missed.since_ns)
            elif (own := concerning.of(missed)) != missed:
                del self._shared[missed]
                if own is not None:
                    self._shared[own] = False
        return since

    def _foresee(
        self, node: Node, lines: list[Any], turns: dict[int, int], told_ns: int, until_ns: int
    ) -> Iterator[int]:
        """One node's lines: their turns; since when a number is awaited that can still come."""
        before: Any = None
        turn_ns, last = told_ns, self._last.get(node)
        for line in _by_number(lines, turns):
            since_ns, turn_ns = turn_ns, max(turn_ns, line.time_ns)
            turns[id(line)] = turn_ns
            gap = _gap(last, line)
            if gap is not None and turn_ns >= until_ns:
                yield since_ns
            elif gap is not None and before is not None:
                self._after[_name(before)] = gap
            elif gap is not None and node not in self._open:
                self._opens(node, gap)
            before = last = line

    def place(self, coming: Sequence[Any], rest: Sequence[Any]) -> tuple[Passes, int]:
        """
        The gaps in numbers through all groups that begin or end among lines that come.

        And how many of these come before anything is missing at all.
        """
        ahead = [*coming, *rest]
        passes: Passes = defaultdict(list)
        left = [missed for missed, begun in self._shared.items() if begun is not None]
        whole = 0 if self._begin or self._open or self._shared.keys() - left else len(ahead)
        for missed, gap in zip(left, placed(ahead, left), strict=True):
            has_begun = self._shared[missed]
            whole = min(whole, 0 if has_begun else gap.begin)
            if not has_begun and gap.begin < len(coming):
                passes[gap.begin].append((True, gap))
                self._shared[missed] = has_begun = True
            if has_begun and gap.end < len(coming):
                passes[max(gap.begin, gap.end)].append((False, gap))
                self._shared[missed] = None
        for index, line in enumerate(ahead[:whole] if self._after else ()):
            if _name(line) in self._after:
                whole = index + 1
                break
        return passes, whole

    def at(self, line: Any) -> Iterator[tuple[bool, Gap]]:
        """The gaps that begin (True) or end (False) at the next line that is told."""
        node = (line.role, line.node)
        found = self._open.pop(node, None)
        if found is None and (found := _gap(self._last.get(node), line)) is not None:
            self._begin.append(found)  # the line after has come too late to say so before
        for gap in self._begin:
            yield True, gap
        self._begin.clear()
        self._last[node] = line
        if found is not None:
            self._found.append(found.why)
            yield False, found
        if (after := self._after.get(_name(line))) is not None:
            self._opens(node, after)

    def end(self) -> Iterator[tuple[bool, Gap]]:
        """The gaps that are left after all lines."""
        for missed, has_begun in self._shared.items():
            (gap,) = placed((), [missed])
            if has_begun is False:
                yield True, gap
            if has_begun is not None:
                yield False, gap

    def _opens(self, node: Node, gap: Gap) -> None:
        self._open[node] = gap
        self._begin.append(gap)


Passes = dict[int, list[tuple[bool, Gap]]]
"""By a line's index, what begins (or else ends) to be missing before it."""


def _gap(before: Any, line: Any) -> Gap | None:
    """The gap between two lines of a node (before: None for its first one), if there is one."""
    if line.sequence == 1 or not is_gap(line, alone=False):
        return None
    why = missing_between(before, line)
    if not why:
        return None
    last = 0 if before is None else before.sequence
    if line.sequence <= last:
        why = f"of {line.node}, what came before line {line.sequence}"
    many = lines_between(last, line.sequence)
    return Gap(last, line.sequence, why, line.role, line.node, many)


class FollowedGroup:
    """One group of one run."""

    def __init__(self, protocol: str, run: str, group: str) -> None:
        auditor = auditors()[protocol]
        self.protocol, self.run, self.group = protocol, run, group
        self._judging = auditor.judging(run, group)
        self._early = auditor.early()
        self._waiting: list[Came] = []
        self._gaps = Gaps()
        self._repetitions = Repetitions()
        self._late: list[str] = []
        self._told_ns = NEVER
        """Every line before this was told."""
        self._known: dict[tuple[str, str, int, int], None] = {}
        """The last lines that were told."""

    def take(self, came: Iterable[Came]) -> list[Row]:
        """Lines that have come, in any order; rows for the quarantine."""
        aside = []
        for one in came:
            if self._early is not None and self._early(one.line):
                self._judging.doubt(APART)
                self._early = None
            if one.line.time_ns >= self._told_ns:
                self._waiting.append(one)
            elif _name(one.line) in self._known:
                aside.append(duplicate(self.run, self.group, one.line))
            else:
                aside.append(self._set_aside(one))
        return aside

    def miss(self, gaps: Iterable[MissingNumbers]) -> None:
        """Lines of those who number theirs through all groups are missing."""
        self._gaps.miss(gaps)

    def may_miss(self, gaps: Sequence[MissingNumbers]) -> bool:
        """Tell whether lines may still come; and note whether these are others than before."""
        changed, self._gaps.perhaps = gaps != self._gaps.perhaps, gaps
        return changed

    def tell(self, until_ns: int) -> tuple[list[Row], list[Came]]:
        """Tell what happened before a time: rows for the quarantine, and the lines as told."""
        lines = [one.line for one in self._waiting]
        turns, until_ns = self._gaps.foresee(lines, self._told_ns, until_ns)
        until_ns = self._sure_ns(lines, turns, until_ns)
        due = [one for one in self._waiting if turns[id(one.line)] < until_ns]
        self._waiting = [one for one in self._waiting if turns[id(one.line)] >= until_ns]
        self._told_ns = max(self._told_ns, until_ns)
        if not due:
            return [], []
        one_of = {id(one.line): one for one in due}
        aside: list[Row] = []
        coming: list[Any] = []
        for part in _parts([one.line for one in due], turns):
            auditor = auditors()[self.protocol]
            found = auditor.ordered(part)
            if auditor.settings(found) is not None:
                self._judging.doubt(APART)
            again = found.twice
            for line in found.lines:
                (again if self._is_known(line) else coming).append(line)
            aside += [duplicate(self.run, self.group, line) for line in again]
        waiting = (one.line for one in self._waiting)
        self._tell(coming, sorted(waiting, key=lambda line: turns[id(line)]))
        for name in list(self._known)[:-REMEMBERED]:
            del self._known[name]
        return aside, [one_of[id(line)] for line in coming]

    def _sure_ns(self, lines: Sequence[Any], turns: Mapping[int, int], until_ns: int) -> int:
        """Until when lines can be told, as their judge says who knows some of those that follow."""
        in_turn = sorted(lines, key=lambda line: turns[id(line)])
        come = bisect_left(in_turn, until_ns, key=lambda line: turns[id(line)])
        sure = come if come == len(in_turn) else self._judging.sure(in_turn, come)
        return until_ns if sure == come else turns[id(in_turn[sure])]

    def drain(self) -> Rows:
        """Rows that are finished."""
        return self._judging.drain()

    def ended(self) -> tuple[Rows, list[Came], list[str]]:
        """If nothing came any more: the last rows, the lines told by then, and all doubts."""
        other: FollowedGroup = pickle.loads(pickle.dumps(self))
        other.miss(other._gaps.perhaps)
        other.may_miss(())
        aside, told = other.tell(FOR_EVER)
        for begins, gap in other._gaps.end():
            other._passes(begins, gap)
        doubts = [*other._late, *other._gaps.whys()]
        return {**other._judging.close(), "quarantine": aside}, told, doubts

    def _is_known(self, line: Any) -> bool:
        name = _name(line)
        if name in self._known:
            return True
        self._known[name] = None
        return False

    def _tell(self, coming: Sequence[Any], rest: Sequence[Any]) -> None:
        """The next lines in order; `rest` are those that are known to come after them."""
        ahead = [*coming, *rest]
        passes, whole = self._gaps.place(coming, rest)
        doubts = self._doubts(coming)
        self._judging.foresee(ahead, min([whole, *doubts]))
        last = last_lines(ahead)
        for index, line in enumerate(coming):
            if index in doubts:
                self._judging.doubt(doubts[index])
            for begins, gap in [*passes.get(index, ()), *self._gaps.at(line)]:
                self._passes(begins, gap)
            self._judging.take(line)
            if index in last:
                self._judging.leave(line)

    def _doubts(self, coming: Sequence[Any]) -> dict[int, str]:
        """By index, why lines are not to be relied on; of one that was told before, at once."""
        places = {id(line): index for index, line in enumerate(coming)}
        found: dict[int, str] = {}
        for line in coming:
            before, why = self._repetitions.take(line)
            if why:
                found.setdefault(places.get(id(before), 0), why)
        return found

    def _passes(self, begins: bool, gap: Gap) -> None:
        """Lines are missing from here on, or no more."""
        if begins:
            self._judging.lose(gap)
        else:
            self._judging.find(gap)

    def _set_aside(self, one: Came) -> Row:
        """A line that should have been told before others that were."""
        line = one.line
        behind = (self._told_ns - line.time_ns) / 1e9
        why = f"a line came late: {line.place}"
        self._late.append(why)
        late = Gap(0, 0, why, line.role, line.node, 1)
        self._passes(True, late)
        self._passes(False, late)
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


def _parts(lines: list[Any], turns: Mapping[int, int]) -> Iterator[list[Any]]:
    """
    Lines in the order of their turns, in parts that begin where a process does.

    Who orders lines knows a node's processes apart by their first lines, of which the earlier one
    may have been told long ago.
    """
    starts = sorted({turns[id(line)] for line in lines if line.sequence == 1})
    parts: list[list[Any]] = [[] for _ in range(len(starts) + 1)]
    for line in lines:
        parts[bisect_right(starts, turns[id(line)])].append(line)
    yield from (part for part in parts if part)


def _by_number(lines: list[Any], times: Mapping[int, int]) -> Iterator[Any]:
    """A node's lines, each process's in the order of their numbers; what is there twice, once."""
    for part in _parts(lines, times):
        for process in processes(part, []):
            yield from process


Name = tuple[str, str, int, int]


def _name(line: Any) -> Name:
    """The key that a line is known by."""
    return line.role, line.node, line.sequence, line.time_ns


@dataclass
class Part:
    """A group's rows after a part of the stream: finished ones, and those still open."""

    group: str
    rows: Rows
    told: list[Came] = field(default_factory=list)
    opened: Rows | None = None
    """All rows that stand if nothing comes any more; None where nothing has changed."""
    waiting: list[Came] = field(default_factory=list)
    """The lines that would be told if nothing comes any more."""
    doubts: list[str] = field(default_factory=list)
    """Lines that are missing, or came too late, by then."""


class Bucket:
    """The groups of one run that share a bucket, with the lines that concern all of them."""

    def __init__(self, protocol: str, run: str) -> None:
        self.protocol, self.run = protocol, run
        self._groups: dict[str, FollowedGroup] = {}
        self._common: list[Came] = []
        self._numbers = Numbers()
        self._gaps: set[MissingNumbers] = set()
        self._latest_ns = NEVER

    def take(
        self, own: dict[str, list[Came]], common: Sequence[Came], numbers: Iterable[bytes],
        late_ns: int,
    ) -> list[Part]:  # fmt: skip
        """A part of the stream: lines by group, lines of all groups, what numbers were seen."""
        came = [*common, *(one for lines in own.values() for one in lines)]
        self._latest_ns = max([self._latest_ns, *(one.line.time_ns for one in came)])
        until_ns = self._latest_ns - late_ns
        gaps, perhaps = self._new_gaps(numbers, until_ns)
        for group in own.keys() - self._groups.keys():
            self._groups[group] = FollowedGroup(self.protocol, self.run, group)
            self._groups[group].miss(sorted(self._gaps.difference(gaps)))
            own[group] = [*self._common, *own[group]]
        self._common += common
        return [
            self._part(following, [*own.get(group, ()), *common], gaps, perhaps, until_ns)
            for group, following in sorted(self._groups.items())
        ]

    def _new_gaps(
        self, numbers: Iterable[bytes], until_ns: int
    ) -> tuple[list[MissingNumbers], list[MissingNumbers]]:
        """Numbers that are missing for good, since nothing from then will come any more; others."""
        for packed in numbers:
            self._numbers.add(packed)
        self._numbers.compact(until_ns)
        every = self._numbers.gaps()
        gaps = [gap for gap in every if gap.until_ns < until_ns and gap not in self._gaps]
        self._gaps.update(gaps)
        return gaps, [gap for gap in every if gap.until_ns >= until_ns]

    def _part(
        self, following: FollowedGroup, came: list[Came], gaps: list[MissingNumbers],
        perhaps: list[MissingNumbers], until_ns: int,
    ) -> Part:  # fmt: skip
        following.miss(gaps)
        changed = following.may_miss(perhaps)
        aside = following.take(came)
        more, told = following.tell(until_ns)
        part = Part(following.group, {**following.drain(), "quarantine": aside + more}, told)
        if came or told or gaps or changed:
            part.opened, part.waiting, part.doubts = following.ended()
        return part
