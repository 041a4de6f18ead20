"""
One group's lines, held against the contract's own properties.

    found = judge(lines, "orders-readers")
    found.rulings["exclusive"].ruling

`lines` are those of the whole run, in any order: a coordinator numbers its lines through all its
groups.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from herdproof.conformance.traces.chained import process_of
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap, gaps_of, last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.protocols.central_coordinator.judged.consumers import (
    OF_CONSUMERS,
    Member,
    Partition,
    subscribed,
)
from herdproof.protocols.central_coordinator.judged.fields import INITIAL, OF_COORDINATORS
from herdproof.protocols.central_coordinator.judged.gaps import Untold
from herdproof.protocols.central_coordinator.judged.own import (
    BOOKS,
    LEADS,
    OF_OWN,
    SHARES,
    Requests,
    Shares,
    SharesRuled,
    Uneven,
)
from herdproof.protocols.central_coordinator.judged.own import WATCHES as OF_REQUESTS
from herdproof.protocols.central_coordinator.judged.partners import with_untold
from herdproof.protocols.central_coordinator.judged.telling import TellingFields
from herdproof.protocols.central_coordinator.traces.connections import Connections
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, Messages
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdspec.check.observation.inconclusive import LastReported
from herdspec.check.observation.observed import Judgement, Observed, Violation
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.protocols.contract.properties import CONTRACT, PROMISES

NAMES = {p.name for p in PROMISES}
WATCHES = watches_of(CONTRACT, INITIAL, [p for p in CONTRACT.properties if p.name in NAMES])
PROMISED = [p for p in CONTRACT.properties if p.name in NAMES or p.goal is not None]
SENTENCES = {
    **{p.name: p.sentence for p in (*PROMISED, *OF_REQUESTS.promises)},
    SHARES.name: SHARES.sentence,
}
"""Sentences of the promises, by name."""
UNDECIDED = {
    p.name: "a trace cannot show what is left undone for ever"
    for p in PROMISED
    if p.expectation not in JUDGED
}
"""Promises that no trace can decide, and why."""

UNTRACED = Gap(0, 0, "a coordinator has no trace here", COORDINATOR, "", 0)

Left = list[tuple[str, Any, LastReported]]
"""Entries that were told last by a process that is not heard any more."""


@dataclass(frozen=True)
class Judged:
    """Result of a group: of each promise, and what broke it at which line first."""

    rulings: Mapping[str, Judgement | SharesRuled]
    violations: Mapping[str, tuple[CentralStep, Violation | Uneven]] = field(default_factory=dict)


def judge(lines: Sequence[CentralStep], group: str, *, complete: bool = False) -> Judged:
    """Judge one group of a run; `complete` asserts that no process's trace was cut at its end."""
    own, gaps = lines_of(lines, group)
    return judge_ordered(own, gaps, set() if complete else last_lines(own))


def lines_of(lines: Sequence[CentralStep], group: str) -> tuple[list[CentralStep], list[Gap]]:
    """One group's lines of a run, in their order, and what is missing among them."""
    numbers = Numbers()
    for line in sorted(lines, key=lambda line: line.time_ns):
        if line.shared:
            process = process_of(line)
            numbers.note(line.role, line.node, line.sequence, line.time_ns, process)
    own = [x for x in lines if x.group in ("", group)]
    found = ordered(own, Messages(own))
    return found.lines, gaps_of(found, alone=False, missing=numbers.gaps())


def judge_ordered(own: Sequence[CentralStep], gaps: Sequence[Gap], last: set[int]) -> Judged:
    """Judge a group's lines in their order, of which some are missing."""
    judging = CentralJudge()
    violations: dict[str, tuple[CentralStep, Violation | Uneven]] = {}

    def after(line: CentralStep) -> None:
        for found in judging.broken():
            violations.setdefault(found.promise.name, (line, found))

    go_through(judging, with_untold(own, gaps, last), after)
    return Judged({j.promise.name: j for j in judging.judgements()}, violations)


