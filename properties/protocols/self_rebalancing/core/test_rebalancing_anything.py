"""Whatever strangers write, and whatever breaks: no core fails, and what is mended is consumed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.consuming.events import Answered, Fired, Resolved, RevocationHandled
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.registries.paths import BROKER_IDS
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Data,
    Delete,
    Found,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Stat,
    Synced,
    Watched,
    Why,
)
from properties.protocols.self_rebalancing.core.connectors import DIRS, Group, Member, described

TOPICS = {"t": 2, "u": 1}
PARTITIONS = [("t", "0"), ("t", "1"), ("u", "0")]
GARBAGE = st.sampled_from([
    b"", b"garbage", b"\xff\x00", b"{}", b"[]", b"-7", b"1" * 40, b'{"partitions":{"x":[0]}}',
    b'{"version":1,"subscription":{"t":0},"pattern":"static"}',
    b'{"version":1,"subscription":{"t":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"((":1},"pattern":"white_list"}',
])  # fmt: skip
PATHS = st.sampled_from([
    DIRS.id("z"), DIRS.id("\U0001f404"), "/brokers/topics/t", "/brokers/topics/u", BROKER_IDS,
    *map(DIRS.offset, PARTITIONS), *map(DIRS.owner, PARTITIONS), *map(DIRS.claim, PARTITIONS),
    "/consumers/g/owners/v", "/brokers/topics/v", "/herdproof", "/herdproof/groups",
    DIRS.coordinated, DIRS.subscriptions, f"{DIRS.subscriptions}/c1",
])  # fmt: skip
DISTURBANCES = st.one_of(
    st.tuples(st.sampled_from(["write", "stranger"]), PATHS, GARBAGE),
    st.tuples(st.just("delete"), PATHS, st.just(b"")),
    st.tuples(
        st.sampled_from(["cut", "expire", "time", "carry", "join"]), st.just(""), st.just(b"")
    ),
)
STAT = Stat(
    czxid=1, mzxid=1, version=3, cversion=0, ephemeral_owner=9, data_length=0, num_children=0
)


def disturb(group: Group, what: str, path: str, data: bytes, strangers: list[int]) -> None:
    """Have a stranger, an operator or the network do something."""
    zookeeper, member = group.zookeeper, group.members[-1]
    if what == "write":
        zookeeper.perform(group.operator, Create(path, data))
        zookeeper.perform(group.operator, Set(path, data))
    elif what == "stranger":
        strangers.append(zookeeper.open())
        zookeeper.perform(strangers[-1], Create(path, data, ephemeral=True))
    elif what == "delete":
        zookeeper.perform(group.operator, Delete(path))
    elif what in ("cut", "expire"):
        if what == "expire":
            zookeeper.expire(member.session)
        member.cut(performed=len(data) % 3)
        member.connect()
    elif what == "time":
        group.pass_time(700)
    elif what == "join" and len(group.members) < 3:
        group.member(f"m{len(group.members)}", {"t": 1, "u": 2})
    for _ in range(5):
        member.carry()


def mend(group: Group, strangers: list[int]) -> None:
    """The strangers go, and what they have written is put right."""
    zookeeper, operator = group.zookeeper, group.operator
    for session in strangers:
        zookeeper.close(session)
    for path in (DIRS.id("z"), DIRS.id("\U0001f404"), f"{DIRS.subscriptions}/c1"):
        zookeeper.perform(operator, Delete(path))
    for partition in PARTITIONS:
        found = zookeeper.tree().get(DIRS.owner(partition))
        if found is not None and not found[1].ephemeral_owner:
            zookeeper.perform(operator, Delete(DIRS.owner(partition)))
        if group.data(DIRS.offset(partition)) is not None:
            zookeeper.perform(operator, Set(DIRS.offset(partition), b"5"))
    zookeeper.perform(operator, Delete("/consumers/g/owners/v"))
    zookeeper.perform(operator, Create(BROKER_IDS))
    zookeeper.perform(operator, Create(f"{BROKER_IDS}/0"))
    for topic, count in TOPICS.items():
        zookeeper.perform(operator, Create(f"/brokers/topics/{topic}"))
        zookeeper.perform(operator, Set(f"/brokers/topics/{topic}", described(count)))


@settings(deadline=None)
@given(st.lists(DISTURBANCES, max_size=12))
def test_whatever_strangers_write_nothing_fails_and_all_goes_on(
    disturbances: list[tuple[str, str, bytes]],
) -> None:
    """Garbage anywhere, in any order: no core fails; once it is mended, everything is consumed."""
    group = Group(TOPICS)
    group.member("m0", {"t": 2, "u": 1})
    strangers: list[int] = []
    for disturbance in disturbances:
        disturb(group, *disturbance, strangers)
    mend(group, strangers)
    group.settle()
    group.pass_time(10_000)

    consumed = sorted(p for member in group.members for p in member.fetches())
    assert consumed == PARTITIONS, [m.reports()[-4:] for m in group.members]


ANSWERS = st.sampled_from([
    Refusal(Why.NO_NODE), Refusal(Why.BAD_ARGUMENTS), Refusal(Why.CONNECTION_LOSS),
    Refusal(Why.BAD_VERSION, 0), Refusal(Why.NODE_EXISTS, 0), Synced(),
])  # fmt: skip
LATE = st.one_of(
    st.builds(Answered, st.integers(1_000, 1_010), ANSWERS),
    st.builds(Answered, st.integers(1_000, 1_010), st.just(Data(b"", STAT)) | st.just(Found(None))),
    st.builds(Answered, st.integers(1_000, 1_010), st.just(Names(("x",)))),
    st.builds(lambda p: Fired(Watched(p, NodeChange.DATA)), PATHS),
    st.builds(lambda n, g: Resolved(Offset("t", "0", n), g), st.integers(0, 9), st.integers(0, 9)),
    st.just(RevocationHandled()),
)


@given(st.lists(LATE, max_size=20))
def test_what_comes_late_or_unasked_changes_nothing(events: list[object]) -> None:
    """Answers that nobody waits for, and watches that nobody left, lead to nothing."""
    group = Group(TOPICS)
    member: Member = group.member("a", {"t": 1, "u": 1})
    group.settle()
    before = member.fetches()
    for event in events:
        member.give(event)  # type: ignore[arg-type]
    group.settle()

    assert list(member.fetches()) == list(before)


class Refusing(ZooKeeper):
    """Refuses operations of one kind, of all but the first session, for as long as it is told."""

    refuses: type[object] | None = None
    why = Refusal(Why.BAD_ARGUMENTS)

    def perform(self, session: int, operation: Operation, *, answered: bool = True) -> Answer:
        """Refuse, or do it."""
        if self.refuses is not None and session > 1 and isinstance(operation, self.refuses):
            return self.why
        return super().perform(session, operation, answered=answered)


def refusing(kind: type[object], why: Why) -> tuple[Group, Refusing]:
    """A group whose ZooKeeper refuses its members' operations of this kind."""
    group = Group({"t": 1}, zookeeper=(zookeeper := Refusing()))
    zookeeper.refuses, zookeeper.why = kind, Refusal(why)
    return group, zookeeper


def test_every_refusal_of_a_claim_is_tried_again() -> None:
    """An ACL, or whatever else refuses, fails the attempt, which is said; another one follows."""
    group, zookeeper = refusing(Multi, Why.BAD_ARGUMENTS)
    member = group.member("a")
    group.settle()
    assert member.fetches() == {}
    assert "attempt_failed" in member.reports()
    zookeeper.refuses = None
    group.pass_time(2_000)

    assert list(member.fetches()) == [("t", "0")]


@pytest.mark.parametrize("why", [Why.NO_NODE, Why.BAD_ARGUMENTS])
def test_a_registration_that_is_refused_is_tried_again(why: Why) -> None:
    """A missing chroot, or a refused ACL: the member says so, and registers when it can."""
    group, zookeeper = refusing(Create, why)
    member = group.member("a")
    group.settle()
    assert member.reports() == ["not_registered"]
    zookeeper.refuses = None
    group.pass_time(2_000)

    assert list(member.fetches()) == [("t", "0")]
