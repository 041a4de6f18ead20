"""
The coordinator's core: the rebalance, its order, its barrier, its leases, its necessity.

References: PROTOCOLS.md, section B (rebalance, rulings 1 to 3) and the draft `002`. What happens
when something changes or fails meanwhile is in `test_central_core_changes.py`.
"""

from __future__ import annotations

import pytest

from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Owner, Phase
from herdproof.protocols.central_coordinator.coordinator.rebalancing.necessity import (
    Necessity,
    some_mismatch,
    why_necessary,
)
from herdproof.protocols.central_coordinator.events import Ask, Send
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Ping, Start, Stop
from herdproof.zookeeper.operations import Children, Multi, Refusal, Set, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    World,
    elected,
    phase,
    sent,
    settled,
)

# ── The order ───────────────────────────────────────────────────────────────────────────────


def test_a_first_consumer_gets_everything() -> None:
    """A new group's consumer is told to stop, then owns and is told to start everything."""
    w = elected()

    a = w.register("a")

    assert sent(w, a) == [Stop, Start]
    assert a.last(Start) == Start(tuple(Offset("t", n, NO_OFFSET) for n in "0123"))
    assert settled(w, a)
    assert w.generation() == a.generation == 1


def test_owners_are_written_after_the_last_stop_and_before_the_first_start() -> None:
    """Stops, all answers, the offsets, one transaction {generation, owners}, Starts."""
    w = elected()
    a = w.register("a")
    a.fetches["t", "2"] = 7
    w.effects.clear()

    w.register("b")

    steps = []
    for effect in w.effects:
        if isinstance(effect, Send) and isinstance(effect.frame.message, Stop | Start):
            steps.append(type(effect.frame.message).__name__)
        elif isinstance(effect, Ask) and isinstance(effect.operation, Multi):
            for write in effect.operation.operations:
                if isinstance(write, Set) and write.path == PATHS.group(GROUP):
                    steps.append("generation")
                elif write.path == PATHS.offset(GROUP, "t", "2"):
                    steps.append("offset")
    assert steps == ["Stop", "Stop", "offset", "generation", "Start", "Start"]
    owners = [e.operation for e in w.effects if isinstance(e, Ask)][-1]
    assert isinstance(owners, Multi)
    assert [write.path for write in owners.operations] == [
        PATHS.election.epoch,
        *(PATHS.owner(GROUP, "t", n) for n in "0123"),
        PATHS.group(GROUP),
    ]


def test_a_partition_moves_with_the_offset_of_the_stop_response() -> None:
    """The new owner starts where the old one has stopped, which is stored by then."""
    w = elected()
    a = w.register("a")
    a.fetches["t", "3"] = 42

    b = w.register("b")

    assert b.fetches["t", "3"] == 42
    assert w.stored(PATHS.offset(GROUP, "t", "3")) == b"42"


def test_the_flaw_stale_offsets_moves_it_with_an_older_one() -> None:
    """Offsets that are read before the Stops are answered are behind (`stale_offsets`)."""
    w = elected(flaws=["stale_offsets"])
    a = w.register("a")
    w.advance(1_000)  # a ping tells offset 0
    a.fetches["t", "3"] = 42

    b = w.register("b")

    assert b.fetches["t", "3"] == 0


def test_nobody_starts_while_anybody_has_not_stopped() -> None:
    """The barrier: without the last StopResponse nothing is written and no Start is sent."""
    w = elected()
    a = w.register("a")
    a.mute = True

    b = w.register("b")

    assert sent(w, b) == [Stop]
    assert phase(w) is Phase.STOPPING
    assert all(member.acked == 0 for member in w.core.groups[GROUP].members.values())
    assert set(w.owners().values()) == {"a"}
    w.speak(a)
    assert settled(w, a, b)


def test_the_flaw_no_barrier_starts_the_new_owner_beside_the_old_one() -> None:
    """Without the barrier two consumers fetch one partition (`no_barrier`)."""
    w = elected(flaws=["no_barrier"])
    a = w.register("a")
    a.mute = True

    b = w.register("b")

    assert b.fetches
    assert b.fetches.keys() <= a.fetches.keys()


