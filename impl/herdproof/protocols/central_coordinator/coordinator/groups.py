"""
Groups as a coordinator knows them: members, who is gone but may still fetch, and interests.

A member is a registration: a consumer over one connection. Two with one consumer id are two
members, and a consumer that reconnects is another member than before, whose lease has to end.

Source: `002` (consumerGroupsPerTopic, groupsWithWildcardTopics), PROTOCOLS.md, rulings 2, 5 and 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from herdproof.consuming.assignment import Partition, Share
from herdproof.consuming.offsets import Offset
from herdproof.consuming.subscription import Named, Subscription
from herdproof.protocols.central_coordinator.steps import CoordinationStep, CoordinatorAction
from herdproof.protocols.central_coordinator.wire.messages import Brought


class Phase(Enum):
    """Stages of a group's rebalance; all but IDLE: its flag in groupsBeingRebalanced is set."""

    IDLE = "idle"
    QUEUED = "queued"
    """In its handler's queue."""
    WAITING = "waiting"
    """For the group to be read, for known consumers to reconnect, for leases to end."""
    STOPPING = "stopping"
    """Stops are sent, and not all of them answered."""
    FLUSHING = "flushing"
    """Every member has stopped; the offsets are being written."""
    WRITING = "writing"
    """Generation and owners are being written."""
    STARTING = "starting"
    """Starts are sent, and not all of them answered."""


NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.QUEUED}),
    Phase.QUEUED: frozenset({Phase.WAITING}),
    Phase.WAITING: frozenset({Phase.QUEUED, Phase.STOPPING, Phase.IDLE}),
    Phase.STOPPING: frozenset({Phase.FLUSHING}),
    Phase.FLUSHING: frozenset({Phase.WRITING, Phase.IDLE}),
    Phase.WRITING: frozenset({Phase.STARTING, Phase.IDLE}),
    Phase.STARTING: frozenset({Phase.IDLE}),
}
"""Which phase may follow which; docs/central_coordinator.md says when."""


