"""
The answers that a coordinator of the group protocol may give, whoever asks: seen from outside.

Of a coordinator only that is kept which its answers depend on: whom it counts, which generation
there is, who belongs to it and leads it, whose each partition is by the assignment, and where
between two generations the group is. Why it goes on is nobody's business here: a member may be
dropped, and all may have to join anew, at any time, as somebody may have left whose request was
seen by nobody. Requests that wait are not kept: who waits is answered when a generation begins, or
when its assignment is there.

Every step of the verified group protocol is some of these, or none, and each of its answers is one
that may be given here (`answered_map.py`). `ANSWERED_BY_KAFKA` is the same with two habits of
Kafka's own coordinator (`mistakes.py`): what is taken of a commit is looked at by generation
alone, and a generation is handed out before it is stored.

Offsets are not kept: who may commit is answered here; which offset is told, is not.
"""

from __future__ import annotations

from herdspec import Nat, Spec, action, always, each, fault, require, sometimes, specification, step
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.values import Entry, GroupState


class AnsweredGroup(Spec):
    """A group, as far as its coordinator's answers depend on it."""

    phase: GroupState = GroupState.EMPTY
    generation: Nat = 0
    entry: dict[Member, Entry] = each(Entry.NONE)
    belongs: dict[Member, bool] = each(False)  # to that generation, as it began
    leader: Member | None = None
    assigned: Nat = 0  # the generation of the last assignment
    share: dict[tuple[Member, Partition], bool] = each(False)  # by that

    # ── What changes, perhaps unseen ────────────────────────────────────────────────────────

    @action
    def give_id(self, m: Member) -> None:
        """There is a member id for {m}, with which it has to come again."""
        require(self.entry[m] == Entry.NONE)
        self.entry[m] = Entry.PENDING

    @action
    def admit(self, m: Member) -> None:
        """{m} comes with its member id, and waits for the next generation, as all have to."""
        require(self.entry[m] == Entry.PENDING)
        self.entry[m] = Entry.MEMBER
        self.phase = GroupState.PREPARING_REBALANCE

    @action
    def rebalance(self) -> None:
        """All are to join anew."""
        require(self.phase != GroupState.PREPARING_REBALANCE)
        self.phase = GroupState.PREPARING_REBALANCE

    @action
    def drop(self, m: Member, anew: bool) -> None:
        """{m} is counted no more: it has left, or its time is up; the others are to join anew."""
        require(self.entry[m] != Entry.NONE)
        if self.entry[m] == Entry.MEMBER or anew:
            self.phase = GroupState.PREPARING_REBALANCE
        self.entry[m] = Entry.NONE

    @action
    def begin_generation(self, members: set[Member], leader: Member) -> None:
        """The next generation begins, of {members}, led by {leader}: its old leader, if there."""
        require(self.phase == GroupState.PREPARING_REBALANCE)
        require(leader in members)
        require(all(m not in members or self.entry[m] != Entry.NONE for m in Member))
        require(all(m not in members or self.leader != m or m == leader for m in Member))
        self.phase = GroupState.COMPLETING_REBALANCE
        self.begin(leader)
        for m in Member:
            self.belongs[m] = m in members
            if m in members:
                self.entry[m] = Entry.MEMBER
            elif self.entry[m] == Entry.MEMBER:
                self.entry[m] = Entry.NONE

    @action
    def become_empty(self) -> None:
        """Nobody is counted any more, and the next generation has no members."""
        require(self.phase == GroupState.PREPARING_REBALANCE)
        require(all(self.entry[m] != Entry.MEMBER for m in Member))
        self.phase = GroupState.EMPTY
        self.begin(None)
        for m in Member:
            self.belongs[m] = False
        self.note_stored()

    @action
    def share_out(self, shares: set[tuple[Member, Partition]]) -> None:
        """The leader has shared the partitions out: {shares}."""
        require(self.phase == GroupState.COMPLETING_REBALANCE)
        require(self.leader is not None and self.entry[self.leader] == Entry.MEMBER)
        self.phase = GroupState.STABLE
        self.assigned = self.generation
        for m in Member:
            for p in Partition:
                self.share[m, p] = (m, p) in shares
        self.note_stored()

    @action(kind=fault)
    def take_over(self) -> None:
        """Another coordinator loads the group: whoever was in the generation is counted again."""
        self.load()

    def load(self) -> None:
        """Count whoever is in the generation; what was given out, and not stored, is forgotten."""
        if all(not self.belongs[m] for m in Member):
            self.phase = GroupState.EMPTY
        elif self.assigned == self.generation:
            self.phase = GroupState.STABLE
        else:
            self.phase = GroupState.COMPLETING_REBALANCE
        for m in Member:
            self.entry[m] = Entry.MEMBER if self.belongs[m] else Entry.NONE

    # ── What nobody was seen to be told ─────────────────────────────────────────────────────

    @action(kind=fault)
    def pass_unseen(self) -> None:
        """A generation has begun, of which nobody was told who is seen here."""
        require(self.phase == GroupState.PREPARING_REBALANCE)
        self.begin(None)

    @action(kind=fault)
    def vanish(self) -> None:
        """All are dropped, and the group is deleted, of itself or by somebody."""
        self.phase = GroupState.EMPTY
        self.begin(None)
        self.generation = 0
        self.assigned = 0
        for m in Member:
            self.belongs[m] = False
            if self.entry[m] == Entry.MEMBER:
                self.entry[m] = Entry.NONE
        self.note_stored()

    # ── Answers, which change nothing ───────────────────────────────────────────────────────

    @action
    def tell_id(self, m: Member) -> None:
        """{m} is told its member id."""
        require(self.entry[m] == Entry.PENDING)

    @action
    def tell_generation(self, m: Member, now: bool, leader: Member) -> None:
        """{m} is told of the present generation, and that {leader} leads it."""
        self.is_in(m, now)
        require(self.is_joined())
        require(self.leader == leader)

    @action
    def tell_members(self, m: Member, members: set[Member]) -> None:
        """{m}, which leads, is told of {members}."""
        require(self.leader == m)
        require(all(self.belongs[o] == (o in members) for o in Member))

    @action
    def tell_assignment(self, m: Member, now: bool, given: set[Partition]) -> None:
        """{m} is told that {given} are its in the present generation."""
        self.is_in(m, now)
        require(self.phase == GroupState.STABLE)
        require(all(self.share[m, p] == (p in given) for p in Partition))

    @action
    def beat(self, m: Member, now: bool) -> None:
        """{m} is told that all is well with it in the present generation."""
        self.is_in(m, now)
        require(self.is_joined())

    @action
    def take_commit(self, m: Member, now: bool, which: set[Partition]) -> None:
        """A commit of {which} is taken from {m}, of its own, or of nobody's."""
        self.is_in(m, now)
        require(self.phase == GroupState.STABLE or self.phase == GroupState.PREPARING_REBALANCE)
        require(self.assigned == self.generation)
        require(all(p not in which or self.is_free_to(m, p) for p in Partition))

    @action
    def take_from_outside(self) -> None:
        """A commit is taken of somebody who is no member: the group has none."""
        require(self.phase == GroupState.EMPTY)

    @action
    def refuse_rebalancing(self, m: Member, now: bool) -> None:
        """{m}, of the present generation, is told that all are to join anew."""
        require(self.entry[m] != Entry.NONE and now)
        require(self.phase == GroupState.PREPARING_REBALANCE)

    @action
    def refuse_commit(self, m: Member, now: bool) -> None:
        """A commit of {m} is not taken: all are to join anew, or wait for the assignment."""
        require(self.entry[m] != Entry.NONE and now)
        require(not (self.phase == GroupState.STABLE or self.phase == GroupState.EMPTY))

    @action
    def refuse_generation(self, m: Member, now: bool) -> None:
        """{m} is told that its generation is not the present one."""
        require(self.entry[m] != Entry.NONE)
        require(not now)

    @action
    def refuse_member(self, m: Member) -> None:
        """{m} is told that it is no member."""
        require(self.entry[m] != Entry.MEMBER)

    @action
    def refuse_id(self, m: Member) -> None:
        """{m} is told that nobody knows its member id."""
        require(self.entry[m] == Entry.NONE)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def begin(self, leader: Member | None) -> None:
        """The next generation begins, in which nobody is assigned anything."""
        self.generation = self.generation + 1
        self.leader = leader
        for m in Member:
            for p in Partition:
                self.share[m, p] = False

    def note_stored(self) -> None:
        """A generation is stored: its assignment is there, or it has no members."""

    def is_in(self, m: Member, now: bool) -> None:
        """It is a member of the present generation, and speaks of that."""
        require(now)
        require(self.belongs[m] and self.entry[m] == Entry.MEMBER)

    def is_joined(self) -> bool:
        """A generation has begun, and nobody is to join anew."""
        return self.phase == GroupState.COMPLETING_REBALANCE or self.phase == GroupState.STABLE

    def is_free_to(self, m: Member, p: Partition) -> bool:
        """The partition is its own, or nobody's."""
        return self.share[m, p] or all(not self.share[o, p] for o in Member)


