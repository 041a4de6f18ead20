"""
The central coordinator with clocks: what the assumption `lease` is discharged to.

Nothing here assumes that whom a coordinator takes for gone has stopped. A member's lease is granted
with the first request that is sent to it, and is over once the coordinators, by their clock, have
waited for the time-out since the last one was sent. A member consumes while its lease is not over,
by its own clock: a request that it takes renews that from its answer to the one before, or from its
Register. `whose_lease_is_over_has_stopped` is the assumption, proved: for any number of members,
partitions and brokers, and whatever the clocks do within the bound of `lease`. Nothing else is
otherwise here than in the coordinator that it is assumed of, but that some steps wait for a clock:
`DISCHARGE` says so, every step of these is one of those, and is explored (no map of channels can be
proved).

Assumed: what a lease under clocks that drift assumes; the election keeps its contract.
Not modelled: that each coordinator has a clock of its own. One that takes over knows of no request
that was sent before, and waits for the whole time-out: later than the one clock here.
"""

from __future__ import annotations

from herdspec import Nat, action, always, fault, lemma, require, sometimes, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.central_coordinator.spec import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Partition,
)
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.lease.properties import (
    clocks_drift_within_bounds,
    each_request_follows_the_one_before,
    lengths_keep_the_bound,
    the_grantor_counts_no_more_than_the_holder,
)
from herdspec.protocols.lease.spec import AnyClocks, LeaseClocks, Request

untimed_lease_is_over = CentralCoordinator.lease_is_over
untimed_connect = CentralCoordinator.connect
untimed_ask = CentralCoordinator.ask
untimed_time_out = CentralCoordinator.time_out
untimed_take = CentralCoordinator.take
untimed_answer = CentralCoordinator.answer
untimed_let_go = CentralCoordinator.let_go


class TimedCoordinator(CentralCoordinator):
    """A central coordinator whose members have leases, under clocks that drift."""

    clocks: LeaseClocks

    @action
    def end_lease(self, m: Member) -> None:
        """Nothing was sent to {m}, which is struck, for its time-out: its lease is over."""
        require(self.books[m] is None)
        self.clocks.end(m)

    @action(kind=fault)
    def time_out(self, m: Member) -> None:
        """The clock of {m} ticks, and its lease is over: no request has reached it in time."""
        self.clocks.holder_ticks(m)
        require(self.has_expired(m))
        untimed_time_out(self, m)

    @action
    def tick(self, m: Member) -> None:
        """The clock of {m} ticks; whose connection is broken hangs up when its lease is over."""
        self.clocks.holder_ticks(m)
        if self.via[m] is not None and self.has_expired(m):
            require(not self.link[m])
            self.let_go(m)

    @action
    def grantor_ticks(self) -> None:
        """The coordinators' clock ticks."""
        self.clocks.grantor_ticks()

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def lease_is_over(self, m: Member) -> bool:
        """It was waited for long enough; nobody looks at what the consumer does."""
        return not self.link[m] and not self.clocks.granted[m]

    def has_expired(self, m: Member) -> bool:
        """By its own clock its lease is over, or it was sent nothing since it registered."""
        if self.clocks.answered[m]:
            return not self.clocks.may_deliver(m)
        return self.clocks.since_sent[m] >= self.clocks.lasts()

    def connect(self, m: Member, b: Broker) -> None:
        """Who sends its Register looks at its clock."""
        untimed_connect(self, m, b)
        self.clocks.ask(m)

    def ask(self, m: Member, b: Broker, asked: Asked, kind: Kind) -> None:
        """A request that is sent grants the lease, or renews it."""
        untimed_ask(self, m, b, asked, kind)
        if not self.clocks.granted[m]:
            self.clocks.grant(m)
        self.clocks.hear(m)

    def take(self, m: Member, kind: Kind) -> None:
        """A request that is taken renews the lease, from the answer to the one before."""
        untimed_take(self, m, kind)
        self.clocks.learn(m)

    def answer(self, m: Member, kind: Kind, generation: Nat) -> None:
        """Who answers looks at its clock."""
        untimed_answer(self, m, kind, generation)
        self.clocks.ask(m)

    def let_go(self, m: Member) -> None:
        """Who has let go has no lease, though nobody is told; what is under way is lost."""
        untimed_let_go(self, m)
        if self.clocks.request[m] != Request.NONE:
            self.clocks.lose(m)
        self.clocks.give_back(m, False)


