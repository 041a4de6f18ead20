"""
The mistakes of system B's drafts, and those that the checkers found: actions and helpers to put in.

Each does what one of the verified protocol does, but for a mistake; `flaws.py`
says which of them make a variant, and what comes of it.
"""

from __future__ import annotations

from herdspec.language.surface import Nat, action, each, fault, require, weak
from herdspec.protocols.central_coordinator.spec import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Message,
    Partition,
    Phase,
    Write,
)
from herdspec.protocols.election.spec import Broker

is_free = CentralCoordinator.is_free
"""As it is verified: for variants that count others as gone, too."""


# ── No barrier: nobody is waited for ────────────────────────────────────────────────────────


class StopsAnew(CentralCoordinator):
    """A coordinator that begins while Stops of a rebalance before are out: those do not count."""

    again: dict[Member, bool] = each(False)

    @action(fair=weak)
    def begin_rebalance(self, b: Broker, uneven: bool) -> None:
        """{b} takes the group, and sees if a rebalance is necessary (shares uneven: {uneven})."""
        require(self.election.leads[b] and self.phase[b] == Phase.QUEUED)
        self.dirty[b] = False
        if self.necessary(b) or (uneven and self.has_members(b)):
            self.phase[b] = Phase.STOPPING
            for m in Member:
                if self.books[m] == b:
                    self.stopped[m] = False
                    self.again[m] = self.asked[m] == Asked.STOP
        else:
            self.phase[b] = Phase.IDLE

    @action(fair=weak)
    def handle_stop_response(self, m: Member, b: Broker) -> None:
        """{b} notes the offsets of {m}, and that it has stopped, unless it is told so anew."""
        self.hear_answer(m, b, Kind.STOP)
        answer = self.up[m].pop(0)
        self.stopped[m] = not self.again[m]
        self.again[m] = False
        self.note_answer(m, b, answer.generation)

    def remove(self, m: Member) -> None:
        """Strike a member from the books."""
        self.books[m] = None
        self.asked[m] = Asked.NONE
        self.stopped[m] = False
        self.again[m] = False
        self.acked[m] = 0


def write_at_once(self: CentralCoordinator, b: Broker, plan: dict[Partition, Member]) -> None:
    """{b} sends the owners, {plan}, whoever still fetches, and says how far it is."""
    require(self.phase[b] == Phase.STOPPING and self.has_members(b))
    require(self.write[b] == Write.NONE)
    require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
    require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
    self.phase[b] = Phase.WRITING
    self.write[b] = Write.OWNERS
    for p in Partition:
        self.sent[b, p] = 0
        self.assigned[b, p] = self.wanted(p, b)
        for m in Member:
            if self.wanted(p, b) and plan[p] == m:
                self.heir[m, p] = b


