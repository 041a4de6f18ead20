"""What operators may do to groups, on a ZooKeeper in memory: nothing to members, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pytest

from herdproof.consuming import stored_groups
from herdproof.consuming.assignment import Partition
from herdproof.consuming.stored_groups import (
    GroupChanged,
    GroupHasMembers,
    NoSuchGroup,
    NotAnswered,
    UnknownTopic,
)
from herdproof.protocols.central_coordinator import admin
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.stored_groups import (
    GroupRestless,
    StoredGroup,
    StoredGroups,
)
from herdproof.protocols.election.shell import parents
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Data,
    Delete,
    Exists,
    Get,
    Multi,
    Operation,
    Refusal,
    Set,
    Why,
)

PATHS = Paths()
G = "payments/eu"
"""A group whose name no node could have."""


def nothing(operation: Operation) -> None:
    """What others do where nobody else is there."""


class World:
    """A ZooKeeper in memory, and an operator's session with it."""

    def __init__(self) -> None:
        self.zookeeper = ZooKeeper()
        self.session = self.zookeeper.open()
        self.before: Callable[[Operation], None] = nothing
        """Run before each of the operator's operations: what others do meanwhile."""
        self.groups = StoredGroups(self.ask_all)

    def ask_all(self, operations: Sequence[Operation]) -> list[Answer]:
        """The operator's session."""
        answers = []
        for operation in operations:
            self.before(operation)
            answers.append(self.zookeeper.perform(self.session, operation))
        return answers

    def put(self, path: str, data: bytes = b"") -> None:
        """Have a node stand, with this data."""
        for above in parents(path):
            self.zookeeper.perform(self.session, Create(above))
        if isinstance(self.zookeeper.perform(self.session, Create(path, data)), Refusal):
            self.zookeeper.perform(self.session, Set(path, data))

    def data(self, path: str) -> bytes | None:
        """What a node holds; None if it does not stand."""
        answer = self.zookeeper.perform(self.session, Get(path))
        return answer.data if isinstance(answer, Data) else None

    def stands(self, path: str) -> bool:
        """Whether a node stands."""
        return self.data(path) is not None

    def write_group(self, group: str, generation: int, offsets: dict[Partition, int]) -> None:
        """A group as a coordinator leaves it behind: committed, and without members."""
        self.put(PATHS.group(group), point_data(generation, 3, 1, 10_000))
        self.put(PATHS.subscriptions(group))
        for partition, offset in offsets.items():
            self.put(PATHS.owner(group, *partition), owner_data(Owner("c1", "3-1"), generation))
            self.put(PATHS.offset(group, *partition), str(offset).encode())

    def register(self, group: str, consumer: str) -> None:
        """A consumer registers, as far as ZooKeeper sees it."""
        self.put(PATHS.subscription(group, consumer), b'{"orders": 1}')


@pytest.fixture
def world() -> World:
    """A ZooKeeper with one group, without members, and Kafka's topic."""
    world = World()
    world.write_group(G, 7, {("orders", "2"): 20, ("orders", "10"): 100})
    world.put(
        PATHS.topic("orders"), json.dumps({"partitions": {str(n): [1] for n in range(11)}}).encode()
    )
    return world


def once(happens: Callable[[], None], before: type[Operation]) -> Callable[[Operation], None]:
    """What happens once, before the operator's first operation of this kind."""
    left = [happens]

    def run(operation: Operation) -> None:
        if isinstance(operation, before) and left:
            left.pop()()

    return run


# ── Looking ─────────────────────────────────────────────────────────────────────────────────


def test_a_group_is_read_as_it_is_stored(world: World) -> None:
    """Members, owners, offsets and generation are read, whatever the group is called."""
    world.register(G, "c/1")

    group = world.groups.read(G)

    assert world.groups.names() == [G]
    assert (group.generation, group.epoch) == (7, 3)
    assert group.members == {"c/1": '{"orders": 1}'}
    assert group.owners == dict.fromkeys([("orders", "2"), ("orders", "10")], Owner("c1", "3-1"))
    assert group.offsets == {("orders", "2"): 20, ("orders", "10"): 100}
    assert group.partitions == [("orders", "2"), ("orders", "10")]


