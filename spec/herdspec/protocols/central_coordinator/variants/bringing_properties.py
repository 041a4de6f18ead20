"""
The properties of members that bring offsets: those of who returns, and nothing finished is lost.

`exclusive_fenced` takes in what is brought: an offset is taken from the partition's owner in the
present generation only.
"""

from __future__ import annotations

from herdspec import (
    Nat,
    action,
    always,
    command,
    each,
    lemma,
    require,
    sometimes,
    specification,
    step,
)
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.protocols.central_coordinator.lemmas import LEMMAS, LEMMAS_OF_THE_LEASE
from herdspec.protocols.central_coordinator.properties import POSSIBLE, PROMISES, settles
from herdspec.protocols.central_coordinator.variants.bringing import (
    BringingMembers,
    Broker,
    Member,
    Partition,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING_LEMMAS,
    RETURNING_POSSIBLE,
    RETURNING_REFINEMENT,
)
from herdspec.protocols.contract.properties import LEMMAS as OF_THE_CONTRACT
from herdspec.protocols.contract.properties import PROMISES as OWED
from herdspec.protocols.contract.properties import exclusive_fenced
from herdspec.protocols.contract.properties import settles as contract_settles
from herdspec.protocols.contract.spec import GroupContract


@always
def where_an_owner_stopped_is_noted(s: BringingMembers) -> bool:
    """What an owner that is known to be over has finished is stored, or noted to be."""
    return all(
        not s.names_owner(n, p, s.known_over[b, n])
        or s.left[n, p] <= s.noted[b, p]
        or s.left[n, p] <= s.committed[p]
        for b in Broker
        for n in Member
        for p in Partition
    )


@lemma
def who_stopped_had_finished(s: BringingMembers) -> bool:
    """Before where somebody stopped, all records are finished."""
    return all(s.left[n, p] <= s.finished[p] for n in Member for p in Partition)


@sometimes
def an_offset_is_brought(s: BringingMembers) -> bool:
    """A coordinator has noted an offset that nobody but the next registration has told it."""
    return any(
        s.books[n] is None
        and s.names_owner(n, p, s.known_over[b, n])
        and s.left[n, p] > s.committed[p]
        for b in Broker
        for n in Member
        for p in Partition
    )


BRINGING_PROMISES = (*PROMISES, where_an_owner_stopped_is_noted)
BRINGING_HELD = specification(BringingMembers, *BRINGING_PROMISES, settles)
"""Members that bring offsets, and what is promised to them."""
BRINGING = specification(
    BringingMembers, *BRINGING_PROMISES, *POSSIBLE, *RETURNING_POSSIBLE, an_offset_is_brought,
    *LEMMAS, *LEMMAS_OF_THE_LEASE, *RETURNING_LEMMAS, who_stopped_had_finished,
)  # fmt: skip
"""Members that bring offsets, and all that is known of them."""


# ── The contract, with members that bring offsets ───────────────────────────────────────────

let_go_of_all = GroupContract.let_go
join_only = GroupContract.join


class BringingContract(GroupContract):
    """The contract of who may say, once it is back, where its former registrations stopped."""

    left: dict[tuple[Member, Partition], Nat] = each(0)  # where it stopped last

    @action(kind=command)
    def join(self, m: Member, wanted: set[Partition]) -> None:
        """{m} joins, interested in {wanted}; what it owned in a former life is nobody's."""
        join_only(self, m, wanted)
        for p in Partition:
            self.left[m, p] = 0

    @action
    def admit_bringing(self, m: Member, b: Broker, n: Member) -> None:
        """{b} counts {m} as a live member, and takes of {n} where it stopped in what it owns."""
        self.admit(m, b)
        require(all(not self.consumes[n, p] for p in Partition))
        for p in Partition:
            if self.owner[p] == n:
                self.accepted[p] = max(self.accepted[p], self.left[n, p])

    def let_go(self, m: Member) -> None:
        """The member consumes nothing, and has stopped where it is."""
        for p in Partition:
            self.left[m, p] = self.position[m, p] if self.consumes[m, p] else self.left[m, p]
        let_go_of_all(self, m)


@lemma
def who_has_stopped_had_finished(s: BringingContract) -> bool:
    """Before where somebody stopped, all records are finished."""
    return all(s.left[m, p] <= s.finished[p] for m in Member for p in Partition)


@step
def offsets_are_of_their_owner(before: BringingContract, after: BringingContract) -> bool:
    """1 and 2: an offset is taken only as its owner said it, or where that has stopped."""
    return all(
        after.accepted[p] <= before.accepted[p]
        or any(
            before.owner[p] == m
            and (
                after.accepted[p] in (before.reported[m, p], before.committing[m, p])
                or (after.accepted[p] == before.left[m, p] and not before.consumes[m, p])
            )
            for m in Member
        )
        for p in Partition
    )


BROUGHT_CONTRACT = specification(
    BringingContract,
    *(offsets_are_of_their_owner if owed is exclusive_fenced else owed for owed in OWED),
    contract_settles, *OF_THE_CONTRACT, who_has_stopped_had_finished,
)  # fmt: skip
"""That contract, and its sentences: of offsets it says one thing more."""


def left(s: BringingMembers, m: Member, p: Partition) -> Nat:
    """Where its fetchers stopped."""
    return s.left[m, p]


BRINGING_REFINEMENT = Refinement(
    BRINGING, BROUGHT_CONTRACT, (*RETURNING_REFINEMENT.fields, left),
    {
        **RETURNING_REFINEMENT.actions,
        "handle_register": ("admit", "admit_bringing", "listen", STUTTER),
    },
)  # fmt: skip
"""Seen as that contract: whose offsets are brought has stopped, and is the owner."""
