"""
Members that return, with clocks: what is said of a registration ends its lease, and no clock does.

As `timed.py`, where a lease is over once it was waited for long enough. Here it is over, too, once
somebody has said so who knows: `give_back`, told. `whose_lease_is_over_has_stopped` is proved all
the same: so the assumption `lease` takes in who was said to have stopped, and is none.
"""

from __future__ import annotations

from herdspec import Nat, specification
from herdspec.check.refinement.refine import Refinement
from herdspec.protocols.central_coordinator.timed import (
    HANGS_UP,
    LEMMAS,
    TimedCoordinator,
    whose_lease_is_over_has_stopped,
)
from herdspec.protocols.central_coordinator.variants.returning import (
    Broker,
    Member,
    Partition,
    ReturningMembers,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING,
    RETURNING_LEMMAS,
)
from herdspec.protocols.lease.spec import AnyClocks

untold_learn_of = ReturningMembers.learn_of


class TimedReturning(ReturningMembers, TimedCoordinator):
    """Members that return have leases, under clocks that drift."""

    def learn_of(self, n: Member, b: Broker, generation: Nat) -> None:
        """An owner that is known to have stopped has no lease any more."""
        untold_learn_of(self, n, b, generation)
        if any(self.names_owner(n, p, generation) for p in Partition):
            self.clocks.give_back(n, True)


class ReturningUnderAnyClocks(TimedReturning):
    """The variant with clocks, whatever the lengths: for proofs."""

    clocks: AnyClocks


TIMED_RETURNING = specification(
    ReturningUnderAnyClocks, whose_lease_is_over_has_stopped, *LEMMAS, *RETURNING_LEMMAS
)
"""Whatever the lengths, to be proved."""
RETURNING_DISCHARGE = Refinement(
    specification(TimedReturning, whose_lease_is_over_has_stopped, *LEMMAS, *RETURNING_LEMMAS),
    RETURNING, tuple(RETURNING.rich),
    {action.name: (action.name,) for action in RETURNING.actions} | {"tick": HANGS_UP},
)  # fmt: skip
"""Every step with clocks is one under the assumption `lease`."""
