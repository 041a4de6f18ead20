"""
Consumers of a group share its partitions by themselves, through ZooKeeper: the corrected protocol.

Every consumer registers in `ids` and watches it. Whatever changes there, or among the topics, sets
a flag; its watcher's thread takes the flag and rebalances: (1) `close_fetchers` and
`commit_offsets`, (2) `release`, (3) `read_topics` and `read_ids`, which make the plan for all, of
which it keeps its own part, (4) `claim`, partition by partition, (5) `start_fetchers`. Each step
may be the last that the consumer ever takes, and others' steps come between.

What ZooKeeper keeps (`registered`, `owner`, `version`, `committed`), what has become of a session
(`session`) and what a consumer believes (`planned`, `token`, `registry`) are kept apart, because
every flaw lives between them. What the drafted protocol does otherwise stands in `mistakes.py`.

Corrected (*ours*): a claim is a multi that creates the owner node and raises the version of a
persistent node of the partition; that version is the consumer's token, and its commits and releases
check it. Offsets are read after the claim. A watch is set by each read. A claim that is refused
waits for the node in its way. Exhausted retries are reported, and are no end. Who is cut off closes
its fetchers; who gets a new session begins with the first step.

Source: system A, `004`, with the facts of Kafka 0.8 that PROTOCOLS.md takes over (section A).

Assumed: ZooKeeper is linearizable for writes, and a read that follows a watch's event sees what
fired it; the plan of each consumer is a function of what it has read (the range assignor over
sorted threads). Under the assumption `session_lease`, and only where a property says so: a session
ends only after its consumer has stopped delivering (`timed.py` discharges it).
Not modelled: several threads of a consumer, and several partitions of a topic (how range shares
them is the assignor's own promise): a topic has one partition, an interest in topics that do not
exist yet stands for names and wildcards alike. Records that were fetched and not read are at most
one. A step's writes for several partitions are one after the other, here at once; a write and its
answer are one step, but for a claim, whose answer may be lost. A registration that goes while it is
read. `/brokers/ids`, leaders of partitions, resets of offsets. A killed consumer that comes back is
another one, or the same once its session has ended.
"""

from __future__ import annotations

from herdspec import action, command, fault, initial, require, weak
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.self_rebalancing.accepted_mutants import (  # `mutate` looks here
    SURVIVORS as SURVIVORS,
)
from herdspec.protocols.self_rebalancing.state import RebalancingGroup
from herdspec.protocols.self_rebalancing.values import RETRIES as RETRIES
from herdspec.protocols.self_rebalancing.values import Rank
from herdspec.protocols.self_rebalancing.values import Rebalance as Rebalance
from herdspec.protocols.self_rebalancing.values import Session as Session


