"""
The contract of every group coordination protocol: who consumes what, from where, since when.

No messages, no ZooKeeper, no clocks. Whatever coordinates a group is held against this: each of its
steps must be, seen through a map, one step of the contract, or none (a `Refinement`). The guards of
the actions say what is owed: a partition is handed over only once nobody else consumes it, only the
owner's offsets of the present generation are taken, and only the present coordinator writes.

What comes of the guards are the sentences, `contract_properties`; there are the two forms in which
a protocol may keep the first one, too.

A protocol without a coordinator, or one whose members take partitions one at a time, is held
against a variant (`.replace`, `.add`): the difference is then in writing.

Source: PROTOCOLS.md, "The contract: what a group coordination protocol owes its users".

Assumed: nothing; what a coordinator must know before it hands over, it may know by any means.
Not modelled: more than one group, balance (the assignor's own promise), resets of offsets that
are stored.
"""

from __future__ import annotations

from enum import Enum

from herdspec.language.surface import (
    Nat,
    Spec,
    action,
    command,
    each,
    fault,
    initial,
    require,
    strong,
    weak,
)
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition


class Stage(Enum):
    """Stage of the group on the way to its next owners."""

    OPEN = "open"  # something has changed: members let go
    HANDED = "handed"  # the next owners are written, and begin
    STABLE = "stable"