def test_who_has_stopped_is_pinged_while_it_waits_for_the_others() -> None:
    """Waiting for another's Stop does not cost a consumer its own lease."""
    w = elected()
    a = w.register("a", max_ping_retries=9, session_timeout_ms=60_000)
    a.mute = True
    b = w.register("b")

    w.advance(4_000)

    assert phase(w) is Phase.STOPPING
    assert b.count(Ping) == 4


# ── Leases ──────────────────────────────────────────────────────────────────────────────────


def test_a_stop_that_is_not_answered_ends_in_a_lease() -> None:
    """Who does not answer its Stop is closed; its partitions wait until its lease is over."""
    w = elected()
    a = w.register("a")
    a.mute = True
    b = w.register("b")

    w.advance(3_000)  # its patience: one second, and two retries' worth of it
    assert a.closed
    w.advance(LEASE_MS - 3_000 - 1)
    assert phase(w) is Phase.STOPPING
    assert not b.fetches

    a.fetches = {}  # by its own clock
    w.advance(1)
    assert settled(w, b)


def test_the_others_go_on_consuming_while_a_lease_runs_out() -> None:
    """A lease is waited for before the Stops: the lost consumer's partitions alone rest."""
    w = elected()
    a, b = w.register("a"), w.register("b")

    w.close(a)
    w.advance(LEASE_MS - 1)

    assert phase(w) is Phase.WAITING
    assert b.fetches.keys() == {("t", "2"), ("t", "3")}
    assert sent(w, b) == [Stop, Start]
    a.fetches = {}
    w.advance(1)
    assert settled(w, b)


def test_a_lease_counts_from_the_first_copy_of_the_last_request() -> None:
    """Retries do not renew: a lease ends its timeout, and drift, after the first copy was sent."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    w.advance(1_000)
    assert (a.count(Ping), b.count(Ping)) == (1, 1)
    a.mute = True
    w.advance(1_000)  # the ping that is not answered, at 2,000
    w.advance(3_000)
    assert a.closed
    assert a.count(Ping) == 4  # it, and two retries

    w.advance(LEASE_MS - 3_000 - 1)
    assert set(w.owners().values()) == {"a", "b"}
    a.fetches = {}
    w.advance(1)
    assert settled(w, b)


def test_the_flaw_no_lease_gives_it_away_at_once() -> None:
    """Without the lease the partitions of a lost consumer are fetched twice (`no_lease`)."""
    w = elected(flaws=["no_lease"])
    a, b = w.register("a"), w.register("b")

    w.close(a)

    assert len(b.fetches) == 4
    assert a.fetches.keys() < b.fetches.keys()


def test_who_was_given_nothing_has_no_lease() -> None:
    """A consumer that was told to fetch nothing is gone at once when it is lost."""
    w = elected(partitions=1)
    w.register("a")
    idle = w.register("b")
    assert idle.last(Start) == Start(())

    w.close(idle)

    assert w.told(What.MEMBER_LOST)[-1]["lease_ms"] == 0
    assert not w.core.groups[GROUP].ghosts


def test_a_second_registration_does_not_replace_the_first() -> None:
    """Members are registrations: the first one's lease has to end, whoever has its id now."""
    w = elected()
    first = w.register("a")
    w.close(first)

    second = w.register("a")

    assert not second.fetches
    w.advance(LEASE_MS - 1)
    assert not second.fetches
    first.fetches = {}
    w.advance(1)
    assert settled(w, second)


def test_two_living_consumers_with_one_id_share_the_group() -> None:
    """Two live registrations with one consumer id are two members."""
    w = elected()

    a, also_a = w.register("a"), w.register("a")

    assert len(a.fetches) == len(also_a.fetches) == 2
    assert not a.fetches.keys() & also_a.fetches.keys()


# ── Is it necessary? ────────────────────────────────────────────────────────────────────────


