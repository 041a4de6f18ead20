"""
Traces of the central coordinator, replayed in its spec, one group after the other.

Coordinators and consumers tell every step that they take (`central_coordinator/tracing.py`); the
spec is led along these lines (`herdspec.check.follow`). What nobody tells is supposed where a line
could not be without it: an election, a lost session, a connection that broke, a topic that
appeared, records that were produced and finished.

How a trace's values become the spec's:

- a connection is a `Member`: the same one as its consumer's connection before, where nobody counts
  on that any more;
- offsets and epochs are numbered in their order, since the spec only compares them; offset 0 of the
  spec is "none stored";
- a write happens where it was sent, if it was answered "done" at all; where it was never answered,
  or nobody knows, both are possible.

Over a connection that is broken nothing travels in the spec, while sockets may still hand out what
was on its way: such a line is no step. What a consumer does then is judged by its lease (`Leases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from herdproof.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdproof.conformance.traces.groups import Missing, by_group, gaps, groups_of
from herdproof.link.central_consumers import CONSUMERS
from herdproof.link.central_coordinators import COORDINATORS
from herdproof.link.central_lines import CentralStep, Placed, read_central
from herdproof.link.central_replay import GroupReplay, Watch
from herdproof.link.central_view import NoElement, View
from herdspec.check.conform import Outcome, Progress, Verdict
from herdspec.check.follow import Steps
from herdspec.check.invariants import Invariants, invariants_of
from herdspec.check.scripted import Scripted
from herdspec.engine.scripted import Overflows
from herdspec.language.specification import Promise, Specification
from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR

STEPS = {
    **{(COORDINATOR, action): made for action, made in COORDINATORS.items()},
    **{(CONSUMER, action): made for action, made in CONSUMERS.items()},
}
"""What each line is to the spec, by role and action; others are nothing to it."""


Views = Callable[[], Watch]


def conform_central(
    paths: Sequence[Path], *, specification: Specification = CENTRAL_COORDINATOR,
    invariants: bool = True, progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several; each group has its own verdict.

    Where a trace, or a part of one, is missing, the groups that it may be about are unknown, unless
    they differ before. Raises `TraceError` where a file cannot be read.
    """
    return conform_lines(
        read_central(paths), specification=specification, invariants=invariants, progress=progress
    )


def conform_lines(
    placed: Sequence[Placed], *, specification: Specification = CENTRAL_COORDINATOR,
    watch: Watch | None = None, progress: Progress | None = None, plain: bool = False,
    numbered: bool = True, views: Views | None = None, invariants: bool = False,
) -> Outcome:  # fmt: skip
    """
    Replay lines that are in the order of time.

    `plain`: by the spec's own Python. `numbered`: all processes' lines should be there, and all of
    them. `views` makes a watch that is content with views of compiled states: one for each try of a
    group's replay, of which the last one counts. `invariants`: what was proved of every state is
    evaluated in each.
    """
    lines = [p.line for p in placed]
    missing = [*gaps(lines), *untraced(lines)] if numbered else []
    # Of a variant nothing was proved.
    proved = invariants_of(specification) if invariants and specification is VERIFIED else ()

    def replay(group: str, upto: int) -> Outcome:
        with_all = placed if upto == len(placed) else placed[:upto]
        return _replayed(with_all, group, specification, watch, progress, plain, views, proved)

    return by_group(groups_of(lines), len(lines), missing, replay)


VERIFIED = CENTRAL_COORDINATOR


def untraced(lines: Sequence[CentralStep]) -> Iterator[Missing]:
    """Whose traces are missing: consumers that registered, coordinators that were obeyed."""
    consumers = {line.node for line in lines if line.role == CONSUMER}
    epochs = {line.epoch for line in lines if line.action == "coordinator_startup"}
    named: set[Any] = set()
    for k, line in enumerate(lines):
        if line.action == "handle_register" and line.outcome == "accepted":
            who = line.consumer
            if who not in consumers and (who, line.group) not in named:
                named.add((who, line.group))
                why = f"the trace of consumer {who} of {line.group} is missing"
                yield Missing(why, k, frozenset({line.group}))
        elif line.action in COMMANDED and line.epoch not in epochs | named:
            named.add(line.epoch)
            yield Missing(f"the trace of the coordinator of epoch {line.epoch} is missing", k)


COMMANDED = frozenset({"handle_ping", "handle_stop", "handle_start"})
"""What consumers do because a coordinator said so."""


def _replayed(
    placed: Sequence[Placed], group: str, specification: Specification, watch: Watch | None,
    progress: Progress | None, plain: bool, views: Views | None, proved: Sequence[Promise],
) -> Outcome:  # fmt: skip
    """A group's replay, by the smallest spec that has members enough, compiled where it can be."""
    plain = plain or watch is not None  # who watches is told of the spec's own states
    view = View.of(placed, group)
    most, members = view.most_members, 2 * view.consumers
    while True:
        view.most_members = min(most, members)
        told = views() if views else watch
        try:
            replay = GroupReplay(view, STEPS, specification, told, plain=plain)
            if proved:
                replay.follower.hold_to(_promises(replay.follower.steps, proved))
            found = replay.run(progress)
        except NoElement:
            members *= 2
        except Overflows:  # plain Python has no bound that a channel could overflow
            plain = True
        else:
            if plain or found.mismatch is None:
                return _doubted(found, replay.follower.doubts)
            plain = True  # what differs is told at these sizes, not at those compiled before
        view = View.of(placed, group)


_PROMISES: dict[Steps, Invariants] = {}
"""What is compiled of promises, by compiled steps, which are kept as well."""


def _promises(steps: Steps, proved: Sequence[Promise]) -> Invariants:
    if not isinstance(steps, Scripted):
        return Invariants(steps, proved)
    if steps not in _PROMISES:
        _PROMISES[steps] = Invariants(steps, proved)
    return _PROMISES[steps]


def _doubted(found: Outcome, doubts: Sequence[str]) -> Outcome:
    """An outcome; unknown where what was proved may have been broken."""
    if not doubts or found.verdict is not Verdict.CONFORMS:
        return found
    reason = f"what was proved may be broken: {doubts[0]}"
    return replace(found, verdict=Verdict.UNKNOWN, reason=reason)
