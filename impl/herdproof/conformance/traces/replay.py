"""
Traces of any code, replayed in its spec: does the code do only what the spec allows?

Lines are put into the order in which things happened, made into terms of the spec by a map, and the
spec is led along them, group by group. What is carried is the set of all states that the lines so
far allow, closed under silent steps. Faults among these are supposed only where a line is not
explained without; before anything differs, it is tried again with all of them, everywhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from herdproof.conformance.traces import compiled
from herdproof.conformance.traces.binding import Bindings
from herdproof.conformance.traces.compiled import plain as plain_steps
from herdproof.conformance.traces.following import Following, Watch
from herdproof.conformance.traces.groups import (
    Missing,
    by_group,
    gaps,
    groups_of,
    groups_of_nodes,
    silent,
)
from herdproof.conformance.traces.line import TraceError, TraceLine, read_files
from herdproof.conformance.traces.mapping import Raw, TraceMap
from herdproof.conformance.traces.ordering import numbered, ordered
from herdproof.conformance.traces.repeated import disputes, with_repeated
from herdproof.conformance.traces.standing import NoElement
from herdproof.conformance.traces.values import Values
from herdspec.check.conformance.conform import Outcome, Progress, Verdict
from herdspec.check.conformance.conform import conform as conform_raw
from herdspec.check.conformance.follow import Steps
from herdspec.check.conformance.invariants import invariants_of
from herdspec.check.conformance.mismatch import Mismatch
from herdspec.engine.python_emit import Overflows
from herdspec.language.errors import UsageError
from herdspec.language.specification import DeclaredProperty
from herdspec.language.surface import sizes_of_sorts

Watches = Callable[[], Watch]


def conform_files(
    paths: Sequence[Path], table: TraceMap, *, failing: Collection[str] = (),
    invariants: bool = True, slack_ns: int = 0, cap: int = 0, progress: Progress | None = None,
    complete: bool = True,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several, in the spec of a map.

    `slack_ns` is how far the clocks of the machines that wrote them may be apart, in nanoseconds:
    0 on one machine. It is for raw maps; other lines say what they sent and received. The spec's
    promises and lemmas about single states, but for those that are known to be `failing`, are
    evaluated in every state. At most `cap` states (0: as the map says) are carried; more are
    unknown. Unless each trace is known to be there to its end (`complete`), a group is unknown,
    too, which differs after some process's last line. Raises `TraceError` for what cannot be read,
    or is no trace of this spec.
    """
    return conform_lines(
        read_files(paths, table.formats), table, failing=failing, invariants=invariants,
        slack_ns=slack_ns, cap=cap, progress=progress, complete=complete,
    )  # fmt: skip


def conform_lines(
    lines: Sequence[Any], table: TraceMap, *, failing: Collection[str] = (),
    invariants: bool = True, slack_ns: int = 0, cap: int = 0, progress: Progress | None = None,
    whole: bool = True, plain: bool = False, watches: Watches | None = None,
    complete: bool = True,
) -> Outcome:  # fmt: skip
    """
    Replay lines, in any order; `whole`: all that were ever written should be there.

    If not, they are in order, and what is missing is known to the caller. `plain`: by the spec's
    own Python, however long they are. `watches` makes what is told of every step that is taken: for
    each try of a group's replay, of which the last one counts.
    """
    if slack_ns and table.raw is None:
        raise UsageError(
            f"--slack: lines of {table.name} are ordered by their times and by what they sent and"
            f" received: write these (Tracer.step, sent= and received=)"
        )
    name = table.name
    for line in lines:
        if line.protocol != name:
            raise TraceError(
                f"{line.place}: this is a trace of {line.protocol}, and the map is of {name}:"
                f" give a map of {line.protocol} (--spec, --map), or say TraceMap(protocol=…)"
            )
    every, missing = lines, list[Missing]()
    if whole:
        told = with_repeated(lines)
        every = numbered(ordered(told, table.links(told)), table.start)
        missing = [*gaps(every), *_unsent(every), *_untraced(every, table), *_disputed(every)]
    missing += _unmodelled(every, table)

    def replay(group: str, upto: int) -> Outcome:
        of = [(k, line) for k, line in enumerate(every[:upto]) if line.group in ("", group)]
        own = [line for _, line in of]
        chosen = table.chosen(own)

        def led(by: TraceMap) -> Outcome:
            promises = invariants_of(by.specification, failing) if invariants else []
            return _Group(
                by, own, promises, cap or table.cap, slack_ns, progress, plain, watches
            ).outcome()

        made = led(chosen)
        if made.verdict is Verdict.DIFFERS and chosen.lenient is not None:
            lenient = replace(chosen.lenient(), protocol=name)
            made = replace(led(lenient), stricter=made.mismatch)
        # In lines of the whole trace: up to the one that is not explained.
        at = made.matched
        matched = of[at][0] if at < len(of) else upto
        made = replace(made, matched=matched)
        if made.verdict is not Verdict.DIFFERS:
            return made
        why = "" if complete else may_be_cut(own, at, chosen)
        if not why and chosen.excused is not None:
            why = chosen.excused(every, matched)
        unknown = replace(made, verdict=Verdict.UNKNOWN, reason=why, mismatch=None)
        return unknown if why else made

    groups = groups_of(every)
    outcome = by_group(groups or [""], len(every), missing, replay)
    return outcome if groups else replace(outcome, groups={})