P, Q = ("t", "0"), ("t", "1")
OWNED = {P: Owner("a", "1-1"), Q: Owner("b", "1-2")}
PLANNED = {P: "1-1", Q: "1-2"}


@pytest.mark.parametrize(
    ("generation", "owners", "plan", "existing", "why"),
    [
        (0, {}, {}, {P, Q}, Necessity.NOTHING_REGISTERED),
        (4, {P: OWNED[P]}, PLANNED, {P, Q}, Necessity.NOT_OWNED),
        (4, OWNED, {P: "1-1"}, {P}, Necessity.GONE),
        (4, OWNED, {P: "1-2", Q: "1-1"}, {P, Q}, Necessity.MISMATCH),
        (4, OWNED, {P: "1-1"}, {P, Q}, Necessity.MISMATCH),
        (4, {P: OWNED[P]}, {P: "1-1"}, {P}, Necessity.NOT_STARTED),
        (5, OWNED, PLANNED, {P, Q}, None),
    ],
)
def test_each_reason_to_rebalance(
    generation: int, owners: dict[Partition, Owner], plan: dict[Partition, str],
    existing: set[Partition], why: Necessity | None,
) -> None:  # fmt: skip
    """3.1 to 3.5: each is a reason by itself, and there is no other."""
    w = elected()
    w.register("a")
    group = w.core.groups[GROUP]
    group.generation, group.owners = generation, owners
    for member in group.members.values():
        member.acked = 5

    reason = why_necessary(group, plan, existing)

    assert reason is why


def test_owners_of_fewer_partitions_are_a_mismatch() -> None:
    """3.4: owners that lack a planned partition are not those planned."""
    assert some_mismatch({}, PLANNED)
    assert not some_mismatch(OWNED, PLANNED)


def test_nothing_is_done_where_nothing_has_changed() -> None:
    """3.5: the owners are those planned and everybody has acknowledged its Start."""
    w = elected()
    a = w.register("a")

    w.core.rebalancer.request(w.core.groups[GROUP])
    w.advance(0)
    w.advance(2_000)

    assert sent(w, a) == [Stop, Start]
    assert w.told(What.REBALANCE_UNNECESSARY)


def test_a_consumer_that_came_back_is_started_again() -> None:
    """3.5 as corrected: that the owners are the same does not mean that anybody fetches."""
    w = elected()
    a = w.register("a")
    a.fetches = {}
    w.close(a)

    back = w.register("a")
    w.advance(LEASE_MS)

    assert settled(w, back)


def test_the_flaw_no_start_leaves_it_idle_for_ever() -> None:
    """3.5 as drafted: the plan names the owners that are stored, so nobody is started."""
    w = elected(flaws=["no_start"])
    a = w.register("a")
    a.fetches = {}
    w.close(a)

    back = w.register("a")
    w.advance(60_000)

    assert not back.fetches
    assert set(w.owners().values()) == {"a"}


def test_a_new_group_without_a_topic_waits_for_one() -> None:
    """3.2 of handleNewGroup: no topic, no rebalance; the topic's appearance is the trigger."""
    w = World()
    w.elect()

    a = w.register("a", '{"later": 1}')
    assert sent(w, a) == []
    assert not w.core.groups_being_rebalanced[GROUP].is_set

    w.topic("later", 2)
    assert a.fetches.keys() == {("later", "0"), ("later", "1")}


def test_a_group_that_came_before_the_topics_were_read_is_rebalanced() -> None:
    """A consumer that registers while topics are still being read is not forgotten."""
    w = World()
    w.topic("t", 1)
    w.spoil = lambda operation: (
        Refusal(Why.CONNECTION_LOSS) if operation == Children("/brokers/topics", True) else None
    )
    w.elect()
    a = w.register("a")
    assert a.error is ErrorCode.NONE
    assert sent(w, a) == []

    w.spoil = lambda _: None
    w.advance(1_000)

    assert a.fetches.keys() == {("t", "0")}
