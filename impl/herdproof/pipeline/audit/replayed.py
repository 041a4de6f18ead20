"""Results of replays in a spec, as the pipeline tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from herdproof.pipeline.audit.auditor import Replayed
from herdspec.check.conformance.conform import Outcome
from herdspec.language.specification import Specification


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
    """The number of times that each action fired; None for silent ones, which nobody counts."""
    return {
        action: None if action in outcome.inferred else outcome.named.get(action, 0)
        for action in actions
    }