# ── Kafka's own coordinator ─────────────────────────────────────────────────────────────────


class AnsweredByKafka(AnsweredGroup):
    """A group whose coordinator is Kafka's own."""

    stored: Nat = 0  # the last generation that was stored: with its assignment, or without members
    holders: dict[Member, bool] = each(False)  # who was in it
    sharer: Member | None = None  # who led it
    held: dict[tuple[Member, Partition], bool] = each(False)  # whose what was in it

    @action
    def commit_by_generation(self, m: Member, now: bool) -> None:
        """A commit of anything is taken from {m}, which is in the present generation (PR 9656)."""
        self.is_in(m, now)
        require(self.phase == GroupState.STABLE or self.phase == GroupState.PREPARING_REBALANCE)

    @action(kind=fault)
    def forget_generation(self) -> None:
        """Another coordinator loads the group: its generation was not stored, the one before is."""
        require(self.stored != self.generation)
        self.generation = self.stored
        self.assigned = self.stored
        self.leader = self.sharer
        for m in Member:
            self.belongs[m] = self.holders[m]
            for p in Partition:
                self.share[m, p] = self.held[m, p]
        self.load()

    def note_stored(self) -> None:
        """It is what will be found again."""
        self.stored = self.generation
        self.sharer = self.leader
        for m in Member:
            self.holders[m] = self.belongs[m]
            for p in Partition:
                self.held[m, p] = self.share[m, p]