class CentralJudge:
    """One group's lines, taken one after the other in their order."""

    def __init__(self) -> None:
        self.seen = Observed(WATCHES)
        self._stored: dict[Partition, int] = {}
        """Offsets that were stored before the trace begins, as first read."""
        self._generation: int | None = None
        """The generation that was."""
        self._table = TellingFields(self.seen, self._stored, 0)
        self._connections = Connections()
        self._requests = Requests(self.seen)
        self._shares = Shares(self.seen)
        self._uneven: list[Uneven] = []
        self._untold = Untold()
        self._taken: list[CentralStep] = []
        """Lines of which that does not know yet."""
        self._ahead: deque[bool] = deque()
        """Of the lines that come, whether somebody may coordinate then who tells nothing."""
        self._is_hidden = False
        self._wanted: set[str] = set()
        """All that somebody has subscribed to."""
        self._told: dict[Partition, None] = {}
        """All partitions that a coordinator was told of."""
        self._lacks: set[str] = set()
        """Roles of whose lines some are missing, or may be."""
        self._is_whole = True
        self._blind: dict[str, list[list[Member]]] = defaultdict(list)
        """By consumer, the members of whom lines are missing."""
        self._left: dict[tuple[str, str], tuple[int, Left]] = {}
        """By process that is not heard any more: its last number, and what was told by it last."""

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(WATCHES)
        self._requests.seen.bind(OF_REQUESTS)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        self._table.listen(tells)
        self.seen.hears = tells.hears

    def judgements(self) -> list[Judgement | SharesRuled]:
        """The ruling on each promise of the contract, and of the protocol's own."""
        self._table.settle()
        own = self._requests.seen.judgements()
        return [*self.seen.judgements(), *own, self._shares.judgement()]

    def broken(self) -> list[Violation | Uneven]:
        """The violations since this was asked last."""
        found: list[Violation | Uneven] = [*self.seen.broken(), *self._requests.seen.broken()]
        found += self._uneven
        self._uneven.clear()
        return found

    def close(self, time_ns: int) -> None:
        """Nothing more comes."""
        self._table.close(time_ns)

    # ── Lines ───────────────────────────────────────────────────────────────────────────────

    def sure(self, lines: Sequence[CentralStep], come: int) -> int:
        """
        The number of lines, of the first `come` ones, that need not wait for others.

        Who obeys a coordinator may be heard before that tells that it has begun.
        """
        self._catch_up()
        return self._untold.sure(lines, come)

    def foresee(self, lines: Sequence[CentralStep], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""
        self._catch_up()
        hidden = self._untold.coordinators(lines, whole if self._is_whole else 0)
        if self._is_whole:
            self._learn_stored(lines[: min([whole, *(k for k, h in enumerate(hidden) if h)])])
        for p in self._partitions_of(lines):
            self._table.partition(p)
        if self._untold.consumers(lines):
            self._lacks.add(CONSUMER)
        self._ahead = deque(hidden if self._is_hidden or True in hidden else ())

    def take(self, line: CentralStep) -> bool:
        """The next line; whether it broke something."""
        if self._ahead:
            self._looks_ahead()
        if self._left and (line.role, line.node) in self._left:
            self._comes_back(line)
        self._taken.append(line)
        if line.connection:
            line = self._connections.apart(line)
        action, table = line.action, self._table
        broken = action in OF_OWN and self._requests.take(line, is_present=table.is_present(line))
        if table.take(line):
            broken = self.seen.step() or broken
        if action in ("finish_rebalance", "begin_rebalance"):
            uneven = self._shares.look(table.subscribed)
            if uneven is not None:
                self._uneven.append(uneven)
                return True
        return broken

    def _looks_ahead(self) -> None:
        hidden = self._ahead.popleft()
        if hidden != self._is_hidden:
            self._is_hidden = hidden
            (self.lose if hidden else self.find)(UNTRACED)

    def _catch_up(self) -> None:
        """Who coordinates and consumes need be known where lines are foreseen."""
        for line in self._taken:
            self._untold.take(line)
        self._taken.clear()

    def _learn_stored(self, lines: Sequence[CentralStep]) -> None:
        """Learn what was stored before the trace begins, as lines read it before they write it."""
        for line in lines:
            if line.action == "begin_rebalance" and self._generation is None:
                self._generation = line.generation
                if line.generation:
                    self.seen.refine("generation", (), line.generation)
            elif line.action in ("send_start", "handle_resume"):
                for t, n, o in line.partitions:
                    self._was_stored((t, n), o + 1)
            elif line.action in ("flush_offsets", "write_owners"):
                self._generation = self._generation or 0
                for t, n, _ in line.partitions:
                    self._was_stored((t, n), 0)

    def _was_stored(self, p: Partition, offset: int) -> None:
        if self._stored.setdefault(p, offset) is offset and p in self.seen.domains["Partition"]:
            self._table.was_stored(p)

    def _partitions_of(self, lines: Sequence[CentralStep]) -> list[Partition]:
        """The partitions of the topics that somebody of the group is known to want."""
        self._wanted.update(x.subscription for x in lines if x.action == "register")
        for line in lines:
            if line.action == "topic_change_listener":
                self._told.update(dict.fromkeys((t, n) for t, n, _ in line.partitions))
        each = {subscribed(text) for text in self._wanted} - {None}
        topics = {t for t in {t for t, _ in self._told} if any(s.streams(t) for s in each if s)}
        return sorted((t, n) for t, n in self._told if t in topics)

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def lose(self, gap: Gap) -> None:
        """Take what these lines could have told as unknown from now on."""
        fields = OF_CONSUMERS if gap.role == CONSUMER else OF_COORDINATORS
        if gap.role == CONSUMER:
            members = self._table.members_of(gap.node)
            self._blind[gap.node].append(members)
            for m in members:
                for f in fields:
                    self.seen.blind(f, m)
            self._table.lose_consumer(gap.node)
        else:
            for f in fields:
                self.seen.blind(f)
            self._table.lose_coordinator()
            self._requests.lose()
        self.seen.gap(gap.lines, fields)
        self._table.lose(of_consumer=gap.role == CONSUMER)
        self._is_whole = False
        self._catch_up()
        self._untold.lose()
        self._lacks.add(gap.role)
        if self._hears_less:
            self._table.lose_finished()

    @property
    def _hears_less(self) -> bool:
        """Of who says how far it is, and of who hears it, lines are missing, or may be."""
        silent = {CONSUMER for role, _ in self._left if role == CONSUMER}
        return len(self._lacks | silent) > 1

    def knows(self, gap: Gap) -> None:
        """These lines are missing, and others tell what they said."""
        fields = OF_CONSUMERS if gap.role == CONSUMER else OF_COORDINATORS
        self.seen.gap(gap.lines, fields, told=True)
        if gap.role != CONSUMER:
            self._requests.seen.gap(gap.lines, (BOOKS, LEADS), told=True)

    def find(self, gap: Gap) -> None:
        """Take what is told from now on as known."""
        self._table.find(of_consumer=gap.role == CONSUMER)
        if gap.role == CONSUMER:
            for m in self._blind[gap.node].pop(0):
                for f in OF_CONSUMERS:
                    self.seen.sees(f, m)
            self._table.lose_consumer(gap.node)
        else:
            for f in OF_COORDINATORS:
                self.seen.sees(f)
            self._table.lose_coordinator()
            self._requests.find()

    def leave(self, line: CentralStep) -> None:
        """That was the last line of a process, as far as is known."""
        self.seen.left.clear()
        self._table.leave(line)
        self._requests.leave(line)
        self._left[line.role, line.node] = line.sequence, [*self.seen.left]
        if len(self._lacks | {line.role}) > 1:
            self._table.doubt_finished()

    def _comes_back(self, line: CentralStep) -> None:
        """A process is heard again: if it is the same one, nothing was missed."""
        sequence, left = self._left.pop((line.role, line.node))
        if line.sequence > sequence:
            self._table.come_back(line)
            for f, k, value in left:
                if self.seen.entries[f].get(k) is value:
                    self.seen.entries[f][k] = value.value
