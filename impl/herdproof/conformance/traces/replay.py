"""
Traces of any code, replayed in its spec: does the code do only what the spec allows?

Lines are put into the order in which things happened, made into terms of the spec by a map, and the
spec is led along them, group by group. What is carried is the set of all states that the lines so
far allow, closed under silent steps. Faults among these are supposed only where a line is not
explained without; before anything differs, it is tried again with all of them, everywhere.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from herdproof.conformance.traces.groups import (
    Missing,
    by_group,
    gaps,
    groups_of,
    groups_of_nodes,
)
from herdproof.conformance.traces.line import TraceError, TraceLine, read_files
from herdproof.conformance.traces.mapping import Bound, Raw, Told, TraceMap, bound
from herdproof.conformance.traces.ordering import Causes, numbered, ordered
from herdproof.conformance.traces.values import NoValue, Values, unlike
from herdspec.check.conform import CAP, Outcome, Progress, Verdict
from herdspec.check.conform import conform as conform_raw
from herdspec.check.follow import Call, Follower, Led, PlainSteps, Steps, TooManyStates, Way
from herdspec.check.invariants import Invariants, invariants_of
from herdspec.check.mismatch import Mismatch, Miss
from herdspec.check.run import Machine, written
from herdspec.check.scripted import Scripted
from herdspec.engine.ground import LARGEST, Ground
from herdspec.engine.scripted import Overflows
from herdspec.language.errors import UsageError
from herdspec.language.specification import Action, Promise
from herdspec.language.surface import sizes_of_sorts

WORTH_IT = 500
"""Compiling a spec takes about as long as its plain Python takes for so many lines."""


def conform_files(
    paths: Sequence[Path], table: TraceMap, *, failing: Collection[str] = (),
    invariants: bool = True, slack_ns: int = 0, cap: int = CAP, progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several, in the spec of a map.

    `slack_ns` is how far the clocks of the machines that wrote them may be apart, in nanoseconds:
    0 on one machine. It is for raw maps; other lines say what they sent and received. The spec's
    promises and lemmas about single states, but for those that are known to be `failing`, are
    evaluated in every state. At most `cap` states are carried; more are unknown. Raises
    `TraceError` for what cannot be read, or is no trace of this spec.
    """
    return conform_lines(
        read_files(paths, table.formats), table, failing=failing, invariants=invariants,
        slack_ns=slack_ns, cap=cap, progress=progress,
    )  # fmt: skip


def conform_lines(
    lines: Sequence[Any], table: TraceMap, *, failing: Collection[str] = (),
    invariants: bool = True, slack_ns: int = 0, cap: int = CAP, progress: Progress | None = None,
    whole: bool = True,
) -> Outcome:  # fmt: skip
    """
    The same of lines, in any order; `whole`: all that were ever written should be there.

    If not, they are in order, and what is missing is known to the caller.
    """
    if slack_ns and table.raw is None:
        raise UsageError(
            f"--slack: lines of {table.name} are ordered by their times and by what they sent and"
            f" received: write these (Tracer.step, sent= and received=)"
        )
    for line in lines:
        if line.protocol != table.name:
            raise TraceError(
                f"{line.place}: this is a trace of {line.protocol}, and the map is of {table.name}:"
                f" give a map of {line.protocol} (--spec, --map), or say TraceMap(protocol=…)"
            )
    every, missing = lines, list[Missing]()
    if whole:
        every = numbered(ordered(lines, Causes(lines)), table.start)
        missing = [*gaps(every), *_unsent(every), *_untraced(every, table)]
    promises = invariants_of(table.specification, failing) if invariants else []

    def replay(group: str, upto: int) -> Outcome:
        of = [(k, line) for k, line in enumerate(every[:upto]) if line.group in ("", group)]
        made = _Group(table, [line for _, line in of], promises, cap, slack_ns, progress).outcome()
        # In lines of the whole trace: up to the one that is not explained.
        matched = of[made.matched][0] if made.matched < len(of) else upto
        return replace(made, matched=matched)

    groups = groups_of(every)
    outcome = by_group(groups or [""], len(every), missing, replay)
    return outcome if groups else replace(outcome, groups={})