def everything_is_free(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """Who fetched a partition before is not asked."""
    return True


def send_stop_meanwhile(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} to stop, though owners may be written already."""
    require(
        self.phase[b] == Phase.STOPPING
        or self.phase[b] == Phase.WRITING
        or (self.phase[b] == Phase.STARTING and not self.follows(m))
    )
    require(self.election.leads[b] and self.books[m] == b and self.link[m])
    require(not self.stopped[m] and self.asked[m] == Asked.NONE)
    is_written = self.phase[b] == Phase.STARTING or (
        self.phase[b] == Phase.WRITING and self.write[b] == Write.DONE
    )
    began = self.generation - 1 if is_written else self.generation
    self.asked[m] = Asked.STOP
    self.down[m].append(Message(kind=Kind.STOP, generation=began))
    self.acked[m] = 0


def start_who_has_stopped(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m}, which has stopped if it is given anything, what to fetch."""
    require(self.phase[b] == Phase.STARTING and not self.follows(m))
    require(self.stopped[m] or not any(self.is_given(m, p) for p in Partition))
    self.ask(m, b, Asked.START, Kind.START)
    for p in Partition:
        self.given[m, p] = self.is_given(m, p)
        self.begin[m, p] = self.committed[p]


# ── The other habits of the drafts ──────────────────────────────────────────────────────────


def drop_the_trigger(self: CentralCoordinator, b: Broker) -> None:
    """groupsBeingRebalanced.compareAndSet(false, true): if it fails, nothing is done."""
    if self.phase[b] == Phase.IDLE:
        self.phase[b] = Phase.QUEUED


def begin_with_a_plan(self: CentralCoordinator, b: Broker, uneven: bool) -> None:
    """{b} takes the group; who lives now, and what is known now, is what its plan is of."""
    require(self.election.leads[b] and self.phase[b] == Phase.QUEUED)
    self.dirty[b] = False
    if self.necessary(b) or (uneven and self.has_members(b)):
        self.phase[b] = Phase.STOPPING
        for m in Member:
            if self.books[m] == b:
                self.stopped[m] = False
                for p in Partition:
                    if self.wanted(p, b) and self.serves(m, p, b):
                        self.heir[m, p] = b
    else:
        self.phase[b] = Phase.IDLE


def write_as_planned(self: CentralCoordinator, b: Broker, plan: dict[Partition, Member]) -> None:
    """{b} sends {plan}, as it was made before the Stops, as far as those in it still live."""
    require(self.phase[b] == Phase.STOPPING and self.all_stopped(b))
    require(self.write[b] == Write.NONE)
    require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
    require(all(self.is_free(p, b) for p in Partition))
    require(
        all(
            is_decided(self, plan[p], p, b)
            or all(not is_decided(self, m, p, b) for m in Member)
            or any(self.heir[m, p] == b and self.books[m] != b for m in Member)
            for p in Partition
        )
    )
    self.phase[b] = Phase.WRITING
    self.write[b] = Write.OWNERS
    for p in Partition:
        self.sent[b, p] = 0
        self.assigned[b, p] = is_decided(self, plan[p], p, b)
        for m in Member:
            if self.heir[m, p] == b and (plan[p] != m or self.books[m] != b):
                self.heir[m, p] = None


@action(fair=weak)
def abandon_and_forget(self: CentralCoordinator, b: Broker) -> None:
    """The group of {b} no longer contains any consumer: there is nothing to do."""
    require(self.phase[b] == Phase.STOPPING and not self.has_members(b))
    self.phase[b] = Phase.IDLE
    self.dirty[b] = False
    self.forget_plan(b)


def stored_owners_differ(self: CentralCoordinator, b: Broker) -> bool:
    """3.1 to 3.5 as drafted: the owners stored in ZooKeeper, by the ids of their consumers."""
    return self.has_members(b) and any(
        self.wanted(p, b) and not owned_by_id(self, p, b) for p in Partition
    )


def owned_by_id(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """The stored owner's consumer is connected, with this registration or another."""
    owner = self.owner[p]
    return owner is not None and self.serves(owner, p, b)


class ReadsOffsetsEarly(CentralCoordinator):
    """A coordinator that reads, before the Stops, where the Starts are to begin."""

    first: dict[tuple[Broker, Partition], Nat] = each(0)

    @action(fair=weak)
    def begin_rebalance(self, b: Broker, uneven: bool) -> None:
        """{b} takes the group from its queue, and reads the offsets that it will hand out."""
        require(self.election.leads[b] and self.phase[b] == Phase.QUEUED)
        self.dirty[b] = False
        if self.necessary(b) or (uneven and self.has_members(b)):
            self.phase[b] = Phase.STOPPING
            for m in Member:
                if self.books[m] == b:
                    self.stopped[m] = False
            for p in Partition:
                self.first[b, p] = max(self.noted[b, p], self.committed[p])
        else:
            self.phase[b] = Phase.IDLE

    @action(fair=weak)
    def send_start(self, m: Member, b: Broker) -> None:
        """{b} tells {m} what to fetch, from where it read before the Stops."""
        require(self.phase[b] == Phase.STARTING and not self.follows(m))
        self.ask(m, b, Asked.START, Kind.START)
        for p in Partition:
            self.given[m, p] = self.is_given(m, p)
            self.begin[m, p] = self.first[b, p]


def whatever_comes_last(self: CentralCoordinator, before: Nat, now: Nat) -> Nat:
    """An offset is stored as it comes (0: none)."""
    return now if now > 0 else before


def step_down_and_go_on(self: CentralCoordinator, b: Broker) -> None:
    """{b} has lost the election; its socket server, its scheduler and its listeners go on."""
    require(self.election.leads[b] and self.seat != b)
    self.election.step_down(b, False)


@action(fair=weak)
def start_up_anew(self: CentralCoordinator, b: Broker) -> None:
    """coordinatorStartup: {b} closes what it has gone on with, and begins anew."""
    require(not self.election.leads[b])
    self.reset(b)
    self.election.take_up(b, True, True)
    self.phase[b] = Phase.QUEUED
    for p in Partition:
        self.knows[b, p] = self.exists[p]


def gone_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """Whoever is not connected is counted as gone."""
    return True


def who_has_not_come_back_is_gone(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """A new coordinator counts those as gone who have not heard of it."""
    owner = self.owner[p]
    return is_free(self, p, b) or (owner is not None and self.seen[owner] < self.election.token[b])


def later_owners_are_unknown(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """A deposed coordinator knows nothing of the owners that others have written since."""
    return is_free(self, p, b) or self.election.token[b] != self.election.epoch


def is_told_nothing_more(self: CentralCoordinator, m: Member) -> bool:
    """No Start is under way to it, and none will be."""
    return not self.link[m] and all(x.kind != Kind.START for x in self.down[m])


def fetches_nothing(self: CentralCoordinator, m: Member) -> bool:
    """All its fetchers are closed."""
    return all(not self.fetching[m, p] for p in Partition)


def who_fetches_nothing_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """Whose fetchers are closed is taken for gone, though it may hear of a deposed coordinator."""
    return fetches_nothing(self, m) and all(x.kind != Kind.START for x in self.down[m])


def whoever_let_go_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """Who has given its connection up is taken to fetch nothing, as any other consumer would."""
    return is_told_nothing_more(self, m) and (self.via[m] is None or fetches_nothing(self, m))


def whom_another_has_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """A lease that a deposed coordinator keeps alive is taken for over."""
    return self.books[m] is not None or (is_told_nothing_more(self, m) and fetches_nothing(self, m))


def keep_fetching(self: CentralCoordinator, m: Member) -> None:
    """`002`'s consumer: it reconnects, and its fetchers run on."""
    self.via[m] = None
    self.hang_up(m)


@action
def requeue_while_retries_last(self: CentralCoordinator, b: Broker) -> None:
    """{b} queues the group again, unless it has done so too often."""
    require(self.phase[b] == Phase.FAILED)
    self.phase[b] = Phase.QUEUED


def any_version(self: CentralCoordinator, b: Broker) -> None:
    """A write is accepted, whoever's it is."""
    if self.election.token[b] != self.election.epoch:
        self.election.stale_write_accepted = True


# ── Owners are written when everyone has started ────────────────────────────────────────────


@action(fair=weak)
def decide_owners(self: CentralCoordinator, b: Broker, plan: dict[Partition, Member]) -> None:
    """{b} decides on {plan}; nothing is written yet."""
    require(self.phase[b] == Phase.STOPPING and self.all_stopped(b))
    require(self.write[b] == Write.NONE)
    require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
    require(all(self.is_free(p, b) for p in Partition))
    require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
    self.phase[b] = Phase.STARTING
    for p in Partition:
        for m in Member:
            if self.wanted(p, b) and plan[p] == m:
                self.heir[m, p] = b


def start_as_decided(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} what to fetch, and from where on."""
    require(self.phase[b] == Phase.STARTING and not has_started(self, m))
    require(not is_written_late(self, b))
    require(self.election.leads[b] and self.books[m] == b and self.link[m])
    require(self.asked[m] == Asked.NONE)
    self.asked[m] = Asked.START
    self.down[m].append(Message(kind=Kind.START, generation=self.generation + 1))
    for p in Partition:
        self.given[m, p] = self.heir[m, p] == b
        self.begin[m, p] = self.committed[p]


def write_as_started(self: CentralCoordinator, b: Broker, plan: dict[Partition, Member]) -> None:
    """Every member has started: {b} sends {plan}, what it decided on for those who still live."""
    require(self.phase[b] == Phase.STARTING and self.has_members(b))
    require(self.write[b] == Write.NONE and not is_written_late(self, b))
    require(all(self.books[m] != b or has_started(self, m) for m in Member))
    require(all(not is_decided(self, m, p, b) or plan[p] == m for m in Member for p in Partition))
    self.phase[b] = Phase.WRITING
    self.write[b] = Write.OWNERS
    for p in Partition:
        self.sent[b, p] = 0
        self.assigned[b, p] = any(is_decided(self, m, p, b) for m in Member)
        for m in Member:
            if self.heir[m, p] == b and self.books[m] != b:
                self.heir[m, p] = None


@action(fair=weak)
def hear_of_the_write(self: CentralCoordinator, b: Broker) -> None:
    """{b} hears whether its write was done; what was refused may be tried again."""
    require(self.write[b] == Write.DONE or self.write[b] == Write.REFUSED)
    if self.phase[b] == Phase.WRITING:
        self.phase[b] = Phase.STARTING
    self.write[b] = Write.NONE


def refuse_and_remember(self: CentralCoordinator, b: Broker) -> None:
    """Refuse what the broker has sent; what it decided on is what it may send again."""
    require(self.write[b] == Write.OWNERS or self.write[b] == Write.OFFSETS)
    self.write[b] = Write.REFUSED


@action(kind=fault)
def fail_and_forget(self: CentralCoordinator, b: Broker) -> None:
    """{b} cannot store offsets or owners, or somebody did not start: the rebalance fails."""
    require(self.phase[b] == Phase.STOPPING or self.phase[b] == Phase.STARTING)
    require(self.phase[b] == Phase.STARTING or self.nobody_fetches(b))
    self.phase[b] = Phase.FAILED
    self.forget_plan(b)


def ping_who_has_started(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """pingScheduler: {b} asks {m} whether it lives."""
    require(self.phase[b] != Phase.STOPPING or self.stopped[m])
    require(self.phase[b] != Phase.STARTING or self.follows(m) or has_started(self, m))
    self.ask(m, b, Asked.PING, Kind.PING)


def offsets_of_who_has_started(self: CentralCoordinator, m: Member, p: Partition, g: Nat) -> bool:
    """Who was started counts as the owner, though nothing is written yet."""
    b = self.books[m]
    return self.owns(m, p, g) or (
        b is not None
        and self.phase[b] == Phase.STARTING
        and g == self.generation + 1
        and self.heir[m, p] == b
    )


def finish_as_written(self: CentralCoordinator, b: Broker) -> None:
    """The owners are written: {b} resets the flag, or queues the group again."""
    require(self.phase[b] == Phase.STARTING and self.write[b] == Write.NONE)
    require(not self.has_members(b) or is_written_late(self, b))
    self.phase[b] = Phase.QUEUED if self.dirty[b] else Phase.IDLE
    self.dirty[b] = False
    self.forget_plan(b)


def has_started(self: CentralCoordinator, m: Member) -> bool:
    """It has acknowledged the Start of a generation that is not ZooKeeper's yet."""
    return self.acked[m] == self.generation + 1


def is_decided(self: CentralCoordinator, m: Member, p: Partition, b: Broker) -> bool:
    """It is to own the partition, and lives."""
    return self.serves(m, p, b) and self.heir[m, p] == b


def is_written_late(self: CentralCoordinator, b: Broker) -> bool:
    """The generation whose Starts were acknowledged is ZooKeeper's by now."""
    return any(self.books[m] == b and self.follows(m) for m in Member)


# ── What the checkers found while the protocol was written ──────────────────────────────────


def stop_and_keep_the_ack(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} to stop; that it follows an older Start stays in the books."""
    require(self.phase[b] == Phase.STOPPING and not self.stopped[m])
    self.ask(m, b, Asked.STOP, Kind.STOP)


def given_by_id(self: CentralCoordinator, m: Member, p: Partition) -> bool:
    """True if its consumer wants the partition, and owns it with whichever registration."""
    return self.owner[p] == m and self.interest[m, p]


def accept_any_epoch(self: CentralCoordinator, m: Member, b: Broker) -> bool:
    """A coordinator accepts everyone."""
    return self.election.leads[b]


def offsets_of_the_past(self: CentralCoordinator, m: Member, p: Partition, g: Nat) -> bool:
    """Offsets are taken from whoever reports them."""
    return True