class GroupContract(Spec):
    """A coordinator hands partitions over, and stores how far their owners are."""

    # Who coordinates.
    epoch: Nat = 0  # the present epoch; 0 before the first
    elected: Broker | None = None  # who won it
    term: dict[Broker, Nat] = each(0)  # the epoch that the broker coordinates in; 0: none

    # What the present coordinator knows.
    exists: dict[Partition, bool] = each(False)
    known: dict[Partition, bool] = each(False)  # it has heard of the partition
    interest: dict[tuple[Member, Partition], bool] = each(False)
    live: dict[Member, bool] = each(False)  # it counts the member as one
    informed: dict[Member, bool] = each(False)  # it knows that the member has begun
    stage: Stage = Stage.OPEN

    # Who owns, and who consumes.
    author: Broker | None = None  # whose write of owners or offsets was done, until it hears of it
    generation: Nat = 0
    owner: dict[Partition, Member | None] = each(None)
    told: dict[Member, Nat] = each(0)  # the epoch of whoever it listens to; 0: nobody
    heeded: dict[Member, Nat] = each(0)  # the latest epoch whose coordinator it has followed
    current: dict[Member, bool] = each(False)  # it has begun in the present generation
    begun: dict[Member, bool] = each(False)  # it has said that it has begun; this is not read yet
    consumes: dict[tuple[Member, Partition], bool] = each(False)

    # How far.
    position: dict[tuple[Member, Partition], Nat] = each(0)  # the next record of who consumes
    resolved: dict[tuple[Member, Partition], bool] = each(False)  # its start, stored not yet
    finished: dict[Partition, Nat] = each(0)  # the first record that no application finished
    reported: dict[tuple[Member, Partition], Nat] = each(0)  # answered, and not yet read
    committing: dict[tuple[Member, Partition], Nat] = each(0)  # said unasked, and not yet read
    accepted: dict[Partition, Nat] = each(0)  # read by the coordinator, to be stored
    storing: dict[Partition, Nat] = each(0)  # of these, what it stores next
    committed: dict[Partition, Nat] = each(0)

    @initial
    def some_topics(self, there: set[Partition]) -> None:
        """Some partitions are there from the beginning."""
        for p in Partition:
            self.exists[p] = p in there

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def elect(self, b: Broker) -> None:
        """{b} begins a new epoch, since nobody coordinates."""
        require(not any(self.coordinates(x) for x in Broker))
        self.begin_epoch(b)

    @action(kind=fault)
    def supersede(self, b: Broker) -> None:
        """{b} begins a new epoch, and the coordinator of the older one does not know."""
        require(any(self.coordinates(x) for x in Broker))
        self.begin_epoch(b)

    @action(kind=fault)
    def retire(self, b: Broker) -> None:
        """{b} coordinates no more."""
        require(self.term[b] > 0)
        if self.coordinates(b):
            self.forget()
        self.term[b] = 0

    @action(kind=fault)
    def begin_anew(self, b: Broker) -> None:
        """{b} forgets what it knew, and coordinates on in its own epoch."""
        require(self.coordinates(b))
        self.forget()

    @action(fair=weak)
    def take_office(self, b: Broker) -> None:
        """{b} reads which partitions there are."""
        require(self.coordinates(b))
        require(any(self.exists[p] and not self.known[p] for p in Partition))
        for p in Partition:
            self.known[p] = self.exists[p]
        self.change()

    # ── Partitions and members come and go ──────────────────────────────────────────────────

    @action(kind=command, disturbs=True)
    def appear(self, p: Partition) -> None:
        """{p} appears."""
        require(not self.exists[p])
        self.exists[p] = True

    @action(fair=weak)
    def learn(self, b: Broker, p: Partition) -> None:
        """{b} hears of {p}."""
        require(self.coordinates(b) and self.exists[p] and not self.known[p])
        self.known[p] = True
        self.change()

    @action(kind=command, disturbs=True)
    def join(self, m: Member, wanted: set[Partition]) -> None:
        """{m} joins, interested in {wanted}; what it owned in a former life is nobody's."""
        require(not self.live[m] and not any(self.consumes[m, p] for p in Partition))
        for p in Partition:
            self.interest[m, p] = p in wanted
            if self.owner[p] == m:
                self.owner[p] = None

    @action
    def admit(self, m: Member, b: Broker) -> None:
        """{b} counts {m} as a live member."""
        require(self.coordinates(b) and not self.live[m])
        self.live[m] = True
        self.told[m] = self.term[b]
        self.change()

    @action(fair=weak)
    def listen(self, m: Member, by: Broker) -> None:
        """{m} listens to {by}, and will hear what it says even if {by} coordinates no more then."""
        require(self.term[by] > 0 and self.term[by] >= self.heeded[m])
        self.told[m] = self.term[by]

    @action(kind=fault)
    def strike(self, m: Member) -> None:
        """The coordinator counts {m} no more."""
        require(self.live[m])
        self.live[m] = False
        self.informed[m] = False
        self.lose_reports(m)
        self.change()

    @action(kind=fault)
    def quit(self, m: Member) -> None:
        """{m} gives up by itself whatever it consumes; what it has said may still be read."""
        self.current[m] = False
        self.told[m] = 0
        self.let_go(m)

    # ── The handover ────────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def dismiss(self, m: Member) -> None:
        """The coordinator no longer counts on {m} consuming."""
        require(self.informed[m] and self.stage == Stage.OPEN)
        self.informed[m] = False

    @action(fair=strong)
    def stop(self, m: Member, heard: bool) -> None:
        """{m} stops as it is told to, and says how far it is (and may be heard: {heard})."""
        require(not self.informed[m] and (self.stage == Stage.OPEN or not self.live[m]))
        self.follow(m)
        if heard:
            self.say(m)
        self.let_go(m)

    @action(fair=strong)
    def hand_over(self, b: Broker, plan: dict[Partition, Member | None]) -> None:
        """{b} hands over: from now on {plan} are the owners; older reports count no more."""
        require(self.coordinates(b) and self.stage == Stage.OPEN)
        require(self.author is None)
        require(all(self.accepted[p] <= self.committed[p] for p in Partition))
        require(all(self.is_right(p, plan[p]) for p in Partition))
        require(all(self.makes_way(m, p, plan[p]) for m in Member for p in Partition))
        for p in Partition:
            self.owner[p] = plan[p]
        self.begin_generation(b)

    @action(kind=fault)
    def hand_over_late(self, b: Broker, plan: dict[Partition, Member | None]) -> None:
        """{b} hands over to {plan}, who were right before somebody went, or something came."""
        require(self.coordinates(b) and self.stage == Stage.OPEN)
        require(self.author is None)
        require(all(self.accepted[p] <= self.committed[p] for p in Partition))
        require(not all(self.is_right(p, plan[p]) for p in Partition))
        require(all(self.makes_way(m, p, plan[p]) for m in Member for p in Partition))
        for p in Partition:
            self.owner[p] = plan[p]
        self.begin_generation(b)

    @action(fair=weak)
    def start(self, m: Member, heard: bool) -> None:
        """{m} consumes what it owns, from where it is stored, and says so (heard: {heard})."""
        self.follow(m)
        self.current[m] = True
        self.begun[m] = self.begun[m] or heard
        for p in Partition:
            mine = self.owner[p] == m
            if not (mine and self.consumes[m, p]):
                self.position[m, p] = self.committed[p] if mine else 0
                self.resolved[m, p] = False
            self.consumes[m, p] = mine

    @action(fair=weak)
    def acknowledge(self, m: Member, b: Broker) -> None:
        """{b} learns that {m} has begun to consume all that it owns."""
        require(self.coordinates(b) and self.live[m] and self.begun[m])
        self.informed[m] = True
        self.begun[m] = False

    @action(fair=weak)
    def settle(self, b: Broker) -> None:
        """{b} sees that every partition is consumed, and by whom: the group is stable."""
        require(self.coordinates(b))
        require(all(self.is_served(p) for p in Partition))
        require(all(not self.live[m] or self.informed[m] for m in Member))
        self.stage = Stage.STABLE

    @action(fair=weak)
    def reopen(self, b: Broker) -> None:
        """{b} sees that the owners that it has written are no longer right."""
        require(self.coordinates(b) and self.stage == Stage.HANDED)
        require(not all(self.is_assigned(p) for p in Partition))
        self.stage = Stage.OPEN

    @action(kind=fault)
    def fail(self, b: Broker, unheard: bool) -> None:
        """{b} gives the handover up, and begins it again (it waits for no answer: {unheard})."""
        require(self.coordinates(b) and self.stage == Stage.HANDED)
        self.stage = Stage.OPEN
        if unheard:
            self.author = None

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    @action(kind=command, disturbs=True)
    def finish(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with its next record of {p}."""
        require(self.consumes[m, p] and not self.resolved[m, p])
        self.position[m, p] = self.position[m, p] + 1
        self.finished[p] = max(self.finished[p], self.position[m, p])

    @action
    def heed(self, m: Member) -> None:
        """{m} hears of whom it listens to, and has nothing to say."""
        self.follow(m)

    @action
    def answer(self, m: Member) -> None:
        """{m} says how far it is, since it is asked."""
        self.follow(m)
        self.say(m)

    @action
    def report(self, m: Member) -> None:
        """{m} says how far it is, unasked."""
        require(self.current[m])
        for p in Partition:
            self.committing[m, p] = self.position[m, p]

    @action
    def accept(self, m: Member, b: Broker) -> None:
        """{b} takes the offsets of what {m} owns, as {m} has answered them."""
        require(self.coordinates(b))
        for p in Partition:
            if self.owner[p] == m:
                self.accepted[p] = max(self.accepted[p], self.reported[m, p])
            self.reported[m, p] = 0

    @action
    def accept_report(self, m: Member, b: Broker) -> None:
        """{b} takes the offsets of what {m} owns, as {m} has said them unasked."""
        require(self.coordinates(b))
        for p in Partition:
            if self.owner[p] == m:
                self.accepted[p] = max(self.accepted[p], self.committing[m, p])
            self.committing[m, p] = 0

    @action(fair=weak)
    def collect(self, b: Broker) -> None:
        """{b} puts the offsets together that it has taken, to store them."""
        require(self.coordinates(b))
        require(any(self.accepted[p] > self.committed[p] for p in Partition))
        for p in Partition:
            is_new = self.accepted[p] > self.committed[p]
            self.storing[p] = self.accepted[p] if is_new else 0

    @action(fair=weak)
    def store(self, b: Broker) -> None:
        """{b} stores the offsets that it has put together, or they were stored already."""
        require(self.coordinates(b))
        require(self.author is None)
        require(any(self.storing[p] > 0 for p in Partition))
        self.author = b
        for p in Partition:
            self.committed[p] = max(self.committed[p], self.storing[p])
            self.storing[p] = 0

    @action(fair=weak)
    def hear(self, b: Broker) -> None:
        """{b} hears that its write was done, or gives up waiting for that."""
        require(self.author == b)
        self.author = None

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def coordinates(self, b: Broker) -> bool:
        """The broker is the coordinator of the present epoch."""
        return self.term[b] > 0 and self.term[b] == self.epoch

    def wants(self, m: Member, p: Partition) -> bool:
        """The member lives, and is interested in a partition that the coordinator knows."""
        return self.known[p] and self.live[m] and self.interest[m, p]

    def is_wanted(self, p: Partition) -> bool:
        """Some live member is interested in the partition."""
        return any(self.wants(m, p) for m in Member)

    def is_assigned(self, p: Partition) -> bool:
        """The partition's owner is a live member that is interested; or nobody is."""
        owner = self.owner[p]
        return not self.is_wanted(p) or (owner is not None and self.wants(owner, p))

    def is_served(self, p: Partition) -> bool:
        """The partition is assigned, and its owner is known to have begun."""
        owner = self.owner[p]
        return self.is_assigned(p) and (
            not self.is_wanted(p) or (owner is not None and self.informed[owner])
        )

    def is_right(self, p: Partition, heir: Member | None) -> bool:
        """The next owner lives and is interested; or nobody is, and there is none."""
        return (heir is None and not self.is_wanted(p)) or (
            heir is not None and self.wants(heir, p)
        )

    def makes_way(self, m: Member, p: Partition, heir: Member | None) -> bool:
        """The member does not stand in the way of the partition's next owner."""
        return not self.consumes[m, p] or heir == m

    def consumes_on(self, m: Member) -> bool:
        """The member goes on with what it keeps, if it consumes anything."""
        return any(self.consumes[m, p] for p in Partition)

    def change(self) -> None:
        """A stable group is so no longer."""
        if self.stage == Stage.STABLE:
            self.stage = Stage.OPEN

    def begin_generation(self, b: Broker) -> None:
        """The next owners are written: nobody has begun, and what was said before is no more."""
        self.author = b
        self.generation = self.generation + 1
        self.stage = Stage.HANDED
        for m in Member:
            self.current[m] = False
            self.informed[m] = False
            self.lose_reports(m)
            if not self.consumes_on(m):
                self.let_go(m)

    def begin_epoch(self, b: Broker) -> None:
        """A new epoch, whose coordinator knows nothing yet."""
        require(self.term[b] == 0)
        self.epoch = self.epoch + 1
        self.term[b] = self.epoch
        self.elected = b
        self.forget()

    def forget(self) -> None:
        """Forget what the coordinator knew."""
        self.stage = Stage.OPEN
        self.author = None
        for p in Partition:
            self.known[p] = False
            self.accepted[p] = 0
            self.storing[p] = 0
        for m in Member:
            self.live[m] = False
            self.informed[m] = False
            self.lose_reports(m)

    def follow(self, m: Member) -> None:
        """The member follows the coordinator of an epoch, and that of no older one from then on."""
        require(self.told[m] > 0 and self.told[m] >= self.heeded[m])
        self.heeded[m] = self.told[m]

    def say(self, m: Member) -> None:
        """The member answers how far it is, in the present generation."""
        require(self.current[m])
        for p in Partition:
            self.reported[m, p] = self.position[m, p]

    def lose_reports(self, m: Member) -> None:
        """Discard what the member has said: it counts no more."""
        self.begun[m] = False
        for p in Partition:
            self.reported[m, p] = 0
            self.committing[m, p] = 0

    def let_go(self, m: Member) -> None:
        """The member consumes nothing."""
        for p in Partition:
            self.consumes[m, p] = False
            self.position[m, p] = 0
            self.resolved[m, p] = False
