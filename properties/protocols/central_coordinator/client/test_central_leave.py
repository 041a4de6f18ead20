"""
A consumer that is closed by its user says so, and its group waits for no lease.

Both cores by script, and the two of them together in the deterministic world. A consumer that
crashes costs its lease as before.

Reference: docs/wire.md, "A client of one's own"; PROTOCOLS.md, section B, ruling 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from herdproof.consuming.events import Consumed, RevocationHandled, StartFetchers, StopFetchers
from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    CommitAsked,
    Received,
    Send,
    Shutdown,
    StepDown,
    Tick,
)
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Fault, Kind
from herdproof.protocols.central_coordinator.simulated.world import Run, RunOutcome
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Ping,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.simulator.process import Process
from herdproof.zookeeper.operations import Multi, Refusal, Why
from properties.protocols.central_coordinator.client.consumer_script import T0, started
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    Consumer,
    World,
    elected,
    phase,
    settled,
)

# ── The coordinator ─────────────────────────────────────────────────────────────────────────


def pair() -> tuple[World, Consumer, Consumer]:
    """An elected coordinator with a stable group of two."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    assert settled(w, a, b)
    return w, a, b


def test_who_leaves_is_answered_and_its_connection_closed() -> None:
    """The LeaveResponse answers the Leave, by its correlation id; then the channel is closed."""
    w, a, _ = pair()

    w.send(a, Leave(), correlation_id=44)

    assert a.requests[-1] == LeaveResponse(ErrorCode.NONE)
    assert (a.frames[-1].correlation_id, a.frames[-1].epoch) == (44, 1)
    told = [e for e in w.effects if isinstance(e, Send | Close) and e.channel == a.channel]
    assert told[-1] == Close(a.channel, "it left")
    assert isinstance(told[-2], Send)


def test_what_a_leaver_had_is_given_away_at_once() -> None:
    """No lease is waited for: the group is stable again without any time passing."""
    w, a, b = pair()
    a.fetches.clear()

    w.send(a, Leave())

    assert settled(w, b)
    assert len(b.fetches) == 4
    assert w.told("member_lost") == [
        {"consumer": "a", "member": "1-1", "why": "it left", "members": 1, "lease_ms": 0}
    ]
    assert w.told("lease_over") == []
    assert w.stored("/herdproof/groups/g/subscriptions/a") is None


@pytest.mark.parametrize(
    ("message", "action", "why"),
    [(Leave(), "handle_closed", "it left"),
     (Start(()), "fail", "sends a Start, which is not a consumer's")],
    ids=["leaves", "is at fault"],
)  # fmt: skip
def test_who_is_gone_is_told_as_a_step(message: Message, action: str, why: str) -> None:
    """Once, with the reason: whoever reads the trace knows that it is no member any more."""
    w, a, _ = pair()

    w.send(a, message)

    gone = [step for step in w.steps if step.action in {"handle_closed", "fail"}]
    assert [(step.consumer, step.action, step.outcome) for step in gone] == [("a", action, why)]


def test_who_only_hangs_up_costs_its_lease() -> None:
    """A crash looks like this: its partitions are given away when its lease is over, not before."""
    w, a, b = pair()

    w.close(a)
    w.advance(LEASE_MS - 1_100)
    assert not settled(w, a, b)
    assert len(b.fetches) == 2
    a.fetches.clear()
    w.advance(1_200)

    assert settled(w, b)
    assert [report["member"] for report in w.told("lease_over")] == ["1-1"]


def test_the_next_owner_starts_where_the_leaver_ended() -> None:
    """What it told in answer to a ping, and its last commit, are stored before the handover."""
    w, a, b = pair()
    mine = sorted(a.fetches)
    a.fetches = {mine[0]: 17, mine[1]: 5}
    w.advance(1_000)  # a ping: 17 and 5 are known, and not stored yet
    a.fetches.clear()

    w.send(a, Commit((Offset(*mine[1], 23),)))
    w.send(a, Leave())

    assert settled(w, b)
    assert (b.fetches[mine[0]], b.fetches[mine[1]]) == (17, 23)
    assert w.stored(f"/consumers/g/offsets/t/{mine[0][1]}") == b"17"
    assert w.stored(f"/consumers/g/offsets/t/{mine[1][1]}") == b"23"