class CoordinatorOfAnyClocks(TimedCoordinator):
    """Coordinators with clocks, whatever the lengths: for proofs."""

    clocks: AnyClocks


@lemma
def clocks_keep_the_bound(s: TimedCoordinator) -> bool:
    """What is known of leases under clocks that drift is true of the members'."""
    return (
        s.clocks.lease > 0
        and lengths_keep_the_bound(s.clocks)
        and clocks_drift_within_bounds(s.clocks)
        and the_grantor_counts_no_more_than_the_holder(s.clocks)
        and each_request_follows_the_one_before(s.clocks)
    )


@lemma
def who_fetches_has_a_lease(s: TimedCoordinator) -> bool:
    """By the clock of whoever fetches, its lease is not over."""
    return all(
        not s.fetching[m, p] or (s.via[m] is not None and s.clocks.may_deliver(m))
        for m in Member
        for p in Partition
    )


@lemma
def who_is_connected_has_not_expired(s: TimedCoordinator) -> bool:
    """Who believes to be connected hangs up when its lease is over; who does not, has none."""
    return all(
        not s.has_expired(m) if s.via[m] is not None
        else not s.link[m] and not s.clocks.answered[m] and s.clocks.request[m] == Request.NONE
        for m in Member
    )  # fmt: skip


@lemma
def what_is_under_way_was_sent_in_time(s: TimedCoordinator) -> bool:
    """With a request that a member may yet take, its lease was renewed."""
    return all(
        len(s.down[m]) == 0 or (s.via[m] is not None and s.clocks.request[m] == Request.HEARD)
        for m in Member
    )


@always
def whose_lease_is_over_has_stopped(s: TimedCoordinator) -> bool:
    """The assumption `lease`: whom a coordinator has waited for long enough fetches nothing."""
    return all(not s.lease_is_over(m) or untimed_lease_is_over(s, m) for m in Member)


@sometimes
def a_lease_is_over(s: TimedCoordinator) -> bool:
    """The lease of a member that was given something is over."""
    return any(s.owner[p] == m and s.lease_is_over(m) for m in Member for p in Partition)


@sometimes
def a_member_consumes_that_is_struck(s: TimedCoordinator) -> bool:
    """A member that is in nobody's books consumes on, while its lease lasts."""
    return any(s.fetching[m, p] and s.books[m] is None for m in Member for p in Partition)


LEMMAS = (
    clocks_keep_the_bound, who_fetches_has_a_lease, who_is_connected_has_not_expired,
    what_is_under_way_was_sent_in_time,
)  # fmt: skip
TIMED = specification(CoordinatorOfAnyClocks, whose_lease_is_over_has_stopped, *LEMMAS)
"""Whatever the lengths, to be proved."""
EXPLORED = specification(
    TimedCoordinator, whose_lease_is_over_has_stopped, a_lease_is_over,
    a_member_consumes_that_is_struck, *LEMMAS,
)  # fmt: skip
"""At small lengths, to be explored."""
HANGS_UP = ("on_lost_connection", STUTTER)
DISCHARGE = Refinement(
    EXPLORED, CENTRAL_COORDINATOR, tuple(CENTRAL_COORDINATOR.rich),
    {action.name: (action.name,) for action in CENTRAL_COORDINATOR.actions} | {"tick": HANGS_UP},
)  # fmt: skip
"""Every step of a coordinator with clocks is one under the assumption `lease`."""
