"""
One broker coordinates a group over one connection to each of its consumers: the verified protocol.

The coordinator is elected (`election`, a part held by its contract). Consumers register with it and
from then on only answer: a `Ping` tells that they live, a `Stop` ends their fetching, a `Start`
begins it. A rebalance stops everyone, waits until every owner that ZooKeeper names has answered or
is gone for good (its *lease* is over), writes the offsets, then generation and owners in one
transaction that ZooKeeper refuses to a deposed coordinator, and only then sends the Starts.

What ZooKeeper keeps (`generation`, `owner`, `committed`), what travels (`down`, `up`), what a
consumer does (`fetching`, `position`) and what the coordinator has in its books (`books`, `asked`,
`stopped`, `acked`) are kept apart, because every flaw lives between them.

Source: system B, `000`, `001` and `002`, as PROTOCOLS.md rules (section B, rulings 1 to 10).

Assumed: connections are FIFO; the election keeps its contract. Under the assumption `lease`, and
only where a property says so: whom the coordinator takes for gone has closed its fetchers.
Not modelled: more than one group (they share nothing but the coordinator), streams and threads,
consultation (a consumer asks any broker), the answer to an accepted Register, retries of a ping
(copies of one request). A pause is a step that is put off. A topic has one partition; an interest
in topics that do not exist yet stands for names and wildcards alike. A user's commit waits for the
answers before it. A member's next connection is another element, or the same one once nobody has
it in its books.
"""

from __future__ import annotations

from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Spec,
    action,
    command,
    each,
    empty,
    fault,
    initial,
    require,
    weak,
)
from herdspec.protocols.central_coordinator_survivors import (  # `mutate` looks here
    SURVIVORS as SURVIVORS,
)
from herdspec.protocols.central_coordinator_values import Asked as Asked
from herdspec.protocols.central_coordinator_values import Kind as Kind
from herdspec.protocols.central_coordinator_values import Message as Message
from herdspec.protocols.central_coordinator_values import Phase as Phase
from herdspec.protocols.election import Broker
from herdspec.protocols.election_contract import ElectionContract
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition


