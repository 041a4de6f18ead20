"""
The properties of members that resume: those of members that return, proved with no more assumed.

The contract knows nobody who consumes and is no member: whoever was struck, and is not gone yet,
was waited for, and let go. Here it may become a member again while it consumes (`readmit`). The
contract is the same but for that, and keeps its sentences.
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, action, lemma, require, sometimes, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.protocols.central_coordinator.lemmas import (
    LEMMAS,
    LEMMAS_OF_THE_LEASE,
    is_told_in_order,
    nobody_goes_back,
)
from herdspec.protocols.central_coordinator.properties import (
    OF_THE_LEASE,
    POSSIBLE,
    PROMISES,
    gone_at_once,
    settles,
    stable,
)
from herdspec.protocols.central_coordinator.spec import Kind
from herdspec.protocols.central_coordinator.variants.resuming import (
    Broker,
    Member,
    Partition,
    ResumingMembers,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING_LEMMAS,
    RETURNING_POSSIBLE,
    RETURNING_REFINEMENT,
)
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.contract.spec import GroupContract


@lemma
def who_resumes_says_its_generation(s: ResumingMembers) -> bool:
    """Nobody goes back, and a Register on its way names the generation of who consumes."""
    return all(
        is_told_in_order(s, m)
        and (s.books[m] is not None or not s.link[m] or s.at[m] == 0 or len(s.up[m]) > 0)
        and all(x.kind != Kind.REGISTER or x.generation == s.at[m] for x in s.up[m])
        for m in Member
    )


@sometimes
def a_group_is_stable_that_nobody_has_stopped(s: ResumingMembers) -> bool:
    """A group is stable whose member consumes, and has heard nothing of this epoch yet."""
    return any(
        stable(s, b) and s.books[m] == b and s.fetching[m, p] and s.seen[m] < s.election.token[b]
        for b in Broker
        for m in Member
        for p in Partition
    )


@sometimes
def somebody_consumes_and_asks_to_resume(s: ResumingMembers) -> bool:
    """Who asks to resume consumes meanwhile."""
    return any(s.fetching[m, p] and s.link[m] and s.asks_to_resume(m)
               for m in Member for p in Partition)  # fmt: skip


OF_RESUMING = tuple(
    who_resumes_says_its_generation if of is nobody_goes_back else of for of in LEMMAS_OF_THE_LEASE
)
"""As of the coordinator; but who is connected, and in nobody's books, may consume."""
RESUMING_POSSIBLE = (
    a_group_is_stable_that_nobody_has_stopped, somebody_consumes_and_asks_to_resume
)  # fmt: skip
RESUMING_HELD = specification(ResumingMembers, *PROMISES, settles)
"""Members that resume, and what is promised to them."""
RESUMING = specification(
    ResumingMembers, *PROMISES, *POSSIBLE, *RETURNING_POSSIBLE, *RESUMING_POSSIBLE, *LEMMAS,
    *OF_RESUMING, *RETURNING_LEMMAS,
)  # fmt: skip
"""Members that resume, and all that is known of them."""


@cache
def resuming_without_lease() -> Specification:
    """The variant without the assumption `lease`, and what it promises then."""
    promised = (p for p in PROMISES if p not in OF_THE_LEASE)
    made = specification(ResumingMembers, *promised, *POSSIBLE, *LEMMAS)
    return made.replace("ResumingWithoutLease", lease_is_over=gone_at_once)


# ── The contract, with members that resume ──────────────────────────────────────────────────


@action
def lose_touch(self: GroupContract, m: Member) -> None:
    """{m} listens to nobody, and consumes on."""
    require(not self.live[m])
    self.told[m] = 0


@action
def readmit(self: GroupContract, m: Member, b: Broker) -> None:
    """{b} counts {m} as a live member, which consumes what it owns in the present generation."""
    require(self.coordinates(b) and not self.live[m] and self.current[m])
    require(all(self.owner[p] != m or self.consumes[m, p] for p in Partition))
    self.live[m] = True
    self.informed[m] = True
    self.told[m] = self.term[b]
    self.change()


RESUMED_CONTRACT = CONTRACT.add("ContractOfResuming", lose_touch=lose_touch, readmit=readmit)
"""The contract of who may become a member again while it consumes."""
RESUMING_REFINEMENT = Refinement(
    RESUMING, RESUMED_CONTRACT, RETURNING_REFINEMENT.fields,
    {
        **RETURNING_REFINEMENT.actions,
        "resume": ("lose_touch", STUTTER), "handle_resume": ("readmit", STUTTER),
    },
)  # fmt: skip
"""Seen as that contract: who is adopted is readmitted, whoever is refused is nothing to it."""
