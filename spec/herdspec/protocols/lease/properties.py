"""
Promises of a lease, under clocks that drift, and the lemmas that prove them.

`LEASE_CLOCKS` has small numbers, to be explored; `ANY_CLOCKS` has whatever numbers keep the bound,
and is what is proved: of any number of holders, for any drift below it.
"""

from __future__ import annotations

from herdspec import always, lemma, sometimes, specification
from herdspec.protocols.lease.spec import AnyClocks, LeaseClocks, Member, Request


@always
def no_lease_ends_before_its_holder_has_stopped(s: LeaseClocks) -> bool:
    """Whoever may deliver, by its own clock, holds a lease that the grantor has not ended."""
    return all(not s.may_deliver(m) or s.granted[m] for m in Member)


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def a_holder_may_deliver(s: LeaseClocks) -> bool:
    """A holder may deliver."""
    return any(s.may_deliver(m) for m in Member)


@sometimes
def a_lease_may_end(s: LeaseClocks) -> bool:
    """The grantor may end the lease of a holder that has delivered."""
    return any(s.granted[m] and s.waited[m] >= s.timeout and s.answered[m] for m in Member)


@sometimes
def a_lease_is_renewed_late(s: LeaseClocks) -> bool:
    """An answer is under way when the lease that it renews is over, by the holder's clock."""
    return any(
        s.granted[m] and s.request[m] == Request.HEARD and not s.may_deliver(m)
        and s.since_sent[m] > 0 and s.since_sent[m] < s.lease
        for m in Member
    )  # fmt: skip


@sometimes
def an_answer_comes_too_late(s: LeaseClocks) -> bool:
    """An answer is under way when the lease has ended."""
    return any(not s.granted[m] and s.request[m] == Request.HEARD for m in Member)


@sometimes
def a_holder_stops_just_in_time(s: LeaseClocks) -> bool:
    """A holder delivers, a tick of its clock before the grantor may end its lease."""
    return any(s.may_deliver(m) and s.waited[m] + s.tick >= s.timeout for m in Member)


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def lengths_keep_the_bound(s: LeaseClocks) -> bool:
    """The lease, a tick of each clock and what is counted too late are within the time-out."""
    return s.lease + s.tick + s.slowest + s.late <= s.timeout


@lemma
def clocks_drift_within_bounds(s: LeaseClocks) -> bool:
    """No holder's clock is behind the slowest that is allowed by more than a tick of each."""
    return all(s.behind[m] <= s.tick + s.slowest for m in Member)


@lemma
def the_grantor_counts_no_more_than_the_holder(s: LeaseClocks) -> bool:
    """What the grantor has waited since it heard of a request, its holder's clock shows."""
    return all(
        not s.may_deliver(m)
        or (s.granted[m] and s.waited[m] <= s.since[m] + s.behind[m] + s.late)
        for m in Member
    ) and all(
        s.request[m] != Request.HEARD or s.since_sent[m] >= s.lease
        or (s.granted[m] and s.waited[m] <= s.since_sent[m] + s.behind[m] + s.late)
        for m in Member
    )  # fmt: skip


@lemma
def each_request_follows_the_one_before(s: LeaseClocks) -> bool:
    """The request that is under way was sent after the one that was answered."""
    return all(
        s.request[m] == Request.NONE or not s.answered[m] or s.since_sent[m] <= s.since[m]
        for m in Member
    )


PROMISES = (no_lease_ends_before_its_holder_has_stopped,)
POSSIBLE = (
    a_holder_may_deliver, a_lease_may_end, a_lease_is_renewed_late,
    an_answer_comes_too_late, a_holder_stops_just_in_time,
)  # fmt: skip
LEMMAS = (
    lengths_keep_the_bound, clocks_drift_within_bounds, the_grantor_counts_no_more_than_the_holder,
    each_request_follows_the_one_before,
)  # fmt: skip

HELD = specification(LeaseClocks, *PROMISES)
"""The lease and its promise, without the lemmas."""
NOTICING = specification(LeaseClocks, *PROMISES, *POSSIBLE)
"""All that it promises, and what must be possible."""
LEASE_CLOCKS = NOTICING.with_properties(*LEMMAS)
"""The lease at small lengths: a holder's clock may drift by half."""

ANY_CLOCKS = specification(AnyClocks, *PROMISES, *LEMMAS)
"""Spec that is proved, for any number of holders and whatever lengths keep the bound."""