def test_a_group_that_is_rebalanced_meanwhile_is_read_again(world: World) -> None:
    """What is told is one moment's: no offset of one generation beside an owner of another."""

    def rebalance() -> None:
        world.write_group(G, 8, {("orders", "2"): 25, ("orders", "10"): 100})

    left = [rebalance]
    amid = Get(PATHS.offset(G, "orders", "10"))
    world.before = lambda operation: left.pop()() if operation == amid and left else None

    group = world.groups.read(G)

    assert (group.generation, group.offsets["orders", "2"]) == (8, 25)


def test_a_group_that_never_rests_is_given_up(world: World) -> None:
    """Reading ends, with a sentence, even if the group is rebalanced all the time."""
    generations = iter(range(8, 100))

    def rebalance(operation: Operation) -> None:
        if operation == Exists(PATHS.subscriptions(G)):
            world.write_group(G, next(generations), {})

    world.before = rebalance

    with pytest.raises(GroupRestless, match="look again"):
        world.groups.read(G)


def test_what_does_not_exist_is_named(world: World) -> None:
    """An unknown group or topic is an error that names it, not an empty answer."""
    with pytest.raises(NoSuchGroup, match=r"'nobody'.*groups list"):
        world.groups.read("nobody")
    with pytest.raises(UnknownTopic, match="'nothing'"):
        world.groups.partitions_of("nothing")

    assert world.groups.partitions_of("orders")[:3] == ["0", "1", "2"]
    assert world.groups.partitions_of("orders")[-1] == "10"


def test_an_unanswered_read_is_no_empty_group(world: World) -> None:
    """If ZooKeeper does not answer, that is said; a group is not told to be empty."""
    groups = StoredGroups(lambda operations: [Refusal(Why.CONNECTION_LOSS)] * len(operations))

    with pytest.raises(NotAnswered, match="connection loss"):
        groups.names()
    with pytest.raises(NotAnswered, match="connection loss"):
        groups.read(G)


# ── Resetting ───────────────────────────────────────────────────────────────────────────────


def test_offsets_are_reset_and_the_coordinator_is_told(world: World) -> None:
    """The offsets are what was asked for, back or new; who has read the group must read again."""
    group = world.groups.read(G)
    node = world.zookeeper.perform(world.session, Get(PATHS.group(G)))
    assert isinstance(node, Data)

    admin.reset_offsets(world.groups, group, {("orders", "2"): 5, ("orders", "3"): 0})

    assert world.groups.read(G).offsets == {
        ("orders", "2"): 5, ("orders", "3"): 0, ("orders", "10"): 100,
    }  # fmt: skip
    assert world.groups.read(G).generation == 7
    stale = Set(PATHS.group(G), point_data(8, 3, 1, 10_000), node.stat.version)
    assert world.zookeeper.perform(world.session, stale) == Refusal(Why.BAD_VERSION)


def consumer_registers(world: World) -> None:
    """Somebody joins."""
    world.register(G, "late")


def coordinator_commits(world: World) -> None:
    """A consumer has come and gone: a generation later nobody is registered again."""
    world.put(PATHS.group(G), point_data(8, 3, 1, 10_000))


def offset_is_stored(world: World) -> None:
    """A consumer that had come and gone has left another offset, and that is all."""
    world.put(PATHS.offset(G, "orders", "2"), b"33")


RACES = [consumer_registers, coordinator_commits, offset_is_stored]


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
def test_a_reset_that_races_is_refused_whole(world: World, race: Callable[[World], None]) -> None:
    """Whatever happens between the look and the write: it is refused, and nothing was done."""
    group = world.groups.read(G)
    world.before = once(lambda: race(world), Multi)

    with pytest.raises(GroupChanged, match="nothing was done"):
        admin.reset_offsets(world.groups, group, {("orders", "10"): 1, ("orders", "2"): 1})

    assert world.data(PATHS.offset(G, "orders", "10")) == b"100"
    assert world.data(PATHS.offset(G, "orders", "2")) != b"1"


@pytest.mark.parametrize("act", [admin.delete, lambda g, group: admin.reset_offsets(g, group, {})])
def test_a_group_with_members_is_left_alone(
    world: World, act: Callable[[StoredGroups, StoredGroup], None]
) -> None:
    """What members consume in is neither reset nor deleted; the error names them."""
    world.register(G, "c1")
    group = world.groups.read(G)
    version = group.commit_point.stat.version

    with pytest.raises(GroupHasMembers, match=r"members \(c1\): close its consumers"):
        act(world.groups, group)

    assert world.groups.read(G).commit_point.stat.version == version


