"""
Members that resume, with clocks: who consumes on without a connection looks at its lease.

As `returning_timed.py`. To ask for something new does not renew the lease: that is as long as if it
had begun with the sending of what was answered last. A coordinator that takes over waits from its
election, one that has struck the member from the last request that it sent: whoever resumes is
consuming until then, and whoever is not adopted by then has stopped.
"""

from __future__ import annotations

from herdspec import Specification, always, specification
from herdspec.check.refinement.refine import Refinement
from herdspec.protocols.central_coordinator.properties import POSSIBLE, PROMISES
from herdspec.protocols.central_coordinator.timed import HANGS_UP, LEMMAS
from herdspec.protocols.central_coordinator.variants.resuming import (
    Broker,
    Member,
    ResumingMembers,
)
from herdspec.protocols.central_coordinator.variants.resuming_properties import (
    RESUMING,
    RESUMING_POSSIBLE,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import RETURNING_LEMMAS
from herdspec.protocols.central_coordinator.variants.returning_timed import TimedReturning
from herdspec.protocols.lease.spec import AnyClocks, Request

untimed_lease_is_over = ResumingMembers.lease_is_over
untimed_reconnect = ResumingMembers.reconnect


class TimedResuming(ResumingMembers, TimedReturning):
    """Members that resume have leases, under clocks that drift."""

    def lease_is_over(self, m: Member) -> bool:
        """It was waited for long enough; nobody looks at what the consumer does."""
        return (not self.link[m] or self.asks_to_resume(m)) and not self.clocks.granted[m]

    def reconnect(self, m: Member, b: Broker) -> None:
        """Who asks to resume looks at its clock; what was under way before is lost."""
        untimed_reconnect(self, m, b)
        if self.clocks.request[m] != Request.NONE:
            self.clocks.lose(m)
        self.clocks.ask(m)


class ResumingUnderAnyClocks(TimedResuming):
    """The variant with clocks, whatever the lengths: for proofs."""

    clocks: AnyClocks


@always
def who_is_waited_for_no_more_has_stopped(s: TimedResuming) -> bool:
    """The assumption `lease`: whom a coordinator has waited for long enough fetches nothing."""
    return all(not s.lease_is_over(m) or untimed_lease_is_over(s, m) for m in Member)


TIMED_RESUMING = specification(
    ResumingUnderAnyClocks, who_is_waited_for_no_more_has_stopped, *LEMMAS, *RETURNING_LEMMAS
)
"""Whatever the lengths, to be proved."""
TIMED = specification(
    TimedResuming, who_is_waited_for_no_more_has_stopped, *LEMMAS, *RETURNING_LEMMAS
)
AGAIN = "register_again"
"""An action by which a registration speaks of another, so that it takes two."""
ALONE = specification(ResumingMembers, *PROMISES, *POSSIBLE, *RESUMING_POSSIBLE).drop(
    "ResumingMember", AGAIN
)
"""A member by itself that resumes, under the assumption."""


def discharge(concrete: Specification, abstract: Specification) -> Refinement:
    """Every step with clocks is one under the assumption `lease`."""
    actions = {action.name: (action.name,) for action in abstract.actions}
    return Refinement(concrete, abstract, tuple(abstract.rich), {**actions, "tick": HANGS_UP})


RESUMING_DISCHARGE = discharge(TIMED, RESUMING)
DISCHARGE_ALONE = discharge(TIMED.drop("TimedMember", AGAIN), ALONE)
"""The discharge for a member by itself, which is explored: two with clocks have too many states."""
