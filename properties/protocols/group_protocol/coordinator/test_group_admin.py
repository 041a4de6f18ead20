"""What operators see of groups that brokers have stored, and may do to those without members."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from herdproof.consuming.assignment import Partition
from herdproof.consuming.consumer_protocol import write_assignment, write_subscription
from herdproof.consuming.stored_groups import (
    AllGroups,
    FoundGroup,
    GroupChanged,
    GroupHasMembers,
    NoSuchGroup,
    NotAnswered,
    SeveralGroups,
)
from herdproof.ports import free_ports
from herdproof.protocols.election.elector import leader_data
from herdproof.protocols.election.shell import parents
from herdproof.protocols.group_protocol import admin
from herdproof.protocols.group_protocol.admin import GroupProtocolGroups
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredCommit,
    StoredMember,
    StoredMetadata,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.server.standing import PATHS, REGISTRATIONS
from herdproof.protocols.group_protocol.stores.port import WriteOutcome
from herdproof.protocols.group_protocol.stores.zookeeper import ZooKeeperGroupStore
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Delete,
    Get,
    Multi,
    Operation,
    Refusal,
    Set,
)
from properties.protocols.group_protocol.coordinator.test_group_stores import Service

G = "payments/eu"
"""A group whose name no node could have."""
OFFSETS = {("orders", 0): StoredCommit(offset=7), ("orders", 1): StoredCommit(offset=8)}
ORDERS_0, ORDERS_1 = ("orders", "0"), ("orders", "1")


class Stored:
    """A ZooKeeper in which a broker has stored groups, and an operator's look at them."""

    def __init__(self) -> None:
        self.service = Service(PATHS.election)
        self.epoch = 0
        self.meanwhile: Callable[[], object] = int
        """Run before each transaction of the operator's: what others do meanwhile."""
        self.at_the_epoch: Callable[[], object] = int
        """Run before the operator reads which epoch it is."""

    @property
    def groups(self) -> AllGroups:
        """All groups, of all protocols."""
        return AllGroups(self.ask_all)

    def store(
        self, group: str, metadata: StoredMetadata | None = None,
        offsets: Mapping[TopicPartition, StoredCommit] = OFFSETS,
    ) -> None:  # fmt: skip
        """A broker that is elected stores a group, and is killed."""
        store = self._elected()
        told: list[WriteOutcome] = []
        store.write(
            StoreGroup(token=1, group=group, metadata=metadata, offsets=offsets), told.append
        )
        self.service.perform()
        assert told == [WriteOutcome.DONE]

    def read(self) -> Mapping[str, StoredClassicGroup]:
        """The groups that the next broker reads which is elected."""
        self.service.elect()
        self.epoch += 1
        found = self.service.load(ZooKeeperGroupStore(self.service.submit, PATHS), self.epoch)
        assert found is not None
        return found

    def lead(self, port: int | None = None) -> None:
        """Broker 3 is there, and coordinates; on loopback, where a port is given."""
        told = {"host": "127.0.0.1", "port": port} if port else {"host": "kafka", "port": 9192}
        self.put(f"{REGISTRATIONS}/3", json.dumps(told).encode())
        self.put(PATHS.election.leader, leader_data("3", 1))

    def put(self, path: str, data: bytes = b"") -> None:
        """Have a node stand, with this data."""
        for above in parents(path):
            self._perform(Create(above))
        if isinstance(self._perform(Create(path, data)), Refusal):
            self._perform(Set(path, data))

    def _elected(self) -> ZooKeeperGroupStore:
        self.service.elect()
        self.epoch += 1
        store = ZooKeeperGroupStore(self.service.submit, PATHS)
        self.service.load(store, self.epoch)
        return store

    def _perform(self, operation: Operation) -> Answer:
        return self.service.zookeeper.perform(self.service.session, operation)

    def ask_all(self, operations: Sequence[Operation]) -> list[Answer]:
        """The operator's session."""
        if any(isinstance(each, Multi) for each in operations):
            self.meanwhile()
        if Get(PATHS.election.epoch) in operations:
            self.at_the_epoch()
        return [self._perform(each) for each in operations]


def member(name: str, *partitions: int) -> StoredMember:
    """A consumer of `orders`, which is assigned these partitions."""
    return StoredMember(
        member_id=name, session_timeout_ms=1, rebalance_timeout_ms=1,
        subscription=write_subscription(["orders", "bills"]),
        assignment=write_assignment(("orders", number) for number in partitions),
    )  # fmt: skip


