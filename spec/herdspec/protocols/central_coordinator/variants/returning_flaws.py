"""Flaws of registrations that are taken to be over and are not: one mistake each."""

from __future__ import annotations

from collections.abc import Callable

from herdspec import Nat
from herdspec.protocols.central_coordinator.variants.returning import (
    Member,
    Partition,
    ReturningMembers,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import RETURNING_HELD
from herdspec.protocols.flaws import Failure, Flaw, variant_name


def whoever_it_is(self: ReturningMembers, n: Member) -> bool:
    """Who registers does not look if its fetchers are closed."""
    return True


def whichever_life(self: ReturningMembers, n: Member, p: Partition, generation: Nat) -> bool:
    """Whoever was said to have stopped owns the partition, perhaps with another registration."""
    return generation > 0 and self.owner[p] == n


def _flaw(name: str, steps: int, faults: int, **functions: Callable[..., object]) -> Flaw:
    made = RETURNING_HELD.replace(variant_name(name), **functions)
    sizes = {"Broker": 1, "Member": 2, "Partition": 1}
    failures = {"exclusive": Failure(steps, "handle_start")}
    return Flaw(made, frozenset(), failures, faults, sizes, bound=6, form="returning")


RETURNING_FLAWS = {
    "says_stopped_early": _flaw("says_stopped_early", 26, 1, has_stopped=whoever_it_is),
    "over_by_id": _flaw("over_by_id", 37, 2, names_owner=whichever_life),
}
"""A consumer that says it too early; a coordinator that knows consumers by their ids."""
