"""
One broker coordinates a group over one connection to each of its consumers: the verified protocol.

The coordinator is elected (`election`, a part held by its contract). Consumers register with it and
from then on only answer: a `Ping` tells that they live, a `Stop` ends their fetching, a `Start`
begins it. A rebalance stops everyone, waits until every owner that ZooKeeper names has answered or
is gone for good (its *lease* is over), writes the offsets, then generation and owners in one
transaction that ZooKeeper refuses to a deposed coordinator, and only then sends the Starts.

A write to ZooKeeper is three steps: it is sent (`write_owners`, `flush_offsets`), done or refused
(`serve_owners`, `serve_offsets`, `refuse_stale`, `refuse`), and its sender hears of that
(`answered`), or never does (`lose_answer`). In between the world goes on: members come and go,
topics appear, another coordinator is elected.

A connection that breaks loses nothing at once, and carries nothing new: each end may still read
what was sent to it, until it learns of the close (`on_lost_connection`, `handle_closed`) or closes
the connection itself; what it has not read then is lost.

What ZooKeeper keeps (`generation`, `owner`, `committed`), what travels (`down`, `up`), what a
consumer does (`fetching`, `position`) and what the coordinator has in its books (`books`, `asked`,
`stopped`, `acked`) are kept apart, because every flaw lives between them.

Source: system B, `000`, `001` and `002`, as PROTOCOLS.md rules (section B, rulings 1 to 10).

Assumed: connections are FIFO; the election keeps its contract. Under the assumption `lease`, and
only where a property says so: whom the coordinator takes for gone has closed its fetchers.
Not modelled: more than one group (they share nothing but the coordinator), streams and threads,
consultation (a consumer asks any broker), the answer to an accepted Register, retries of a ping
(copies of one request). A pause is a step that is put off. A topic has one partition; an interest
in topics that do not exist yet stands for names and wildcards alike. Resets: where no offset is
stored, a member begins with the first record. A second commit under way
(`may_commit`: that is a bound of explorations, and nothing that the proof needs). A Register whose
sender has hung up is read before that, or never. A member's next connection is another element, or
the same one once nobody has it in its books or names it in a write. More than one write of a
coordinator under way (a second one waits, and is put together where it is sent); what ZooKeeper
does after its client has given the answer up, it does before, here: nobody sees the difference, as
its reads come after its writes.
"""

from __future__ import annotations

from herdspec import action, command, fault, initial, require, weak
from herdspec.protocols.central_coordinator.accepted_mutants import (  # `mutate` looks here
    SURVIVORS as SURVIVORS,
)
from herdspec.protocols.central_coordinator.state import CoordinatedGroup
from herdspec.protocols.central_coordinator.values import Asked as Asked
from herdspec.protocols.central_coordinator.values import Kind as Kind
from herdspec.protocols.central_coordinator.values import Message as Message
from herdspec.protocols.central_coordinator.values import Phase as Phase
from herdspec.protocols.central_coordinator.values import Write as Write
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition


