"""
A consumer group, as large as protocols get: 14 actions, 4 invariants, 4 step promises, 13 lemmas.

The coordinator gathers members, closes the round with a new generation, assigns partition by
partition, and tells each member what is its. Members may be late: they may believe in an old
generation, hold partitions of it, and commit for it. Commits are fenced by the generation alone;
that the committer also *owns* the partition is what has to be proved. It serves as the large spec
of the suites and of `benchmarks/prove`.
"""

from __future__ import annotations

from enum import Enum

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    command,
    each,
    fault,
    lemma,
    require,
    sometimes,
    specification,
    step,
)


class Member(Sort):
    """A consumer of the group."""


class Partition(Sort):
    """What one member at a time consumes."""


class Phase(Enum):
    """What the coordinator is doing."""

    STABLE = "stable"
    GATHERING = "gathering"
    ASSIGNING = "assigning"


class Group(Spec):
    """A coordinator shares partitions among the members of a group, generation by generation."""

    # The coordinator
    generation: Nat = 0
    phase: Phase = Phase.STABLE
    registered: dict[Member, bool] = each(False)  # takes part in the present generation
    joined: dict[Member, bool] = each(False)  # will take part in the next
    owner: dict[Partition, Member | None] = each(None)  # in the present generation
    committed: dict[Partition, Nat] = each(0)  # the generation of the last commit

    # The members
    epoch: dict[Member, Nat] = each(0)  # the generation that it believes in
    holds: dict[tuple[Member, Partition], bool] = each(False)  # what it consumes

    # Messages
    asks: dict[Member, bool] = each(False)  # to join
    leaves: dict[Member, bool] = each(False)
    told: dict[Member, bool] = each(False)  # an assignment is under way to it,
    told_epoch: dict[Member, Nat] = each(0)  # of this generation,
    offer: dict[tuple[Member, Partition], bool] = each(False)  # of these partitions
    commits: dict[tuple[Member, Partition], bool] = each(False)  # a commit is under way,
    commit_epoch: dict[tuple[Member, Partition], Nat] = each(0)  # of this generation

    # What properties need to know, and no guard reads
    foreign: bool = False  # a commit was accepted of who did not own the partition

    @action(kind=command)
    def ask(self, m: Member) -> None:
        """{m} asks to join."""
        require(not self.asks[m] and not self.leaves[m])
        self.asks[m] = True

    @action
    def gather(self) -> None:
        """The coordinator begins a round, because somebody asks to join."""
        require(self.phase == Phase.STABLE and any(self.asks[m] for m in Member))
        self.phase = Phase.GATHERING

    @action
    def accept(self, m: Member) -> None:
        """The coordinator takes {m} into the next generation."""
        require(self.phase == Phase.GATHERING and self.asks[m])
        self.asks[m] = False
        self.joined[m] = True

    @action
    def close(self) -> None:
        """The coordinator closes the round: a new generation of those who have joined."""
        require(self.phase == Phase.GATHERING and any(self.joined[m] for m in Member))
        self.generation = self.generation + 1
        self.phase = Phase.ASSIGNING
        for m in Member:
            self.registered[m] = self.joined[m]
            self.joined[m] = False
        for p in Partition:
            self.owner[p] = None

    @action
    def assign(self, m: Member, p: Partition) -> None:
        """The coordinator gives {p} to {m}."""
        require(self.phase == Phase.ASSIGNING and self.registered[m])
        require(self.owner[p] is None)
        self.owner[p] = m

    @action
    def announce(self) -> None:
        """The coordinator tells each member what is its."""
        require(self.phase == Phase.ASSIGNING)
        require(all(self.owner[p] is not None for p in Partition))
        self.phase = Phase.STABLE
        for m in Member:
            if self.registered[m]:
                self.told[m] = True
                self.told_epoch[m] = self.generation
                for p in Partition:
                    self.offer[m, p] = self.owner[p] == m

    @action
    def take(self, m: Member) -> None:
        """{m} learns what is its, and drops everything else."""
        require(self.told[m])
        self.told[m] = False
        self.epoch[m] = self.told_epoch[m]
        for p in Partition:
            self.holds[m, p] = self.offer[m, p]

    @action
    def commit(self, m: Member, p: Partition) -> None:
        """{m} commits what it has consumed of {p}."""
        require(self.holds[m, p])
        self.commits[m, p] = True
        self.commit_epoch[m, p] = self.epoch[m]

    @action
    def accept_commit(self, m: Member, p: Partition) -> None:
        """The coordinator accepts a commit of {m} for {p}: it is of the present generation."""
        require(self.commits[m, p] and self.registered[m])
        require(self.commit_epoch[m, p] == self.generation)
        self.commits[m, p] = False
        self.committed[p] = self.commit_epoch[m, p]
        if self.owner[p] != m:
            self.foreign = True

    @action
    def refuse_commit(self, m: Member, p: Partition) -> None:
        """The coordinator refuses a commit of {m} for {p}; {m} drops what it holds."""
        require(self.commits[m, p])
        require(not self.registered[m] or self.commit_epoch[m, p] != self.generation)
        self.commits[m, p] = False
        for q in Partition:
            self.holds[m, q] = False

    @action(kind=command, disturbs=True)
    def leave(self, m: Member) -> None:
        """{m} drops everything and says that it leaves."""
        require(not self.leaves[m] and not self.asks[m])
        self.leaves[m] = True
        for p in Partition:
            self.holds[m, p] = False

    @action
    def release(self, m: Member) -> None:
        """The coordinator hears that {m} leaves, and begins a round."""
        require(self.leaves[m] and self.phase != Phase.ASSIGNING)
        self.leaves[m] = False
        self.registered[m] = False
        self.joined[m] = False
        self.phase = Phase.GATHERING

    @action(kind=fault)
    def expire(self, m: Member) -> None:
        """{m} was silent for too long: the coordinator does without; {m} does not know."""
        require(self.registered[m] and self.phase == Phase.STABLE)
        self.registered[m] = False
        self.phase = Phase.GATHERING

    @action(kind=fault)
    def crash(self, m: Member) -> None:
        """{m} crashes and comes back with nothing."""
        self.told[m] = False
        for p in Partition:
            self.holds[m, p] = False


