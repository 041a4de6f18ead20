"""
The coordinator's core: what changes or fails during a rebalance, and more groups than one.

References: PROTOCOLS.md, section B (rulings 4, 6 and 9), and the draft `002`.
"""

from __future__ import annotations

import pytest

from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import Received
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Ping,
    Start,
    StartResponse,
    Stop,
)
from herdproof.zookeeper.operations import Multi, Refusal, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    Consumer,
    World,
    elected,
    phase,
    sent,
    settled,
)

# ── Whatever changes meanwhile ──────────────────────────────────────────────────────────────


def starting(w: World) -> Consumer:
    """A consumer whose group is about to start, and that has not answered its Start."""
    a = w.register("a", mute=True)
    w.answer(a)
    assert phase(w) is Phase.STARTING
    return a


def test_a_change_during_the_starts_is_not_lost() -> None:
    """The dirty bit: a topic that grows while a Start is under way leads to another rebalance."""
    w = elected()
    a = starting(w)

    w.topic("t", 6)
    assert w.core.groups_being_rebalanced[GROUP].dirty
    w.speak(a)

    assert settled(w, a)
    assert len(a.fetches) == 6


def test_the_flaw_lost_trigger_forgets_it() -> None:
    """A change that arrives while the flag is set is dropped (`lost_trigger`)."""
    w = elected(flaws=["lost_trigger"])
    a = starting(w)

    w.topic("t", 6)
    w.speak(a)
    w.advance(60_000)

    assert len(a.fetches) == 4


def test_who_comes_during_the_stops_takes_part() -> None:
    """A consumer that registers while others are being stopped is part of the same rebalance."""
    w = elected()
    a = w.register("a", mute=True)
    assert phase(w) is Phase.STOPPING

    b = w.register("b")
    w.speak(a)

    assert settled(w, a, b)
    assert w.generation() == 1


def test_nobody_is_admitted_while_owners_are_written() -> None:
    """Who registers between the last StopResponse and the owners' write is answered after it."""
    w = elected()
    a = w.register("a", mute=True)
    w.hold()
    w.answer(a)
    assert phase(w) is Phase.FLUSHING

    b = w.register("b")
    while phase(w) is not Phase.STARTING:
        assert b.error is None
        w.release()
    w.release_all()

    assert b.error is ErrorCode.NONE
    assert sent(w, b)[:1] == [Start]
    assert b.requests[1] == Start(())
    w.speak(a)
    assert settled(w, a, b)


