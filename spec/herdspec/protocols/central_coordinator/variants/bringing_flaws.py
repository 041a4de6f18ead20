"""Flaw of offsets that are taken from who was not the partition's last owner: one mistake."""

from __future__ import annotations

from herdspec import Nat
from herdspec.protocols.central_coordinator.variants.bringing import (
    BringingMembers,
    Broker,
    Member,
    Partition,
    connect_only,
)
from herdspec.protocols.central_coordinator.variants.bringing_properties import BRINGING_HELD
from herdspec.protocols.flaws import Failure, Flaw


def whichever_life_it_was(self: BringingMembers, n: Member, p: Partition, generation: Nat) -> bool:
    """Whoever was said to have stopped owns the partition, perhaps with another registration."""
    return generation > 0 and self.owner[p] == n


def as_if_it_went_on(self: BringingMembers, m: Member, b: Broker) -> None:
    """Where the former registration stopped is kept under the consumer's id."""
    connect_only(self, m, b)


BRINGING_FLAWS = {
    "brought_by_id": Flaw(
        BRINGING_HELD.replace(
            "BroughtById", brings=whichever_life_it_was, connect=as_if_it_went_on
        ),
        frozenset({"brought_by_id"}),
        {
            "exclusive_fenced": Failure(20, "handle_register"),
            "a_start_is_at_the_stored_offset": Failure(32, "serve_offsets"),
        },
        faults=2,
        sizes={"Broker": 1, "Member": 2, "Partition": 1},
        bound=6,
        form="bringing",
    ),
}
"""A coordinator that knows by its id whose offsets it is brought."""
