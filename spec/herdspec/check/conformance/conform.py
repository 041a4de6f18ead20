"""
The *conform* reading: a trace of an implementation, replayed in the spec's plain Python.

A trace names the steps that its nodes took, and what each node was like then. What the world did
in between (a call served, a connection cut) it does not name: the replay carries the *set* of all
states that the lines so far allow, closed under the unnamed steps that are no faults. Faults are
supposed only where a line cannot be explained without, the cheapest first (those that change the
fewest fields): one just before the line, whoever's it is; or a cheaper one of the line's own node
within the last `window` lines (its server may have lagged for a while); or two just before it.

Where nothing of that explains a line, the trace *differs*. Where a bound was hit on the way (more
states than may be carried, orders that were not tried), the outcome is *unknown*, and never
"conforms". The work per line is bounded by the cap and the window, so that a replay is linear in
its trace.

This module knows no implementation and no file format: whoever has a trace makes `Line`s of it.

Where nearly every step is named, and what is silent may come right before a line, `follow.py` does
with less: it goes forward only. Traces of elections need to look back, for a server that lags and
is found out later. Tried on 75 of them, of 2 to 4 brokers, clean and touched: going forward, all
faults supposed at once led to more than 4,096 states from 3 brokers on; one fault at a time, then
two, explained 11 of 12 clean traces; with one more within the last 256 lines, every verdict was
that of this replay, with 228 states at most, where it carries 35. So what it has beyond `follow.py`
is how faults are supposed; the way in which states are carried could be the same. Whoever has
traces has one door to both (`herdproof.conformance.traces`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product

from herdspec.check.conformance.invariants import InvariantsOfSets
from herdspec.check.conformance.mismatch import Mismatch, nearest
from herdspec.check.conformance.possible import (
    Line,
    Possibilities,
    Possible,
    Promises,
    Prophecy,
    TooMany,
    UnnamedAction,
)
from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Ground
from herdspec.language.specification import DeclaredProperty as Promised
from herdspec.language.specification import Specification
from herdspec.language.surface import sizes_of_sorts

CAP = 4096
"""The number of states that may be carried."""
WINDOW = 256
"""The number of lines for which a fault may have gone unnoticed."""
NEAR = 16
"""The number of lines back in which a fault is looked for that explains a later line as well."""
REACH = 32
"""By how many places a line may be moved where its order is open."""

Progress = Callable[[int, int], None]
"""Told after each line: how many were matched, how many states are carried."""


class Verdict(Enum):
    """The verdict on a trace."""

    CONFORMS = "conforms"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a trace; `matched` lines were explained before the first that was not."""

    verdict: Verdict
    lines: int
    matched: int
    named: Mapping[str, int]
    """The spec's actions that the matched lines name, how often."""
    inferred: frozenset[str]
    """The spec's actions that the trace does not name, and that explain the matched lines."""
    largest: int
    """The most states that were carried at once."""
    seconds: float
    reason: str = ""
    """Why it is unknown."""
    mismatch: Mismatch | None = None
    steps: int = 0
    """The number of the spec's steps that were tried: the work done."""
    groups: Mapping[str, Outcome] = field(default_factory=dict)
    """Of a trace of several groups, each group's own outcome."""
    unshown: frozenset[str] = frozenset()
    """The spec's fields that no line shows: nothing was compared with them."""
    stricter: Mismatch | None = None
    """Where it differs from the spec itself, if the verdict is of what this code may do beside."""

    @property
    def covered(self) -> frozenset[str]:
        """The spec's actions that this trace exercised."""
        return frozenset(self.named) | self.inferred


def conform(
    spec: Specification,
    sizes: Mapping[str, int],
    lines: Sequence[Line],
    *,
    named: Collection[str],
    never: Collection[str] = (),
    inbox: str | None = None,
    slack: int = 0,
    cap: int = CAP,
    window: int = WINDOW,
    promises: Sequence[Promised] = (),
    progress: Progress | None = None,
) -> Outcome:
    """
    Replay a trace in a spec; the node of a `Line` is an element of the spec's first sort.

    `named` are the actions that such traces name wherever they happen; `never` those that need
    not be supposed, since they only withhold steps (a pause). `inbox` is a field (a map from
    nodes) that only unnamed steps fill, and that stays as it is until a step of its node empties
    it: so what a later line tells of it is known before, which spares states and changes no
    verdict (a line that is not explained is judged again without). `slack` says how far, in the
    unit of the lines' times, the nodes' clocks may be apart: lines of different nodes that are
    closer than that are tried in other orders too, where the order of time does not do.

    `promises` are evaluated in every state that is carried: a line after which each of these
    breaks one differs; where only some do, the outcome is unknown.
    """
    machine = Machine(Ground(spec, dict(sizes), bound=LARGEST, faults=1))
    kept = InvariantsOfSets(machine, promises) if promises else None

    def replay(order: Sequence[Line], slack: int) -> Outcome:
        possibilities = Possibilities(machine, named, never, cap)
        return Replay(possibilities, list(order), inbox, slack, window, kept).run(progress)

    with sizes_of_sorts(sizes):
        outcome = replay(lines, 0)
        if outcome.verdict is Verdict.DIFFERS and slack:
            return _with_other_clocks(replay, lines, slack)
        return outcome


