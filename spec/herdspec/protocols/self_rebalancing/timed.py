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

from collections.abc import Callable

from herdspec import lemma, require, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import action, command, weak
from herdspec.protocols.lease.properties import (
    clocks_drift_within_bounds,
    each_request_follows_the_one_before,
    lengths_keep_the_bound,
    the_grantor_counts_no_more_than_the_holder,
)
from herdspec.protocols.lease.spec import AnyClocks, LeaseClocks
from herdspec.protocols.self_rebalancing.properties import (
    PROVED,
    any_order,
    any_plan,
    session_ends_at_will,
)
from herdspec.protocols.self_rebalancing.spec import Member, Partition, SelfRebalancing, Session

untimed_shutdown = SelfRebalancing.shutdown
untimed_expire_dead = SelfRebalancing.expire_dead
untimed_expire = SelfRebalancing.expire
untimed_begin_session = SelfRebalancing.begin_session
untimed_start_fetchers = SelfRebalancing.start_fetchers


class TimedConsumers(SelfRebalancing):
    """Consumers whose sessions are leases, under clocks that drift."""

    clocks: LeaseClocks

    @action(kind=command, disturbs=True)
    def shutdown(self, m: Member) -> None:
        """{m} closes: its fetchers, its offsets, and its session, which it gives back."""
        untimed_shutdown(self, m)
        self.clocks.give_back(m, True)

    @action(fair=weak)
    def expire_dead(self, m: Member) -> None:
        """The session of {m}, which is no more, has timed out, by ZooKeeper's clock."""
        untimed_expire_dead(self, m)
        self.clocks.end(m)

    @action
    def expire(self, m: Member) -> None:
        """The session of {m}, which is cut off, has timed out, by ZooKeeper's clock."""
        untimed_expire(self, m)
        self.clocks.end(m)

    @action(fair=weak)
    def start_fetchers(self, m: Member) -> None:
        """(5) updateFetcher: {m} updates topicRegistry, and pulls while its lease lasts."""
        require(self.clocks.may_deliver(m))
        untimed_start_fetchers(self, m)

    @action
    def tick(self, m: Member) -> None:
        """The clock of {m}, which is cut off or delivers nothing, ticks: its lease may be over."""
        self.clocks.holder_ticks(m)
        if not self.clocks.may_deliver(m) and self.pulls(m):
            require(self.session[m] == Session.SUSPENDED)
            self.close_fetchers_for_queues(m)

    def begin_session(self, m: Member) -> None:
        """A new session, and its registration: ZooKeeper grants a lease."""
        untimed_begin_session(self, m)
        self.clocks.grant(m)

    def pulls(self, m: Member) -> bool:
        """Some pull thread runs."""
        return any(self.fetching[m, p] for p in Partition)


class ConsumersOfAnyClocks(TimedConsumers):
    """Consumers with clocks, whatever the lengths: for proofs."""

    clocks: AnyClocks


@lemma
def sessions_are_leases(s: TimedConsumers) -> bool:
    """ZooKeeper grants a lease to whose session it has not ended."""
    return all(
        s.clocks.granted[m]
        == (s.session[m] in (Session.CONNECTED, Session.SUSPENDED, Session.DEAD))
        for m in Member
    )


@lemma
def who_pulls_has_a_lease(s: TimedConsumers) -> bool:
    """By the clock of whoever pulls, its lease is not over."""
    return all(not s.fetching[m, p] or s.clocks.may_deliver(m) for m in Member for p in Partition)


@lemma
def clocks_keep_the_bound(s: TimedConsumers) -> bool:
    """What is known of leases under clocks that drift is true of the sessions."""
    return (  # type: ignore[no-any-return]
        lengths_keep_the_bound(s.clocks)
        and clocks_drift_within_bounds(s.clocks)
        and the_grantor_counts_no_more_than_the_holder(s.clocks)
        and each_request_follows_the_one_before(s.clocks)
    )


LEMMAS = (sessions_are_leases, who_pulls_has_a_lease, clocks_keep_the_bound)
AT_WILL: dict[str, Callable[..., object]] = {
    "agrees": any_plan,
    "differ": any_order,
    "lease_is_over": session_ends_at_will,
}
"""Whatever they plan; and whether a consumer has stopped is not asked when its session ends."""
ACTIONS = {a.name: (a.name,) for a in PROVED.actions} | {"tick": ("suspend", STUTTER)}
EXPLORED = specification(TimedConsumers, *LEMMAS).replace("Timed", **AT_WILL)
"""At small lengths, to be explored."""
TIMED = specification(ConsumersOfAnyClocks, *LEMMAS).replace("TimedAnyhow", **AT_WILL)
"""Whatever the lengths, to be proved."""
ASSUMING = PROVED.replace("UnderSessionLease")
"""The consumers of which everything is proved under the assumption `session_lease`."""
FIELDS = tuple(ASSUMING.rich)
"""Fields of the consumers without clocks; those with clocks have them, too."""
DISCHARGE = Refinement(TIMED, ASSUMING, FIELDS, ACTIONS)
"""Every step of consumers with clocks is one of those: to be proved."""
ALONE = Refinement(
    EXPLORED.drop("TimedAlone", "refuse_claim"),
    PROVED.drop("UnderSessionLease", "refuse_claim"),
    FIELDS,
    {name: meant for name, meant in ACTIONS.items() if name != "refuse_claim"},
)
"""The discharge for a single consumer, whose claims nobody refuses, at small lengths: explored."""