def test_who_is_lost_during_the_starts_fails_the_rebalance() -> None:
    """A member that goes before it has started: a failure that is told, and another rebalance."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    c = w.register("c", mute=True)
    w.answer(c)
    assert phase(w) is Phase.STARTING

    w.close(c)

    assert len(w.told(What.REBALANCE_FAILED)) == 1
    w.advance(LEASE_MS)
    assert settled(w, a, b)
    assert w.core.groups[GROUP].failures == 0


def test_a_stop_overtakes_a_start_that_was_not_sent() -> None:
    """A Start that waits for the answer to a ping is not sent once the rebalance has failed."""
    w = elected()
    a, idle = w.register("a"), w.register("idle", '{"none": 1}', mute=True)
    a.mute = True
    w.advance(1_000)
    assert isinstance(a.unanswered[0].message, Ping)
    w.answer(idle)
    assert phase(w) is Phase.STARTING

    w.close(idle)
    w.speak(a)

    assert sent(w, a) == [Stop, Start, Stop, Stop, Start]
    assert settled(w, a)


def test_who_is_lost_while_owners_are_written_is_replaced() -> None:
    """A member that goes after the plan was made owns partitions, which the next plan mends."""
    w = elected()
    a, b = w.register("a"), w.register("b", mute=True)
    w.hold()
    w.answer(b)
    while phase(w) is not Phase.WRITING:
        w.release()

    w.close(b)
    w.release_all()

    w.advance(LEASE_MS)
    assert settled(w, a)


def test_the_last_one_turns_off_the_light() -> None:
    """A group that everybody left during a rebalance is not rebalanced, and not forgotten."""
    w = elected()
    a = w.register("a", mute=True)

    w.close(a)

    assert GROUP not in w.core.groups
    assert GROUP not in w.core.groups_being_rebalanced
    back = w.register("a")
    assert settled(w, back)


# ── Failure ─────────────────────────────────────────────────────────────────────────────────

SHORT = Settings(max_rebalance_retries=2, rebalance_backoff_ms=100, rebalance_backoff_max_ms=400)


def refusing(w: World) -> Consumer:
    """A consumer that answers every Start ILLEGAL_STATE."""
    a = w.register("a", mute=True, max_ping_retries=30_000, session_timeout_ms=60_000)
    refuse(w, a)
    return a


def refuse(w: World, consumer: Consumer) -> None:
    """Let a consumer answer what it was asked, Starts by a refusal."""
    while consumer.unanswered:
        frame = consumer.unanswered[0]
        if isinstance(frame.message, Start):
            consumer.unanswered.popleft()
            message = StartResponse(ErrorCode.ILLEGAL_STATE)
            w.give(Received(consumer.channel, Frame(message, frame.correlation_id, 1)))
        else:
            w.answer(consumer)


def test_a_failed_rebalance_is_told_and_tried_again_for_ever() -> None:
    """Failure resets the flag, is reported, and is retried with back-off; in the end it works."""
    w = elected(settings=SHORT)
    a = refusing(w)
    for _ in range(20):
        assert not w.core.groups_being_rebalanced[GROUP].is_set
        w.advance(400)
        refuse(w, a)

    waits = [told["again_in_ms"] for told in w.told(What.REBALANCE_FAILED)]
    assert waits[:4] == [100, 200, 400, 400]
    assert set(waits[4:]) == {400}
    exhausted = w.told(What.REBALANCE_EXHAUSTED)
    assert [told["failures"] for told in exhausted[:2]] == [3, 4]

    w.speak(a)
    w.advance(400)
    assert settled(w, a)
    assert w.core.groups[GROUP].failures == 0


def test_the_flaw_flag_stuck_gives_up_for_ever() -> None:
    """After the retries are exhausted the flag stays set, and no change helps (`flag_stuck`)."""
    w = elected(settings=SHORT, flaws=["flag_stuck"])
    a = refusing(w)
    for _ in range(5):
        w.advance(400)
        refuse(w, a)
    assert w.core.groups_being_rebalanced[GROUP].is_set

    w.speak(a)
    w.topic("t", 5)
    w.advance(20_000)

    assert len(w.told(What.REBALANCE_FAILED)) == 3
    assert len(a.fetches) < 5


def test_who_stopped_after_a_late_start_is_started_again() -> None:
    """A Start that is answered after the next Stop was asked for does not count any more."""
    w = elected()
    a, idle = w.register("a", mute=True), w.register("idle", '{"none": 1}', mute=True)
    for consumer in (a, idle):
        w.answer(consumer)
    assert phase(w) is Phase.STARTING
    w.close(idle)  # the rebalance fails; the next Stop has to wait for the answer to the Start
    assert phase(w) is Phase.STOPPING

    w.spoil = lambda operation: (
        Refusal(Why.CONNECTION_LOSS)
        if isinstance(operation, Multi) and operation.operations[-1].path == PATHS.group(GROUP)
        else None
    )
    w.speak(a)
    assert sent(w, a) == [Stop, Start, Stop]
    w.spoil = lambda _: None
    w.advance(1_000)

    assert settled(w, a)


# ── More than one group ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("handlers", [1, 3])
def test_groups_do_not_wait_for_each_other(handlers: int) -> None:
    """A group that waits for a consumer holds up no other, even one of the same handler."""
    w = elected(settings=Settings(request_handlers=handlers))
    slow = w.register("slow", group="g0", mute=True)

    quick = [w.register("quick", group=f"g{n}") for n in range(1, 6)]

    assert all(len(consumer.fetches) == 4 for consumer in quick)
    assert phase(w, "g0") is Phase.STOPPING
    w.speak(slow)
    assert len(slow.fetches) == 4


def test_a_group_belongs_to_one_handler_for_ever() -> None:
    """A group is hashed over the handlers: always to the same, and not all to one."""
    w, again = elected(), elected()
    for n in range(50):
        w.register("a", group=f"g{n}")
        again.register("b", group=f"g{n}")

    handlers = {name: w.core.rebalancer.handler_of(g) for name, g in w.core.groups.items()}

    assert handlers == {
        n: again.core.rebalancer.handler_of(g) for n, g in again.core.groups.items()
    }
    assert set(handlers.values()) == set(range(len(w.core.rebalance_request_q)))


def test_members_may_have_different_interests() -> None:
    """A partition goes to those who want its topic, and the maps follow who comes and goes."""
    w = elected(partitions=2)
    w.topic("u", 2)
    a = w.register("a", '{"t": 1}')
    b = w.register("b", '{"t": 1, "u": 1}')
    c = w.register("c", "*1*u.*")

    assert b.fetches.keys() == {("t", "1"), ("u", "0")}
    assert a.fetches.keys() == {("t", "0")}
    assert c.fetches.keys() == {("u", "1")}
    assert w.core.consumer_groups_per_topic == {"t": {GROUP: 2}, "u": {GROUP: 1}}
    assert w.core.groups_with_wildcard_topics.keys() == {GROUP}

    for consumer in (b, c):
        consumer.fetches = {}
        w.close(consumer)
    w.advance(LEASE_MS)
    assert w.core.consumer_groups_per_topic == {"t": {GROUP: 1}}
    assert not w.core.groups_with_wildcard_topics
    assert a.fetches.keys() == {("t", "0"), ("t", "1")}
    assert ("u", "0") not in w.owners()


def test_a_crowd_is_rebalanced_together() -> None:
    """A thousand consumers that come at once are a handful of rebalances, and of writes."""
    w = elected(partitions=1_000)
    w.hold()
    crowd = [w.register(f"c{n:04}") for n in range(1_000)]
    w.release_all()
    w.advance(0)

    assert settled(w, *crowd)
    assert w.generation() <= 2
    assert sum(isinstance(operation, Multi) for operation in w.asked) < 20
