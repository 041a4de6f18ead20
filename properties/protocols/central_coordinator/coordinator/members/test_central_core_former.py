"""
A coordinator that is told which registrations have stopped waits for none of these.

Reference: docs/wire.md, "Bodies of version 2"; herdspec's variant `returning`.
"""

from __future__ import annotations

from typing import Any

import pytest

from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.coordinator.members.admission import FORMER_HEEDED
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    RegisterResponse,
    Stop,
)
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    Consumer,
    World,
    elected,
    phase,
    sent,
    settled,
)


def name_of(consumer: Consumer) -> str:
    """What it was told that its registration is called."""
    told = consumer.last(RegisterResponse)
    assert isinstance(told, RegisterResponse)
    assert told.member is not None
    return told.member


def joined(w: World, consumer_id: str, *former: str) -> Consumer:
    """A consumer that registers in version 2, and names former registrations."""
    return w.register(consumer_id, former=former)


def lost(w: World, *consumers: Consumer) -> list[str]:
    """Their connections break, and they stop; what they were called."""
    for consumer in consumers:
        w.close(consumer)
        consumer.fetches = {}
    return [name_of(consumer) for consumer in consumers]


def test_who_has_stopped_is_waited_for_no_more() -> None:
    """It says so in its next Register: its partitions are given away at once."""
    w = elected()
    [name] = lost(w, joined(w, "a"))

    back = joined(w, "a", name)

    assert settled(w, back)
    assert [report["member"] for report in w.told(What.LEASE_OVER)] == [name]


def test_after_a_failover_nobody_is_waited_for_who_comes_back() -> None:
    """The next coordinator finds owners in ZooKeeper, and is told of each that it has stopped."""
    w = elected()
    a, b = joined(w, "a"), joined(w, "b")
    w.depose()
    first, second = name_of(a), name_of(b)
    a.fetches, b.fetches = {}, {}
    w.elect()

    a = joined(w, "a", first)
    assert not a.fetches, "b may still fetch what it has"
    b = joined(w, "b", second)

    assert settled(w, a, b)


def test_who_says_nothing_is_waited_for_in_the_same_group() -> None:
    """Version 1 is served as ever: of two that were lost, one has a lease to wait for."""
    w = elected()
    old = w.register("old")
    new = joined(w, "new")
    w.close(old)
    [name] = lost(w, new)

    back = joined(w, "new", name)
    assert w.register("old").last(RegisterResponse) == RegisterResponse(ErrorCode.NONE)

    w.advance(LEASE_MS - 1)
    assert not back.fetches
    old.fetches = {}
    w.advance(1)
    assert back.fetches


def test_a_connection_whose_end_is_not_noticed_is_closed() -> None:
    """A half-open connection: its consumer is back, and the old one is gone without a lease."""
    w = elected()
    half_open = joined(w, "a")
    half_open.mute = True
    half_open.fetches = {}

    back = joined(w, "a", name_of(half_open))

    assert half_open.closed
    assert settled(w, back)
    assert w.told(What.MEMBER_LOST)[-1]["lease_ms"] == 0


@pytest.mark.parametrize("says", ["another's", "nobody's", "too many"])
def test_what_is_not_its_own_to_say_ends_no_lease(says: str) -> None:
    """Of another consumer's registrations nothing is heeded, nor of more than a few."""
    w = elected()
    a = joined(w, "a")
    w.close(a)
    name = name_of(a)
    former: dict[str, Any] = {
        "another's": ("b", [name]), "nobody's": ("a", ["7-7", ""]),
        "too many": ("a", [name, *(f"9-{n}" for n in range(FORMER_HEEDED))]),
    }  # fmt: skip

    consumer_id, said = former[says]
    joined(w, consumer_id, *said)

    assert [*w.core.groups[GROUP].ghosts] == [name]
    w.advance(LEASE_MS)
    assert not w.core.groups[GROUP].ghosts


def test_what_is_said_of_a_registration_is_not_said_of_the_next() -> None:
    """The names of registrations are given once: who was over is not its consumer's next one."""
    w = elected()
    [first] = lost(w, joined(w, "a"))
    second = joined(w, "a", first)
    w.close(second)

    back = joined(w, "a", first)

    assert not back.fetches
    w.advance(LEASE_MS)
    assert back.fetches


def test_what_is_said_while_owners_are_written_counts_afterwards() -> None:
    """Nobody is admitted then; whom these owners name, and is over, is gone right after."""
    w = elected()
    a = joined(w, "a")
    w.hold()
    b = joined(w, "b")
    while phase(w) is not Phase.WRITING:
        w.release()
    a.mute, a.fetches = True, {}

    back = joined(w, "a", name_of(a))
    assert not a.closed
    w.release_all()

    assert a.closed
    w.advance(LEASE_MS - 2_000)
    assert settled(w, b, back)


def test_who_is_back_amid_the_stops_is_stopped_before_owners_are_written() -> None:
    """That nobody waits for its lease any more must not end the barrier before it has answered."""
    w = elected()
    a, b = joined(w, "a"), joined(w, "b")
    a.mute = b.mute = True
    joined(w, "c")
    w.answer(b)
    [name] = lost(w, a)

    back = w.register("a", former=(name,), mute=True)

    assert sent(w, back) == [Stop]
    assert phase(w) is Phase.STOPPING
