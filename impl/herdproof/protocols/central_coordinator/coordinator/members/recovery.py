"""
Reading a group back from ZooKeeper: its generation, who owned what, and who its consumers were.

A new coordinator does not know who of a former one's consumers still fetches. Every owner that it
finds is taken for a registration that is gone, and whose lease began at this coordinator's own
election; every consumer that it finds is expected back for a while. A group is read again, without
that, when a write of its generation went unanswered.

Source: `002` (coordinatorStartup, steps 2 and 2.1), PROTOCOLS.md, rulings 2 and "partial failover".
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from herdproof.consuming.subscription import (
    InvalidSubscription,
    Subscription,
    parse,
)
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, LeaseHolder, Owner
from herdproof.protocols.central_coordinator.coordinator.outbox import Then, ignore
from herdproof.protocols.central_coordinator.reports import What
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Data,
    Get,
    Names,
    Operation,
    Refusal,
    Sync,
    Why,
)

Loaded = Callable[[Group, bool], None]
"""Told that a group was read, or (False) that it could not be."""


class Recovery(CorePart):
    """Reads groups, not too many at once; `loaded` is told of each."""

    def __init__(self, context: Context, loaded: Loaded) -> None:
        super().__init__(context)
        self.queue: OrderedDict[str, Group] = OrderedDict()
        """By name, groups that wait for others to be read, in order."""
        self.under_way: set[str] = set()
        self._failed: set[str] = set()
        self._store = context.store
        self._loaded = loaded

    def load(self, group: Group) -> None:
        """Read a group, unless it is being read."""
        if group.name in self.under_way:
            return
        self.queue[group.name] = group  # where it stands, if it waits already
        self._go_on()

    def has_room(self) -> bool:
        """True if one more group would be read at once."""
        return not self.queue and len(self.under_way) < self._settings.max_loads

    def clear(self) -> None:
        """Nothing is being read any more."""
        self.queue.clear()
        self.under_way.clear()
        self._failed.clear()

    def _go_on(self) -> None:
        while self.queue and len(self.under_way) < self._settings.max_loads:
            name, group = self.queue.popitem(last=False)
            self.under_way.add(name)
            self._failed.discard(name)
            self._read(group)

    def _read(self, group: Group) -> None:
        """Ask for all that is kept of a group; what stands there is learned anew."""
        if group.recovered:  # a write is in doubt: the server read from must not lag behind it
            self._ask(group, Sync(self._paths.group(group.name)), ignore)
        self._store.forget(group.name)
        group.owners, group.shares = {}, None
        if not group.recovered:
            group.expected = {}
        self._ask(group, Get(self._paths.group(group.name)), partial(self._point_read, group))
        path = self._paths.subscriptions(group.name)
        self._ask(group, Children(path), partial(self._subscriptions_listed, group))
        self._ask(
            group, Children(self._paths.owners(group.name)), partial(self._topics_listed, group)
        )

    def _ask(self, group: Group, operation: Operation, then: Then) -> None:
        group.loading += 1
        self._outbox.ask(operation, partial(self._answered, group, operation, then))

    def _answered(self, group: Group, operation: Operation, then: Then, answer: Answer) -> None:
        """One read was answered; what is not there is as good an answer."""
        if not isinstance(answer, Refusal):
            if isinstance(operation, Get | Children):
                self._store.stands(group.name, operation.path)
            then(answer)
        elif answer.why is not Why.NO_NODE:
            self._outbox.report(
                What.ZOOKEEPER_TROUBLE, group.name, task="read", why=answer.why.value
            )
            self._failed.add(group.name)
        group.loading -= 1
        if not group.loading:
            self.under_way.discard(group.name)
            self._loaded(group, group.name not in self._failed)
            self._go_on()

    # ── What it consists of ─────────────────────────────────────────────────────────────────

    def _point_read(self, group: Group, answer: Answer) -> None:
        """The group's commit point has been read."""
        assert isinstance(answer, Data)
        self._store.versions[self._paths.group(group.name)] = answer.stat.version
        group.modified_ms = answer.stat.modified_ms
        generation, group.session_timeout_ms = read_point(answer.data)
        group.generation = max(group.generation, generation)

    def _subscriptions_listed(self, group: Group, answer: Answer) -> None:
        assert isinstance(answer, Names)
        for name in answer.names:
            consumer_id = unquoted(name)
            path = self._paths.subscription(group.name, consumer_id)
            self._ask(group, Get(path), partial(self._subscription_read, group, consumer_id))

    def _subscription_read(self, group: Group, consumer_id: str, answer: Answer) -> None:
        assert isinstance(answer, Data)
        if not group.recovered:
            group.expected[consumer_id] = read_subscription(answer.data)

    def _topics_listed(self, group: Group, answer: Answer) -> None:
        assert isinstance(answer, Names)
        for topic in map(unquoted, answer.names):
            path = self._paths.owners_of(group.name, topic)
            self._ask(group, Children(path), partial(self._partitions_listed, group, topic))

    def _partitions_listed(self, group: Group, topic: str, answer: Answer) -> None:
        assert isinstance(answer, Names)
        for partition in map(unquoted, answer.names):
            path = self._paths.owner(group.name, topic, partition)
            self._ask(group, Get(path), partial(self._owner_read, group, topic, partition))

    def _owner_read(self, group: Group, topic: str, partition: str, answer: Answer) -> None:
        """An owner; one whose node is ephemeral is another protocol's, and leaves with its node."""
        assert isinstance(answer, Data)
        if answer.stat.ephemeral_owner:
            return
        group.owners[topic, partition] = read_owner(answer.data)
        group.shares = None


