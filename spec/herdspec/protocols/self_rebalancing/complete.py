"""
Completeness, as far as it is proved: once the group is stable, who is first for a partition pulls.

`complete` says more: that each partition that somebody wants is pulled from. It follows, since of
the finitely many who want a partition one is the first; that a group is finite no first-order
sentence says, so this step is no prover's. The order is any relation here, and the group any.
"""

from __future__ import annotations

from herdspec import always, each, initial, lemma, specification
from herdspec.protocols.self_rebalancing.lemmas import LEMMAS
from herdspec.protocols.self_rebalancing.properties import stable, who_fetches_owns
from herdspec.protocols.self_rebalancing.spec import (
    Member,
    Partition,
    Rebalance,
    SelfRebalancing,
    Session,
)


class InAnyOrder(SelfRebalancing):
    """Consumers whose threads stand in any order: nobody counts their ranks."""

    comes_before: dict[tuple[Member, Member], bool] = each(False)

    @initial
    def threads_in_any_order(
        self, there: set[Partition], order: dict[tuple[Member, Member], bool]
    ) -> None:
        """Some partitions are there from the beginning; threads are ordered somehow."""
        self.comes_before = order
        for p in Partition:
            self.exists[p] = p in there

    def would_be_first(self, m: Member, p: Partition) -> bool:
        """Nobody else who wants the partition comes before."""
        return self.interest[m, p] and all(
            not self.registered[c] or not self.interest[c, p] or not self.comes_before[c, m]
            for c in Member
        )


@always
def who_is_first_pulls(s: InAnyOrder) -> bool:
    """Once the group is stable, whoever is first for a partition owns it, and pulls from it."""
    return not stable(s) or all(
        not s.exists[p]
        or not s.registered[m]
        or not s.would_be_first(m, p)
        or (s.owner[p] == m and s.fetching[m, p])
        for m in Member
        for p in Partition
    )


def runs(s: InAnyOrder, m: Member) -> bool:
    """The process runs, and its session lives."""
    return s.session[m] in (Session.CONNECTED, Session.SUSPENDED)


@lemma
def a_plan_is_of_what_there_is(s: InAnyOrder) -> bool:
    """Whoever has no reason to rebalance watches what it has read, and that is as it was."""
    return all(
        not runs(s, m)
        or s.due[m]
        or (
            (
                s.phase[m] != Rebalance.IDS
                or (s.watches_topics[m] and (not s.interest[m, p] or s.seen[m, p] == s.exists[p]))
            )
            and (
                s.phase[m] not in (Rebalance.CLAIMING, Rebalance.STARTING, Rebalance.RESTING)
                or (
                    s.watches_topics[m]
                    and s.watches_ids[m]
                    and s.planned[m, p] == (s.exists[p] and s.would_be_first(m, p))
                )
            )
        )
        for m in Member
        for p in Partition
    )


@lemma
def who_rests_pulls_what_it_planned(s: InAnyOrder) -> bool:
    """Whoever is connected, rests, and has no reason to rebalance pulls from all of its plan."""
    return all(
        s.session[m] != Session.CONNECTED
        or s.phase[m] != Rebalance.RESTING
        or s.due[m]
        or s.fetching[m, p] == s.planned[m, p]
        for m in Member
        for p in Partition
    )


IN_ANY_ORDER = specification(
    InAnyOrder, who_is_first_pulls, who_fetches_owns, *LEMMAS, a_plan_is_of_what_there_is,
    who_rests_pulls_what_it_planned,
).drop("InAnyOrder", "threads_in_order")  # fmt: skip
"""Spec that is proved of completeness, for any number of members and partitions, in any order."""
