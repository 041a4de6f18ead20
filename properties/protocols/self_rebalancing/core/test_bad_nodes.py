"""What a member cannot read: it says where, holds nothing, and goes on when it is mended."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from herdproof.consuming.offsets import NO_OFFSET
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Answer, Create, Operation, Refusal, Set, Why
from properties.protocols.self_rebalancing.core.connectors import DIRS, Group, described

T0 = ("t", "0")
GOOD = b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}'
BACKOFF_MS = 2_000


class Guarded(ZooKeeper):
    """Has ACLs: what lies below these paths is refused to everybody but the operator."""

    forbidden: str = ""

    def perform(self, session: int, operation: Operation, *, answered: bool = True) -> Answer:
        """Refuse, or do it."""
        parts = getattr(operation, "operations", (operation,))
        for number, part in enumerate(parts):
            if self.forbidden and session > 1 and part.path.startswith(self.forbidden):
                index = number if parts != (operation,) else None
                return Refusal(Why.BAD_ARGUMENTS, index)
        return super().perform(session, operation, answered=answered)


@dataclass(frozen=True)
class Bad:
    """What is wrong, what is said of it, and how it is mended."""

    what: What
    words: str
    spoil: Callable[[Group], object]
    mend: Callable[[Group], object]


def registers(data: bytes) -> Callable[[Group], object]:
    """A stranger registers this."""
    return lambda group: group.stranger(DIRS.id("z"), data)


def writes(path: str, data: bytes) -> Callable[[Group], object]:
    """Somebody writes this there."""

    def write(group: Group) -> None:
        if group.data(path) is None:
            group.make(path)
        group.write(Set(path, data))

    return write


def deletes(path: str) -> Callable[[Group], object]:
    """Somebody deletes this."""
    return lambda group: group.delete(path)


def forbids(path: str) -> Callable[[Group], object]:
    """An ACL refuses all below it; nothing, if it is empty."""
    return lambda group: setattr(group.zookeeper, "forbidden", path)


def registration(words: str, data: bytes) -> Bad:
    """A stranger's registration, which is mended in place."""
    mend = writes(DIRS.id("z"), GOOD)
    return Bad(
        What.BAD_REGISTRATION, f"{DIRS.id('z')} cannot be read: {words}", registers(data), mend
    )


BAD = {
    "no JSON": registration("it is no JSON", b"t1"),
    "an unknown version": registration(
        "its version is 2", b'{"version":2,"subscription":{"t":1},"pattern":"static"}'
    ),
    "an unknown pattern": registration(
        "its pattern is 'grey_list'", b'{"version":1,"subscription":{"t":1},"pattern":"grey_list"}'
    ),
    "no thread": registration(
        "it has 0 threads", b'{"version":1,"subscription":{"t":0},"pattern":"static"}'
    ),
    "a million threads": registration(
        "it has 1000000 threads", b'{"version":1,"subscription":{"t":1000000},"pattern":"static"}'
    ),
    "a regex of Java alone": registration(
        "the regex", b'{"version":1,"subscription":{"(?<=a)b":1},"pattern":"white_list"}'
    ),
    "a topic that says nothing": Bad(
        What.BAD_TOPIC, "/brokers/topics/t cannot be read", writes("/brokers/topics/t", b"[]"),
        writes("/brokers/topics/t", described(1)),
    ),
    "an owner that nobody has": Bad(
        What.ATTEMPT_FAILED, f"{DIRS.owner(T0)} is persistent", writes(DIRS.owner(T0), b"\xff"),
        deletes(DIRS.owner(T0)),
    ),
    "an offset of words": Bad(
        What.BAD_OFFSET, f"{DIRS.offset(T0)} says b'many', which is no offset",
        writes(DIRS.offset(T0), b"many"), writes(DIRS.offset(T0), b"3"),
    ),
    "an offset below all": Bad(
        What.BAD_OFFSET, "says b'-7'", writes(DIRS.offset(T0), b"-7"),
        writes(DIRS.offset(T0), b"3"),
    ),
    "its own name": Bad(
        What.NOT_REGISTERED, "a persistent node has that name", writes(DIRS.id("a"), GOOD),
        deletes(DIRS.id("a")),
    ),
    "forbidden registrations": Bad(
        What.NOT_REGISTERED, "look at the node's ACL", forbids(DIRS.ids), forbids("")
    ),
    "forbidden owners": Bad(
        What.ATTEMPT_FAILED, "t-0 cannot be claimed: ZooKeeper refuses it to this user",
        forbids("/consumers/g/owners"), forbids(""),
    ),
    "forbidden topics": Bad(
        What.ATTEMPT_FAILED, "/brokers/topics/t cannot be read: ZooKeeper refuses it to this user",
        forbids("/brokers/topics/t"), forbids(""),
    ),
}  # fmt: skip
"""By what is bad; a member that wants one partition is there before, or comes after."""


@pytest.mark.parametrize("comes_first", [True, False], ids=["member first", "bad node first"])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_is_said_and_not_planned_around(bad: Bad, comes_first: bool) -> None:
    """Nothing is fetched while it is bad; what it says names the node; mended, all is fetched."""
    group = Group({"t": 1, "u": 1}, zookeeper=Guarded())
    if comes_first:
        group.make("/consumers/g")
        group.member("b").close()
        group.settle()
    else:
        bad.spoil(group)
    member = group.member("a")
    if comes_first:
        bad.spoil(group)
    group.settle()

    assert member.fetches() == {}
    assert bad.words in member.why(bad.what)
    bad.mend(group)
    group.pass_time(BACKOFF_MS)
    group.settle()
    assert member.fetches() in ({T0: NO_OFFSET}, {T0: 3})
    assert not member.has_left


def test_offsets_that_may_not_be_read_are_named() -> None:
    """An ACL on an offset: the partition is not consumed, and it is said why."""
    group = Group({"t": 1}, zookeeper=Guarded())
    group.store("t", "0", 3)
    forbids("/consumers/g/offsets")(group)
    member = group.member("a")
    group.settle()

    assert member.fetches() == {}
    assert "offsets/t/0 cannot be read: ZooKeeper refuses it" in member.why(What.BAD_OFFSET)


def test_a_topic_that_is_deleted_is_consumed_no_more() -> None:
    """Its partitions are given back; made anew, it is consumed again."""
    group = Group({"t": 2, "u": 1})
    member = group.member("a", {"t": 1, "u": 1})
    group.settle()
    group.delete("/brokers/topics/t")
    group.settle()
    assert list(member.fetches()) == [("u", "0")]
    assert group.owners() == {}
    group.write(Create("/brokers/topics/t", described(1)))
    group.settle()

    assert list(member.fetches()) == [T0, ("u", "0")]


def test_without_its_chroot_nothing_can_be_registered_and_that_is_said() -> None:
    """What can neither be found nor made: the chroot is the likeliest reason."""

    class Rootless(Guarded):
        """Has no root that anything could stand below."""

        def perform(self, session: int, operation: Operation, *, answered: bool = True) -> Answer:
            """Nothing is found."""
            if self.forbidden and session > 1:
                return Refusal(Why.NO_NODE)
            return super().perform(session, operation, answered=answered)

    group = Group({"t": 1}, zookeeper=Rootless())
    forbids("/")(group)
    member = group.member("a")
    group.settle()
    assert "is there the chroot that the address of ZooKeeper names" in member.why(
        What.NOT_REGISTERED
    )
    forbids("")(group)
    group.pass_time(BACKOFF_MS)

    assert list(member.fetches()) == [T0]