class SelfRebalancing(RebalancingGroup):
    """Consumers rebalance by themselves."""

    @initial
    def threads_in_order(self, there: set[Partition], order: dict[Member, Rank]) -> None:
        """Some partitions are there from the beginning; threads are ordered by their names."""
        require(all(m == c or self.differ(order[m], order[c]) for m in Member for c in Member))
        require(all(order[m] == 0 or any(order[c] + 1 == order[m] for c in Member) for m in Member))
        for p in Partition:
            self.exists[p] = p in there
        for m in Member:
            self.rank[m] = order[m]

    # ── Consumers and topics come and go ────────────────────────────────────────────────────

    @action(kind=command)
    def register(self, m: Member, wanted: set[Partition]) -> None:
        """{m} starts: its node in ids says that it wants {wanted}."""
        require(self.session[m] == Session.NONE)
        require(any(p in wanted for p in Partition))
        for p in Partition:
            self.interest[m, p] = p in wanted
        self.due[m] = True
        self.begin_session(m)

    @action(kind=command, disturbs=True)
    def shutdown(self, m: Member) -> None:
        """{m} closes: its fetchers, its offsets, and its session."""
        require(self.session[m] == Session.CONNECTED)
        require(
            self.phase[m] == Rebalance.RESTING
            or self.phase[m] == Rebalance.BACKING_OFF
            or self.is_waiting(m)
        )
        self.submit(m)
        self.forget(m)
        self.leave(m)

    @action(kind=fault)
    def kill(self, m: Member) -> None:
        """{m} is killed; its session has yet to end."""
        require(self.session[m] == Session.CONNECTED or self.session[m] == Session.SUSPENDED)
        self.forget(m)
        self.session[m] = Session.DEAD

    @action(fair=weak)
    def expire_dead(self, m: Member) -> None:
        """The session of {m}, which is no more, ends."""
        require(self.session[m] == Session.DEAD)
        self.leave(m)

    @action(kind=command, disturbs=True)
    def appear(self, p: Partition) -> None:
        """{p} appears, with its topic or as a further partition; whoever watches is told."""
        require(not self.exists[p])
        self.exists[p] = True
        for m in Member:
            if self.watches_topics[m] and self.interest[m, p]:
                self.watches_topics[m] = False
                self.due[m] = True

    # ── Sessions ────────────────────────────────────────────────────────────────────────────

    @action(kind=fault)
    def cut(self, m: Member) -> None:
        """{m} is cut off from ZooKeeper; or it pauses, and nobody hears of it."""
        require(self.session[m] == Session.CONNECTED)
        self.session[m] = Session.SUSPENDED

    @action(fair=weak)
    def suspend(self, m: Member) -> None:
        """{m} cannot reach ZooKeeper, and closes its fetchers: its session may end."""
        require(self.session[m] == Session.SUSPENDED)
        require(any(self.fetching[m, p] for p in Partition))
        self.close_fetchers_for_queues(m)

    @action(fair=weak)
    def reconnect(self, m: Member) -> None:
        """{m} finds ZooKeeper again in time; what it has suspended is a reason to rebalance."""
        require(self.session[m] == Session.SUSPENDED)
        self.session[m] = Session.CONNECTED
        if self.phase[m] == Rebalance.RESTING:
            self.due[m] = True

    @action
    def expire(self, m: Member) -> None:
        """The session of {m}, which is cut off, ends; {m} is not told."""
        require(self.session[m] == Session.SUSPENDED and self.lease_is_over(m))
        self.end_session(m)
        self.session[m] = Session.EXPIRED

    @action(fair=weak)
    def handle_new_session(self, m: Member) -> None:
        """{m} learns that its session has ended: it registers again, and begins with step 1."""
        require(self.session[m] == Session.EXPIRED)
        self.close_fetchers_for_queues(m)
        self.phase[m] = Rebalance.COMMITTING
        for p in Partition:
            self.seen[m, p] = False
            self.planned[m, p] = False
        self.begin_session(m)

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def close_fetchers(self, m: Member) -> None:
        """(1) {m} takes the flag, or tries once more: it closes its fetchers."""
        require(self.session[m] == Session.CONNECTED)
        require(
            self.phase[m] == Rebalance.BACKING_OFF
            or (self.due[m] and (self.phase[m] == Rebalance.RESTING or self.is_waiting(m)))
        )
        self.due[m] = False
        self.close_fetchers_for_queues(m)
        self.phase[m] = Rebalance.COMMITTING
        for p in Partition:
            self.waits[m, p] = False

    @action(fair=weak)
    def commit_offsets(self, m: Member) -> None:
        """(1) {m} submits the offsets of all that it believes to own."""
        self.does(m, Rebalance.COMMITTING)
        self.submit(m)
        self.phase[m] = Rebalance.RELEASING

    @action(fair=weak)
    def release(self, m: Member) -> None:
        """(2) {m} deletes its owner nodes."""
        self.does(m, Rebalance.RELEASING)
        require(not any(self.in_doubt(m, p) for p in Partition))
        for p in Partition:
            if self.owner[p] is not None and self.may_release(m, p):
                self.delete_owner(p)
        for p in Partition:
            self.registry[m, p] = False
            self.fetched[m, p] = 0
            self.consumed[m, p] = 0
            self.token[m, p] = 0
            self.planned[m, p] = False
        self.phase[m] = Rebalance.TOPICS

    @action(fair=weak)
    def read_topics(self, m: Member) -> None:
        """(3) {m} reads which partitions there are, and watches them."""
        self.does(m, Rebalance.TOPICS)
        self.watches_topics[m] = True
        for p in Partition:
            self.seen[m, p] = self.exists[p]
        self.phase[m] = Rebalance.IDS

    @action(fair=weak)
    def read_ids(self, m: Member, mine: set[Partition]) -> None:
        """(3) {m} reads who is in the group, watches that, and plans for all: {mine} are its."""
        self.does(m, Rebalance.IDS)
        require(all(self.agrees(m, p, p in mine) for p in Partition))
        self.watches_ids[m] = True
        for p in Partition:
            self.planned[m, p] = p in mine
            self.seen[m, p] = False
        self.phase[m] = Rebalance.CLAIMING

    @action(fair=weak)
    def claim(self, m: Member, p: Partition) -> None:
        """(4) {m} becomes the owner of {p}."""
        self.may_claim(m, p)
        require(self.owner[p] is None)
        self.create_owner(m, p)
        self.token[m, p] = self.version[p]

    @action(fair=weak)
    def refuse_claim(self, m: Member, p: Partition) -> None:
        """(4) {m} is refused {p}, which has an owner, and waits for that node to go."""
        self.may_claim(m, p)
        require(self.owner[p] is not None and self.owner[p] != m)
        self.waits[m, p] = True

    @action(kind=fault)
    def swallow_claim(self, m: Member, p: Partition) -> None:
        """(4) {m} becomes the owner of {p}, and is cut off before it learns of it."""
        self.may_claim(m, p)
        require(self.owner[p] is None)
        self.create_owner(m, p)
        self.session[m] = Session.SUSPENDED

    @action(fair=weak)
    def recall(self, m: Member, p: Partition) -> None:
        """{m} finds that its own session owns {p}, and reads the version."""
        require(self.session[m] == Session.CONNECTED and self.in_doubt(m, p))
        require(self.phase[m] == Rebalance.CLAIMING or self.phase[m] == Rebalance.RELEASING)
        self.token[m, p] = self.version[p]

    @action(fair=weak)
    def read_offsets(self, m: Member) -> None:
        """(4) {m} owns all that it planned, and reads how far each partition is consumed."""
        self.does(m, Rebalance.CLAIMING)
        require(self.has_all(m))
        self.begin_at_the_stored_offsets(m)
        self.phase[m] = Rebalance.STARTING

    @action(fair=weak)
    def start_fetchers(self, m: Member) -> None:
        """(5) updateFetcher: {m} updates topicRegistry, and pulls from all that is in it."""
        self.does(m, Rebalance.STARTING)
        for p in Partition:
            self.registry[m, p] = self.planned[m, p]
            self.fetching[m, p] = self.planned[m, p]
        self.attempts[m] = 0
        self.phase[m] = Rebalance.RESTING

    @action(kind=fault)
    def fail_attempt(self, m: Member) -> None:
        """What {m} asked of ZooKeeper fails: it backs off, and will try once more."""
        require(self.session[m] == Session.CONNECTED or self.session[m] == Session.SUSPENDED)
        require(self.phase[m] != Rebalance.RESTING and self.phase[m] != Rebalance.BACKING_OFF)
        self.fail_and_back_off(m)

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    @action(kind=command, disturbs=True)
    def produce(self, p: Partition) -> None:
        """A record is appended to {p}."""
        require(self.exists[p])
        self.end[p] = self.end[p] + 1

    @action
    def pull(self, m: Member, p: Partition) -> None:
        """The pull thread of {m} fetches the next record of {p} into the queue."""
        require(self.fetching[m, p] and self.fetched[m, p] == self.consumed[m, p])
        require(self.fetched[m, p] < self.end[p])
        self.fetched[m, p] = self.fetched[m, p] + 1

    @action(kind=command)
    def finish(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with the record of {p} that it took from the queue."""
        require(self.fetching[m, p] and self.consumed[m, p] < self.fetched[m, p])
        self.consumed[m, p] = self.fetched[m, p]
        self.finished[p] = max(self.finished[p], self.consumed[m, p])

    @action(kind=command)
    def commit(self, m: Member) -> None:
        """{m} submits its offsets meanwhile: periodically, or as its user wants it."""
        require(self.session[m] == Session.CONNECTED)
        self.submit(m)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def differ(self, one: Rank, other: Rank) -> bool:
        """No two threads have one place in the order."""
        return one != other

    def does(self, m: Member, phase: Rebalance) -> None:
        """This step comes next, and the consumer reaches ZooKeeper."""
        require(self.session[m] == Session.CONNECTED and self.phase[m] == phase)

    def may_claim(self, m: Member, p: Partition) -> None:
        """The partition is planned and not claimed, and nothing is known to be in the way."""
        self.does(m, Rebalance.CLAIMING)
        require(self.planned[m, p] and self.token[m, p] == 0 and not self.waits[m, p])

    def is_waiting(self, m: Member) -> bool:
        """A claim was refused, and the node in its way still stands."""
        return self.phase[m] == Rebalance.CLAIMING and any(self.waits[m, p] for p in Partition)

    def begin_session(self, m: Member) -> None:
        """A new session, and its registration; whoever watches ids is told."""
        self.session[m] = Session.CONNECTED
        self.registered[m] = True
        for c in Member:
            if self.watches_ids[c] and self.drags_in(m, c):
                self.watches_ids[c] = False
                self.due[c] = True

    def begin_at_the_stored_offsets(self, m: Member) -> None:
        """The stored offset of each partition of the plan is where its fetching begins."""
        for p in Partition:
            self.fetched[m, p] = self.committed[p] if self.planned[m, p] else 0
            self.consumed[m, p] = self.committed[p] if self.planned[m, p] else 0

    def delete_owner(self, p: Partition) -> None:
        """The owner node goes, and whoever waits for that is told."""
        self.owner[p] = None
        for c in Member:
            self.waits[c, p] = False

    def leave(self, m: Member) -> None:
        """The session ends, and there is nobody whom it would be told."""
        self.end_session(m)
        self.session[m] = Session.NONE
        for p in Partition:
            self.interest[m, p] = False

    def forget(self, m: Member) -> None:
        """The process is no more."""
        self.due[m] = False
        self.phase[m] = Rebalance.RESTING
        self.attempts[m] = 0
        for p in Partition:
            self.seen[m, p] = False
            self.planned[m, p] = False
            self.token[m, p] = 0
            self.registry[m, p] = False
            self.fetching[m, p] = False
            self.fetched[m, p] = 0
            self.consumed[m, p] = 0
            self.waits[m, p] = False
