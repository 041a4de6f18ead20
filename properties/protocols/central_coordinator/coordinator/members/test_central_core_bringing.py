"""
A coordinator takes from who registers where the owners of partitions have stopped.

Reference: docs/wire.md, "Bodies of version 4"; herdspec's variant `bringing`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import Ask
from herdproof.protocols.central_coordinator.wire.messages import (
    Brought,
    Commit,
    ErrorCode,
    RegisterResponse,
    Start,
)
from herdproof.zookeeper.operations import Create, Get, Multi, Operation, Refusal, Set, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    SETTINGS,
    Consumer,
    World,
    elected,
    phase,
    settled,
)

AT_ONCE = replace(SETTINGS, offset_flush_ms=0)
STORED = PATHS.offset(GROUP, "t", "0")


def name_of(consumer: Consumer) -> str:
    """What it was told that its registration is called."""
    told = consumer.last(RegisterResponse)
    assert isinstance(told, RegisterResponse)
    assert told.member is not None
    return told.member


def joined(w: World, consumer_id: str = "a") -> Consumer:
    """A consumer that registers in version 2, of whose partition 50 records are committed."""
    consumer = w.register(consumer_id, former=())
    w.send(consumer, Commit((Offset("t", "0", 50),)))
    return consumer


def lost(w: World, consumer: Consumer) -> str:
    """Its connection breaks, and it stops; what it was called."""
    w.close(consumer)
    consumer.fetches = {}
    return name_of(consumer)


def back(
    w: World, name: str, offset: int, generation: int, consumer_id: str = "a", *,
    former: tuple[str, ...] | None = None, auto_commit: bool = True,
) -> Consumer:  # fmt: skip
    """It registers anew, and says where its former registration has stopped."""
    brought = (Brought(name, generation, (Offset("t", "0", offset),)),)
    said = (name,) if former is None else former
    return w.register(consumer_id, former=said, brought=brought, auto_commit=auto_commit)


def begins(consumer: Consumer) -> int:
    """Where its last Start says that it begins."""
    start = consumer.last(Start)
    assert isinstance(start, Start)
    [partition] = start.partitions
    return partition.offset


def brought(w: World) -> list[Offset]:
    """What Registers have brought, as the trace tells it."""
    return [offset for step in w.steps for offset in step.brought]


def world() -> World:
    """One partition, and offsets that are written at once."""
    return elected(partitions=1, settings=AT_ONCE)


def test_what_was_finished_is_stored_before_the_partition_is_given_away() -> None:
    """Nothing of that is read again, by whomever."""
    w = world()
    generation, name = 1, lost(w, joined(w))

    a = back(w, name, 57, generation)

    assert settled(w, a)
    assert (begins(a), w.stored(STORED)) == (57, b"57")
    assert brought(w) == [Offset("t", "0", 57)]


def test_the_next_coordinator_takes_it_too() -> None:
    """It knows the owners, and their generation, from ZooKeeper."""
    w = world()
    was = joined(w)
    w.depose()
    was.fetches = {}
    w.elect()

    a = back(w, name_of(was), 57, 1)

    assert (begins(a), w.stored(STORED)) == (57, b"57")


def test_it_is_taken_of_whom_another_is_given_the_partition() -> None:
    """Who comes next begins where its owner has stopped, though that was never reported."""
    w = elected(partitions=2, settings=AT_ONCE)
    was = joined(w)
    name = lost(w, was)

    back(w, name, 57, 1)
    b = w.register("b")

    assert {p.partition: p.offset for c in w.consumers.values() if not c.closed
            for p in getattr(c.last(Start), "partitions", ()) if c.fetches}["0"] == 57  # fmt: skip
    assert b.fetches


@pytest.mark.parametrize("offset", [49, 50, -1])
def test_no_offset_goes_back(offset: int) -> None:
    """What is stored is read before, by a coordinator that has read nothing yet, too."""
    w = world()
    was = joined(w)
    w.depose()
    was.fetches = {}
    w.elect()

    a = back(w, name_of(was), offset, 1)

    assert (begins(a), w.stored(STORED)) == (50, b"50")


@pytest.mark.parametrize("says", [
    "another consumer's", "not named", "of an older generation", "of a later generation",
    "of nobody", "without auto_commit",
])  # fmt: skip
def test_what_does_not_count_is_passed_over(says: str) -> None:
    """The Register is accepted, and nothing is taken."""
    w = world()
    first = joined(w)
    w.register("b")  # a generation later
    name, generation = lost(w, first), w.generation()
    assert (generation, w.owners()[("t", "0")]) == (2, "a")

    match says:
        case "another consumer's":
            taker = back(w, name, 57, generation, "c")
        case "not named":
            taker = back(w, name, 57, generation, former=())
        case "of an older generation":
            taker = back(w, name, 57, generation - 1)
        case "of a later generation":
            taker = back(w, name, 57, generation + 1)
        case "of nobody":
            taker = back(w, "7-7", 57, generation)
        case _:
            taker = back(w, name, 57, generation, auto_commit=False)

    assert taker.error is ErrorCode.NONE
    assert brought(w) == []
    w.advance(2 * LEASE_MS)
    assert w.stored(STORED) == b"50"


def test_who_owns_nothing_brings_nothing() -> None:
    """A registration of the present generation, to which another partition was given."""
    w = world()
    joined(w)
    b = w.register("b", former=())
    name = lost(w, b)
    assert w.owners() == {("t", "0"): "a"}

    back(w, name, 57, w.generation(), "b")

    assert brought(w) == []
    w.advance(2 * LEASE_MS)
    assert w.stored(STORED) == b"50"


def test_who_brings_offsets_while_owners_are_written_waits() -> None:
    """What is noted then would be stored after the next owner's Start; it is of the past later."""
    w = elected(partitions=1)
    a = w.register("a", former=())
    a.fetches[("t", "0")] = 50
    w.hold()
    b = w.register("b", former=())
    while phase(w) is not Phase.FLUSHING:
        w.release()
    name = lost(w, a)

    again = back(w, name, 57, 1)  # its subscription is written before the owners are
    while w.stored(PATHS.subscription(GROUP, "a")) is None or phase(w) is not Phase.WRITING:
        w.release()
    w.release_all()

    assert again.error is ErrorCode.NONE
    assert brought(w) == []
    w.advance(2 * LEASE_MS)
    assert w.stored(STORED) == b"50"
    assert {begins(c) for c in (again, b) if c.fetches} == {50}


