"""
What goes wrong: the drafts' coordinator, and the verified one with single mistakes put back.

Each of `FLAWS` is the verified protocol with one habit of the drafts (`000`, `001`, `002`), or with
one mistake that the checkers found while the protocol was written (`FOUND`); the implementation's
cores have a switch of the same name. `DRAFTED` is `002` as it stands, with the consumer of `002`
and with that of `000`. What must come of each is declared: the property that fails, after how many
steps, and by which action. A missing, a different or a further failure is a failure of the check.

Source: system B as PROTOCOLS.md lists its flaws (section B, "Flaws the model must show").
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.language.specification import Specification
from herdspec.language.surface import Nat, action, require, weak
from herdspec.protocols.central_coordinator.properties import HELD
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
from herdspec.protocols.flaws import Failure, Flaw

# ── No barrier: nobody is waited for ────────────────────────────────────────────────────────


def nobody_is_waited_for(self: CentralCoordinator, b: Broker) -> bool:
    """Whether the members have answered their Stops is not asked."""
    return self.has_members(b)


def everything_is_free(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """Nor is who fetched a partition before."""
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


def stored_owners_differ(self: CentralCoordinator, b: Broker) -> bool:
    """3.1 to 3.5 as drafted: the owners stored in ZooKeeper, by the ids of their consumers."""
    return self.has_members(b) and any(
        self.wanted(p, b) and not owned_by_id(self, p, b) for p in Partition
    )


def owned_by_id(self: CentralCoordinator, p: Partition, b: Broker) -> bool:
    """The stored owner's consumer is connected, with this registration or another."""
    owner = self.owner[p]
    return owner is not None and self.serves(owner, p, b)


def begin_with_offsets(self: CentralCoordinator, b: Broker, uneven: bool) -> None:
    """{b} takes the group from its queue, and reads the offsets that it will hand out."""
    require(self.election.leads[b] and self.phase[b] == Phase.QUEUED)
    self.dirty[b] = False
    if self.necessary(b) or (uneven and self.has_members(b)):
        self.phase[b] = Phase.STOPPING
        for m in Member:
            if self.books[m] == b:
                self.stopped[m] = False
                for p in Partition:
                    self.begin[m, p] = self.committed[p]
    else:
        self.phase[b] = Phase.IDLE


def start_with_offsets_read_before(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} what to fetch, from where it read before the Stops."""
    require(self.phase[b] == Phase.STARTING and not self.follows(m))
    self.ask(m, b, Asked.START, Kind.START)
    for p in Partition:
        self.given[m, p] = self.is_given(m, p)


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
    return (
        owner is None
        or self.orphan[p]
        or self.books[owner] == b
        or self.seen[owner] < self.election.token[b]
        or self.lease_is_over(owner)
    )


def whoever_let_go_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """Who has given its connection up is taken to fetch nothing, as any other consumer would."""
    return not self.link[m] and (
        self.via[m] is None or all(not self.fetching[m, p] for p in Partition)
    )


def whom_another_has_is_gone(self: CentralCoordinator, m: Member) -> bool:
    """A lease that a deposed coordinator keeps alive is taken for over."""
    return self.books[m] is not None or (
        not self.link[m] and all(not self.fetching[m, p] for p in Partition)
    )


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
    require(all(self.is_free(p, b) for p in Partition))
    require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
    self.phase[b] = Phase.STARTING
    for m in Member:
        if self.books[m] == b:
            for p in Partition:
                self.given[m, p] = self.wanted(p, b) and plan[p] == m


def start_as_decided(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} what to fetch, and from where on."""
    require(self.phase[b] == Phase.STARTING and self.acked[m] != self.generation + 1)
    require(not is_written_late(self, b))
    require(self.election.leads[b] and self.books[m] == b and self.link[m])
    require(self.asked[m] == Asked.NONE)
    self.asked[m] = Asked.START
    self.down[m].append(Message(kind=Kind.START, generation=self.generation + 1))
    for p in Partition:
        self.begin[m, p] = self.committed[p]


def write_as_started(self: CentralCoordinator, b: Broker, plan: dict[Partition, Member]) -> None:
    """Every member has started: {b} sends {plan}, which it decided on."""
    require(self.phase[b] == Phase.STARTING and self.has_members(b))
    require(self.write[b] == Write.NONE and not is_written_late(self, b))
    require(all(self.books[m] != b or self.acked[m] == self.generation + 1 for m in Member))
    require(all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in Partition))
    require(all(not self.wanted(p, b) or self.given[plan[p], p] for p in Partition))
    self.phase[b] = Phase.WRITING
    self.write[b] = Write.OWNERS
    for p in Partition:
        self.sent[b, p] = 0
        self.assigned[b, p] = self.wanted(p, b)
        for m in Member:
            if self.wanted(p, b) and plan[p] == m:
                self.heir[m, p] = b


def finish_as_written(self: CentralCoordinator, b: Broker) -> None:
    """The owners are written: {b} resets the flag, or queues the group again."""
    require(self.phase[b] == Phase.STARTING and self.write[b] == Write.NONE)
    require(not self.has_members(b) or is_written_late(self, b))
    self.phase[b] = Phase.QUEUED if self.dirty[b] else Phase.IDLE
    self.dirty[b] = False


