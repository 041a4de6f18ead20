"""
`002` as it stands: what its coordinator and its consumers do otherwise than the verified ones.

Single habits of the drafts are mistakes that are put into the verified protocol (`mistakes.py`).
Here is the draft as a whole, with what no such mistake takes away: that a Start is asked for its
generation, that one request of a member is outstanding at a time, that each member is asked what it
is interested in, and that a coordinator starts up in one step.

- **A group has interests**, those of its first member (handleNewGroup); they are kept in ZooKeeper
  and never change (handleGroupMemberChange: "we assume that all the consumers in the same group
  have the same set of interested groups"). Whoever lives is given what the group is interested in.
- **coordinatorStartup** reads the topics (step 1) before it listens for new ones (step 3); nothing
  is rebalanced, and nobody is let in, before that (steps 4 and 6).
- **Requests** are sent whatever is outstanding, but for a second Ping (retries are copies of one
  request). Answers do not say what they answer: while a coordinator waits for a StartResponse, it
  takes the next answer for one.
- **handleStartRequest** starts the fetchers, whichever rebalance the Start is of.

Not modelled: more than two messages on their way over one connection in one direction (a third one
waits), or two Starts. handleStartRequest throws IllegalStateException where fetchers run and the
assignment differs. Over one connection a Stop is read before each Start, so that it never does.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec import Nat, action, always, each, require, weak
from herdspec.protocols.central_coordinator import mistakes
from herdspec.protocols.central_coordinator.mistakes import has_started, is_written_late
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


class AsDrafted(CentralCoordinator):
    """One broker coordinates a group of consumers, as `002` has it."""

    formed: bool = False  # the group has, or had, members
    concerns: dict[Partition, bool] = each(False)  # consumerGroupsPerTopic, of this group
    starting: dict[Broker, bool] = each(False)  # it has read the topics, and listens for no others
    missed: dict[tuple[Broker, Partition], bool] = each(False)  # it appeared in between

    # ── Who coordinates, and for whom ───────────────────────────────────────────────────────

    @action(fair=weak)
    def coordinator_startup(self, b: Broker) -> None:
        """coordinatorStartup, steps 1 and 2: {b} reads topics and groups, and queues the group."""
        require(not self.election.leads[b])
        self.election.take_up(b, True, True)
        self.phase[b] = Phase.QUEUED
        self.starting[b] = True
        for p in Partition:
            self.knows[b, p] = self.exists[p]
            self.missed[b, p] = False

    @action(fair=weak)
    def register_listeners(self, b: Broker) -> None:
        """coordinatorStartup, steps 3 to 6: from now on {b} hears of what is new."""
        require(self.election.leads[b] and self.starting[b])
        self.starting[b] = False
        for p in Partition:
            self.missed[b, p] = self.exists[p] and not self.knows[b, p]

    @action(fair=weak)
    def topic_change_listener(self, b: Broker, p: Partition) -> None:
        """{b} learns that {p} has appeared."""
        require(self.election.leads[b] and self.exists[p] and not self.knows[b, p])
        require(not self.starting[b] and not self.missed[b, p])
        self.knows[b, p] = True
        if self.concerns[p]:
            self.request_rebalance(b)

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books; what the group is interested in, its first member says."""
        require(self.via[m] == b and len(self.up[m]) > 0 and not self.starting[b])
        require(self.up[m][0].kind == Kind.REGISTER)
        self.up[m].clear()
        if self.accepts(m, b):
            self.books[m] = b
            self.term[m] = self.election.token[b]
            if not self.formed:
                self.formed = True
                for p in Partition:
                    self.concerns[p] = self.interest[m, p]
                if any(self.knows[b, p] and self.interest[m, p] for p in Partition):
                    self.request_rebalance(b)
            else:
                self.handle_group_member_change(b)
        else:
            self.link[m] = False

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def is_concerned(self, p: Partition, b: Broker) -> bool:
        """The group is interested in a partition that the coordinator knows."""
        return self.knows[b, p] and self.concerns[p]

    def is_meant(self, m: Member, p: Partition, b: Broker) -> bool:
        """The coordinator has decided that this member, which lives, is to own the partition."""
        return self.books[m] == b and self.heir[m, p] == b

    def is_kept(self, p: Partition, b: Broker) -> bool:
        """The stored owner's consumer is connected, with this registration or another."""
        owner = self.owner[p]
        return owner is not None and self.books[owner] == b

    def necessary(self, b: Broker) -> bool:
        """3.1 to 3.5: the owners that are stored in ZooKeeper are not those that are planned."""
        return self.has_members(b) and any(
            self.is_concerned(p, b) and not self.is_kept(p, b) for p in Partition
        )

    @action(fair=weak)
    def begin_rebalance(self, b: Broker, uneven: bool) -> None:
        """{b} takes the group, and sees if a rebalance is necessary (shares uneven: {uneven})."""
        require(self.election.leads[b] and self.phase[b] == Phase.QUEUED and not self.starting[b])
        if self.necessary(b) or (uneven and self.has_members(b)):
            self.phase[b] = Phase.STOPPING
            for m in Member:
                if self.books[m] == b:
                    self.stopped[m] = False
        else:
            self.phase[b] = Phase.IDLE

    @action(fair=weak)
    def decide_owners(self, b: Broker, plan: dict[Partition, Member]) -> None:
        """{b} decides on {plan}; nothing is written yet."""
        require(self.phase[b] == Phase.STOPPING and self.all_stopped(b))
        require(self.write[b] == Write.NONE)
        require(all(self.noted[b, p] <= self.committed[p] for p in Partition))
        require(all(not self.is_concerned(p, b) or self.books[plan[p]] == b for p in Partition))
        self.phase[b] = Phase.STARTING
        for p in Partition:
            for m in Member:
                if self.is_concerned(p, b) and plan[p] == m:
                    self.heir[m, p] = b

    @action(fair=weak)
    def write_owners(self, b: Broker, plan: dict[Partition, Member]) -> None:
        """Every member has started: {b} sends {plan}, what it decided on for those who live."""
        require(self.phase[b] == Phase.STARTING and self.has_members(b))
        require(self.write[b] == Write.NONE and not is_written_late(self, b))
        require(all(self.books[m] != b or has_started(self, m) for m in Member))
        require(all(not self.is_meant(m, p, b) or plan[p] == m for m in Member for p in Partition))
        self.phase[b] = Phase.WRITING
        self.write[b] = Write.OWNERS
        for p in Partition:
            self.sent[b, p] = 0
            self.assigned[b, p] = any(self.is_meant(m, p, b) for m in Member)
            for m in Member:
                if self.heir[m, p] == b and self.books[m] != b:
                    self.heir[m, p] = None

    # ── Requests, and answers that do not say to what ───────────────────────────────────────

    def send(self, m: Member, b: Broker, kind: Kind, generation: Nat) -> None:
        """A request is sent, whatever is outstanding."""
        require(self.election.leads[b] and self.books[m] == b and self.link[m])
        require(len(self.down[m]) < 2)
        self.down[m].append(Message(kind=kind, generation=generation))

    @action(fair=weak)
    def send_stop(self, m: Member, b: Broker) -> None:
        """{b} tells {m} to stop, and takes it for done."""
        require(self.phase[b] == Phase.STOPPING and not self.stopped[m])
        self.send(m, b, Kind.STOP, self.generation)
        self.asked[m] = Asked.NONE
        self.stopped[m] = True
        self.acked[m] = 0

    @action(fair=weak)
    def send_start(self, m: Member, b: Broker) -> None:
        """{b} tells {m} what to fetch, and from where on."""
        require(self.phase[b] == Phase.STARTING and not is_written_late(self, b))
        require(self.asked[m] != Asked.START and not has_started(self, m))
        require(all(x.kind != Kind.START for x in self.down[m]))
        self.send(m, b, Kind.START, self.generation + 1)
        self.asked[m] = Asked.START
        for p in Partition:
            self.given[m, p] = self.heir[m, p] == b
            self.begin[m, p] = self.committed[p]

    @action
    def send_ping(self, m: Member, b: Broker) -> None:
        """pingScheduler: {b} asks {m} whether it lives, if no rebalance holds its channel."""
        require(self.phase[b] != Phase.STOPPING and self.asked[m] == Asked.NONE)
        require(self.phase[b] != Phase.STARTING or self.follows(m) or has_started(self, m))
        self.send(m, b, Kind.PING, self.generation)
        self.asked[m] = Asked.PING

    @action(fair=weak)
    def handle_stop(self, m: Member) -> None:
        """{m} closes its fetchers, and does not answer."""
        self.take(m, Kind.STOP)
        self.down[m].pop(0)
        for p in Partition:
            self.fetching[m, p] = False
            self.position[m, p] = 0

    @action(fair=weak)
    def handle_start(self, m: Member) -> None:
        """{m} starts to fetch what it was given."""
        require(self.may_answer(m))
        self.take(m, Kind.START)
        start = self.down[m].pop(0)
        self.at[m] = start.generation
        for p in Partition:
            self.fetching[m, p] = self.given[m, p]
            self.position[m, p] = self.begin[m, p] if self.given[m, p] else 0
        self.answer(m, Kind.START, start.generation)

    @action(fair=weak)
    def handle_ping(self, m: Member) -> None:
        """{m} answers with the offsets that it has consumed."""
        require(self.may_answer(m))
        self.take(m, Kind.PING)
        self.down[m].pop(0)
        self.report(m)
        self.answer(m, Kind.PING, self.at[m])

    def may_answer(self, m: Member) -> bool:
        """There is room for what it says."""
        return len(self.up[m]) < 2

    def may_commit(self, m: Member) -> bool:
        """Its last commit was read, and there is room for the next."""
        return len(self.up[m]) < 2 and all(x.kind != Kind.COMMIT for x in self.up[m])

    def hear_any(self, m: Member, b: Broker) -> None:
        """An answer comes, to whatever it may be."""
        require(self.books[m] == b and len(self.up[m]) > 0)
        require(self.up[m][0].kind == Kind.PING or self.up[m][0].kind == Kind.START)

    @action(fair=weak)
    def handle_start_response(self, m: Member, b: Broker) -> None:
        """{b} waits for {m} to have started, and takes what comes next from it for that."""
        self.hear_any(m, b)
        require(self.asked[m] == Asked.START)
        self.up[m].pop(0)
        self.asked[m] = Asked.NONE
        self.acked[m] = self.generation + 1
        for p in Partition:
            self.reported[m, p] = 0

    @action(fair=weak)
    def handle_ping_response(self, m: Member, b: Broker) -> None:
        """{b} notes that {m} lives, and its offsets."""
        self.hear_any(m, b)
        require(self.asked[m] != Asked.START)
        answer = self.up[m].pop(0)
        self.asked[m] = Asked.NONE
        self.note_answer(m, b, answer.generation)


@always
def who_has_started_fetches_what_it_owns(s: CentralCoordinator) -> bool:
    """Who acknowledged the present Start fetches what it owns and no more, or has let go."""
    return all(
        not s.follows(m) or s.via[m] is None or s.fetching[m, p] == s.is_given(m, p)
        for m in Member
        for p in Partition
    )


HABITS: dict[str, Callable[..., object]] = {
    "is_free": mistakes.everything_is_free,
    "request_rebalance": mistakes.drop_the_trigger,
    "merged": mistakes.whatever_comes_last,
    "step_down": mistakes.step_down_and_go_on,
    "lease_is_over": mistakes.gone_is_gone,
    "fenced_write": mistakes.any_version,
    "answered": mistakes.hear_of_the_write,
    "refuse_write": mistakes.refuse_and_remember,
    "fail_rebalance": mistakes.fail_and_forget,
    "finish_rebalance": mistakes.finish_as_written,
    "accepts": mistakes.accept_any_epoch,
    "accepts_offset": mistakes.offsets_of_the_past,
    "requeue": mistakes.requeue_while_retries_last,
}
"""Habits that `002` shares with the variants that have one mistake each."""
