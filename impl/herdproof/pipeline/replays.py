"""Replays in the specs: lines that are in order, handed to the protocol's own judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from herdproof.link.central import Views, conform_lines
from herdproof.link.central_lines import CentralStep, placed
from herdproof.link.conform import conform_lines as replay_lines
from herdproof.pipeline.auditor import Replayed
from herdproof.trace import TraceLine
from herdspec.check.conform import Outcome
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR
from herdspec.protocols.election_properties import ELECTION


def replay_central(lines: Sequence[CentralStep], views: Views | None = None) -> Replayed:
    """
    One group's lines, in order, replayed in the spec of the central coordinator.

    Their numbers are not looked at: other groups' lines would be gaps. (What is one is known
    before.) `views` as in `conform_lines`.
    """
    outcome = conform_lines(placed(lines), views=views, numbered=False)
    at = outcome.matched
    time_ns = lines[at].time_ns if at < len(lines) else None
    return replayed(outcome, CENTRAL_COORDINATOR, time_ns)


def replay_election(lines: Sequence[TraceLine]) -> Replayed:
    """A run's lines, in order, replayed in the spec of the election; what is missing is known."""
    outcome = replay_lines(lines, whole=False)
    at = outcome.matched
    return replayed(outcome, ELECTION, lines[at].time_ns if at < len(lines) else None)


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