def is_written_late(self: CentralCoordinator, b: Broker) -> bool:
    """The generation whose Starts were acknowledged is ZooKeeper's by now."""
    return any(self.books[m] == b and self.follows(m) for m in Member)


# ── What the checkers found while the protocol was written ──────────────────────────────────


def stop_and_keep_the_ack(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} to stop; that it follows an older Start stays in the books."""
    require(self.phase[b] == Phase.STOPPING and not self.stopped[m])
    self.ask(m, b, Asked.STOP, Kind.STOP)


def given_by_id(self: CentralCoordinator, m: Member, p: Partition) -> bool:
    """What the consumer of that id owns, with whichever registration."""
    return self.owner[p] == m


def accept_any_epoch(self: CentralCoordinator, m: Member, b: Broker) -> bool:
    """A coordinator accepts everyone."""
    return self.election.leads[b]


def offsets_of_the_past(self: CentralCoordinator, m: Member, p: Partition, g: Nat) -> bool:
    """Offsets are taken from whoever reports them."""
    return True


# ── What no core does: Stops are not answered ───────────────────────────────────────────────


def send_stop_and_go_on(self: CentralCoordinator, m: Member, b: Broker) -> None:
    """{b} tells {m} to stop, and takes it for done."""
    require(self.phase[b] == Phase.STOPPING and not self.stopped[m])
    require(self.election.leads[b] and self.books[m] == b and self.link[m])
    require(self.asked[m] == Asked.NONE)
    self.down[m].append(Message(kind=Kind.STOP, generation=self.generation))
    self.stopped[m] = True
    self.acked[m] = 0


def stop_without_an_answer(self: CentralCoordinator, m: Member) -> None:
    """{m} closes its fetchers, and does not answer."""
    self.take(m, Kind.STOP)
    stop = self.down[m].pop(0)
    self.barred[m] = stop.generation
    for p in Partition:
        self.fetching[m, p] = False
        self.position[m, p] = 0


# ── What comes of them ──────────────────────────────────────────────────────────────────────


def _flaw(
    failures: dict[str, Failure], spec: Specification, *switches: str, faults: int = 1,
    members: int = 2, brokers: int = 1, floods: bool = False,
) -> Flaw:  # fmt: skip
    """A flaw; one that `floods` sends without waiting for answers: its full channels are meant."""
    sizes = {"Broker": brokers, "Member": members, "Partition": 1}
    return Flaw(spec, frozenset(switches), failures, faults, sizes, bound=6, within=floods)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace("".join(word.title() for word in name.split("_")), **functions)


EXCLUSIVE = "exclusive"
SETTLES = "settles"
TWICE = "a_start_is_at_the_stored_offset"
STORED = "what_is_stored_is_of_the_present_epoch"

FLAWS = {
    "no_barrier": _flaw(
        {EXCLUSIVE: Failure(26, "handle_start")},
        _but(
            "no_barrier",
            all_stopped=nobody_is_waited_for,
            is_free=everything_is_free,
            send_stop=send_stop_meanwhile,
            send_start=start_who_has_stopped,
        ),
        "no_barrier",
    ),
    "lost_trigger": _flaw(
        {
            "complete": Failure(17, "finish_rebalance"),
            SETTLES: Failure(17, "finish_rebalance"),
        },
        _but("lost_trigger", request_rebalance=drop_the_trigger),
        "lost_trigger",
    ),
    "flag_stuck": _flaw(
        {SETTLES: Failure(6, "fail_rebalance")},
        _but("flag_stuck", requeue=requeue_while_retries_last),
        "flag_stuck",
    ),
    "no_start": _flaw(
        {
            "complete": Failure(13, "begin_rebalance"),
            SETTLES: Failure(13, "begin_rebalance"),
        },
        _but("no_start", necessary=stored_owners_differ),
        "no_start",
    ),
    "stale_offsets": _flaw(
        {TWICE: Failure(29, "send_start")},
        _but(
            "stale_offsets",
            begin_rebalance=begin_with_offsets,
            send_start=start_with_offsets_read_before,
            merged=whatever_comes_last,
        ),
        "stale_offsets",
        faults=2,
    ),
    "deposed_goes_on": _flaw(
        {
            "who_does_not_lead_commands_nobody": Failure(6, "step_down"),
            EXCLUSIVE: Failure(27, "handle_start"),
        },
        _but(
            "deposed_goes_on",
            step_down=step_down_and_go_on,
            coordinator_startup=start_up_anew,
            lease_is_over=whom_another_has_is_gone,
        ),
        "deposed_goes_on",
        brokers=2,
    ),
    "owners_written_late": _flaw(
        {
            EXCLUSIVE: Failure(22, "handle_start"),
            TWICE: Failure(31, "serve_offsets"),
            SETTLES: Failure(14, "handle_start_response"),
        },
        _but(
            "owners_written_late",
            write_owners=write_as_started,
            send_start=start_as_decided,
            finish_rebalance=finish_as_written,
        ).add("OwnersWrittenLate", decide_owners=decide_owners),
        "owners_written_late",
        brokers=2,
    ),
    "partial_failover": _flaw(
        {EXCLUSIVE: Failure(27, "handle_start")},
        _but("partial_failover", is_free=who_has_not_come_back_is_gone),
        "partial_failover",
        brokers=2,
    ),
    "no_lease": _flaw(
        {EXCLUSIVE: Failure(26, "handle_start")},
        _but("no_lease", lease_is_over=gone_is_gone),
        "no_lease",
    ),
    "reconnects_fetching": _flaw(
        {EXCLUSIVE: Failure(27, "handle_start")},
        _but("reconnects_fetching", let_go=keep_fetching, lease_is_over=whoever_let_go_is_gone),
        "reconnects_fetching",
    ),
    "unfenced": _flaw(
        {
            "only_the_present_epoch_writes": Failure(12, "serve_owners"),
            STORED: Failure(12, "serve_owners"),
            "complete": Failure(26, "finish_rebalance"),
            EXCLUSIVE: Failure(27, "handle_start"),
            SETTLES: Failure(18, "on_lost_connection"),
        },
        _but("unfenced", fenced_write=any_version).drop("Unfenced", "refuse_stale"),
        "unfenced",
        brokers=2,
    ),
    "ignores_epoch": _flaw(
        {"monotone": Failure(15, "handle_ping")},
        _but("ignores_epoch", accepts=accept_any_epoch),
        "ignores_epoch",
        faults=2,
        members=1,
        brokers=2,
    ),
}
"""Habits of the drafts, one at a time."""

FOUND = {
    "empty_group_hangs": _flaw(
        {SETTLES: Failure(7, "handle_closed")},
        HELD.drop("EmptyGroupHangs", "abandon_rebalance"),
        "empty_group_hangs",
        members=1,
    ),
    "stop_keeps_ack": _flaw(
        {SETTLES: Failure(23, "begin_rebalance")},
        _but("stop_keeps_ack", send_stop=stop_and_keep_the_ack),
        "stop_keeps_ack",
        faults=2,
        members=1,
    ),
    "member_by_id": _flaw(
        {EXCLUSIVE: Failure(30, "handle_start"), TWICE: Failure(25, "serve_offsets")},
        _but("member_by_id", is_given=given_by_id),
        "member_by_id",
        faults=2,
    ),
    "stale_commit": _flaw(
        {
            EXCLUSIVE: Failure(26, "handle_start"),
            "exclusive_fenced": Failure(29, "handle_commit"),
            TWICE: Failure(32, "serve_offsets"),
        },
        _but("stale_commit", accepts_offset=offsets_of_the_past, lease_is_over=gone_is_gone),
        "stale_commit",
        faults=2,
        brokers=2,
    ),
}
"""What the checkers found while the verified protocol was written; each forced a correction."""

AS_DRAFTED: dict[str, Callable[..., object]] = {
    "send_stop": send_stop_and_go_on,
    "handle_stop": stop_without_an_answer,
    "is_free": everything_is_free,
    "request_rebalance": drop_the_trigger,
    "necessary": stored_owners_differ,
    "merged": whatever_comes_last,
    "step_down": step_down_and_go_on,
    "lease_is_over": gone_is_gone,
    "fenced_write": any_version,
    "write_owners": write_as_started,
    "send_start": start_as_decided,
    "finish_rebalance": finish_as_written,
    "accepts": accept_any_epoch,
    "accepts_offset": offsets_of_the_past,
}
"""`002` as it stands."""

DRAFTED_000 = _flaw(
    {
        EXCLUSIVE: Failure(20, "handle_start"),
        "exclusive_fenced": Failure(15, "handle_commit"),
        "only_the_present_epoch_writes": Failure(15, "serve_owners"),
        STORED: Failure(15, "serve_owners"),
        TWICE: Failure(28, "serve_offsets"),
        "who_does_not_lead_commands_nobody": Failure(6, "step_down"),
        "complete": Failure(17, "finish_rebalance"),
    },
    HELD.replace("Drafted000", **AS_DRAFTED)
    .add("Drafted000", decide_owners=decide_owners)
    .drop("Drafted000", "requeue", "refuse_stale"),
    brokers=2,
    floods=True,
)
"""`002`'s coordinator with `000`'s consumer, which closes its fetchers on a lost connection."""

DRAFTED_002 = _flaw(
    {
        EXCLUSIVE: Failure(20, "handle_start"),
        "exclusive_fenced": Failure(15, "handle_commit"),
        "only_the_present_epoch_writes": Failure(15, "serve_owners"),
        STORED: Failure(15, "serve_owners"),
        TWICE: Failure(28, "serve_offsets"),
        "who_does_not_lead_commands_nobody": Failure(6, "step_down"),
        "complete": Failure(17, "finish_rebalance"),
    },
    HELD.replace("Drafted002", **AS_DRAFTED, let_go=keep_fetching)
    .add("Drafted002", decide_owners=decide_owners)
    .drop("Drafted002", "requeue", "refuse_stale"),
    brokers=2,
    floods=True,
)
"""`002`'s coordinator with `002`'s consumer, which reconnects and fetches on."""