# ── Invariants ──────────────────────────────────────────────────────────────────────────────


@always
def one_member_per_generation(s: Group) -> bool:
    """No two members hold one partition in one generation."""
    return all(
        not (s.holds[a, p] and s.holds[b, p] and s.epoch[a] == s.epoch[b])
        for a in Member
        for b in Member
        for p in Partition
        if a != b
    )


@always
def who_is_up_to_date_owns_what_it_holds(s: Group) -> bool:
    """Whoever believes in the present generation holds only what it owns."""
    return all(
        not s.holds[m, p] or s.epoch[m] != s.generation or s.owner[p] == m
        for m in Member
        for p in Partition
    )


@always
def only_owners_commit(s: Group) -> bool:
    """No commit was accepted of who did not own the partition."""
    return not s.foreign


@always
def no_commit_is_of_the_future(s: Group) -> bool:
    """What was committed was committed in a generation that has been."""
    return all(s.committed[p] <= s.generation for p in Partition)


# ── Steps ───────────────────────────────────────────────────────────────────────────────────


@step
def generations_grow(before: Group, after: Group) -> bool:
    """The generation never goes back."""
    return before.generation <= after.generation


@step
def commits_never_go_back(before: Group, after: Group) -> bool:
    """A partition's commits are of ever later generations."""
    return all(before.committed[p] <= after.committed[p] for p in Partition)


@step
def no_member_goes_back(before: Group, after: Group) -> bool:
    """What a member believes in never goes back."""
    return all(before.epoch[m] <= after.epoch[m] for m in Member)


@step
def an_owner_stays_for_a_generation(before: Group, after: Group) -> bool:
    """A partition's owner changes with the generation only."""
    return before.generation != after.generation or all(
        before.owner[p] is None or before.owner[p] == after.owner[p] for p in Partition
    )


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def nobody_is_ahead(s: Group) -> bool:
    """No member believes in a generation that has not been."""
    return all(s.epoch[m] <= s.generation for m in Member)


@lemma
def no_assignment_is_ahead(s: Group) -> bool:
    """No assignment under way is of a generation that has not been."""
    return all(not s.told[m] or s.told_epoch[m] <= s.generation for m in Member)


@lemma
def an_assignment_is_no_older_than_its_member(s: Group) -> bool:
    """What is under way to a member is not older than what it believes in."""
    return all(not s.told[m] or s.epoch[m] <= s.told_epoch[m] for m in Member)