def consumers(*members: StoredMember) -> StoredMetadata:
    """A group of consumers in its fifth generation."""
    return StoredMetadata(
        protocol_type="consumer", generation=5, protocol="range", is_assigned=True, members=members
    )


def test_a_group_is_shown_with_members_owners_and_offsets() -> None:
    """What was stored of it; the protocol is that of whoever stored it."""
    stored = Stored()
    stored.store(G, consumers(member("a", 0), member("b", 1, 2)))
    [listed] = stored.groups.glance_at_all()
    found = stored.groups.read(G)

    assert (listed.protocol, listed.group.name) == ("group_protocol", G)
    assert found.group.subscriptions == {"a": "bills, orders", "b": "bills, orders"}
    assert found.group.owner_names == {ORDERS_0: "a", ORDERS_1: "b", ("orders", "2"): "b"}
    assert found.group.offsets == {ORDERS_0: 7, ORDERS_1: 8}
    assert found.group.counts == {"generation": 5}
    assert found.group.partitions == [ORDERS_0, ORDERS_1, ("orders", "2")]


def test_of_members_that_are_no_consumers_only_what_all_have_is_shown() -> None:
    """Their own words are theirs; and a group may have offsets alone."""
    stored = Stored()
    worker = StoredMember(
        member_id="w", session_timeout_ms=1, rebalance_timeout_ms=1, subscription=b"?!"
    )
    stored.store(
        "connect",
        StoredMetadata(protocol_type="connect", protocol="default", members=(worker,)),
        {},
    )
    stored.store("offsets", None)
    connect, offsets = (found.group for found in stored.groups.glance_at_all())

    assert (connect.members, connect.subscriptions) == ({"w": "PyE="}, {"w": "2 bytes"})
    assert (connect.owner_names, connect.partitions) == ({}, [])
    assert (offsets.members, offsets.partitions) == ({}, [ORDERS_0, ORDERS_1])


def test_a_name_in_two_trees_is_that_of_two_groups() -> None:
    """Neither is in the other's way; which one is meant has to be said."""
    stored = Stored()
    stored.store("g", consumers())
    stored.put("/consumers/g/ids")
    found = [each.protocol for each in stored.groups.glance_at_all()]

    assert sorted(found) == ["group_protocol", "self_rebalancing"]
    with pytest.raises(SeveralGroups, match="--protocol"):
        stored.groups.read("g")
    for protocol in found:
        assert stored.groups.read("g", protocol).protocol == protocol
    with pytest.raises(NoSuchGroup, match="of central"):
        stored.groups.read("g", "central")


def test_a_group_without_members_is_reset() -> None:
    """The next broker reads these offsets, and all else as it was."""
    stored = Stored()
    stored.store(G, consumers())
    stored.store("other", consumers())
    stored.groups.read(G).reset_offsets({ORDERS_1: 2, ("bills", "10"): 3})
    found = stored.read()

    offsets = {where: commit.offset for where, commit in found[G].offsets.items()}
    assert offsets == {("orders", 0): 7, ("orders", 1): 2, ("bills", 10): 3}
    assert found[G].offsets["orders", 1].committed_ms > 0, "or it would be over at once"
    assert found[G].metadata == consumers()
    assert found["other"] == StoredClassicGroup(consumers(), OFFSETS)


def test_a_group_without_members_is_deleted() -> None:
    """Nothing is left of it, and all of the others."""
    stored = Stored()
    stored.store(G, consumers())
    stored.store("other", consumers())
    stored.groups.read(G).delete()

    assert stored.read() == {"other": StoredClassicGroup(consumers(), OFFSETS)}


@pytest.mark.parametrize("act", ["reset", "delete"])
def test_nothing_is_done_to_members(act: str) -> None:
    """Whoever is a member by what is stored, be it dead: only a coordinator notices that."""
    stored = Stored()
    stored.store(G, consumers(member("a", 0)))
    with pytest.raises(GroupHasMembers, match=r"members \(a\)"):
        do(act, stored)


