"""Replays in the specs: lines that are in order, handed to the protocol's own judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from herdproof.link.central import Views, conform_lines
from herdproof.link.central_lines import Placed
from herdproof.link.conform import Placed as PlacedElection
from herdproof.link.conform import conform_placed
from herdproof.pipeline.auditor import Replayed
from herdproof.trace import TraceLine
from herdspec.check.conform import Outcome
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR
from herdspec.protocols.election_properties import ELECTION


def replay_central(lines: Sequence[tuple[Any, str]], views: Views | None = None) -> Replayed:
    """
    One group's lines, each with its place, replayed in the spec of the central coordinator.

    A line has the fields of a `CentralLine`. Their numbers are not looked at: other groups' lines
    would be gaps. (What is one is known before.) `views` as in `conform_lines`.
    """
    times = accumulate((line.time_ns for line, _ in lines), max)
    placed = [Placed(*told, time) for told, time in zip(lines, times, strict=True)]
    outcome = conform_lines(placed, views=views, numbered=False)
    at = outcome.matched
    time_ns = placed[at].line.time_ns if at < len(placed) else None
    return replayed(outcome, CENTRAL_COORDINATOR, time_ns)


def replay_election(lines: Sequence[tuple[TraceLine, str]]) -> Replayed:
    """A run's lines, each with its place, replayed in the spec of the election."""
    time = 0
    placed = []
    for line, place in lines:
        time = max(time, line.time_ns)
        placed.append(PlacedElection(line, place, time))
    outcome = conform_placed(placed)
    at = outcome.matched
    return replayed(outcome, ELECTION, placed[at].line.time_ns if at < len(placed) else None)


def replayed(outcome: Outcome, spec: Specification, time_ns: int | None) -> Replayed:
    """An outcome as the pipeline tells it."""
    mismatch = outcome.mismatch
    told = outcome.reason
    if mismatch is not None:
        head, *reasons = mismatch.lines
        told = f"{head} {'; '.join(map(str.strip, reasons))}"
    return Replayed(
        verdict=outcome.verdict.value,
        told=told,
        place="" if mismatch is None else mismatch.where,
        time_ns=None if mismatch is None else time_ns,
        lines=outcome.matched,
        taken=taken(outcome, (action.name for action in spec.actions)),
    )


def taken(outcome: Outcome, actions: Iterable[str]) -> Mapping[str, int | None]:
    """How often each action was taken; None for those that are supposed, which nobody counts."""
    return {
        action: None if action in outcome.inferred else outcome.named.get(action, 0)
        for action in actions
    }
