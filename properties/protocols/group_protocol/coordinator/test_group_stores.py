"""What is stored of groups in ZooKeeper is what memory would have, and only one writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.protocols.election.elector import ElectionPaths
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredCommit,
    StoredMember,
    StoredMetadata,
    StoreGroup,
)
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore
from herdproof.protocols.group_protocol.stores.port import GroupStore, WriteOutcome
from herdproof.protocols.group_protocol.stores.zookeeper import ZooKeeperGroupStore
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import Answer, Create, Multi, Operation, Refusal, Set, Why

NAMES = st.sampled_from(["orders", "", "a/b", "..", "%", "50%25", "\n"])
TEXT = st.text(max_size=5)
MEMBER = st.builds(
    StoredMember, member_id=TEXT, group_instance_id=st.none() | TEXT, session_timeout_ms=st.just(1),
    rebalance_timeout_ms=st.just(2), subscription=st.binary(max_size=9),
    assignment=st.binary(max_size=9),
    given_up=st.lists(st.tuples(TEXT, st.integers(0, 9)), max_size=2).map(tuple),
)  # fmt: skip
METADATA = st.builds(
    StoredMetadata, generation=st.integers(0, 9), protocol=st.none() | TEXT, leader=st.none(),
    is_assigned=st.booleans(), members=st.lists(MEMBER, max_size=2).map(tuple),
)  # fmt: skip
OFFSET = st.builds(
    StoredCommit, offset=st.integers(-1, 2**63 - 1), metadata=TEXT, expires_ms=st.none()
)
WHERE = st.tuples(st.sampled_from(["t", "a/b", "."]), st.integers(0, 2))
CHANGES = st.lists(
    st.builds(
        StoreGroup, token=st.just(1), group=NAMES, metadata=st.none() | METADATA,
        offsets=st.dictionaries(WHERE, st.none() | OFFSET, max_size=3),
    )
    | st.builds(StoreGroup, token=st.just(1), group=NAMES, is_deleted=st.just(True)),
    max_size=12,
)  # fmt: skip

ELECTION = ElectionPaths()


class Service:
    """A ZooKeeper, with the election's epoch; whatever is sent waits until it is performed."""

    def __init__(self, election: ElectionPaths = ELECTION) -> None:
        self.zookeeper = ZooKeeper()
        self.session = self.zookeeper.open()
        self.sent: list[tuple[Operation, Callable[[Answer], None]]] = []
        self._epoch = election.epoch
        for path in reversed(list(lineage(self._epoch))):
            self.zookeeper.perform(self.session, Create(path))

    def elect(self) -> None:
        """Another epoch begins."""
        self.zookeeper.perform(self.session, Set(self._epoch, b""))

    def submit(self, operation: Operation, answer: Callable[[Answer], None]) -> None:
        """Send an operation."""
        self.sent.append((operation, answer))

    def perform(self, refusal: Refusal | None = None) -> None:
        """Perform all that was sent, and what comes of that; or answer it by a refusal."""
        while self.sent:
            self.perform_next(refusal)

    def perform_next(self, refusal: Refusal | None = None) -> Operation:
        """Perform what was sent first."""
        operation, answer = self.sent.pop(0)
        answer(refusal or self.zookeeper.perform(self.session, operation))
        return operation

    def load(self, store: GroupStore, epoch: int) -> Mapping[str, StoredClassicGroup] | None:
        """What a store reads."""
        loaded: list[Mapping[str, StoredClassicGroup] | None] = []
        store.load(epoch, loaded.append)
        self.perform()
        (groups,) = loaded
        return groups


def elected() -> tuple[Service, ZooKeeperGroupStore]:
    """A store that was loaded in the first epoch."""
    service = Service()
    store = ZooKeeperGroupStore(service.submit)
    service.elect()
    assert service.load(store, 1) == {}
    return service, store


def writes_of(operation: Operation) -> int:
    """How much a transaction does, once the epoch is checked."""
    assert isinstance(operation, Multi)
    return len(operation.operations) - 1


def commit(group: str = "orders", offset: int = 1) -> StoreGroup:
    """An offset is to be stored."""
    return StoreGroup(token=1, group=group, offsets={("t", 0): StoredCommit(offset=offset)})


@given(CHANGES, st.booleans())
def test_zookeeper_has_what_memory_would_have(changes: list[StoreGroup], one_by_one: bool) -> None:
    """Whether changes wait for each other or not; another store reads it."""
    service, store = elected()
    memory = MemoryGroupStore()
    written: list[WriteOutcome] = []
    for change in changes:
        memory.write(change, lambda _: None)
        store.write(change, written.append)
        if one_by_one:
            service.perform()
    service.perform()

    found = service.load(ZooKeeperGroupStore(service.submit), 1)

    assert written == [WriteOutcome.DONE] * len(changes)
    assert found is not None
    # Of a group without anything to store, memory keeps nothing, and ZooKeeper its empty node.
    assert {
        name: group for name, group in found.items() if group != StoredClassicGroup()
    } == memory.groups