def _with_other_clocks(
    replay: Callable[[Sequence[Line], int], Outcome], lines: Sequence[Line], slack: int
) -> Outcome:
    """
    The outcome if some clocks are fast, by quarters of the slack, and lines are moved a little.

    Not every order is tried, so that a trace that differs in all that were is unknown.
    """
    nodes = dict.fromkeys(line.node for line in lines)
    fast, best = dict.fromkeys(nodes, 0), replay(lines, slack // 4)
    for _ in nodes:
        present = fast
        for node, quarter in product(nodes, range(5)):
            tried = {**present, node: quarter * slack // 4}
            if tried != present and best.verdict is not Verdict.CONFORMS:
                found = replay(_corrected(lines, tried), slack // 4)
                if found.verdict is Verdict.CONFORMS or found.matched > best.matched:
                    best, fast = found, tried
    if best.verdict is Verdict.CONFORMS:
        return best
    reason = (
        "in the order of time it differs, and not every order that these clocks allow was tried"
    )
    return replace(best, verdict=Verdict.UNKNOWN, reason=reason)


def _corrected(lines: Sequence[Line], fast: Mapping[int, int]) -> list[Line]:
    """The lines with the clocks put right, in the order of time."""
    right = (
        replace(i, time=i.time - by, since=None if i.since is None else i.since - by)
        for i in lines
        for by in [fast[i.node]]
    )
    return sorted(right, key=lambda line: line.time)


class Replay:
    """One replay. `before[k]` are the states carried before line k of `lines`, its order."""

    def __init__(
        self, possibilities: Possibilities, lines: list[Line], inbox: str | None,
        slack: int, window: int, kept: InvariantsOfSets | None = None,
    ) -> None:  # fmt: skip
        self.possibilities = possibilities
        self.kept = kept
        self.lines = lines
        self.slack = slack
        self.window = window
        self.before: list[Possible] = []
        self.inbox = inbox
        first, self.promise = self._promised()
        self.promises: list[Promises] = [first]
        """The promises about the inboxes before each line."""
        self.supposed: dict[int, list[UnnamedAction]] = {}
        """Which faults explained a line, by its place."""
        self.unsure = ""
        self.doubt = ""
        """Which promise may have been broken, and after which line."""

    def run(self, progress: Progress | None) -> Outcome:
        """Replay until the end, or until a line is not explained."""
        began = time.perf_counter()
        reason, mismatch, largest = "", None, 0
        try:
            self.before.append(self.possibilities.initial(self.promises[0]))
            while len(self.before) <= len(self.lines) and mismatch is None:
                mismatch = self._next()
                if mismatch is not None and not self.slack and self._may_be_misled():
                    mismatch = None
                if mismatch is None and self.kept is not None:
                    mismatch = self._broken(self.kept)
                largest = max(largest, len(self.before[-1]))
                if progress:
                    progress(len(self.before) - 1, len(self.before[-1]))
        except TooMany:
            reason = f"more than {self.possibilities.cap} states are possible at a line"
        matched = max(0, len(self.before) - 1)
        if mismatch is not None and mismatch.kind != "promise":
            reason = self.unsure
        elif mismatch is None:
            reason = reason or self.doubt
        verdict = Verdict.UNKNOWN if reason else Verdict.DIFFERS if mismatch else Verdict.CONFORMS
        names = (line.action for line in self.lines[:matched])
        return Outcome(
            verdict, len(self.lines), matched, Counter(n for n in names if n is not None),
            self.possibilities.inferred(self.before[-1] if self.before else {}), largest,
            time.perf_counter() - began, reason, mismatch, self.possibilities.taken,
        )  # fmt: skip

    def _broken(self, kept: InvariantsOfSets) -> Mismatch | None:
        """The mismatch after the last line, if every state that is possible breaks a promise."""
        k = len(self.before) - 2
        found = [kept.broken(carried) for carried in self.before[-1].values()]
        if k < 0 or not any(found):
            return None
        line = self.lines[k]
        if all(found):
            action = f"{line.action or 'a step'} of {self.possibilities.nodes[line.node]!r}"
            return Mismatch(line.where, action, "promise", tuple(found[0]))
        broken = next(filter(None, found))[0]
        self.doubt = self.doubt or f"{line.where}: a promise may be broken after it: {broken}"
        return None

    def _promised(self) -> tuple[Promises, dict[int, Prophecy | None]]:
        """The promises about inboxes at first, and about its node's after each line (by its id)."""
        present: list[Prophecy | None] = [None] * len(self.possibilities.nodes)
        found: dict[int, Prophecy | None] = {}
        for line in reversed(self.lines):
            found[id(line)] = present[line.node]
            if self.inbox is not None and self._empties(line):
                present[line.node] = self.possibilities.promise(self.inbox, line)
        return tuple(present), found

    def _may_be_misled(self) -> bool:
        """
        Tells whether a line that is not explained was judged by what later lines tell of an inbox.

        If so, go back to where the first such promise was made, and go on without any: it may be a
        later line that is wrong, and then that is the line to name.
        """
        k, nodes = len(self.before) - 1, self.possibilities.nodes
        waiting = {node for node, promise in enumerate(self.promises[k]) if promise is not None}
        if not waiting:
            return False
        places = {line.node: j for j, line in enumerate(self.lines[:k]) if self._empties(line)}
        first = min(places.get(node, 0) for node in waiting)
        self.promise = dict.fromkeys(self.promise)
        nothing: Promises = (None,) * len(nodes)
        if first <= k - self.window:
            first, self.before = 0, [self.possibilities.initial(nothing)]
        del self.before[first + 1 :], self.promises[first:]
        self.promises.append(nothing)
        return True

    def _empties(self, line: Line) -> bool:
        """Tells whether a line's action may change the inbox."""
        changes = self.possibilities.changes.get(line.action or "", [])
        return any(name == self.inbox for name, _ in changes)

    def _then(self, promises: Promises, line: Line) -> Promises:
        """The promises about the inboxes after a line."""
        node = line.node
        return (*promises[:node], self.promise[id(line)], *promises[node + 1 :])

    def _after(self, possible: Possible, promises: Promises, line: Line) -> Possible:
        return self.possibilities.after(possible, line, self._then(promises, line))

    def _next(self) -> Mismatch | None:
        """Explain one more line, or say why that cannot be done."""
        k = len(self.before) - 1
        after = self._after(self.before[k], self.promises[k], self.lines[k])
        after = after or self._happened_earlier(k) or self._explain(k) or self._other_order(k)
        if not after:
            return self._nearest(k)
        self.before.append(after)
        self.promises.append(self._then(self.promises[k], self.lines[k]))
        if k >= self.window:
            self.before[k - self.window] = {}  # nobody goes back that far
        return None

    # ── Faults ──────────────────────────────────────────────────────────────────────────────

    def _explain(self, k: int) -> Possible:
        """
        Suppose what is cheapest, and what is cheaper still but must have come a little earlier.

        Where nothing comes of that, look further back, and at what befell other nodes.
        """
        found: Possible = {}
        groups = self.possibilities.suppositions
        cheaper = []
        for group in groups:
            found = self._suppose(self.before[k], self.promises[k], group, self.lines[k])
            if found:
                self.supposed[k] = group
                break
            cheaper.append(group)
        for group in cheaper if found else ():
            found = {**self._unnoticed(k, _of(self.lines[k].node, group), NEAR), **found}
        for reach in () if found else (NEAR, 4 * NEAR, self.window):
            found = found or self._first_unnoticed(k, min(reach, self.window))
        return found or self._two(k)

    def _first_unnoticed(self, k: int, reach: int) -> Possible:
        """The states after line k, if one step came unnoticed; its own node's are tried first."""
        groups = self.possibilities.suppositions
        own = [_of(self.lines[k].node, group) for group in groups]
        for group in [*own, *groups]:
            if found := self._unnoticed(k, group, reach):
                return found
        return {}

    def _suppose(
        self, possible: Possible, promises: Promises, group: list[UnnamedAction], line: Line
    ) -> Possible:
        """The states after a line, if one of these steps came just before it."""
        try:
            others = self.possibilities.disturbed(possible, group, promises)
            return self._after(others, promises, line)
        except TooMany:
            self.unsure = "too many states were possible where faults were supposed"
            return {}

    def _unnoticed(self, k: int, instances: list[UnnamedAction], reach: int) -> Possible:
        """The states after line k, if one of these steps came within so many lines before it."""
        first = max(0, k - reach)
        trail = self._trail(first, k, instances)
        found = self._after(trail[-1], self.promises[k], self.lines[k]) if trail else {}
        if found:
            for j, others in enumerate(trail, start=first):
                self.before[j] = {**self.before[j], **others}
        return found

    def _trail(self, first: int, last: int, instances: list[UnnamedAction]) -> list[Possible]:
        """For each of these lines: the states before it, if one of these steps came earlier."""
        trail: list[Possible] = []
        others: Possible = {}
        try:
            for j in range(first, last):
                new = self.possibilities.disturbed(self.before[j], instances, self.promises[j])
                others.update(new)
                trail.append(others)
                others = self._advance(j, others)
        except TooMany:
            self.unsure = "too many states were possible where faults were supposed"
            return []
        return [*trail, others]

    def _advance(self, j: int, possible: Possible) -> Possible:
        """The states after a line that was explained before, coming from other states."""
        after = self._after(possible, self.promises[j], self.lines[j])
        if possible and j in self.supposed:
            after |= self._suppose(possible, self.promises[j], self.supposed[j], self.lines[j])
        return {k: carried for k, carried in after.items() if k not in self.before[j + 1]}

    def _two(self, k: int) -> Possible:
        """The states after line k, if two things that must be supposed came just before it."""
        groups = self.possibilities.suppositions
        for first in groups:
            for second in groups:
                try:
                    once = self.possibilities.disturbed(self.before[k], first, self.promises[k])
                except TooMany:
                    self.unsure = "too many states were possible where faults were supposed"
                    continue
                if found := self._suppose(once, self.promises[k], second, self.lines[k]):
                    self.supposed[k] = [*first, *second]
                    return found
        return {}

    # ── Order ───────────────────────────────────────────────────────────────────────────────

    def _happened_earlier(self, k: int) -> Possible:
        """Try a line that may have happened some lines ago, before those."""
        line = self.lines[k]
        j = k
        while j > max(0, k - REACH) and self._may_swap(self.lines[j - 1], line):
            j -= 1
            order = [line, *self.lines[j:k]]
            if after := self._replayed(j, order, []):
                return after
        if j < k and j == k - REACH:
            self.unsure = f"a line was moved by at most {REACH} places"
        return {}

    def _other_order(self, k: int) -> Possible:
        """Try lines of other nodes first, if the clocks allow that: of one node, or of all."""
        line = self.lines[k]
        near = self.lines[k + 1 : k + 1 + REACH] if self.slack else []
        others = [i for i in near if i.node != line.node and i.earliest <= line.time + self.slack]
        nodes = dict.fromkeys(i.node for i in others)
        for some in (*([i for i in others if i.node == node] for node in nodes), others):
            for count in range(1, len(some) + 1):
                first = some[:count]
                rest = [i for i in near if not any(i is other for other in first)]
                if after := self._replayed(k, [*first, line], rest):
                    return after
        return {}

    def _may_swap(self, earlier: Line, later: Line) -> bool:
        """Tells whether the second may have come before the first."""
        if earlier.node == later.node:
            return earlier.time >= later.earliest and later.since is not None
        return earlier.time >= later.earliest - self.slack

    def _replayed(self, j: int, order: list[Line], rest: list[Line]) -> Possible:
        """
        The states after these lines from place j on; if there are any, they are the order.

        `rest` are the lines that then follow, up to where the order is as it was.
        """
        trail, known = [self.before[j]], [self.promises[j]]
        for line in order:
            after = self._after(trail[-1], known[-1], line)
            for group in self.possibilities.suppositions if not after else ():
                after = after or self._suppose(trail[-1], known[-1], group, line)
            if not after:
                return {}
            trail.append(after)
            known.append(self._then(known[-1], line))
        self.lines[j : j + len(order) + len(rest)] = [*order, *rest]
        self.before[j:], self.promises[j:] = trail[:-1], known[:-1]
        return trail[-1]

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def _nearest(self, k: int) -> Mismatch:
        """Why line k is not explained, by the state in which the least is missing."""
        sets = [self.before[k]]
        for group in self.possibilities.suppositions:
            try:
                open_to_all = (None,) * len(self.possibilities.nodes)
                sets.append(self.possibilities.disturbed(self.before[k], group, open_to_all))
            except TooMany:
                continue
        return nearest(self.possibilities, self.lines[k], sets)


def _of(node: int, group: list[UnnamedAction]) -> list[UnnamedAction]:
    """The steps of a group that are about a node."""
    return [instance for instance in group if instance.node == node]
