"""
The properties of members that return: the central coordinator's, and what is said is true.

`exclusive` needs no further assumption: who is said to have stopped has, and does not begin again.
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, lemma, sometimes, specification
from herdspec.check.refinement.refine import Refinement
from herdspec.protocols.central_coordinator.lemmas import LEMMAS, LEMMAS_OF_THE_LEASE
from herdspec.protocols.central_coordinator.properties import (
    OF_THE_LEASE,
    POSSIBLE,
    PROMISES,
    gone_at_once,
    settles,
)
from herdspec.protocols.central_coordinator.refinement import REFINEMENT
from herdspec.protocols.central_coordinator.variants.returning import (
    Broker,
    Member,
    Partition,
    ReturningMembers,
)
from herdspec.protocols.contract.properties import CONTRACT


@lemma
def what_is_said_to_be_over_is(s: ReturningMembers) -> bool:
    """Who owns in a generation in which it is said to have stopped, or is known to, has let go."""
    return all(
        s.over[m, n] <= s.generation and (s.via[n] is None or not s.names_owner(n, p, s.over[m, n]))
        for m in Member
        for n in Member
        for p in Partition
    ) and all(
        s.known_over[b, n] <= s.generation
        and (s.via[n] is None or not s.names_owner(n, p, s.known_over[b, n]))
        for b in Broker
        for n in Member
        for p in Partition
    )


@sometimes
def an_owner_is_known_to_have_stopped(s: ReturningMembers) -> bool:
    """A coordinator knows of an owner, which is in no books, that it has stopped."""
    return any(
        s.books[n] is None and s.names_owner(n, p, s.known_over[b, n])
        for b in Broker
        for n in Member
        for p in Partition
    )


@sometimes
def somebody_is_in_the_books_that_is_over(s: ReturningMembers) -> bool:
    """A coordinator counts a member of which it knows that it has stopped."""
    return any(
        s.books[n] == b and s.known_over[b, n] > 0 and s.known_over[b, n] == s.generation
        for b in Broker
        for n in Member
    )


RETURNING_LEMMAS = (what_is_said_to_be_over_is,)
RETURNING_POSSIBLE = (an_owner_is_known_to_have_stopped, somebody_is_in_the_books_that_is_over)
RETURNING_HELD = specification(ReturningMembers, *PROMISES, settles)
"""Members that return, and what is promised to them."""
RETURNING = specification(
    ReturningMembers, *PROMISES, *POSSIBLE, *RETURNING_POSSIBLE, *LEMMAS, *LEMMAS_OF_THE_LEASE,
    *RETURNING_LEMMAS,
)  # fmt: skip
"""Members that return, and all that is known of them."""


@cache
def returning_without_lease() -> Specification:
    """The variant without the assumption `lease`, and what it promises then."""
    promised = (p for p in PROMISES if p not in OF_THE_LEASE)
    made = specification(ReturningMembers, *promised, *POSSIBLE, *LEMMAS)
    return made.replace("ReturningWithoutLease", lease_is_over=gone_at_once)


RETURNING_REFINEMENT = Refinement(
    RETURNING, CONTRACT, REFINEMENT.fields, {**REFINEMENT.actions, "register_again": ("join",)}
)
"""Seen as the contract: who registers again joins, whatever it says."""