def test_the_last_one_to_leave_leaves_nothing_behind() -> None:
    """The group is forgotten at once, and its offsets are stored."""
    w = elected(1)
    a = w.register("a")
    a.fetches[("t", "0")] = 9
    w.advance(1_000)
    a.fetches.clear()

    w.send(a, Leave())

    assert GROUP not in w.core.groups
    assert w.stored("/consumers/g/offsets/t/0") == b"9"


def test_a_deserted_groups_offsets_are_written_however_long_that_takes() -> None:
    """ZooKeeper answers nothing for a while: the offsets wait, and the group with them."""
    w = elected(1)
    a = w.register("a")
    a.fetches[("t", "0")] = 9
    w.advance(1_000)
    a.fetches.clear()
    lost = Refusal(Why.CONNECTION_LOSS)
    w.spoil = lambda operation: lost if isinstance(operation, Multi) else None

    w.send(a, Leave())
    w.advance(5_000)
    assert GROUP in w.core.groups
    w.spoil = lambda _: None
    w.advance(2_000)

    assert GROUP not in w.core.groups
    assert w.stored("/consumers/g/offsets/t/0") == b"9"


def test_a_leave_amid_the_stops_is_as_good_as_an_answer() -> None:
    """A Stop is outstanding; its receiver leaves instead of answering: the barrier is passed."""
    w, a, b = pair()
    a.mute = True
    c = w.register("c")
    assert phase(w) is Phase.STOPPING
    a.fetches.clear()

    w.send(a, Leave())

    assert settled(w, b, c)


def test_a_leave_amid_the_starts_costs_a_retry_and_no_lease() -> None:
    """A Start that nobody will obey is outstanding: the rebalance is repeated without him."""
    w, a, b = pair()
    a.mute = True
    c = w.register("c")
    w.answer(a)  # the Stop; the Start is not answered
    assert phase(w) is Phase.STARTING

    w.send(a, Leave())
    w.advance(1_000)

    assert settled(w, b, c)
    assert w.told("lease_over") == []


def test_other_registrations_of_a_leavers_id_stay() -> None:
    """Members are registrations: of two with one id, the one that leaves is gone, and no other."""
    w = elected()
    first, second = w.register("a"), w.register("a")
    first.fetches.clear()

    w.send(first, Leave())

    assert [m.channel for m in w.core.groups[GROUP].members.values()] == [second.channel]
    assert len(second.fetches) == 4
    assert w.stored("/herdproof/groups/g/subscriptions/a") is not None


def test_who_is_no_member_can_only_be_told_so() -> None:
    """A Leave before a Register, or before its answer: NOT_REGISTERED, and it is gone."""
    w = elected()
    stranger = Consumer(w.open(), "stranger")
    w.consumers[stranger.channel] = stranger
    w.send(stranger, Leave())
    assert stranger.requests == [LeaveResponse(ErrorCode.NOT_REGISTERED)]
    assert stranger.closed

    w.hold()
    early = w.register("early")
    w.send(early, Leave())
    w.release_all()

    assert early.requests == [LeaveResponse(ErrorCode.NOT_REGISTERED)]
    assert early.closed
    assert GROUP not in w.core.groups


def test_a_leave_is_not_taken_in_the_legacy_form() -> None:
    """A frame without a header cannot be a Leave: whoever would send one is cut off."""
    w, _, _ = pair()
    stranger = Consumer(w.open(), "stranger")
    w.consumers[stranger.channel] = stranger

    w.give(Received(stranger.channel, Frame(Leave()), legacy=True))

    assert stranger.requests == []
    assert stranger.closed


