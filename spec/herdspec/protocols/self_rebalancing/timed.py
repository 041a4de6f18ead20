"""
The consumers with clocks: what the assumption `session_lease` is discharged to.

Nothing here assumes that a session ends only after its consumer has stopped delivering. A session
ends once ZooKeeper has heard nothing for its time-out, by its own clock; a consumer delivers while
its lease is not over, by its. `DISCHARGE` says that every step of such consumers is one of those
under the assumption, so that all that is proved of them holds here, too: for any number of members,
and whatever the clocks do within the bound of `lease`.

Assumed: what a lease under clocks that drift assumes.
Not modelled: that a lease runs out under a consumer that counts itself connected (that its last
requests were not answered in time is `cut`, which comes first).
"""

from __future__ import annotations

from herdspec import Specification, lemma, require, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import action, command, fault, weak
from herdspec.protocols.lease import properties as lease
from herdspec.protocols.lease.spec import LeaseClocks
from herdspec.protocols.self_rebalancing.lemmas import LEMMAS, owner_nodes_are_of_sessions
from herdspec.protocols.self_rebalancing.properties import PROVED, any_order, any_plan, session_ends_at_will
from herdspec.protocols.self_rebalancing.spec import Member, Partition, SelfRebalancing, Session

register = SelfRebalancing.register
shutdown = SelfRebalancing.shutdown
expire_dead = SelfRebalancing.expire_dead
expire = SelfRebalancing.expire
handle_new_session = SelfRebalancing.handle_new_session
start_fetchers = SelfRebalancing.start_fetchers


class TimedConsumers(SelfRebalancing):
    """Consumers whose sessions are leases, under clocks that drift."""

    clocks: LeaseClocks

    @action(kind=command)
    def register(self, m: Member, wanted: set[Partition]) -> None:
        """{m} starts: its node in ids says that it wants {wanted}; its session is a lease."""
        register(self, m, wanted)
        self.clocks.grant(m)

    @action(kind=command, disturbs=True)
    def shutdown(self, m: Member) -> None:
        """{m} closes: its fetchers, its offsets, and its session, which it gives back."""
        shutdown(self, m)
        self.clocks.give_back(m)

    @action(fair=weak)
    def expire_dead(self, m: Member) -> None:
        """The session of {m}, which is no more, has timed out, by ZooKeeper's clock."""
        expire_dead(self, m)
        self.clocks.end(m)

    @action
    def expire(self, m: Member) -> None:
        """The session of {m}, which is cut off, has timed out, by ZooKeeper's clock."""
        expire(self, m)
        self.clocks.end(m)

    @action(fair=weak)
    def handle_new_session(self, m: Member) -> None:
        """{m} learns that its session has ended: it has a new one, and begins with step 1."""
        handle_new_session(self, m)
        self.clocks.grant(m)

    @action(fair=weak)
    def start_fetchers(self, m: Member) -> None:
        """(5) updateFetcher: {m} updates topicRegistry, and pulls while its lease lasts."""
        require(self.clocks.may_deliver(m))
        start_fetchers(self, m)

    @action
    def tick(self, m: Member) -> None:
        """The clock of {m}, which is cut off or delivers nothing, ticks: its lease may be over."""
        self.clocks.holder_ticks(m)
        if not self.clocks.may_deliver(m) and self.pulls(m):
            require(self.session[m] == Session.SUSPENDED)
            self.close_fetchers_for_queues(m)

    def pulls(self, m: Member) -> bool:
        """Some pull thread runs."""
        return any(self.fetching[m, p] for p in Partition)