class Asked:
    """A coordinator that does what it is asked for; and what that was."""

    def __init__(self) -> None:
        self.of: list[tuple[object, ...]] = []

    def reset_offsets(self, at: str, group: str, offsets: Mapping[Partition, int]) -> None:
        """Note that offsets were to be committed."""
        self.of.append(("reset", at, group, dict(offsets)))

    def delete(self, at: str, group: str) -> None:
        """Note that a group was to be deleted."""
        self.of.append(("delete", at, group))


def test_a_broker_that_coordinates_is_asked() -> None:
    """It has all groups in its memory: in ZooKeeper nothing is changed behind its back."""
    stored, asked = Stored(), Asked()
    stored.store(G, consumers())
    stored.lead()
    groups = GroupProtocolGroups(stored.ask_all, asked)
    stored.meanwhile = lambda: pytest.fail("it is changed in ZooKeeper")
    groups.reset_offsets(groups.read(G), {ORDERS_1: 2})
    groups.delete(groups.read(G))

    assert asked.of == [
        ("reset", "kafka:9192", G, {ORDERS_1: 2}),
        ("delete", "kafka:9192", G),
    ]


@pytest.mark.parametrize("act", ["reset", "delete"])
def test_who_coordinates_and_cannot_be_asked_is_told(act: str) -> None:
    """By its id, where no node says how it is found; by its node, where that is none of ours."""
    stored = Stored()
    stored.store(G, consumers())
    stored.put(PATHS.election.leader, leader_data("3", 1))
    with pytest.raises(NotAnswered, match="Broker 3 coordinates, and has not said where"):
        do(act, stored)
    stored.put(f"{REGISTRATIONS}/3", b"!")
    with pytest.raises(NotAnswered, match="none of ours"):
        do(act, stored)


@pytest.mark.parametrize("act", ["reset", "delete"])
def test_who_is_elected_after_the_first_look_is_not_passed_over(act: str) -> None:
    """Its epoch is the one that is read then, so that the transaction would not be refused."""
    stored = Stored()
    stored.store(G, consumers())
    stored.at_the_epoch = stored.lead
    with pytest.raises(GroupChanged, match="has been elected"):
        do(act, stored)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("act", ["reset", "delete"])
def test_a_coordinator_that_does_not_answer_is_no_excuse(act: str, monkeypatch: Any) -> None:
    """Nobody listens where it says to be found: nothing is known to be done."""
    monkeypatch.setattr(admin, "PATIENCE_S", 1.0)
    stored = Stored()
    stored.store(G, consumers())
    stored.lead(*free_ports(1))
    with pytest.raises(NotAnswered, match=r"127\.0\.0\.1"):
        do(act, stored)


MEANWHILE: dict[str, Callable[[Stored], object]] = {
    "a coordinator is elected": lambda stored: stored.service.elect(),
    "it has a member": lambda stored: stored.put(PATHS.group(G), b"{}"),
    "an offset is stored": lambda stored: stored.put(PATHS.offset(G, ("orders", 1)), b"{}"),
    "it is deleted": lambda stored: [
        stored.service.zookeeper.perform(stored.service.session, Delete(path))
        for path in (
            *(PATHS.offset(G, where) for where in OFFSETS), PATHS.topic(G, "orders"), PATHS.group(G)
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("act", ["reset", "delete"])
@pytest.mark.parametrize("event", MEANWHILE)
def test_nothing_is_done_to_what_has_changed_meanwhile(act: str, event: str) -> None:
    """Whatever was decided by what had been read is refused, as a whole."""
    stored = Stored()
    stored.store(G, consumers())
    found = stored.groups.read(G)
    stored.meanwhile = lambda: MEANWHILE[event](stored)
    if (act, event) == ("delete", "an offset is stored"):
        found.delete()  # it goes with the group
        return
    with pytest.raises(GroupChanged, match="nothing was done"):
        do(act, stored, found)


def test_what_is_none_of_ours_is_said() -> None:
    """A node that somebody else has written is no group."""
    stored = Stored()
    stored.put(PATHS.group(G), b"[]")
    with pytest.raises(NotAnswered, match="none of ours"):
        stored.groups.read(G)


def do(act: str, stored: Stored, found: FoundGroup | None = None) -> None:
    """Reset an offset of the group, or delete it."""
    group = stored.groups.read(G) if found is None else found
    if act == "reset":
        group.reset_offsets({ORDERS_1: 0})
    else:
        group.delete()