# ── What holds, and what can be ─────────────────────────────────────────────────────────────


@always
def who_leads_belongs(s: AnsweredGroup) -> bool:
    """Whoever leads a generation belongs to it."""
    return s.leader is None or s.belongs[s.leader]


@always
def assigned_in_time(s: AnsweredGroup) -> bool:
    """No generation is assigned that has not begun."""
    return s.assigned <= s.generation


@always
def who_is_stable_is_assigned(s: AnsweredGroup) -> bool:
    """A stable group has the assignment of its present generation."""
    return s.phase != GroupState.STABLE or s.assigned == s.generation


@step
def a_leader_stays(before: AnsweredGroup, after: AnsweredGroup) -> bool:
    """Who leads a generation leads it as long as it is the present one."""
    return before.generation != after.generation or before.leader == after.leader


@sometimes
def a_member_is_dropped_and_the_others_are_stable(s: AnsweredGroup) -> bool:
    """Somebody was dropped, and the next generation is stable."""
    return s.phase == GroupState.STABLE and any(
        s.entry[m] == Entry.NONE and s.belongs[o] for m in Member for o in Member
    )


KEPT = (
    who_leads_belongs, assigned_in_time, who_is_stable_is_assigned, a_leader_stays,
    a_member_is_dropped_and_the_others_are_stable,
)  # fmt: skip
ANSWERED = specification(AnsweredGroup, *KEPT)
"""The answers that the verified group protocol may give."""
ANSWERED_BY_KAFKA = specification(AnsweredByKafka, *KEPT)
"""The answers that Kafka's own coordinator may give."""