@dataclass(slots=True, eq=False)
class Registered:
    """A live registration; times are in milliseconds."""

    registration: str
    """Unique for ever: the epoch, and a number within it."""
    channel: int
    group: str
    consumer_id: str
    topic_count: str
    subscription: Subscription
    auto_commit: bool
    ping_interval_ms: int
    max_ping_retries: int
    session_timeout_ms: int
    may_fetch: bool = False
    """A Start with partitions was sent to it, and no Stop answered since."""
    acked: int = 0
    """The generation whose Start it has acknowledged; 0 once it is sent a Stop."""
    connection: int = 0
    """The correlation id of its Register: its consumer knows the connection by that."""
    former: tuple[str, ...] = ()
    """Registrations of its consumer's process that have stopped for good, as that says."""
    brought: tuple[Brought, ...] = ()
    """Where some of those have stopped, until that is taken."""
    resumed: bool = False
    """It was a registration before, which goes on over this connection."""

    def patience_ms(self) -> int:
        """The longest wait for the answer to a Stop or a Start: as long as to fail its pings."""
        return min(self.ping_interval_ms * (self.max_ping_retries + 1), self.session_timeout_ms)

    def step(
        self, action: CoordinatorAction, generation: int = 0, partitions: tuple[Offset, ...] = (),
        outcome: str = "",
    ) -> CoordinationStep:  # fmt: skip
        """A step that concerns this member."""
        return CoordinationStep(
            action=action, group=self.group, generation=generation, consumer=self.consumer_id,
            member=self.registration, connection=self.connection, partitions=partitions,
            outcome=outcome,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A registration that is gone, but may fetch until its lease is over."""

    registration: str
    consumer_id: str
    until_ms: int


class Owner(Struct, frozen=True, gc=False):
    """Who owns a partition, by ZooKeeper."""

    consumer_id: str
    registration: str


class OwnersIndex:
    """Partitions of a group by the registration that owns them; all owners are known."""

    def __init__(self, owners: dict[Partition, Owner]) -> None:
        self.owners = owners
        self.of: dict[str, list[Partition]] = {}
        """By registration."""
        for partition, owner in owners.items():
            self.of.setdefault(owner.registration, []).append(partition)


@dataclass(slots=True, eq=False)
class Flag:
    """A group's entry in groupsBeingRebalanced: the flag, and whether anything changed since."""

    is_set: bool = False
    dirty: bool = False

    def compare_and_set(self) -> bool:
        """Set the flag if it is clear, and tell whether it was."""
        was_clear = not self.is_set
        self.is_set = True
        return was_clear

    def reset(self) -> bool:
        """Clear flag and dirty bit in one step, and tell whether the bit was set."""
        was_dirty = self.dirty
        self.is_set = self.dirty = False
        return was_dirty


@dataclass(slots=True, eq=False)
class Making:
    """A plan that is being made, or is done, for these members and the topics as they were."""

    members: tuple[str, ...]
    topics: int
    """Number of times that the topics had changed by then."""
    rest: Iterator[Share] | None
    """Shares that are still to be planned, topic by topic; None: it is done."""
    plan: dict[Partition, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class WithoutReader:
    """A time in which partitions of a group have no reader; see `availability.py`."""

    since_ms: int
    partitions: set[Partition]
    why: str
    """Cause that is in the way …"""
    why_ms: int
    """… and since when."""
    past_ms: dict[str, int] = field(default_factory=dict)
    """By what was in the way before, for how long."""


@dataclass(slots=True, eq=False)
class Group:
    """A group that has members, or has had some that are not known to be gone."""

    name: str
    phase: Phase = Phase.IDLE
    loaded: bool = False
    """True if what ZooKeeper keeps of it was read, and nothing of that is in doubt since."""
    loading: int = 0
    """The number of reads of it that are under way."""
    visited: bool = False
    """It was read because its turn had come, and not because somebody registered."""
    dated: bool = False
    """It was empty when it was read, and is being asked how long, or was."""
    recovered: bool = False
    """It was read once in this epoch: whom a former coordinator left behind is known."""

    # As ZooKeeper has it.
    generation: int = 0
    version: int | None = None
    """Of its commit point's node; None where that has not been read or written."""
    modified_ms: int = 0
    """When its commit point was last written, by ZooKeeper's clock; 0 where that is not known."""
    session_timeout_ms: int = 0
    """The longest among the owners that ZooKeeper names; 0 where it does not say."""
    owners: dict[Partition, Owner] = field(default_factory=dict)
    shares: OwnersIndex | None = None
    """Partitions by their owners, if anybody has asked for these."""

    # Who it is made of.
    members: dict[str, Registered] = field(default_factory=dict)
    """The live registrations, by their names."""
    joining: dict[int, Registered] = field(default_factory=dict)
    """The registrations that are not admitted yet, by channel."""
    ghosts: dict[str, LeaseHolder] = field(default_factory=dict)
    expected: dict[str, Subscription | None] = field(default_factory=dict)
    """Consumers that a former coordinator knew and that have not registered with this one."""

    # Its rebalance.
    waiting: set[str] = field(default_factory=set)
    """Of which registrations an answer to a Stop or a Start is waited for."""
    plan: dict[Partition, str] = field(default_factory=dict)
    """The registration that each partition is meant for, while STOPPING and later."""
    making: Making | None = None
    """The plan that is being made, or was last."""
    unread: int = 0
    """Number of partitions that the last plan gives to nobody: a Start would be too large."""
    began_ms: int = 0
    """When the rebalance was asked for; from STOPPING on, when the Stops were sent."""
    failures: int = 0
    """Number of rebalances that have failed in a row."""
    triggered_ms: int | None = None
    """When it was asked for what has not come to an end, over all attempts."""
    outage: WithoutReader | None = None

    def holds(self, consumer_id: str) -> bool:
        """True if any registration of this consumer id lives, joins, or may still fetch."""
        return (
            consumer_id in self.expected
            or any(m.consumer_id == consumer_id for m in self.members.values())
            or any(m.consumer_id == consumer_id for m in self.joining.values())
            or any(g.consumer_id == consumer_id for g in self.ghosts.values())
        )

    def step(self, action: CoordinatorAction, outcome: str = "") -> CoordinationStep:
        """A step that concerns this group, in its present generation."""
        return CoordinationStep(
            action=action, group=self.name, generation=self.generation, outcome=outcome
        )

    def is_closed(self) -> bool:
        """True if nobody is admitted, and no offset taken: its owners are being written."""
        return self.phase in (Phase.FLUSHING, Phase.WRITING)

    def owns(self, member: Registered, partition: Partition, generation: int) -> bool:
        """True if a member may say, of this generation, what is consumed of this partition."""
        owner = self.owners.get(partition)
        return (
            owner is not None
            and owner.registration == member.registration
            and generation == self.generation
            and not self.is_closed()
        )

    def share_of(self, registration: str) -> Sequence[Partition]:
        """The partitions that a registration owns, by ZooKeeper."""
        if self.shares is None or self.shares.owners is not self.owners:
            self.shares = OwnersIndex(self.owners)
        return self.shares.of.get(registration, ())

    def knows(self, registration: str, consumer_id: str, generation: int) -> bool:
        """
        True if a registration that consumes in this generation consumes what ZooKeeper says.

        In the present one each has been given what it owns. Who owns nothing may be any.
        """
        is_present = self.loaded and 0 < generation == self.generation
        share = self.share_of(registration) if is_present else ()
        return is_present and all(self.owners[p].consumer_id == consumer_id for p in share)

    def is_deserted(self) -> bool:
        """Nobody belongs to it, and nobody fetches any more."""
        return not (self.members or self.joining or self.ghosts or self.expected)


class Interests:
    """Which groups a topic concerns; follows every registration and removal."""

    def __init__(self) -> None:
        self.consumer_groups_per_topic: dict[str, dict[str, int]] = {}
        """For each topic that is named, whether it exists or not, the groups with a count."""
        self.groups_with_wildcard_topics: dict[str, Counter[Subscription]] = {}
        """For each group with wildcards, those wildcards with a count."""

    def follow(self, group: str, subscription: Subscription) -> None:
        """A member with this subscription has come."""
        if isinstance(subscription, Named):
            for topic, _ in subscription.topics:
                groups = self.consumer_groups_per_topic.setdefault(topic, {})
                groups[group] = groups.get(group, 0) + 1
        else:
            self.groups_with_wildcard_topics.setdefault(group, Counter())[subscription] += 1

    def unfollow(self, group: str, subscription: Subscription) -> None:
        """A member with this subscription has gone."""
        if isinstance(subscription, Named):
            for topic, _ in subscription.topics:
                groups = self.consumer_groups_per_topic[topic]
                groups[group] -= 1
                if not groups[group]:
                    del groups[group]
                if not groups:
                    del self.consumer_groups_per_topic[topic]
        else:
            wildcards = self.groups_with_wildcard_topics[group]
            wildcards[subscription] -= 1
            if not wildcards[subscription]:
                del wildcards[subscription]
            if not wildcards:
                del self.groups_with_wildcard_topics[group]

    def groups_of(self, topic: str, wants: Callable[[Subscription, str], bool]) -> Iterator[str]:
        """The groups that a change of this topic concerns, each once, by who `wants` it."""
        named = self.consumer_groups_per_topic.get(topic, {})
        yield from named
        for group, wildcards in self.groups_with_wildcard_topics.items():
            if group not in named and any(wants(each, topic) for each in wildcards):
                yield group

    def clear(self) -> None:
        """Nobody is interested in anything."""
        self.consumer_groups_per_topic.clear()
        self.groups_with_wildcard_topics.clear()
