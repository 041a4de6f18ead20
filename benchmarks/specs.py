"""
The specs that the benchmarks explore, beside those of `properties/specs.py`.

`Group` is a consumer group of the usual shape: members ask to come in, a coordinator stops all of
them, assigns the partitions anew and starts all under the next generation; heartbeats may get lost,
and then a member that was put out goes on for a while, but its commits are refused. With four
members, three partitions and a fault its state has 69 bits: two words.
"""

from __future__ import annotations

from enum import Enum

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    fault,
    require,
    sometimes,
    specification,
    step,
)

GENERATIONS = 2
"""No rebalance is begun beyond this generation, so that the space is finite."""


class Member(Sort):
    """A consumer of the group."""


class Partition(Sort):
    """What is shared out."""


class Phase(Enum):
    """What the coordinator is about."""

    STABLE = "stable"
    STOPPING = "stopping"
    ASSIGNING = "assigning"


class Group(Spec):
    """Members share partitions; a coordinator stops them all, assigns anew, and starts them."""

    generation: Nat = 0
    phase: Phase = Phase.STABLE
    changed: bool = False  # the members are no longer those of the last assignment
    asks: dict[Member, bool] = each(False)  # its request to come in is on its way
    member: dict[Member, bool] = each(False)  # the coordinator counts it in
    stop: dict[Member, bool] = each(False)  # "stop" is on its way to it
    stopped: dict[Member, bool] = each(False)  # its "stopped" is on its way
    quiet: dict[Member, bool] = each(False)  # the coordinator knows that it stopped
    start: dict[Member, bool] = each(False)  # "start" is on its way to it
    runs: dict[Member, bool] = each(False)
    heard: dict[Member, Nat] = each(0)  # the generation that it last heard of
    owner: dict[Partition, Member | None] = each(None)  # whom the coordinator gave it
    held: dict[Partition, Member | None] = each(None)  # who reads it
    committed: dict[Partition, Member | None] = each(None)  # whose commit was accepted last

    @action
    def ask(self, m: Member) -> None:
        """{m} asks to come in."""
        require(not self.asks[m] and not self.member[m] and not self.runs[m])
        require(self.generation < GENERATIONS)
        self.asks[m] = True

    @action
    def admit(self, m: Member) -> None:
        """The coordinator counts {m} in."""
        require(self.asks[m] and self.phase == Phase.STABLE)
        self.asks[m] = False
        self.member[m] = True
        self.changed = True

    @action
    def prepare(self) -> None:
        """The coordinator begins a rebalance: everybody is to stop."""
        require(self.phase == Phase.STABLE and self.changed)
        require(self.generation < GENERATIONS)
        self.changed = False
        self.phase = Phase.STOPPING
        self.generation += 1
        for m in Member:
            self.stop[m] = self.member[m]
            self.stopped[m] = False
            self.quiet[m] = False
            self.start[m] = False

    @action
    def hear_stop(self, m: Member) -> None:
        """{m} stops, lets go of what it reads, and says so."""
        require(self.stop[m])
        self.stop[m] = False
        self.stopped[m] = True
        self.runs[m] = False
        for p in Partition:
            if self.held[p] == m:
                self.held[p] = None

    @action
    def collect(self, m: Member) -> None:
        """The coordinator hears that {m} stopped."""
        require(self.stopped[m] and self.phase == Phase.STOPPING)
        self.stopped[m] = False
        self.quiet[m] = True

    @action
    def begin(self) -> None:
        """All have stopped: the coordinator begins to assign."""
        require(self.phase == Phase.STOPPING)
        require(all(self.quiet[m] or not self.member[m] for m in Member))
        require(any(self.member[m] for m in Member))
        self.phase = Phase.ASSIGNING
        for p in Partition:
            self.owner[p] = None

    @action
    def assign(self, p: Partition, m: Member) -> None:
        """{p} is given to {m}."""
        require(self.phase == Phase.ASSIGNING and self.member[m] and self.owner[p] is None)
        self.owner[p] = m

    @action
    def publish(self) -> None:
        """All is given: everybody is told to start."""
        require(self.phase == Phase.ASSIGNING)
        require(all(self.owner[p] is not None for p in Partition))
        self.phase = Phase.STABLE
        for m in Member:
            self.start[m] = self.member[m]
            self.quiet[m] = False

    @action
    def hear_start(self, m: Member) -> None:
        """{m} starts with what it was given."""
        require(self.start[m])
        self.start[m] = False
        self.runs[m] = True
        self.heard[m] = self.generation
        for p in Partition:
            if self.owner[p] == m:
                self.held[p] = m

    @action
    def commit(self, m: Member, p: Partition) -> None:
        """{m} commits how far it has read {p}; it is refused if its generation is over."""
        require(self.held[p] == m)
        if self.heard[m] == self.generation and self.owner[p] == m:
            self.committed[p] = m

    @action(kind=fault)
    def lose(self, m: Member) -> None:
        """The heartbeats of {m} are lost: the coordinator counts it out."""
        require(self.member[m])
        self.member[m] = False
        self.start[m] = False
        self.changed = True

    @action
    def notice(self, m: Member) -> None:
        """{m} notices that it was counted out, and lets go of what it reads."""
        require(self.runs[m] and not self.member[m])
        self.runs[m] = False
        for p in Partition:
            if self.held[p] == m:
                self.held[p] = None


@always
def who_runs_in_the_present_generation_reads_what_is_its_own(s: Group) -> bool:
    """Who runs in the present generation reads only what it was given."""
    return all(
        not (s.held[p] == m and s.runs[m] and s.heard[m] == s.generation) or s.owner[p] == m
        for p in Partition
        for m in Member
    )


@always
def nobody_hears_of_a_generation_before_it_is(s: Group) -> bool:
    """Nobody has heard of a generation that has not begun."""
    return all(s.heard[m] <= s.generation for m in Member)


@step
def only_a_stale_reader_loses_its_partition(before: Group, after: Group) -> bool:
    """A partition passes from one reader to another only if the first is of an older generation."""
    return all(
        before.held[p] != m
        or after.held[p] == m
        or after.held[p] is None
        or before.heard[m] < after.generation
        for p in Partition
        for m in Member
    )


@step
def a_commit_is_accepted_only_from_the_owner(before: Group, after: Group) -> bool:
    """Whose commit is accepted owns the partition in the present generation."""
    now = before.generation
    return all(
        after.committed[p] == before.committed[p]
        or any(
            after.committed[p] == m and before.owner[p] == m and before.heard[m] == now
            for m in Member
        )
        for p in Partition
    )


@sometimes
def a_stale_member_still_reads(s: Group) -> bool:
    """A member that was counted out goes on reading, under an old generation."""
    return any(
        s.held[p] == m and s.heard[m] < s.generation and not s.member[m]
        for p in Partition
        for m in Member
    )


GROUP = specification(
    Group,
    who_runs_in_the_present_generation_reads_what_is_its_own,
    nobody_hears_of_a_generation_before_it_is,
    only_a_stale_reader_loses_its_partition,
    a_commit_is_accepted_only_from_the_owner,
    a_stale_member_still_reads,
)
