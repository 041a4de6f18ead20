"""
The contract of a group without a coordinator: members claim partitions one at a time.

It is a variant of the contract of every group protocol. What differs, in writing:

- Nobody coordinates: epochs, terms, and what a coordinator has heard, knows or has yet to store
  stay as they are at first. Sentence 6, and what sentence 2 says of coordinators, have no meaning
  here (`WITHOUT_MEANING`).
- There is no generation of the group. Each partition counts its claims, and a member knows the
  number of its own; what a generation is elsewhere, the latest claim is here. Until the next claim
  a member's offsets are taken, even if its session has ended. `owners_change_with_the_generation`
  becomes `owners_change_with_a_claim`, `exclusive_fenced` and `stored_as_taken` become
  `only_the_latest_claim_stores`.
- Offsets are stored at once: what a member has said when it stopped (`reported`) is stored by
  itself.
- Whether the group is stable, nobody knows. That it is complete then, and becomes so, is asked of
  the protocol (`SHOWN_BY_THE_PROTOCOL`), since no refinement tells it.

Source: PROTOCOLS.md, "The contract: what a group coordination protocol owes its users".

Assumed: nothing.
Not modelled: as in the contract; what members plan, and why.
"""

from __future__ import annotations

from herdspec import Nat, each, lemma, require, sometimes, specification, step
from herdspec.language.surface import action, command, fault
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.contract.properties import finish_unheard as finish_unheard
from herdspec.protocols.contract.spec import GroupContract
from herdspec.protocols.group import Member, Partition

WITHOUT_MEANING = frozenset(
    {
        "one_coordinator", "two_coordinate", "only_the_present_epoch_writes", "terms_have_begun",
        "an_epoch_is_won_by_one", "epochs_never_go_back", "members_follow_no_older_epoch",
        "generations_never_go_back",
        "what_was_taken_is_stored_at_the_handover", "an_offset_waits_to_be_stored",
        "exclusive_fenced", "stored_as_taken", "owners_change_with_the_generation",
        "a_second_owner_follows_the_first", "a_group_with_members_is_stable",
    }
)  # fmt: skip
"""Names of the properties that speak of a coordinator, or of the group's generation."""
NOT_MODELLED = frozenset({"a_resolved_start_is_stored_first"})
"""Names of the properties that speak of starts that members resolve by themselves."""
SHOWN_BY_THE_PROTOCOL = frozenset({"complete", "settles"})
"""Names of the properties that are asked of the protocol itself."""


class ClaimedGroup(GroupContract):
    """Members claim partitions, and store how far they are."""

    claims: dict[Partition, Nat] = each(0)  # how often the partition was claimed
    claim: dict[tuple[Member, Partition], Nat] = each(0)  # the number of a member's own; 0: none

    # ── Members come and go ─────────────────────────────────────────────────────────────────

    @action(kind=command)
    def enter(self, m: Member, wanted: set[Partition]) -> None:
        """{m} becomes a member, interested in {wanted}."""
        require(not self.live[m] and self.has_stopped(m))
        self.live[m] = True
        for p in Partition:
            self.interest[m, p] = p in wanted

    @action
    def come_back(self, m: Member) -> None:
        """{m} is a member once more, and has stopped."""
        require(not self.live[m])
        self.live[m] = True
        self.stop_all(m)

    @action(kind=fault)
    def die(self, m: Member) -> None:
        """{m} is no more, but is still counted as a member."""
        self.forget_all(m)

    @action(kind=fault)
    def depart(self, m: Member, gone: bool) -> None:
        """{m} is no member any more, nor an owner (and is no more: {gone})."""
        require(self.live[m])
        if gone:
            self.forget_all(m)
        require(self.may_depart(m))
        self.live[m] = False
        for p in Partition:
            if self.owner[p] == m:
                self.owner[p] = None
            self.interest[m, p] = self.interest[m, p] and not gone

    @action(kind=fault)
    def store_and_depart(self, m: Member) -> None:
        """{m} stores how far it is, and is no member any more."""
        require(self.live[m])
        self.store_all(m)
        self.forget_all(m)
        self.live[m] = False
        for p in Partition:
            if self.owner[p] == m:
                self.owner[p] = None
            self.interest[m, p] = False

    # ── Claims ──────────────────────────────────────────────────────────────────────────────

    @action
    def halt(self, m: Member) -> None:
        """{m} stops, and says how far it is."""
        self.stop_all(m)

    @action
    def store_claimed(self, m: Member) -> None:
        """{m} stores how far it is, in what it has claimed last."""
        self.store_all(m)

    @action
    def give_back(self, m: Member) -> None:
        """{m} owns nothing any more."""
        require(self.has_stopped(m))
        for p in Partition:
            if self.owner[p] == m:
                self.owner[p] = None
            self.claim[m, p] = 0
            self.reported[m, p] = 0

    @action
    def take(self, m: Member, p: Partition, told: bool) -> None:
        """{m} claims {p}, which is nobody's (and knows of it: {told})."""
        require(self.live[m] and self.owner[p] is None)
        require(all(self.makes_way(c, p, m) for c in Member))
        self.owner[p] = m
        self.claims[p] = self.claims[p] + 1
        if told:
            self.claim[m, p] = self.claims[p]
        for c in Member:
            self.reported[c, p] = 0
            if not self.consumes_on(c):
                self.let_go_of(c, p)
                self.current[c] = any(self.consumes[c, q] for q in Partition)

    @action
    def learn_of_claim(self, m: Member, p: Partition) -> None:
        """{m} learns the number of its claim of {p}."""
        require(self.owner[p] == m)
        self.claim[m, p] = self.claims[p]

    @action
    def begin(self, m: Member) -> None:
        """{m} consumes what it owns and knows to own, from where it is stored."""
        require(self.live[m] and self.has_stopped(m))
        self.current[m] = any(self.is_own(m, p) for p in Partition)
        for p in Partition:
            self.consumes[m, p] = self.is_own(m, p)
            self.position[m, p] = self.committed[p] if self.is_own(m, p) else 0

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def is_latest(self, m: Member, p: Partition) -> bool:
        """The member's claim is the latest one of the partition."""
        return self.claim[m, p] > 0 and self.claim[m, p] == self.claims[p]

    def is_own(self, m: Member, p: Partition) -> bool:
        """The member owns the partition, and knows the number of its claim."""
        return self.owner[p] == m and self.is_latest(m, p)

    def has_stopped(self, m: Member) -> bool:
        """The member consumes nothing."""
        return all(not self.consumes[m, p] for p in Partition)

    def may_depart(self, m: Member) -> bool:
        """Whoever is no member any more has stopped."""
        return self.has_stopped(m)

    def stop_all(self, m: Member) -> None:
        """The member stops, and says how far it is."""
        self.current[m] = False
        for p in Partition:
            if self.consumes[m, p]:
                self.reported[m, p] = self.position[m, p]
            self.let_go_of(m, p)

    def store_all(self, m: Member) -> None:
        """Store what the member has said, or says, where its claim is the latest."""
        for p in Partition:
            if self.is_latest(m, p):
                self.committed[p] = max(
                    self.committed[p], max(self.reported[m, p], self.position[m, p])
                )

    def let_go_of(self, m: Member, p: Partition) -> None:
        """The member does not consume the partition."""
        self.consumes[m, p] = False
        self.position[m, p] = 0
        self.resolved[m, p] = False

    def forget_all(self, m: Member) -> None:
        """The member is no more: it consumes nothing, and has nothing to say."""
        self.current[m] = False
        for p in Partition:
            self.let_go_of(m, p)
            self.claim[m, p] = 0
            self.reported[m, p] = 0


