"""
Mistakes in the central coordinator that none of its promises notices, and why they may live.

`herdproof mutate central_coordinator` puts mistakes into the spec, one at a time, and explores each
at four small sizes in turn (`mistaken` in `plan.py`). Most break a promise. Those
below do not, and each has its reason: mostly the promise that is missing. Such promises are tested
(`properties/protocols/central_coordinator/spec/test_mutate_central.py`): each holds of the
protocol, and kills the mutants that it stands beside. Some mutants are noticed at a larger size
only, which is tested as well; of the rest the reason is said in words.

What survives for want of a promise does so for one cause: what the contract owes is about who
consumes, from where on, and that the group settles. A rebalance too many, an offset that is noted
one answer later, state that nobody reads any more cost time. A reason is stale, and `mutate` fails,
once its mutant is killed or is no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from herdspec.protocols.central_coordinator.larger import LARGER as LARGER
from herdspec.protocols.central_coordinator.larger import larger as larger

# ── Missing promises ────────────────────────────────────────────────────────────────────────

PHASES = (
    "a step promise that a rebalance goes from phase to phase in order, and none begins without "
    "members, would kill it; a rebalance too many, or one that is called failed, costs time only"
)
TAKES_UP = (
    "a step promise that who takes an epoch up reads the topics and queues the group would kill "
    "it; what it does not read, its listeners tell it, and whoever comes back queues the group"
)
QUEUES = (
    "a step promise that whoever comes or goes is a reason for a rebalance, and nothing else but a "
    "new partition is, would kill it"
)
BEGINS_CLEAN = (
    "a step promise that a rebalance begins, and queues the group again, with nothing to remember "
    "would kill it; what is remembered twice costs a rebalance"
)
IDLE_IS_CLEAN = (
    "an always promise that nothing is remembered where the flag is reset would kill it; what is "
    "remembered in vain costs a rebalance"
)
RESTS = (
    "an always promise that a broker which does not coordinate knows nothing and has nothing to do "
    "would kill it; coordinatorStartup reads and queues everything anew, and the fence refuses the "
    "rest"
)
EXISTS = (
    "an always promise that nobody knows of what is not there, and that it has no records, would "
    "kill it"
)
ONE_BY_ONE = (
    "a step promise that records and generations are counted one by one would kill it; only their "
    "order matters"
)
FINISHED_IS_THERE = (
    "an always promise that what was finished was appended before would kill it; that is the log's "
    "and the application's, the coordinator only carries the offset"
)
NOWHERE = (
    "an always promise that who does not fetch a partition has no position in it would kill it; "
    "its offset is of nobody's generation, and not taken"
)
CONNECTION = (
    "an always promise that what belongs to a connection is gone with it, and a new one carries "
    "nothing but a Register, would kill it; nobody reads the rest"
)
ANEW = (
    "an always promise that who is not connected, or has only registered, has heard of no "
    "generation would kill it; its offsets are refused, or are none"
)
STRUCK = (
    "an always promise that nothing is remembered of who is in no books would kill it (a lemma of "
    "the proof says so, and does); who is taken into the books again is stopped first"
)
SEAT = (
    "an always promise that who has won an epoch has the seat until it has lost it would kill it; "
    "that is the election's to keep (`election`), and a second winner fences the first"
)
NOTED = (
    "a step promise that an owner's offset is noted when its answer is read would kill it; what "
    "one answer loses the next one brings, and what is lost for good is delivered again"
)
ANSWERS = (
    "a step promise that who answers tells how far it is and heeds the epoch, and that only who "
    "fetches commits, would kill it"
)
ONE_STOP = (
    "an always promise that who has stopped is not stopped again would kill it (a lemma of the "
    "proof says so, and does); a Stop too many is answered, and does no harm"
)
AWAITED = (
    "an always promise that whatever is on its way is the one request outstanding, or its answer, "
    "would kill it (a lemma of the proof says so, and does)"
)
HANDED_OVER = (
    "a step promise that a handover gives away just what the coordinator knows and somebody is "
    "interested in would kill it; `complete` speaks through the same helper, and so does not see "
    "it"
)
NAMED = (
    "an always promise that ZooKeeper names nobody who does not serve once a group with members is "
    "stable would kill it; the next handover waits for that owner's lease"
)
CHANNELS = (
    "a step promise that who steps down closes every channel, also to who has just connected, "
    "would kill it; that one's Register is refused"
)
COMES_BACK = (
    "a possibility that a member comes back to the coordinator whose epoch it has heard of would "
    "kill it"
)
STARTS_AT = (
    "a step promise that who starts a partition begins where the Start says would kill it; who "
    "begins earlier delivers again"
)

WRITES = (
    "a promise that a write is sent, done or refused, and answered, in this order, and that "
    "nothing of it is left then, would kill it; what is written again stores nothing new, and the "
    "fence refuses the rest"
)

FOR_EVER = (
    "it writes owners again and again and starts nobody, with generations that rise beyond every "
    "bound, so that no exploration decides whether the group settles; a promise that a write is "
    "sent, done or refused, and answered, in this order, would kill it"
)

# ── What no promise tells ───────────────────────────────────────────────────────────────────

CAUSES_OF_LOSS = (
    "a fault that never happens, or happens more often; `cut`, and what both ends do when they "
    "learn of it, lead to the same states with as many faults"
)
AS_OTHER = (
    "it is the step of another action as well (a time-out, a step down): no promise could tell the "
    "two apart"
)
CHANGES_NOTHING = "what it allows besides changes nothing: no promise could tell"
REDUNDANT = (
    "it follows from the other guards (only who coordinates has a phase or members; who fetches "
    "has a generation; both ends of a life reset `barred`; a Stop clears the acknowledgement): "
    "kept because the flaws and the implementation rest on it alone"
)
BARRED = (
    "one request at a time is outstanding, so that no Start follows a Stop that was sent after it: "
    "`barred` matters only where Stops are not waited for (`no_barrier`)"
)
UNEVEN = (
    "a rebalance that is not necessary may begin all the same, because shares are uneven: the step "
    "is there already, under another argument"
)
REFUSED_ANYWAY = (
    "a broker that does not coordinate has only the connections of who is about to register: it "
    "refuses them, or they break; as `cut` and `handle_register` lead to the same, no promise "
    "could tell"
)
FAIRNESS = (
    "whoever is not counted yet, or was deposed, is nobody that the group waits for; a leads-to "
    "promise that every Register is answered and every deposed coordinator learns of it would kill "
    "it"
)
OBSERVER = (
    "it decides what is noted, or what is seen of it, where another than the owner of the present "
    "generation reports: under the lease nobody does, and without it `exclusive_fenced` and the "
    "refinement to the contract notice (`stale_commit`)"
)
BALANCE = (
    "shares are no matter of this spec: the step is there so that an implementation which evens "
    "them out conforms; a trace of one notices its loss"
)
COMMITS = (
    "a possibility that who fetches one of two partitions commits would kill it; its next answer "
    "tells its offset all the same"
)
WAITS_LONGER = (
    "the owner's former life has closed its fetchers before it came back, and soon is in the "
    "books, or refused: it only waits longer"
)
OVERWRITTEN = (
    "the next Start overwrites it before anybody reads it; it is cleared to keep the states few"
)
AGAIN = "the same two steps are there, under each other's argument"
REFUSALS = (
    "who is not told that its write was refused may lose the answer instead (`lose_answer`), or "
    "steps down, which is the end of the write as well"
)
FAILURES = (
    "a rebalance that fails while Stops are out, or does not, costs time only; `lose_answer` leads "
    "to the same"
)
STOPPED = (
    "who has stopped is pinged while owners are written, too, and stays so where their write is "
    "refused"
)
FULL = "more commits would be under way than a channel holds: that is not explored"
FIFO = (
    "over a connection that keeps order it follows from `asked`: only the proof, which knows no "
    "order, needs it"
)
IN_WORDS = (
    FAILURES,
    STOPPED,
    FULL,
    FIFO,
    AGAIN,
    REFUSALS,
    CAUSES_OF_LOSS,
    AS_OTHER,
    CHANGES_NOTHING,
    REDUNDANT,
    BARRED,
    UNEVEN,
    REFUSED_ANYWAY,
    FAIRNESS,
    OBSERVER,
    BALANCE,
    COMMITS,
    WAITS_LONGER,
    OVERWRITTEN,
)
"""Reasons beside which no promise stands in the tests."""


def because(reason: str, *mutants: str) -> dict[str, str]:
    """One reason for several mutants."""
    return dict.fromkeys(mutants, reason)


# ── The survivors ───────────────────────────────────────────────────────────────────────────

CENTRAL: Mapping[str, str] = {
    **{mutant: larger(*at) for mutant, at in LARGER.items()},
    **because(
        PHASES,
        "begin_rebalance: drop `self.phase[b] == Phase.QUEUED`",
        "begin_rebalance: drop `self.has_members(b)`",
        "necessary: drop `self.has_members(b)`",
        "has_members: drop `any(self.books[m] == b for m in Member)`",
        "all_stopped: drop `self.has_members(b)`",
    ),
    **because(
        TAKES_UP,
        "coordinator_startup: skip `self.phase[b] = Phase.QUEUED`",
        "coordinator_startup: skip `self.knows[b, p] = self.exists[p]`",
    ),
    **because(
        QUEUES,
        "coordinator_startup: drop `not self.election.leads[b]`",
        "step_down: skip `self.election.step_down(b, False)`",
        "fail: skip `self.remove(m)`",
        "topic_change_listener: negate `not self.knows[b, p]`",
        "topic_change_listener: drop `not self.knows[b, p]`",
        "topic_change_listener: skip `self.knows[b, p] = True`",
    ),
    **because(
        BEGINS_CLEAN,
        "finish_rebalance: skip `self.dirty[b] = False`",
    ),
    **because(
        IDLE_IS_CLEAN,
        "begin_rebalance: skip `self.dirty[b] = False`",
        "abandon_rebalance: skip `self.dirty[b] = False`",
        "reset: skip `self.dirty[b] = False`",
    ),
    **because(
        RESTS,
        "handle_closed: drop `self.books[m] == b`",
        "fail: drop `self.books[m] == b`",
        "topic_change_listener: drop `self.election.leads[b]`",
        "requeue: drop `self.phase[b] == Phase.FAILED`",
        "requeue: negate `self.phase[b] == Phase.FAILED`",
        "hear: drop `self.books[m] == b`",
        "reset: skip `self.phase[b] = Phase.IDLE`",
        "reset: skip `self.knows[b, p] = False`",
        "reset: skip `self.noted[b, p] = 0`",
    ),
    **because(
        EXISTS,
        "topic_change_listener: drop `self.exists[p]`",
        "produce: drop `self.exists[p]`",
    ),
    **because(
        WRITES,
        "refuse_write: drop `self.write[b] == Write.OWNERS or self.write[b] == Write.OFFSETS`",
        "refuse_write: negate `self.write[b] == Write.OWNERS or self.write[b] == Write.OFFSETS`",
        "forget_plan: skip `self.assigned[b, p] = False`",
        "reset: skip `self.sent[b, p] = 0`",
        "register: drop `all(self.heir[m, p] is None for p in Partition)`",
        (
            "register: `all(self.heir[m, p] is None for p in Partition)` becomes "
            "`any(self.heir[m, p] is None for p in Partition)`"
        ),
        "write_owners: drop `self.write[b] == Write.NONE`",
        "write_owners: drop `self.wanted(p, b)`",
        "serve_offsets: skip `self.sent[b, p] = 0`",
        "serve_offsets: skip `self.write[b] = Write.DONE`",
        "flush_offsets: drop `self.write[b] == Write.NONE`",
    ),
    **because(FOR_EVER, "write_owners: skip `self.phase[b] = Phase.WRITING`"),
    **because(
        AGAIN,
        "flush_offsets: negate `again`",
    ),
    **because(
        REFUSALS,
        "refuse_write: drop `self.write[b] == Write.OWNERS`",
        "refuse_write: drop `self.write[b] == Write.OFFSETS`",
        "refuse_stale: remove its fairness",
        "refuse_stale: skip `self.refuse_write(b)`",
    ),
    **because(
        ONE_BY_ONE,
        "serve_owners: `self.generation + 1` becomes `self.generation + 2`",
        "produce: `self.end[p] + 1` becomes `self.end[p] + 2`",
    ),
    **because(
        FINISHED_IS_THERE,
        "consume: negate `self.position[m, p] < self.end[p]`",
        "consume: drop `self.position[m, p] < self.end[p]`",
        "consume: `self.position[m, p] < self.end[p]` becomes `self.position[m, p] <= self.end[p]`",
        "consume: `self.position[m, p] + 1` becomes `self.position[m, p] + 2`",
    ),
    **because(
        NOWHERE,
        "handle_stop: skip `self.position[m, p] = 0`",
        "handle_start: negate `self.given[m, p]`",
        "consume: drop `self.fetching[m, p]`",
        "let_go: skip `self.position[m, p] = 0`",
    ),
    **because(
        CONNECTION,
        "connect: skip `self.via[m] = b`",
        (
            "connect: `self.up[m].append(Message(kind=Kind.REGISTER, generation=0))` becomes "
            "`self.up[m].append(Message(kind=Kind.REGISTER, generation=1))`"
        ),
        "commit: drop `self.link[m]`",
        "note_answer: skip `self.reported[m, p] = 0`",
        "note_answer: `self.reported[m, p] = 0` becomes `self.reported[m, p] = 1`",
        "note_commit: skip `self.committing[m, p].pop(0)`",
        "handle_commit: skip `self.note_commit(m, b, commit.generation)`",
        "commit: skip `self.up[m].append(Message(kind=Kind.COMMIT, generation=self.at[m]))`",
        "hang_up: skip `self.term[m] = 0`",
        "hang_up: `self.term[m] = 0` becomes `self.term[m] = 1`",
        "hang_up: skip `self.given[m, p] = False`",
        "hang_up: `self.begin[m, p] = 0` becomes `self.begin[m, p] = 1`",
        "hang_up: negate `self.books[m] is None`",
        "hang_up: skip `self.forget_answers(m)`",
        "forget_answers: skip `self.reported[m, p] = 0`",
        "forget_answers: `self.reported[m, p] = 0` becomes `self.reported[m, p] = 1`",
        "forget_answers: skip `self.committing[m, p].clear()`",
        "handle_register: drop `self.via[m] == b`",
    ),
    **because(
        ANEW,
        "connect: `self.barred[m] = 0` becomes `self.barred[m] = 1`",
        "let_go: skip `self.at[m] = 0`",
        "let_go: `self.at[m] = 0` becomes `self.at[m] = 1`",
        "let_go: `self.barred[m] = 0` becomes `self.barred[m] = 1`",
    ),
    **because(
        STRUCK,
        "remove: skip `self.stopped[m] = False`",
        "remove: skip `self.acked[m] = 0`",
        "remove: `self.acked[m] = 0` becomes `self.acked[m] = 1`",
    ),
    **because(
        SEAT,
        "elect: drop `self.seat is None`",
        "elect: skip `self.election.elect(b)`",
        "elect: skip `self.seat = b`",
        "lose_session: drop `self.seat == b`",
    ),
    **because(
        NOTED,
        "note_answer: skip `self.note(m, b, p, generation, self.reported[m, p])`",
        "note_commit: skip `self.note(m, b, p, generation, self.committing[m, p][0])`",
        "handle_stop_response: skip `self.note_answer(m, b, answer.generation)`",
        "handle_ping_response: skip `self.note_answer(m, b, answer.generation)`",
    ),
    **because(
        ANSWERS,
        "handle_stop: skip `self.report(m)`",
        "commit: drop `any(self.fetching[m, p] for p in Partition)`",
        "take: skip `self.seen[m] = self.term[m]`",
    ),
    **because(
        ONE_STOP,
        "send_stop: drop `not self.stopped[m]`",
    ),
    **because(
        AWAITED,
        "handle_stop: skip `self.down[m].clear()`",
        "handle_ping: skip `self.down[m].clear()`",
        "handle_ping: skip `self.take(m, Kind.PING)`",
    ),
    **because(
        HANDED_OVER,
        "wanted: drop `self.knows[b, p]`",
        (
            "wanted: `any(self.serves(m, p, b) for m in Member)` becomes `all(self.serves(m, p, "
            "b) for m in Member)`"
        ),
        "serves: negate `self.interest[m, p]`",
        "serves: drop `self.interest[m, p]`",
    ),
    **because(
        NAMED,
        (
            "necessary: drop `any(self.owner[p] is not None and (not self.is_owned(p, b)) for p "
            "in Partition)`"
        ),
        (
            "necessary: `any(self.owner[p] is not None and (not self.is_owned(p, b)) for p in "
            "Partition)` becomes `all(self.owner[p] is not None and (not self.is_owned(p, b)) "
            "for p in Partition)`"
        ),
    ),
    **because(
        CHANNELS,
        "reset: drop `self.via[m] == b`",
    ),
    **because(
        COMES_BACK,
        (
            "accepts: `self.seen[m] <= self.election.token[b]` becomes `self.seen[m] < "
            "self.election.token[b]`"
        ),
    ),
    **because(
        STARTS_AT,
        "handle_start: skip `self.position[m, p] = self.begin[m, p] if self.given[m, p] else 0`",
    ),
    **because(
        CAUSES_OF_LOSS,
        "refuse: skip `self.refuse_write(b)`",
        "lose_answer: negate `self.write[b] != Write.NONE`",
        "time_out: negate `self.via[m] is not None`",
        "time_out: negate `self.link[m]`",
        "time_out: skip `self.let_go(m)`",
        "fail: negate `self.books[m] == b`",
        "fail: negate `self.link[m]`",
        "fail: negate `self.asked[m] != Asked.NONE`",
        "fail: drop `self.asked[m] != Asked.NONE`",
        "handle_closed: drop `not self.link[m]`",
    ),
    **because(
        AS_OTHER,
        "doubt: drop `self.seat == b`",
        "on_lost_connection: drop `not self.link[m]`",
        "time_out: drop `self.link[m]`",
    ),
    **because(
        CHANGES_NOTHING,
        "follows: drop `self.acked[m] > 0`",
        "follows: `self.acked[m] > 0` becomes `self.acked[m] >= 0`",
        "on_lost_connection: drop `self.via[m] is not None`",
        "time_out: drop `self.via[m] is not None`",
        "cut: drop `self.link[m]`",
        "fail: drop `self.link[m]`",
        "appear: drop `not self.exists[p]`",
    ),
    **because(
        REDUNDANT,
        "connect: skip `self.barred[m] = 0`",
        "begin_rebalance: drop `self.election.leads[b]`",
        "follows: drop `self.acked[m] == self.generation`",
        "ask: drop `self.election.leads[b]`",
        "let_go: skip `self.barred[m] = 0`",
    ),
    **because(
        BARRED,
        "handle_stop: skip `self.barred[m] = stop.generation`",
        (
            "handle_start: `start.generation > self.barred[m]` becomes `start.generation >= "
            "self.barred[m]`"
        ),
    ),
    **because(
        UNEVEN,
        "begin_rebalance: drop `uneven`",
        "necessary: drop `self.books[m] == b`",
        "necessary: drop `not self.follows(m)`",
        "necessary: drop `self.wanted(p, b)`",
        "necessary: drop `not self.is_owned(p, b)`",
        "necessary: drop `self.owner[p] is not None`",
        "necessary: drop `not self.is_owned(p, b)` (#2)",
        (
            "necessary: drop `any(self.books[m] == b and (not self.follows(m)) for m in Member) "
            "and (self.generation > 0 or any(self.wanted(p, b) for p in Partition)) or "
            "any(self.wanted(p, b) and (not self.is_owned(p, b)) for p in Partition) or "
            "any(self.owner[p] is not None and (not self.is_owned(p, b)) for p in Partition)`"
        ),
        "necessary: drop `any(self.books[m] == b and (not self.follows(m)) for m in Member)`",
        "necessary: drop `self.generation > 0 or any(self.wanted(p, b) for p in Partition)`",
        "necessary: `self.generation > 0` becomes `self.generation >= 0`",
    ),
    **because(
        REFUSED_ANYWAY,
        "doubt: drop `self.election.leads[b]`",
        "step_down: negate `self.election.leads[b]`",
        "step_down: drop `self.election.leads[b]`",
    ),
    **because(
        FAIRNESS,
        "step_down: remove its fairness",
        "handle_register: remove its fairness",
    ),
    **because(
        OBSERVER,
        "accepts_offset: drop `self.owns(m, p, generation)`",
        "owns: drop `self.owner[p] == m`",
        "owns: drop `not self.orphan[p]`",
        "owns: drop `generation == self.generation`",
        "note: drop `self.accepts_offset(m, p, generation)`",
    ),
    **because(
        BALANCE,
        "begin_rebalance: drop `uneven and self.has_members(b)`",
    ),
    **because(
        COMMITS,
        (
            "commit: `any(self.fetching[m, p] for p in Partition)` becomes `all(self.fetching[m, "
            "p] for p in Partition)`"
        ),
    ),
    **because(
        WAITS_LONGER,
        "is_free: drop `self.orphan[p]`",
    ),
    **because(
        OVERWRITTEN,
        "hang_up: skip `self.begin[m, p] = 0`",
    ),
    **because(
        FAILURES,
        "nobody_fetches: negate `all(self.books[m] != b or self.stopped[m] for m in Member)`",
        "nobody_fetches: drop `all(self.books[m] != b or self.stopped[m] for m in Member)`",
        (
            "nobody_fetches: `all(self.books[m] != b or self.stopped[m] for m in Member)` "
            "becomes `any(self.books[m] != b or self.stopped[m] for m in Member)`"
        ),
        "nobody_fetches: drop `self.books[m] != b`",
        "nobody_fetches: drop `self.stopped[m]`",
        "nobody_fetches: negate `all(self.is_free(p, b) for p in Partition)`",
        "fail_rebalance: drop `self.phase[b] == Phase.STOPPING`",
        "fail_rebalance: drop `self.phase[b] == Phase.STARTING or self.nobody_fetches(b)`",
        "fail_rebalance: drop `self.phase[b] == Phase.STARTING` (#2)",
        "fail_rebalance: drop `self.nobody_fetches(b)`",
    ),
    **because(
        STOPPED,
        "send_ping: drop `self.stopped[m]`",
    ),
    **because(
        FULL,
        "may_commit: drop `all(x.kind != Kind.COMMIT for x in self.up[m])`",
        (
            "may_commit: `all(x.kind != Kind.COMMIT for x in self.up[m])` becomes `any(x.kind != "
            "Kind.COMMIT for x in self.up[m])`"
        ),
        "commit: drop `self.may_commit(m)`",
    ),
    **because(
        FIFO,
        "ask: drop `all(x.kind == Kind.COMMIT for x in self.up[m])`",
        "hear_answer: drop `self.asks(m, kind)`",
    ),
}  # fmt: skip

SURVIVORS: Mapping[str, Mapping[str, str]] = {"CentralCoordinator": CENTRAL}
"""The accepted mutants of each spec of this protocol: their ids, each with its reason."""