def ghosts_of(group: Group, until_ms: int) -> dict[str, LeaseHolder]:
    """The owners that ZooKeeper names, as registrations that are gone and may fetch until then."""
    owners = dict.fromkeys(group.owners.values())  # each once, in an order that is always the same
    return {
        owner.registration: LeaseHolder(owner.registration, owner.consumer_id, until_ms)
        for owner in owners
    }


def point_data(generation: int, epoch: int, parts: int, session_timeout_ms: int) -> bytes:
    """The data of a group's commit point; the last is the longest of its owners' leases."""
    return json.dumps(
        {
            "generation": generation,
            "epoch": epoch,
            "owners_parts": parts,
            "session_timeout_ms": session_timeout_ms,
        }
    ).encode()


def read_point(data: bytes) -> tuple[int, int]:
    """
    The generation and the longest lease (ms) of a commit point; 0 for what it does not say.

    >>> read_point(point_data(7, 3, 1, 10_000)), read_point(b"")
    ((7, 10000), (0, 0))
    """
    try:
        said = json.loads(data)
        return _natural(said["generation"]), _natural(said.get("session_timeout_ms", 0))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return 0, 0


def _natural(said: object) -> int:
    """A number out of a node; `ValueError` if it is none that this coordinator writes."""
    if not isinstance(said, int) or said < 0:
        raise ValueError(said)
    return said


def owner_data(owner: Owner, generation: int) -> bytes:
    """The data of a partition's owner's node."""
    return json.dumps(
        {
            "consumer": owner.consumer_id,
            "member": owner.registration,
            "generation": generation,
        }
    ).encode()


def read_owner(data: bytes) -> Owner:
    """
    Who owns a partition by its node's data; what Kafka 0.8 wrote there is a consumer thread's id.

    >>> read_owner(owner_data(Owner("c1", "3-1"), 7)), read_owner(b"c1-0").consumer_id
    (Owner(consumer_id='c1', registration='3-1'), 'c1-0')
    """
    try:
        said = json.loads(data)
        consumer, registration = said["consumer"], said["member"]
        if isinstance(consumer, str) and isinstance(registration, str) and registration:
            return Owner(consumer, registration)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    text = data.decode("utf-8", "replace")
    return Owner(text, f"foreign {text}")


def read_subscription(data: bytes) -> Subscription | None:
    """The subscription that a consumer's node keeps; None if it cannot be understood."""
    try:
        return parse(data.decode())
    except (InvalidSubscription, UnicodeDecodeError):
        return None