class CentralCoordinator(CoordinatedGroup):
    """One broker coordinates a group of consumers."""

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
        require(all(self.heir[m, p] is None for p in Partition))
        self.connect(m, b)
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
            self.term[m] = self.election.token[b]
            self.handle_group_member_change(b)
        else:
            self.link[m] = False

    @action(fair=weak)
    def on_lost_connection(self, m: Member) -> None:
        """{m} learns that its connection is closed, and closes its fetchers; the rest is lost."""
        require(self.via[m] is not None and not self.link[m])
        self.let_go(m)

    @action(kind=fault)
    def time_out(self, m: Member) -> None:
        """No request reaches {m} within its session time-out: it closes its fetchers."""
        require(self.via[m] is not None and self.link[m])
        self.let_go(m)

    @action(kind=fault)
    def cut(self, m: Member) -> None:
        """The connection of {m} breaks; of what is on its way, each end may read what came."""
        require(self.link[m])
        self.link[m] = False

    @action(fair=weak)
    def handle_closed(self, m: Member, b: Broker) -> None:
        """{b} learns that the connection of {m} is closed; what it has not read is lost."""
        require(self.books[m] == b and not self.link[m])
        self.close_channel(m)
        self.remove(m)
        self.handle_group_member_change(b)

    @action(kind=fault)
    def fail(self, m: Member, b: Broker) -> None:
        """{b} has waited too long for an answer of {m}, and closes its channel."""
        require(self.books[m] == b and self.link[m] and self.asked[m] != Asked.NONE)
        self.close_channel(m)
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
        self.answer(m, Kind.STOP, self.at[m])

    @action(fair=weak)
    def handle_stop_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} has stopped, and its offsets."""
        self.hear_answer(m, b, Kind.STOP)
        answer = self.up[m].pop(0)
        self.stopped[m] = True
        self.note_answer(m, b, answer.generation)

    @action(fair=weak)
    def write_owners(self, b: Broker, plan: dict[Partition, Member]) -> None:
        """{b} sends the next generation and its owners, {plan}, in one transaction."""
        require(self.phase[b] == Phase.STOPPING and self.all_stopped(b))
        require(self.write[b] == Write.NONE)
        require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
        require(all(self.is_free(p, b) for p in Partition))
        require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
        self.phase[b] = Phase.WRITING
        self.write[b] = Write.OWNERS
        for p in Partition:
            self.sent[b, p] = 0
            self.assigned[b, p] = self.wanted(p, b)
            for m in Member:
                if self.wanted(p, b) and plan[p] == m:
                    self.heir[m, p] = b

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
        self.answer(m, Kind.START, start.generation)

    @action(fair=weak)
    def handle_start_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} has started."""
        self.hear_answer(m, b, Kind.START)
        answer = self.up[m].pop(0)
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
        """
        {b} cannot store offsets or owners, or somebody did not start: the rebalance fails.

        Whoever does not answer a Stop is lost, and is waited for; the rebalance does not fail.
        """
        require(self.phase[b] == Phase.STOPPING or self.phase[b] == Phase.STARTING)
        require(self.phase[b] == Phase.STARTING or self.nobody_fetches(b))
        self.phase[b] = Phase.FAILED

    @action(fair=weak)
    def requeue(self, b: Broker) -> None:
        """{b} queues the group again, after a back-off."""
        require(self.phase[b] == Phase.FAILED)
        self.phase[b] = Phase.QUEUED

    # ── ZooKeeper's part ────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def serve_owners(self, b: Broker, plan: dict[Partition, Member | None]) -> None:
        """ZooKeeper writes the next generation and the owners that {b} has sent, {plan}."""
        require(self.write[b] == Write.OWNERS)
        require(all(self.names(b, p, plan[p]) for p in Partition))
        self.fenced_write(b)
        self.generation = self.generation + 1
        for p in Partition:
            self.owner[p] = plan[p]
            self.orphan[p] = False
        self.write[b] = Write.DONE
        self.forget_plan(b)

    @action(fair=weak)
    def serve_offsets(self, b: Broker) -> None:
        """ZooKeeper writes the offsets that {b} has sent."""
        require(self.write[b] == Write.OFFSETS)
        self.fenced_write(b)
        for p in Partition:
            self.committed[p] = self.merged(self.committed[p], self.sent[b, p])
            self.sent[b, p] = 0
        self.write[b] = Write.DONE

    @action(fair=weak)
    def refuse_stale(self, b: Broker) -> None:
        """ZooKeeper refuses what {b} has sent: its epoch is over."""
        require(self.election.token[b] != self.election.epoch)
        self.refuse_write(b)

    @action(kind=fault)
    def refuse(self, b: Broker) -> None:
        """ZooKeeper refuses what {b} writes: something stands that it takes to be missing."""
        self.refuse_write(b)

    @action(fair=weak)
    def answered(self, b: Broker) -> None:
        """{b} hears whether its write was done; what was refused may be tried again."""
        require(self.write[b] == Write.DONE or self.write[b] == Write.REFUSED)
        if self.phase[b] == Phase.WRITING:
            self.phase[b] = Phase.STARTING if self.write[b] == Write.DONE else Phase.STOPPING
        self.write[b] = Write.NONE

    @action(kind=fault)
    def lose_answer(self, b: Broker) -> None:
        """{b} will not hear whether its write was done: a rebalance that waits for it fails."""
        require(self.write[b] != Write.NONE)
        if self.phase[b] == Phase.WRITING:
            self.phase[b] = Phase.FAILED
        self.write[b] = Write.NONE
        self.forget_plan(b)

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
        self.answer(m, Kind.PING, self.at[m])

    @action(fair=weak)
    def handle_ping_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} lives, and its offsets."""
        self.hear_answer(m, b, Kind.PING)
        answer = self.up[m].pop(0)
        self.note_answer(m, b, answer.generation)

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
        require(self.link[m] and self.term[m] > 0 and self.may_commit(m))
        require(any(self.fetching[m, p] for p in Partition))
        for p in Partition:
            self.committing[m, p].append(self.position[m, p])
        self.up[m].append(Message(kind=Kind.COMMIT, generation=self.at[m]))

    @action(fair=weak)
    def handle_commit(self, m: Member, b: Broker) -> None:
        """{b} notes the offsets that {m} commits."""
        self.hear(m, b, Kind.COMMIT)
        require(all(len(self.committing[m, p]) > 0 for p in Partition))
        commit = self.up[m].pop(0)
        self.note_commit(m, b, commit.generation)

    @action(fair=weak)
    def flush_offsets(self, b: Broker, again: bool) -> None:
        """{b} sends the offsets that it has noted (those of a write that was not done: {again})."""
        require(self.write[b] == Write.NONE)
        if again:
            require(any(self.sent[b, p] > self.committed[p] for p in Partition))
        else:
            require(any(self.noted[b, p] > self.committed[p] for p in Partition))
            for p in Partition:
                is_new = self.noted[b, p] > self.committed[p]
                self.sent[b, p] = self.noted[b, p] if is_new else 0
        self.write[b] = Write.OFFSETS