def _unsent(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """Messages that were received, and whose sender has no trace."""
    sent = {name for line in lines for name in line.sent}
    of = groups_of_nodes(lines)
    for k, line in enumerate(lines):
        for name in line.received:
            if name not in sent:
                why = f"message {name}, which {line.node} received ({line.place}), was sent by"
                groups = frozenset({line.group}) if line.group else of[line.role, line.node]
                yield Missing(f"{why} nobody whose trace is here", k, groups)


def _untraced(lines: Sequence[TraceLine], table: TraceMap) -> Iterator[Missing]:
    """Elements of sorts that write traces of their own, and have none."""
    if table.untraced is not None:
        yield from table.untraced(lines)
    if not table.nodes or table.raw is not None:
        return
    nodes = {line.node for line in lines}
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for sort in table.nodes:
        for name in table.names.get(sort, ()):
            named[sort, name].add("")
    values = _values(table)
    for line in lines:
        _bound(table, values, line)
        for sort, name in values.lately:
            if sort in table.nodes:
                named[sort, name].add(line.group)
        values.lately.clear()
    for (sort, name), groups in sorted(named.items()):
        if name not in nodes:
            whose = None if "" in groups else frozenset(groups)
            yield Missing(f"the trace of {name}, a {sort}, is missing", 0, whose)


def _values(table: TraceMap) -> Values:
    return Values(table.specification, table.names, table.scales())


def _bound(table: TraceMap, values: Values, line: TraceLine) -> Bound:
    """A line in the spec's terms; raises `TraceError` with its place."""
    try:
        return bound(table, values, line)
    except NoValue as problem:
        raise TraceError(f"{line.place}: {problem}") from None


# ── A group ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Group:
    """One group's lines, in order."""

    table: TraceMap
    lines: Sequence[TraceLine]
    promises: Sequence[Promise]
    cap: int
    slack_ns: int
    progress: Progress | None

    def outcome(self) -> Outcome:
        """Replay them."""
        if self.table.raw is not None:
            return self._raw()
        values = _values(self.table)
        for line in self.lines:
            _bound(self.table, values, line)
        values.settle()
        sizes = {sort: max(1, len(names)) for sort, names in values.names.items()}
        compiled = len(self.lines) >= WORTH_IT
        try:
            return self._replayed(values, self._steps(sizes, compiled=compiled))
        except Overflows:  # the plain Python has no bound that a channel could overflow
            return self._replayed(values, self._steps(sizes, compiled=False))

    def _steps(self, sizes: dict[str, int], *, compiled: bool) -> Steps:
        spec = self.table.specification
        if compiled:
            return Scripted(spec, sizes)
        return PlainSteps(Machine(Ground(spec, sizes, bound=LARGEST, faults=1)))

    def _replayed(self, values: Values, steps: Steps) -> Outcome:
        """First without faults that nothing asks for; if that does not do, with all."""
        with sizes_of_sorts(steps.machine.sizes):
            bounds = [_bound(self.table, values, line) for line in self.lines]
            replay = _Replay(self.table, values, steps, bounds, self.promises, self.cap)
            outcome = replay.run(self.table.faults(), self.progress)
            if outcome.verdict is Verdict.DIFFERS and replay.follower.has_put_off:
                again = replay.run(frozenset(), self.progress)
                longest = max(outcome, again, key=lambda o: o.matched)
                outcome = again if again.verdict is not Verdict.DIFFERS else longest
        return outcome

    def _raw(self) -> Outcome:
        """By the replay that looks back for faults."""
        assert self.table.raw is not None, "it was asked before"
        spec = self.table.specification
        if {f.name for f in spec.fields} != spec.rich.keys():
            raise UsageError(
                f"TraceMap({spec.name}, raw=…): raw lines are of specs without records, sets,"
                f" channels and parts; write rows"
            )
        raw = self.table.raw(self.lines)
        outcome = conform_raw(
            spec, raw.sizes, raw.lines, named=raw.named, never=raw.never, inbox=raw.inbox,
            slack=self.slack_ns, cap=self.cap, promises=self.promises, progress=self.progress,
        )  # fmt: skip
        return self._told(outcome, raw)

    def _told(self, outcome: Outcome, raw: Raw) -> Outcome:
        """The outcome in lines and names of the trace; an objection counts if nothing is before."""
        end, why = raw.objection or (len(self.lines), "")
        at = raw.at or range(len(raw.lines))
        matched = end if outcome.matched == len(raw.lines) else at[outcome.matched]
        mismatch = outcome.mismatch
        if mismatch is not None:
            mismatch = _in_names(mismatch, self.table.specification.sorts[0], raw.names)
        elif why and outcome.verdict is Verdict.CONFORMS:
            line = self.lines[end]
            mismatch = Mismatch(line.place, line.action, "nothing", (why,))
            outcome = replace(outcome, verdict=Verdict.DIFFERS)
        return replace(outcome, lines=len(self.lines), matched=matched, mismatch=mismatch)


def _in_names(mismatch: Mismatch, sort: str, names: Sequence[str]) -> Mismatch:
    """An explanation with the nodes' own names for the elements of the spec's first sort."""

    def named(text: str) -> str:
        return re.sub(rf"\b{sort.lower()}(\d+)\b", own, text)

    def own(found: re.Match[str]) -> str:
        index = int(found[1]) - 1
        return names[index] if index < len(names) else found[0]

    differences = tuple(map(named, mismatch.differences))
    return replace(mismatch, action=named(mismatch.action), differences=differences)


class _Replay:
    """Leads a spec along lines."""

    def __init__(
        self, table: TraceMap, values: Values, steps: Steps, bounds: Sequence[Bound],
        promises: Sequence[Promise], cap: int,
    ) -> None:  # fmt: skip
        self._values = values
        self._steps = steps
        self._bounds = bounds
        self._always = tuple(table.silent)
        self._cap = cap
        self._promises = Invariants(steps, promises) if promises else None
        self._choices: dict[str, list[tuple[Any, ...]]] = {}
        self._begins = _beginnings([b.line for b in bounds])
        self.follower: Follower

    def run(self, put_off: frozenset[str], progress: Progress | None) -> Outcome:
        """Go along all lines, or up to the first that differs."""
        begins = [self._steps.of(state) for state in self._steps.machine.starts()]
        follower = self.follower = Follower(
            self._steps, begins, cap=self._cap, put_off=put_off, promises=self._promises
        )
        matched, missed, reason = 0, None, ""
        for k, b in enumerate(self._bounds):
            try:
                for number in self._begins.get(k, ()):
                    follower.begin(number, self._led(self._bounds[number]))
                missed = follower.follow(self._led(b), k if b.line.earliest_ns < b.line.time_ns
                                         else None)  # fmt: skip
            except TooManyStates:
                reason = f"more than {self._cap} states are possible at {b.line.place}"
            if missed or reason:
                break
            matched = k + 1
            if progress:
                progress(matched, len(follower.carried))
        mismatch = self._mismatch(self._bounds[matched], missed) if missed else None
        if not any(b.action or b.row.ways for b in self._bounds):
            reason = "no step was traced"
        if not reason and mismatch is None and follower.doubts:
            reason = f"what the spec promises may be broken: {self._named(follower.doubts[0])}"
        verdict = Verdict.DIFFERS if mismatch else Verdict.UNKNOWN if reason else Verdict.CONFORMS
        actions = Counter(b.action.name for b in self._bounds[:matched] if b.action is not None)
        return Outcome(
            verdict, len(self._bounds), matched, actions, follower.silently - actions.keys(),
            follower.largest, 0.0, reason, mismatch, follower.tried, unshown=self._unshown(),
        )  # fmt: skip

    def _unshown(self) -> frozenset[str]:
        """The fields of which no line shows anything."""
        shown = {re.split(r"[.\[]", c.label)[0] for b in self._bounds for c in b.claims}
        return frozenset(self._steps.machine.spec.rich.keys() - shown)

    def _named(self, text: str) -> str:
        return self._values.named(text)

    def _led(self, b: Bound) -> Led:
        """How the spec is to be led along a line."""
        silent = (*self._always, *b.row.silent)
        claims = partial(unlike, b.claims)
        if b.row.ways is not None:
            told = Told(b.line, b.arguments, self._values)
            return Led(partial(b.row.ways, told), claims, every=True, silent=silent)
        return Led(self._ways(b), claims, every=True, silent=silent)

    def _ways(self, b: Bound) -> Sequence[Way]:
        """The action with the arguments that the line tells, and any others."""
        if b.action is None:
            return [[]]
        names = [name for name, _ in b.action.parameters]
        if all(name in b.arguments for name in names):
            return [[(b.action.name, tuple(b.arguments[name] for name in names))]]
        known = [(k, b.arguments[name]) for k, name in enumerate(names) if name in b.arguments]
        calls: list[Call] = [
            (b.action.name, arguments)
            for arguments in self._choices_of(b.action)
            if all(arguments[k] == value for k, value in known)
        ]
        return [[call] for call in calls]

    def _choices_of(self, action: Action) -> list[tuple[Any, ...]]:
        if action.name not in self._choices:
            machine = self._steps.machine
            self._choices[action.name] = [
                machine.arguments(action, numbers) for numbers in machine.ground.choices(action)
            ]
        return self._choices[action.name]

    def _mismatch(self, b: Bound, missed: Miss) -> Mismatch:
        """Why a line is not explained, in the code's names."""
        given = ", ".join(
            written(b.arguments[name]) if name in b.arguments else "…"
            for name, _ in (b.action.parameters if b.action else ())
        )
        action = f"{b.action.name}({given})" if b.action else f"{b.line.action} of {b.line.node}"
        differences = tuple(self._named(text) for text in missed.differences)
        return Mismatch(b.line.place, self._named(action), missed.kind, differences)


def _beginnings(lines: Sequence[TraceLine]) -> dict[int, list[int]]:
    """Before which line each step begins that was under way for a while: by place, their places."""
    times = list(accumulate((line.time_ns for line in lines), max))
    found: dict[int, list[int]] = defaultdict(list)
    for k, line in enumerate(lines):
        if line.earliest_ns < line.time_ns:
            found[min(k, bisect_left(times, line.earliest_ns))].append(k)
    return found