# ── The sentences that are said otherwise ───────────────────────────────────────────────────


@step
def only_the_latest_claim_stores(before: ClaimedGroup, after: ClaimedGroup) -> bool:
    """1 and 2: an offset is stored only as whoever has claimed last has said it."""
    return all(
        after.committed[p] == before.committed[p]
        or any(
            before.is_latest(m, p)
            and after.committed[p] in (before.position[m, p], before.reported[m, p])
            for m in Member
        )
        for p in Partition
    )


@step
def owners_change_with_a_claim(before: ClaimedGroup, after: ClaimedGroup) -> bool:
    """3: a partition becomes somebody's by a new claim only, and no claim is taken back."""
    return all(
        before.claims[p] <= after.claims[p]
        and (
            after.owner[p] == before.owner[p]
            or after.owner[p] is None
            or before.claims[p] < after.claims[p]
        )
        for p in Partition
    )


@sometimes
def a_second_claim_follows_the_first(s: ClaimedGroup) -> bool:
    """A partition is consumed by its second owner, from an offset that the first one stored."""
    return any(
        s.consumes[m, p] and s.claims[p] > 1 and s.committed[p] > 0
        for m in Member
        for p in Partition
    )


@lemma
def claims_have_been(s: ClaimedGroup) -> bool:
    """No claim lies ahead, none is of two, and who consumes has claimed last."""
    return all(
        s.claim[m, p] <= s.claims[p]
        and (not s.consumes[m, p] or (s.is_latest(m, p) and s.current[m]))
        and (not s.is_latest(m, p) or s.owner[p] is None or s.owner[p] == m)
        for m in Member
        for p in Partition
    ) and all(
        s.claim[a, p] == 0 or s.claim[a, p] != s.claim[b, p]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


_DROPPED = WITHOUT_MEANING | SHOWN_BY_THE_PROTOCOL | NOT_MODELLED
_KEPT = [p.python for p in CONTRACT.properties if p.name not in _DROPPED]
_COORDINATED = [a.name for a in CONTRACT.actions if a.name not in ("appear", "finish")]

CLAIMED = specification(
    ClaimedGroup, *_KEPT, only_the_latest_claim_stores, owners_change_with_a_claim,
    a_second_claim_follows_the_first, claims_have_been,
).drop("Claimed", *_COORDINATED)  # fmt: skip
"""The strict form: every consumer is seen."""

# ── The fenced form ─────────────────────────────────────────────────────────────────────────


def at_will(self: ClaimedGroup, m: Member) -> bool:
    """A member may depart while it consumes: that counts until the next claim."""
    return True


def the_last_is_over(self: ClaimedGroup, m: Member, p: Partition, heir: Member | None) -> bool:
    """A claim ends whatever is consumed."""
    return True


def nobody_is_heard(self: ClaimedGroup, m: Member) -> bool:
    """Who goes on does so unheard."""
    return False


CLAIMED_FENCED = (
    specification(
        ClaimedGroup, *(p for p in _KEPT if p.name != "who_consumes_owns"),
        only_the_latest_claim_stores, owners_change_with_a_claim,
        a_second_claim_follows_the_first, claims_have_been,
    )
    .drop("ClaimedFenced", *_COORDINATED)
    .replace(
        "ClaimedFenced", may_depart=at_will, makes_way=the_last_is_over, consumes_on=nobody_is_heard
    )
    .add("ClaimedFenced", finish_unheard=finish_unheard)
)  # fmt: skip
"""The fenced form: only whose claim is the latest is seen."""