def test_a_group_that_never_had_subscriptions_is_guarded_too(world: World) -> None:
    """Where the node above the subscriptions is missing, a registration is noticed all the same."""
    world.zookeeper.perform(world.session, Delete(PATHS.subscriptions(G)))
    admin.reset_offsets(world.groups, world.groups.read(G), {("orders", "2"): 1})
    assert world.groups.read(G).offsets["orders", "2"] == 1

    world.zookeeper.perform(world.session, Delete(PATHS.subscriptions(G)))
    group = world.groups.read(G)
    world.before = once(lambda: consumer_registers(world), Multi)
    with pytest.raises(GroupChanged):
        admin.reset_offsets(world.groups, group, {("orders", "2"): 2})


# ── Deleting ────────────────────────────────────────────────────────────────────────────────


def test_a_deleted_group_leaves_nothing(world: World) -> None:
    """Everything that is kept of a group goes, and nothing of another."""
    world.write_group("other", 1, {("orders", "2"): 9})

    admin.delete(world.groups, world.groups.read(G))

    assert world.groups.names() == ["other"]
    assert world.groups.read("other").offsets == {("orders", "2"): 9}
    left = list(every_path(world, "/"))
    assert [path for path in left if "payments" in path] == []


def test_what_somebody_else_keeps_in_a_group_stays(world: World) -> None:
    """A node below /consumers/[group] that is not ours is not deleted with the group."""
    foreign = PATHS.owners(G).replace("/owners", "/ids")
    world.put(foreign)

    admin.delete(world.groups, world.groups.read(G))

    assert world.stands(foreign)
    assert world.groups.names() == []


@pytest.mark.parametrize("race", [consumer_registers, coordinator_commits])
def test_a_deletion_that_races_is_refused_whole(
    world: World, race: Callable[[World], None]
) -> None:
    """A group that comes to life between the look and the write keeps all that it had."""
    group = world.groups.read(G)
    world.before = once(lambda: race(world), Multi)

    with pytest.raises(GroupChanged, match="nothing was done"):
        admin.delete(world.groups, group)

    assert world.groups.read(G).offsets == {("orders", "2"): 20, ("orders", "10"): 100}


# ── Large groups ────────────────────────────────────────────────────────────────────────────


def large(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Multi]:
    """Have a transaction hold few operations; tells the transactions that are asked for."""
    monkeypatch.setattr(stored_groups, "MAX_TRANSACTION_BYTES", 600)
    world.write_group(G, 7, {("orders", str(n)): n for n in range(9)})
    asked: list[Multi] = []
    world.before = lambda op: asked.append(op) if isinstance(op, Multi) else None
    return asked


def test_a_large_reset_is_split_and_each_part_guarded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction is larger than allowed, each is guarded, and together they do it all."""
    asked = large(world, monkeypatch)

    admin.reset_offsets(
        world.groups, world.groups.read(G), {("orders", str(n)): 50 for n in range(9)}
    )

    assert set(world.groups.read(G).offsets.values()) - {100} == {50}
    assert len(asked) > 2
    assert all(isinstance(multi.operations[0], Set) for multi in asked)
    assert all(Delete(PATHS.subscriptions(G)) in multi.operations for multi in asked)


def test_a_large_deletion_that_is_interrupted_can_be_finished(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a consumer comes amid the parts, the error says how far it got; later the rest goes."""
    asked = large(world, monkeypatch)

    def interrupt(operation: Operation) -> None:
        if isinstance(operation, Multi):
            asked.append(operation)
            if len(asked) == 3:
                consumer_registers(world)

    world.before = interrupt
    with pytest.raises(GroupChanged, match=r"2 of [0-9]+ parts are done"):
        admin.delete(world.groups, world.groups.read(G))
    assert world.groups.names() == [G]

    world.zookeeper.perform(world.session, Delete(PATHS.subscription(G, "late")))
    admin.delete(world.groups, world.groups.read(G))
    assert [path for path in every_path(world, "/") if "payments" in path] == []


def every_path(world: World, path: str) -> Iterator[str]:
    """Every node that stands."""
    names = world.groups.children(path)
    below = (f"{path.rstrip('/')}/{name}" for name in names)
    return chain([path], chain.from_iterable(every_path(world, node) for node in below))