def test_what_a_leaver_sends_afterwards_is_dropped() -> None:
    """Its channel is not there any more."""
    w, a, b = pair()
    a.fetches.clear()
    w.send(a, Leave())
    before = len(w.effects)

    for message in (Leave(), Commit((Offset("t", "0", 99),)), StopResponse(None)):
        w.send(a, message)
    w.close(a)

    assert w.effects[before:] == []
    assert settled(w, b)


def test_a_coordinator_that_does_not_lead_knows_no_leavers() -> None:
    """Deposed, it has closed every channel; over a new one there is nobody to leave."""
    w, _, _ = pair()
    w.depose()
    late = Consumer(w.open(), "late")
    w.consumers[late.channel] = late

    w.send(late, Leave())

    assert late.requests == [LeaveResponse(ErrorCode.NOT_REGISTERED)]
    assert late.closed
    assert not [effect for effect in w.effects if isinstance(effect, StepDown)]


# ── The consumer ────────────────────────────────────────────────────────────────────────────


def test_nothing_is_fetched_when_a_leave_is_sent() -> None:
    """Without anything to commit the Leave is the first word, after the fetchers are closed."""
    script = started(T0, auto_commit=False)

    script(Shutdown())

    kinds = [type(e) for e in script.effects if isinstance(e, StopFetchers | Send | Close)]
    assert kinds == [StopFetchers, Send]
    [leave] = script.of(Send)
    assert leave.frame.message == Leave()
    assert (leave.frame.epoch, leave.frame.client_id) == (1, "c")


def test_a_stop_that_was_answered_is_not_answered_again_by_a_leaver() -> None:
    """It has been started since: what it has consumed is committed, and no Stop waits for it."""
    script = started(T0)
    script.read(Stop(), generation=1)
    script.start(T0, generation=2)
    script(Consumed(Offset("t", "0", 44), 2))

    script(Shutdown())

    assert script.sent == [Commit((Offset("t", "0", 44),))]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_REGISTERED, ErrorCode.UNKNOWN_TYPE])
def test_any_answer_to_a_leave_ends_it(code: ErrorCode) -> None:
    """Whatever a coordinator makes of it, also one that does not know the frame: it is over."""
    script = started(T0, auto_commit=False)
    script(Shutdown())

    script.answer(LeaveResponse(code))

    assert script.core.phase is ConsumerPhase.CLOSED
    assert len(script.of(Close)) == 1


def test_a_connection_that_ends_ends_a_leave() -> None:
    """The coordinator closes the channel: whether its answer came or not, it is over."""
    script = started(T0, auto_commit=False)
    script(Shutdown())

    assert script(Closed(script.channel)).core.phase is ConsumerPhase.CLOSED
    assert script.sent == []


def test_the_answer_to_a_leave_is_not_waited_for_without_end() -> None:
    """After `request_timeout` it is closed without one."""
    script = started(T0, auto_commit=False, request_timeout_ms=700)
    script(Shutdown())
    assert script(Tick(), after_ms=699).core.phase is ConsumerPhase.LEAVING

    assert script.wakes_ms == 700
    assert script(Tick(), after_ms=1).core.phase is ConsumerPhase.CLOSED
    assert len(script.of(Close)) == 1


def test_who_does_not_answer_the_last_commit_is_told_and_not_waited_for() -> None:
    """One silence is enough: the Leave is sent, and the connection closed after it."""
    script = started(T0, request_timeout_ms=700)
    script(Shutdown())
    assert script.sent == [Commit((T0,))]

    script(Tick(), after_ms=700)

    assert [type(e) for e in script.effects if isinstance(e, Send | Close)] == [Send, Close]
    assert script.sent == [Leave()]
    assert script.core.phase is ConsumerPhase.CLOSED