def test_a_coordinator_that_is_deposed_writes_nothing() -> None:
    """It is told so, and the next one reads what it had written before."""
    service, first = elected()
    told: list[WriteOutcome] = []
    first.write(commit(offset=1), told.append)
    service.perform()
    service.elect()
    second = ZooKeeperGroupStore(service.submit)
    service.load(second, 2)

    first.write(commit(offset=2), told.append)
    service.perform()

    assert told == [WriteOutcome.DONE, WriteOutcome.FENCED]
    found = service.load(second, 2)
    assert found is not None
    assert found["orders"].offsets == {("t", 0): StoredCommit(offset=1)}


def test_who_hears_no_answer_is_in_doubt() -> None:
    """And cannot load."""
    service, store = elected()
    told: list[WriteOutcome] = []
    loaded: list[Mapping[str, StoredClassicGroup] | None] = []

    store.write(commit(), told.append)
    service.perform(Refusal(Why.CONNECTION_LOSS))
    store.load(1, loaded.append)
    service.perform(Refusal(Why.SESSION_EXPIRED))

    assert told == [WriteOutcome.DOUBTFUL]
    assert loaded == [None]


def test_what_is_too_large_is_refused_in_its_turn_and_does_not_harm() -> None:
    """Kafka has such a limit, too: that of a record."""
    service, store = elected()
    told: list[str] = []
    large = StoreGroup(
        token=2, group="orders", offsets={("t", 1): StoredCommit(offset=1, metadata="x" * 10**6)}
    )

    store.write(commit(), lambda written: told.append(f"first {written.value}"))
    store.write(large, lambda written: told.append(f"second {written.value}"))
    assert told == []
    service.perform()
    store.write(commit(offset=2), lambda written: told.append(f"third {written.value}"))
    service.perform()

    assert told == ["first done", "second refused", "third done"]


def test_what_comes_while_a_change_is_under_way_is_sent_together() -> None:
    """Commits of many cost one transaction, in their order; what is too large for one waits on."""
    service, store = elected()
    told: list[WriteOutcome] = []

    for offset in range(1, 6):
        store.write(commit(offset=offset), told.append)
    first, second = service.perform_next(), service.perform_next()

    assert not service.sent
    assert (writes_of(first), writes_of(second)) == (3, 4)
    assert told == [WriteOutcome.DONE] * 5
    (group,) = (service.load(store, 1) or {}).values()
    assert group.offsets["t", 0].offset == 5


def test_no_transaction_is_larger_than_one_may_be() -> None:
    """What waits is sent in as many as it takes."""
    service = Service()
    store = ZooKeeperGroupStore(service.submit, max_transaction_bytes=1_000)
    service.elect()
    service.load(store, 1)
    told: list[WriteOutcome] = []

    for offset in range(20):
        store.write(commit(offset=offset), told.append)
    sizes = []
    while service.sent:
        sizes.append(writes_of(service.perform_next()))

    assert sum(sizes) == 22  # the group's node, the topic's, and the offset each time
    assert 1 < max(sizes) < 10
    assert told == [WriteOutcome.DONE] * 20


def test_a_large_group_is_deleted_in_parts_its_own_node_last() -> None:
    """Should the coordinator be deposed in between, it is a group without some of its offsets."""
    service, store = elected()
    for at in range(0, 2_400, 400):
        offsets = {("t", n): StoredCommit(offset=1) for n in range(at, at + 400)}
        store.write(StoreGroup(token=1, group="orders", offsets=offsets), lambda _: None)
    service.perform()
    told: list[WriteOutcome] = []

    store.write(StoreGroup(token=2, group="orders", is_deleted=True), told.append)

    parts = []
    while service.sent:
        assert not told
        parts.append(service.perform_next())
    assert len(parts) == 3
    assert all(isinstance(each, Multi) for each in parts)
    assert told == [WriteOutcome.DONE]
    assert service.load(store, 1) == {}


def test_what_was_sent_before_is_not_told_to_who_loads_anew() -> None:
    """Even in the same epoch."""
    service, store = elected()
    told: list[WriteOutcome] = []
    store.write(commit(), told.append)

    found = service.load(store, 1)

    assert told == []
    assert found is not None
    assert list(found) == ["orders"]


@pytest.mark.parametrize("group", ["", "%", "a/b", ".."])
def test_any_name_is_a_node_of_its_own(group: str) -> None:
    """A group may be called anything, or nothing."""
    service, store = elected()
    store.write(commit(group), lambda _: None)
    service.perform()

    assert list(service.load(store, 1) or ()) == [group]
