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

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from herdproof.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdproof.link.central_consumers import CONSUMERS
from herdproof.link.central_coordinators import COORDINATORS
from herdproof.link.central_lines import Placed, check_sequences, read_central
from herdproof.link.central_replay import GroupReplay, Watch
from herdproof.link.central_view import NoElement, View
from herdspec.check.conform import Outcome, Progress, Verdict
from herdspec.engine.scripted import Overflows
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR

STEPS = {
    **{(COORDINATOR, action): made for action, made in COORDINATORS.items()},
    **{(CONSUMER, action): made for action, made in CONSUMERS.items()},
}
"""What each line is to the spec, by role and action; others are nothing to it."""


Views = Callable[[], Watch]


def conform_central(
    paths: Sequence[Path], *, specification: Specification = CENTRAL_COORDINATOR,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several; the first line that differs counts.

    Files are merged by time: their clocks must agree. Raises `TraceError` where one cannot be read.
    """
    return conform_lines(read_central(paths), specification=specification, progress=progress)


def conform_lines(
    placed: Sequence[Placed], *, specification: Specification = CENTRAL_COORDINATOR,
    watch: Watch | None = None, progress: Progress | None = None, plain: bool = False,
    numbered: bool = True, views: Views | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay lines that are in the order of time.

    `plain`: by the spec's own Python. `numbered`: each process's lines should be all there.
    `views` makes a watch that is content with views of compiled states: one for each try of a
    group's replay, of which the last one counts.
    """
    began = perf_counter()
    objection = check_sequences(placed) if numbered else None
    groups = sorted({p.line.group for p in placed if p.line.group})
    found = Outcome(
        Verdict.CONFORMS, len(placed), len(placed), {}, frozenset(), 1, 0.0, mismatch=objection
    )
    if objection is not None:
        return replace(found, verdict=Verdict.DIFFERS, matched=0)
    for group in groups:
        replayed = _replayed(placed, group, specification, watch, progress, plain, views)
        found = _worse(found, replayed)
    return replace(found, seconds=perf_counter() - began)


def _replayed(
    placed: Sequence[Placed], group: str, specification: Specification, watch: Watch | None,
    progress: Progress | None, plain: bool, views: Views | None,
) -> Outcome:  # fmt: skip
    """A group's replay, by the smallest spec that has members enough, compiled where it can be."""
    plain = plain or watch is not None  # who watches is told of the spec's own states
    view = View.of(placed, group)
    most, members = view.most_members, 2 * view.consumers
    while True:
        view.most_members = min(most, members)
        told = views() if views else watch
        try:
            found = GroupReplay(view, STEPS, specification, told, plain=plain).run(progress)
        except NoElement:
            members *= 2
        except Overflows:  # plain Python has no bound that a channel could overflow
            plain = True
        else:
            if plain or found.mismatch is None:
                return found
            plain = True  # what differs is told at these sizes, not at those compiled before
        view = View.of(placed, group)


def _worse(a: Outcome, b: Outcome) -> Outcome:
    """What two groups come to together."""
    first = min(a, b, key=lambda o: o.matched)
    return replace(
        first, named=Counter(a.named) + Counter(b.named), inferred=a.inferred | b.inferred,
        largest=max(a.largest, b.largest), steps=a.steps + b.steps,
    )  # fmt: skip
