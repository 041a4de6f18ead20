"""
One group's lines, held against the contract's own properties.

    found = judge(lines, "orders-readers")
    found.rulings["exclusive"].ruling

`lines` are those of the whole run, in any order: a coordinator numbers its lines through all its
groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from herdproof.conformance.traces.ordering import ordered
from herdproof.protocols.central_coordinator.judged import commands
from herdproof.protocols.central_coordinator.judged.commands import CommandFields
from herdproof.protocols.central_coordinator.judged.consumers import (
    OF_CONSUMERS,
    Partition,
    subscribed,
)
from herdproof.protocols.central_coordinator.judged.fields import (
    INITIAL,
    OF_COORDINATORS,
    CentralFields,
)
from herdproof.protocols.central_coordinator.judged.gaps import (
    MissingLines,
    gaps_of,
    has_untraced,
    last_lines,
    untold,
)
from herdproof.protocols.central_coordinator.judged.partners import with_untold
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, Messages
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdspec.check.observation.observed import Judgement, Observed, Violation
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.contract.properties import CONTRACT, PROMISES

TELLS = {CONSUMER: OF_CONSUMERS, COORDINATOR: OF_COORDINATORS}
"""By role, the fields of which its lines tell."""
OF_THE_CONTRACT = {p.name for p in PROMISES}
NAMES = OF_THE_CONTRACT | commands.NAMES
WATCHES = watches_of(
    CONTRACT, INITIAL, [p for p in CONTRACT.properties if p.name in OF_THE_CONTRACT]
)


@dataclass(frozen=True)
class Judged:
    """What came of a group: of each promise, and what broke it at which line first."""

    rulings: Mapping[str, Judgement]
    violations: Mapping[str, tuple[CentralStep, Violation]] = field(default_factory=dict)


def judge(lines: Sequence[CentralStep], group: str, *, complete: bool = False) -> Judged:
    """Judge one group of a run; `complete` asserts that no process's trace was cut at its end."""
    own = ordered([x for x in lines if x.group in ("", group)], Messages()).lines
    gaps = gaps_of(lines, own)
    gaps += untold(lines, own, gaps)
    return judge_ordered(own, gaps, set() if complete else last_lines(lines, own))


def judge_ordered(
    own: Sequence[CentralStep], gaps: Sequence[MissingLines], last: set[int]
) -> Judged:
    """Judge a group's lines in their order, of which some are missing."""
    seen = Observed(WATCHES)
    filled = with_untold(own, gaps, last)
    own, gaps, last = filled.own, filled.gaps, filled.last
    first_gap = min([g.begin for g in gaps], default=len(own))
    table = CentralFields(seen, *_stored_before(own[:first_gap]))
    for p in _wanted(own):
        table.partition(p)
    own_fields = CommandFields(table)
    for gap in filled.closed:
        seen.gap(gap.lines, TELLS[gap.role], told=True)
        if gap.role == COORDINATOR:
            own_fields.seen.gap(gap.lines, commands.FIELDS, told=True)
    losses = _Losses(table, own_fields, own, gaps)
    violations: dict[str, tuple[CentralStep, Violation]] = {}
    take, step, at, command = table.take, seen.step, losses.at, own_fields.take
    for index, line in enumerate(own):
        if index in at:
            losses.pass_by(index)
        if take(line) and step():
            for found in seen.broken():
                violations.setdefault(found.promise.name, (line, found))
        for found in command(line):
            violations.setdefault(found.promise.name, (line, found))
        if index in last:
            losses.leave(line)
    table.settle()
    judgements = [*seen.judgements(), *own_fields.seen.judgements()]
    return Judged({j.promise.name: j for j in judgements}, violations)


class _Losses:
    """Forgets what missing lines could have told, while they could."""

    def __init__(
        self, table: CentralFields, commands: CommandFields, own: Sequence[CentralStep],
        gaps: Sequence[MissingLines],
    ) -> None:  # fmt: skip
        self._table = table
        self._commands = commands
        self._seen = table.seen
        self._begun = {CONSUMER} if has_untraced(own) else set[str]()
        """Of whose lines some are missing, or may be."""
        self._members: dict[int, list[object]] = {}
        self.at: dict[int, list[tuple[bool, MissingLines]]] = defaultdict(list)
        for gap in gaps:
            self.at[gap.begin].append((True, gap))
            self.at[gap.end].append((False, gap))

    def pass_by(self, index: int) -> None:
        """The gaps that end, and begin, before a line."""
        for begins, gap in sorted(self.at[index], key=lambda x: x[0]):
            if gap.begin == gap.end:
                continue
            if begins:
                self._begin(gap)
            else:
                self._end(gap)
        for begins, gap in self.at[index]:
            if begins and gap.begin == gap.end:
                self._begin(gap)
                self._end(gap)

    def _begin(self, gap: MissingLines) -> None:
        if gap.role == CONSUMER:
            members = self._members[id(gap)] = [*self._table.members_of(gap.node)]
            for m in members:
                for f in OF_CONSUMERS:
                    self._seen.blind(f, m)
            self._table.lose_consumer(gap.node)
        else:
            for f in OF_COORDINATORS:
                self._seen.blind(f)
            self._table.lose_coordinator()
            self._commands.lose(gap.lines, begins=True)
        self._seen.gap(gap.lines, TELLS[gap.role])
        self._is_lost(gap.role)

    def _end(self, gap: MissingLines) -> None:
        if gap.role == CONSUMER:
            for m in self._members.pop(id(gap)):
                for f in OF_CONSUMERS:
                    self._seen.sees(f, m)
            self._table.lose_consumer(gap.node)
        else:
            for f in OF_COORDINATORS:
                self._seen.sees(f)
            self._table.lose_coordinator()
            self._commands.lose(gap.lines, begins=False)

    def leave(self, line: CentralStep) -> None:
        """The last line of a process."""
        self._table.leave(line)
        if line.role == CONSUMER:
            self._begun.add(CONSUMER)

    def _is_lost(self, role: str) -> None:
        """Who says how far it is, and who hears it: where both are missing, nobody knows."""
        self._begun.add(role)
        if len(self._begun) > 1:
            self._seen.forget_all("finished")


def _stored_before(own: Sequence[CentralStep]) -> tuple[dict[Partition, int], int]:
    """The offsets and the generation that were stored before the trace begins, as first read."""
    offsets: dict[Partition, int] = {}
    generation = None
    for line in own:
        action = line.action
        if action not in READ_OR_WRITTEN:
            continue
        if action == "begin_rebalance":
            generation = line.generation if generation is None else generation
        elif action == "send_start":
            for t, n, o in line.partitions:
                offsets.setdefault((t, n), o + 1)
        else:
            generation = generation or 0
            for t, n, _ in line.partitions:
                offsets.setdefault((t, n), 0)
    return offsets, generation or 0


READ_OR_WRITTEN = frozenset({"begin_rebalance", "send_start", "flush_offsets", "write_owners"})


def _wanted(own: Sequence[CentralStep]) -> list[Partition]:
    """The partitions of the topics that somebody of the group is known to want."""
    few = [x for x in own if x.action in ("register", "topic_change_listener")]
    wanted = {subscribed(x.subscription) for x in few if x.action == "register"} - {None}
    told = [x.partitions for x in few if x.action == "topic_change_listener"]
    named = {(t, n) for partitions in told for t, n, _ in partitions}
    topics = {t for t, _ in named if any(s.streams(t) for s in wanted if s is not None)}
    return sorted((t, n) for t, n in named if t in topics)