def may_be_cut(lines: Sequence[TraceLine], at: int, table: TraceMap) -> str:
    """Whose lines may be missing where one of a group's differs; empty if nobody's."""
    strangers = table.strangers(lines, at) if table.strangers is not None else ""
    return next(iter(silent(lines, at)), strangers)


def _unmodelled(lines: Sequence[TraceLine], table: TraceMap) -> Iterator[Missing]:
    """Lines from which on a group is followed no further: the spec has no such step."""
    for k, line in enumerate(lines):
        if line.action in table.unmodelled:
            why = f"{line.action} ({line.place}) is no step of the spec"
            yield Missing(why, k, frozenset({line.group}) if line.group else None)


def _disputed(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """Lines that the next ones of their processes contradict: which of the two is so?"""
    for at, line, why in disputes(lines):
        yield Missing(why, at, frozenset({line.group}) if line.group else None)


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
    values = Values(table.specification, table.names, table.scales())
    bindings = Bindings(table, values, lines)
    for line in lines:
        bindings.of(line).told(line, gather=True)
        for sort, name in values.lately:
            if sort in table.nodes:
                named[sort, name].add(line.group)
        values.lately.clear()
    for (sort, name), groups in sorted(named.items()):
        if name not in nodes:
            whose = None if "" in groups else frozenset(groups)
            yield Missing(f"the trace of {name}, a {sort}, is missing", 0, whose)


# ── A group ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Group:
    """One group's lines, in order."""

    table: TraceMap
    lines: Sequence[TraceLine]
    promises: Sequence[DeclaredProperty]
    cap: int
    slack_ns: int
    progress: Progress | None
    plain: bool
    watches: Watches | None

    def outcome(self) -> Outcome:
        """Replay them; plainly where that says more, or goes on where what is compiled cannot."""
        if self.table.raw is not None:
            return self._raw()
        plain, factor = self.plain or self.table.plain, 1
        while True:
            bindings = self._bindings()
            sizes = bindings.sizes(factor)
            steps = self._steps(sizes, plain=plain)
            try:
                outcome = self._replayed(bindings, steps)
            except NoElement:
                factor *= 2
            except Overflows:  # the plain Python has no bound that a channel could overflow
                plain = True
            else:
                if outcome.mismatch is None or steps.machine.sizes == sizes:
                    return outcome
                plain = True  # what differs is told at these sizes, not at those compiled

    def _bindings(self) -> Bindings:
        """The map's rows for these lines, all of whose names and numbers are known."""
        values = Values(self.table.specification, self.table.names, self.table.scales())
        bindings = Bindings(self.table, values, self.lines)
        bindings.gather(self.lines)
        return bindings

    def _steps(self, sizes: Mapping[str, int], *, plain: bool) -> Steps:
        spec = self.table.specification
        if plain:
            return plain_steps(spec, sizes)
        spare = {*self.table.spare, *self.table.identities}
        return compiled.COMPILER.of(spec, sizes, spare, len(self.lines))

    def _replayed(self, bindings: Bindings, steps: Steps) -> Outcome:
        """First without faults that nothing asks for; if that does not do, with all."""
        promises = compiled.COMPILER.invariants(steps, self.promises) if self.promises else None
        with sizes_of_sorts(steps.machine.sizes):

            def run(bindings: Bindings, put_off: frozenset[str]) -> tuple[Outcome, bool]:
                watch = self.watches() if self.watches is not None else None
                replay = Following(bindings, steps, self.lines, promises, self.cap, watch)
                return replay.run(put_off, self.progress), replay.follower.has_put_off

            outcome, has_put_off = run(bindings, self.table.faults())
            if outcome.verdict is Verdict.DIFFERS and has_put_off:
                again, _ = run(self._bindings(), frozenset())
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