@lemma
def what_is_held_was_announced(s: Group) -> bool:
    """While the coordinator assigns, nobody holds a partition in the new generation."""
    return s.phase != Phase.ASSIGNING or all(
        not s.holds[m, p] or s.epoch[m] != s.generation for m in Member for p in Partition
    )


@lemma
def what_is_under_way_was_announced(s: Group) -> bool:
    """While the coordinator assigns, no assignment of the new generation is under way."""
    return s.phase != Phase.ASSIGNING or all(
        not s.told[m] or s.told_epoch[m] != s.generation for m in Member
    )


@lemma
def a_present_offer_is_the_owners(s: Group) -> bool:
    """An assignment of the present generation offers a member only what it owns."""
    return all(
        not (s.told[m] and s.offer[m, p] and s.told_epoch[m] == s.generation) or s.owner[p] == m
        for m in Member
        for p in Partition
    )


@lemma
def offers_of_one_generation_differ(s: Group) -> bool:
    """No two assignments of one generation offer the same partition."""
    return all(
        not (s.told[a] and s.offer[a, p] and s.told[b] and s.offer[b, p])
        or s.told_epoch[a] != s.told_epoch[b]
        for a in Member
        for b in Member
        for p in Partition
        if a != b
    )


@lemma
def what_is_held_is_offered_to_nobody_else(s: Group) -> bool:
    """What a member holds in a generation is offered to no other in that generation."""
    return all(
        not (s.told[a] and s.offer[a, p] and s.holds[b, p]) or s.told_epoch[a] != s.epoch[b]
        for a in Member
        for b in Member
        for p in Partition
        if a != b
    )


@lemma
def no_commit_is_ahead(s: Group) -> bool:
    """No commit under way is of a generation that has not been."""
    return all(
        not s.commits[m, p] or s.commit_epoch[m, p] <= s.generation
        for m in Member
        for p in Partition
    )


@lemma
def no_commit_is_of_an_unannounced_generation(s: Group) -> bool:
    """While the coordinator assigns, no commit of the new generation is under way."""
    return s.phase != Phase.ASSIGNING or all(
        not s.commits[m, p] or s.commit_epoch[m, p] != s.generation
        for m in Member
        for p in Partition
    )


@lemma
def a_present_commit_is_the_owners(s: Group) -> bool:
    """A commit of the present generation is its partition's owner's."""
    return all(
        not s.commits[m, p] or s.commit_epoch[m, p] != s.generation or s.owner[p] == m
        for m in Member
        for p in Partition
    )


@lemma
def a_leaver_asks_for_nothing(s: Group) -> bool:
    """Who has said that it leaves asks not to join."""
    return all(not (s.leaves[m] and s.asks[m]) for m in Member)


@lemma
def who_joins_joins_a_round(s: Group) -> bool:
    """Somebody has joined the next generation only while a round is open."""
    return s.phase == Phase.GATHERING or not any(s.joined[m] for m in Member)


@sometimes
def a_partition_changes_hands(s: Group) -> bool:
    """A partition was committed by one member, and is held by another in a later generation."""
    return any(
        s.holds[a, p] and s.holds[b, p] and s.epoch[a] == s.generation
        for a in Member
        for b in Member
        for p in Partition
        if a != b
    )


INVARIANTS = (
    one_member_per_generation,
    who_is_up_to_date_owns_what_it_holds,
    only_owners_commit,
    no_commit_is_of_the_future,
)
STEPS = (
    generations_grow,
    commits_never_go_back,
    no_member_goes_back,
    an_owner_stays_for_a_generation,
)
LEMMAS = (
    nobody_is_ahead,
    no_assignment_is_ahead,
    an_assignment_is_no_older_than_its_member,
    what_is_held_was_announced,
    what_is_under_way_was_announced,
    a_present_offer_is_the_owners,
    offers_of_one_generation_differ,
    what_is_held_is_offered_to_nobody_else,
    no_commit_is_ahead,
    no_commit_is_of_an_unannounced_generation,
    a_present_commit_is_the_owners,
    a_leaver_asks_for_nothing,
    who_joins_joins_a_round,
)
GROUP = specification(Group, *INVARIANTS, *STEPS, *LEMMAS, a_partition_changes_hands)
BARE = specification(Group, *INVARIANTS, *STEPS)
"""The group without its lemmas."""