class CentralCoordinator(Spec):
    """One broker coordinates a group of consumers."""

    # What ZooKeeper knows.
    election: ElectionContract
    seat: Broker | None = None  # whose session owns the leader's node
    exists: dict[Partition, bool] = each(False)
    generation: Nat = 0
    owner: dict[Partition, Member | None] = each(None)
    orphan: dict[Partition, bool] = each(False)  # its owner is a former life of that member
    committed: dict[Partition, Nat] = each(0)

    # What is true of each connection.
    link: dict[Member, bool] = each(False)  # it stands
    down: dict[Member, Annotated[list[Message], Capacity(2)]] = each(empty())  # to the consumer
    up: dict[Member, Annotated[list[Message], Capacity(2)]] = each(empty())  # to the coordinator
    given: dict[tuple[Member, Partition], bool] = each(False)  # what the last Start says
    begin: dict[tuple[Member, Partition], Nat] = each(0)  # and from where on
    reported: dict[tuple[Member, Partition], Nat] = each(0)  # the offsets of its last answer

    # What the consumer knows.
    via: dict[Member, Broker | None] = each(None)  # to whom it believes to be connected
    seen: dict[Member, Nat] = each(0)  # the latest epoch that it has been told
    barred: dict[Member, Nat] = each(0)  # the generation of the last Stop: Starts up to it are old
    at: dict[Member, Nat] = each(0)  # the generation that it consumes in
    fetching: dict[tuple[Member, Partition], bool] = each(False)
    position: dict[tuple[Member, Partition], Nat] = each(0)  # consumedOffset, where it fetches

    # What the coordinator has in its books.
    books: dict[Member, Broker | None] = each(None)  # by whom it is counted as a live member
    interest: dict[tuple[Member, Partition], bool] = each(False)
    asked: dict[Member, Asked] = each(Asked.NONE)
    stopped: dict[Member, bool] = each(False)  # it has answered the present rebalance's Stop
    acked: dict[Member, Nat] = each(0)  # the generation whose Start it has acknowledged
    phase: dict[Broker, Phase] = each(Phase.IDLE)
    dirty: dict[Broker, bool] = each(False)  # something changed while the flag was set
    knows: dict[tuple[Broker, Partition], bool] = each(False)  # partitions that it was told of
    noted: dict[tuple[Broker, Partition], Nat] = each(0)  # offsets that are to be written

    # For the properties only; no guard reads them.
    end: dict[Partition, Nat] = each(0)  # how many records there are
    finished: dict[Partition, Nat] = each(0)  # the first record that no application finished
    stale_commit_accepted: bool = False

    @initial
    def some_topics(self, there: set[Partition]) -> None:
        """Some partitions are there from the beginning."""
        for p in Partition:
            self.exists[p] = p in there

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def elect(self, b: Broker) -> None:
        """{b} is elected."""
        require(self.seat is None and not self.election.leads[b])
        self.election.elect(b)
        self.seat = b

    @action(fair=weak)
    def coordinator_startup(self, b: Broker) -> None:
        """coordinatorStartup: {b} reads topics and groups, and queues every group."""
        require(not self.election.leads[b])
        self.election.take_up(b, True, True)
        self.phase[b] = Phase.QUEUED
        for p in Partition:
            self.knows[b, p] = self.exists[p]

    @action(kind=fault)
    def lose_session(self, b: Broker) -> None:
        """The session of {b} expires; {b} does not know."""
        require(self.seat == b)
        self.election.give_up(b)
        self.seat = None

    @action(kind=fault)
    def doubt(self, b: Broker) -> None:
        """{b} is not sure that its session lives, and steps down; it may lead on in its epoch."""
        require(self.election.leads[b] and self.seat == b)
        self.election.step_down(b, True)
        self.reset(b)

    @action(fair=weak)
    def step_down(self, b: Broker) -> None:
        """{b} learns that it coordinates no more: it closes every channel first."""
        require(self.election.leads[b] and self.seat != b)
        self.election.step_down(b, False)
        self.reset(b)

    @action(kind=fault)
    def restart(self, b: Broker) -> None:
        """The process of {b} is killed and starts anew."""
        self.election.restart(b)
        if self.seat == b:
            self.seat = None
        self.reset(b)

    # ── Consumers and topics come and go ────────────────────────────────────────────────────

    @action(kind=command)
    def register(self, m: Member, b: Broker, wanted: set[Partition]) -> None:
        """{m} connects to {b} and registers, interested in {wanted}."""
        require(self.via[m] is None and self.books[m] is None)
        self.via[m] = b
        self.link[m] = True
        self.barred[m] = 0
        self.up[m].append(Message(kind=Kind.REGISTER, generation=0))
        for p in Partition:
            self.interest[m, p] = p in wanted
            self.orphan[p] = self.orphan[p] or self.owner[p] == m

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books, or refuses it."""
        require(self.via[m] == b and len(self.up[m]) > 0)
        require(self.up[m][0].kind == Kind.REGISTER)
        self.up[m].clear()
        if self.accepts(m, b):
            self.books[m] = b
            self.handle_group_member_change(b)
        else:
            self.link[m] = False

    @action(fair=weak)
    def on_lost_connection(self, m: Member) -> None:
        """{m} learns that its connection is closed, and closes its fetchers."""
        require(self.via[m] is not None and not self.link[m])
        self.let_go(m)

    @action(kind=fault)
    def time_out(self, m: Member) -> None:
        """No request reaches {m} within its session time-out: it closes its fetchers."""
        require(self.via[m] is not None and self.link[m])
        self.let_go(m)

    @action(kind=fault)
    def cut(self, m: Member) -> None:
        """The connection of {m} breaks; what was on its way is lost."""
        require(self.link[m])
        self.disconnect(m)

    @action(fair=weak)
    def handle_closed(self, m: Member, b: Broker) -> None:
        """{b} learns that the connection of {m} is closed."""
        require(self.books[m] == b and not self.link[m])
        self.remove(m)
        self.handle_group_member_change(b)

    @action(kind=fault)
    def fail(self, m: Member, b: Broker) -> None:
        """{b} has waited too long for an answer of {m}, and closes its channel."""
        require(self.books[m] == b and self.link[m] and self.asked[m] != Asked.NONE)
        self.disconnect(m)
        self.remove(m)
        self.handle_group_member_change(b)

    @action(kind=command, disturbs=True)
    def appear(self, p: Partition) -> None:
        """{p} appears, with its topic or as a further partition."""
        require(not self.exists[p])
        self.exists[p] = True

    @action(fair=weak)
    def topic_change_listener(self, b: Broker, p: Partition) -> None:
        """{b} learns that {p} has appeared."""
        require(self.election.leads[b] and self.exists[p] and not self.knows[b, p])
        self.knows[b, p] = True
        self.request_rebalance(b)

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

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
        else:
            self.phase[b] = Phase.IDLE

    @action(fair=weak)
    def send_stop(self, m: Member, b: Broker) -> None:
        """{b} tells {m} to stop."""
        require(self.phase[b] == Phase.STOPPING and not self.stopped[m])
        self.ask(m, b, Asked.STOP, Kind.STOP)
        self.acked[m] = 0  # whom we stop no longer follows the Start that it acknowledged

    @action(fair=weak)
    def handle_stop(self, m: Member) -> None:
        """{m} closes its fetchers, and answers with the offsets that it has consumed."""
        self.take(m, Kind.STOP)
        stop = self.down[m][0]
        self.down[m].clear()
        self.barred[m] = stop.generation
        self.report(m)
        for p in Partition:
            self.fetching[m, p] = False
            self.position[m, p] = 0
        self.up[m].append(Message(kind=Kind.STOP, generation=self.at[m]))

    @action(fair=weak)
    def handle_stop_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} has stopped, and its offsets."""
        self.hear(m, b, Kind.STOP)
        answer = self.up[m][0]
        self.up[m].clear()  # an answer is the last that its sender has sent
        self.asked[m] = Asked.NONE
        self.stopped[m] = True
        self.note(m, b, answer.generation)

    @action(fair=weak)
    def flush_offsets(self, b: Broker) -> None:
        """{b} writes the offsets that it has noted."""
        require(any(self.noted[b, p] > self.committed[p] for p in Partition))
        self.fenced_write(b)
        for p in Partition:
            self.committed[p] = self.merged(self.committed[p], self.noted[b, p])

    @action(fair=weak)
    def write_owners(self, b: Broker, plan: dict[Partition, Member]) -> None:
        """{b} writes the next generation and its owners, {plan}, in one transaction."""
        require(self.phase[b] == Phase.STOPPING and self.all_stopped(b))
        require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
        require(all(self.is_free(p, b) for p in Partition))
        require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
        self.fenced_write(b)
        self.generation = self.generation + 1
        for p in Partition:
            self.owner[p] = plan[p] if self.wanted(p, b) else None
            self.orphan[p] = False
        self.phase[b] = Phase.STARTING

    @action(fair=weak)
    def send_start(self, m: Member, b: Broker) -> None:
        """{b} tells {m} what to fetch, and from where on."""
        require(self.phase[b] == Phase.STARTING and not self.follows(m))
        self.ask(m, b, Asked.START, Kind.START)
        for p in Partition:
            self.given[m, p] = self.is_given(m, p)
            self.begin[m, p] = self.committed[p]

    @action(fair=weak)
    def handle_start(self, m: Member) -> None:
        """{m} starts to fetch what it was given."""
        self.take(m, Kind.START)
        start = self.down[m][0]
        self.down[m].clear()
        if start.generation > self.barred[m]:
            self.at[m] = start.generation
            for p in Partition:
                self.fetching[m, p] = self.given[m, p]
                self.position[m, p] = self.begin[m, p] if self.given[m, p] else 0
        self.up[m].append(Message(kind=Kind.START, generation=start.generation))

    @action(fair=weak)
    def handle_start_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} has started."""
        self.hear(m, b, Kind.START)
        answer = self.up[m][0]
        self.up[m].clear()  # an answer is the last that its sender has sent
        self.asked[m] = Asked.NONE
        self.acked[m] = answer.generation

    @action(fair=weak)
    def finish_rebalance(self, b: Broker) -> None:
        """Every member has started: {b} resets the flag, or queues the group again."""
        require(self.phase[b] == Phase.STARTING)
        require(all(self.books[m] != b or self.follows(m) for m in Member))
        self.phase[b] = Phase.QUEUED if self.dirty[b] else Phase.IDLE
        self.dirty[b] = False

    @action(fair=weak)
    def abandon_rebalance(self, b: Broker) -> None:
        """The group of {b} no longer contains any consumer: there is nothing to do."""
        require(self.phase[b] == Phase.STOPPING and not self.has_members(b))
        self.phase[b] = Phase.IDLE
        self.dirty[b] = False

    @action(kind=fault)
    def fail_rebalance(self, b: Broker) -> None:
        """{b} has waited too long: the rebalance fails."""
        require(self.phase[b] == Phase.STOPPING or self.phase[b] == Phase.STARTING)
        self.phase[b] = Phase.FAILED

    @action(fair=weak)
    def requeue(self, b: Broker) -> None:
        """{b} queues the group again, after a back-off."""
        require(self.phase[b] == Phase.FAILED)
        self.phase[b] = Phase.QUEUED

    # ── Pings, records and offsets ──────────────────────────────────────────────────────────

    @action
    def send_ping(self, m: Member, b: Broker) -> None:
        """pingScheduler: {b} asks {m} whether it lives."""
        require(self.phase[b] != Phase.STOPPING or self.stopped[m])
        require(self.phase[b] != Phase.STARTING or self.follows(m))
        self.ask(m, b, Asked.PING, Kind.PING)

    @action(fair=weak)
    def handle_ping(self, m: Member) -> None:
        """{m} answers with the offsets that it has consumed."""
        self.take(m, Kind.PING)
        self.down[m].clear()
        self.report(m)
        self.up[m].append(Message(kind=Kind.PING, generation=self.at[m]))

    @action(fair=weak)
    def handle_ping_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} lives, and its offsets."""
        self.hear(m, b, Kind.PING)
        answer = self.up[m][0]
        self.up[m].clear()  # an answer is the last that its sender has sent
        self.asked[m] = Asked.NONE
        self.note(m, b, answer.generation)

    @action(kind=command, disturbs=True)
    def produce(self, p: Partition) -> None:
        """A record is appended to {p}."""
        require(self.exists[p])
        self.end[p] = self.end[p] + 1

    @action(kind=command)
    def consume(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with its next record of {p}."""
        require(self.fetching[m, p] and self.position[m, p] < self.end[p])
        self.position[m, p] = self.position[m, p] + 1
        self.finished[p] = max(self.finished[p], self.position[m, p])

    @action(kind=command)
    def commit(self, m: Member) -> None:
        """The user of {m} commits what it has consumed."""
        require(self.link[m] and len(self.up[m]) == 0 and self.at[m] > 0)
        require(any(self.fetching[m, p] for p in Partition))
        self.report(m)
        self.up[m].append(Message(kind=Kind.COMMIT, generation=self.at[m]))

    @action(fair=weak)
    def handle_commit(self, m: Member, b: Broker) -> None:
        """{b} notes the offsets that {m} commits."""
        self.hear(m, b, Kind.COMMIT)
        self.note(m, b, self.up[m][0].generation)
        self.up[m].pop(0)

    # ── What the drafts do otherwise, and what is assumed ───────────────────────────────────

    def lease_is_over(self, m: Member) -> bool:
        """Assumption `lease`: whom the coordinator takes for gone has closed its fetchers."""
        return not self.link[m] and all(not self.fetching[m, p] for p in Partition)

    def accepts(self, m: Member, b: Broker) -> bool:
        """A coordinator accepts who has not heard of a later epoch."""
        return self.election.leads[b] and self.seen[m] <= self.election.token[b]

    def necessary(self, b: Broker) -> bool:
        """3.1 to 3.5, and: only if every registration has acknowledged the present Start."""
        return self.has_members(b) and (
            any(self.books[m] == b and not self.follows(m) for m in Member)
            or any(self.wanted(p, b) and not self.is_owned(p, b) for p in Partition)
            or any(self.owner[p] is not None and not self.is_owned(p, b) for p in Partition)
        )

    def is_free(self, p: Partition, b: Broker) -> bool:
        """Its owner has stopped with all the others, or is gone for good: nobody fetches it."""
        owner = self.owner[p]
        return (
            owner is None or self.orphan[p] or self.books[owner] == b or self.lease_is_over(owner)
        )

    def request_rebalance(self, b: Broker) -> None:
        """Set the flag and queue the group; or remember it, if the flag is set already."""
        if self.phase[b] == Phase.IDLE:
            self.phase[b] = Phase.QUEUED
        else:
            self.dirty[b] = True

    def is_given(self, m: Member, p: Partition) -> bool:
        """A member is a registration: what its consumer owned in a former life is not its own."""
        return self.owner[p] == m and not self.orphan[p]

    def accepts_offset(self, m: Member, p: Partition, generation: Nat) -> bool:
        """Offsets are taken from the partition's owner in the present generation."""
        return self.owns(m, p, generation)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def owns(self, m: Member, p: Partition, generation: Nat) -> bool:
        """ZooKeeper names this member, in this life, and this is its generation."""
        return self.owner[p] == m and not self.orphan[p] and generation == self.generation

    def handle_group_member_change(self, b: Broker) -> None:
        """handleNewGroup, handleGroupMemberChange: somebody came or went."""
        self.request_rebalance(b)

    def follows(self, m: Member) -> bool:
        """The member has acknowledged exactly the present Start."""
        return self.acked[m] > 0 and self.acked[m] == self.generation

    def merged(self, before: Nat, now: Nat) -> Nat:
        """A stored offset never goes back."""
        return max(before, now)

    def fenced_write(self, b: Broker) -> None:
        """A write checks the epoch node's version."""
        self.election.write(b)

    def has_members(self, b: Broker) -> bool:
        """The group contains a live consumer."""
        return any(self.books[m] == b for m in Member)

    def wanted(self, p: Partition, b: Broker) -> bool:
        """A live member is interested in a partition that the coordinator knows."""
        return self.knows[b, p] and any(self.serves(m, p, b) for m in Member)

    def serves(self, m: Member, p: Partition, b: Broker) -> bool:
        """The member lives, and is interested in the partition."""
        return self.books[m] == b and self.interest[m, p]

    def is_owned(self, p: Partition, b: Broker) -> bool:
        """ZooKeeper names a live member as the partition's owner."""
        owner = self.owner[p]
        return owner is not None and not self.orphan[p] and self.serves(owner, p, b)

    def all_stopped(self, b: Broker) -> bool:
        """Every live member has answered the Stop, and there are some."""
        return self.has_members(b) and all(self.books[m] != b or self.stopped[m] for m in Member)

    def asks(self, m: Member, kind: Kind) -> bool:
        """A request of this kind is outstanding."""
        return (
            (kind == Kind.PING and self.asked[m] == Asked.PING)
            or (kind == Kind.STOP and self.asked[m] == Asked.STOP)
            or (kind == Kind.START and self.asked[m] == Asked.START)
        )

    def ask(self, m: Member, b: Broker, asked: Asked, kind: Kind) -> None:
        """Send a request over a connection on which none is outstanding."""
        require(self.election.leads[b] and self.books[m] == b and self.link[m])
        require(self.asked[m] == Asked.NONE)
        self.asked[m] = asked
        self.down[m].append(Message(kind=kind, generation=self.generation))

    def take(self, m: Member, kind: Kind) -> None:
        """The next request is of this kind."""
        broker = self.via[m]
        assert broker is not None
        require(len(self.down[m]) > 0)
        require(self.down[m][0].kind == kind)
        self.seen[m] = self.election.token[broker]

    def hear(self, m: Member, b: Broker, kind: Kind) -> None:
        """The next response is of this kind, and reaches the coordinator that has its sender."""
        require(self.books[m] == b and len(self.up[m]) > 0)
        require(self.up[m][0].kind == kind)

    def report(self, m: Member) -> None:
        """The offsets of the answer that is being sent."""
        for p in Partition:
            self.reported[m, p] = self.position[m, p]

    def note(self, m: Member, b: Broker, generation: Nat) -> None:
        """Remember the reported offsets, to be written."""
        if any(
            self.accepts_offset(m, p, generation)
            and self.reported[m, p] > 0
            and not self.owns(m, p, generation)
            for p in Partition
        ):
            self.stale_commit_accepted = True
        for p in Partition:
            if self.accepts_offset(m, p, generation):
                self.noted[b, p] = self.merged(self.noted[b, p], self.reported[m, p])

    def let_go(self, m: Member) -> None:
        """onLostConnection: close the fetchers, clear the queues, shut the connection down."""
        self.via[m] = None
        self.at[m] = 0
        self.barred[m] = 0
        for p in Partition:
            self.fetching[m, p] = False
            self.position[m, p] = 0
        self.disconnect(m)

    def disconnect(self, m: Member) -> None:
        """The connection is gone, and all that was on its way."""
        self.link[m] = False
        self.down[m].clear()
        self.up[m].clear()
        for p in Partition:
            self.given[m, p] = False
            self.begin[m, p] = 0
            self.reported[m, p] = 0

    def remove(self, m: Member) -> None:
        """Strike a member from the books."""
        self.books[m] = None
        self.asked[m] = Asked.NONE
        self.stopped[m] = False
        self.acked[m] = 0

    def reset(self, b: Broker) -> None:
        """handleNewSession: close every channel, clear all state."""
        self.phase[b] = Phase.IDLE
        self.dirty[b] = False
        for p in Partition:
            self.knows[b, p] = False
            self.noted[b, p] = 0
        for m in Member:
            if self.books[m] == b or self.via[m] == b:
                self.disconnect(m)
            if self.books[m] == b:
                self.remove(m)