def test_while_it_is_in_doubt_who_owns_what_nothing_is_taken() -> None:
    """A write of owners was done, and went unanswered: who brings waits until that is read."""
    w = elected(partitions=1, settings=replace(AT_ONCE, zookeeper_retries=0))
    a = joined(w)
    w.hold()
    b = w.register("b", former=())
    while phase(w) is not Phase.WRITING:
        w.release()
    name = lost(w, a)
    assert w.held is not None
    [write] = [x.operation for x in w.held if is_of_owners(x)]

    def spoilt(operation: Operation) -> Refusal | None:
        if operation != write:
            return None
        w.zookeeper.perform(w.session, operation)
        return Refusal(Why.CONNECTION_LOSS)

    w.spoil = spoilt
    again = back(w, name, 57, 1)
    w.release_all()
    w.advance(3 * LEASE_MS)

    assert (again.error, w.generation() > 1) == (ErrorCode.NONE, True)
    assert brought(w) == []
    assert w.stored(STORED) == b"50"
    assert {begins(c) for c in (again, b) if c.fetches} == {50}


def is_of_owners(ask: Ask) -> bool:
    """True if this writes whom partitions belong to."""
    parts = ask.operation.operations if isinstance(ask.operation, Multi) else ()
    return any(isinstance(x, Create | Set) and "/owners/" in x.path for x in parts)


def test_whose_offsets_cannot_be_read_is_told_to_register_again() -> None:
    """Nobody can say what is stored: nothing is taken, and nothing is lost."""
    w = world()
    was = joined(w)
    w.depose()
    was.fetches = {}
    w.elect()
    name = name_of(was)

    def spoilt(operation: Operation) -> Refusal | None:
        lost = isinstance(operation, Get) and operation.path == STORED
        return Refusal(Why.CONNECTION_LOSS) if lost else None

    w.spoil = spoilt
    assert back(w, name, 57, 1).error is ErrorCode.NOT_COORDINATOR

    w.spoil = lambda _: None
    assert begins(back(w, name, 57, 1)) == 57


def test_members_of_all_versions_are_in_one_group() -> None:
    """Who says nothing of the past is served as ever, beside who says where it stopped."""
    w = elected(partitions=4, settings=AT_ONCE)
    old, second, fourth = w.register("old"), w.register("second", former=()), joined(w)
    third = w.register("third", former=())
    name, generation = name_of(fourth), w.generation()
    offsets = tuple(Offset(t, p, o + 7) for (t, p), o in fourth.fetches.items())
    lost(w, fourth)

    again = w.register("a", former=(name,), brought=(Brought(name, generation, offsets),))

    assert settled(w, old, second, third, again)
    assert set(brought(w)) == set(offsets)
    assert all(w.stored(PATHS.offset(GROUP, *o[:2])) == str(o[2]).encode() for o in (
        (x.topic, x.partition, x.offset) for x in offsets))  # fmt: skip