def test_the_users_own_commits_are_answered_before_a_leave() -> None:
    """A commit that was asked for before the close, or by the listener, is handed in first."""
    script = started(T0, auto_commit=False, listens=True)
    script(Consumed(Offset("t", "0", 44), 1))
    script(Shutdown())
    assert script.sent == []
    assert script(CommitAsked(1)).sent == [Commit((Offset("t", "0", 44),))]
    commit = script.of(Send)[-1].frame.correlation_id
    assert script(RevocationHandled()).sent == []

    script.read(CommitResponse(ErrorCode.NONE), correlation_id=commit)

    assert script.sent == [Leave()]


def test_while_it_leaves_it_still_answers() -> None:
    """Stops and pings are answered, before the Leave and after it; a Start is refused."""
    script = started(T0)
    script(Shutdown())
    commit = script.of(Send)[-1].frame.correlation_id
    assert script.read(Stop(), generation=1).sent == [StopResponse(())]
    assert script.read(Start((T0,)), generation=2).sent == [StartResponse(ErrorCode.ILLEGAL_STATE)]
    script.read(CommitResponse(ErrorCode.NONE), correlation_id=commit)
    assert script.sent == [Leave()]

    assert script.read(Start((T0,)), generation=3).sent == [StartResponse(ErrorCode.ILLEGAL_STATE)]
    assert script.of(StartFetchers) == []
    assert script.read(Ping(0), generation=3).core.phase is ConsumerPhase.LEAVING


def test_an_answer_to_a_leave_that_was_not_sent_is_nonsense() -> None:
    """The connection is given up, and the fetchers closed first."""
    script = started(T0)

    script.read(LeaveResponse(ErrorCode.NONE))

    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert isinstance(script.effects[0], StopFetchers)


# ── Both of them, with everything in between ────────────────────────────────────────────────

SESSION_MS = 4_000
LEAVES_MS = 8_000
APART = Config(
    consumers=2, faults=0, duration_ms=30_000, quiet_ms=15_000, settle_ms=12_000,
    session_timeout_ms=SESSION_MS, zookeeper_timeouts_ms=(4_000,),
)  # fmt: skip


def handover(seed: int, kind: Kind) -> tuple[float, RunOutcome, list[type[Message]]]:
    """
    How long (ms) the other consumer waited for what the first one had, until all was its own.

    With what came of the run, and the kinds of what the first one's coordinator heard of it.
    """
    fault = Fault(LEAVES_MS, kind, broker=1, consumer=1, for_ms=11_000)
    heard: list[type[Message]] = []
    waited: list[float] = []
    had: set[NamedPartition] = set()

    def observe(who: Process, event: object, effects: Sequence[object]) -> None:
        now = run.timeline.now
        if isinstance(event, Received) and who.name.startswith("broker"):
            heard.append(type(event.frame.message))
        for effect in effects:
            if not isinstance(effect, StartFetchers):
                continue
            now_has = {NamedPartition(o.topic, o.partition) for o in effect.partitions}
            if who.name == "c1" and now < LEAVES_MS:
                had.clear()
                had.update(now_has)
            if who.name == "c2" and now >= LEAVES_MS and had and had <= now_has:
                waited.append(now - LEAVES_MS)

    run = Run(seed, APART, [fault], observe)
    outcome = run.run()
    assert had, f"seed {seed}: the first consumer had nothing to leave"
    assert waited, f"seed {seed}: nobody took over"
    return waited[0], outcome, heard


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5])
def test_a_leavers_partitions_are_handed_over_without_waiting_for_a_lease(seed: int) -> None:
    """In the whole world, under every promise: a leaver costs far less than a crash does."""
    left_ms, left, heard = handover(seed, Kind.LEAVE)
    killed_ms, killed, heard_of_killed = handover(seed, Kind.KILL_CONSUMER)

    assert left.violation is None, str(left)
    assert killed.violation is None, str(killed)
    assert left.counts["member_lost"] >= 1
    assert "lease_over" not in left.counts
    assert killed.counts["lease_over"] >= 1
    assert (heard.count(Leave), heard_of_killed.count(Leave)) == (1, 0)
    assert left_ms < SESSION_MS / 2 < SESSION_MS - 1_100 < killed_ms
