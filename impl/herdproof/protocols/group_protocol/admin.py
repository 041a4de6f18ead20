"""
Groups of the group protocol, for operators: as brokers have stored them, and reset when idle.

A broker that coordinates has all groups in its memory, and answers from there. So while one does,
it is asked for changes, as Kafka's own tools would. Without one, a change is one transaction, or
several where one cannot hold it all, that ZooKeeper refuses if a coordinator was elected meanwhile,
or if somebody else has changed the group.

Source: *ours*.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as OffsetOf

from herdproof.consuming.assignment import Partition
from herdproof.consuming.consumer_protocol import read_subscription
from herdproof.consuming.fetching.watermarks import administrator
from herdproof.consuming.stored_groups import (
    AskAll,
    GroupChanged,
    NodeReader,
    NoSuchGroup,
    NotAnswered,
    Write,
    in_order,
    read_json,
    refused,
    require_empty,
    split,
    topics_in_words,
)
from herdproof.errors import HerdError, Malformed
from herdproof.protocols.election.elector import read_leader
from herdproof.protocols.group_protocol.coordinator.stored import group_from
from herdproof.protocols.group_protocol.effects import StoredCommit, TopicPartition
from herdproof.protocols.group_protocol.server.standing import PATHS, REGISTRATIONS
from herdproof.protocols.group_protocol.stores.zookeeper import GroupPaths, read_groups
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Create,
    Data,
    Delete,
    Done,
    Multi,
    Set,
)

PATIENCE_S = 10.0
"""Longest time that a broker may take to answer."""


CHANGED = frozenset({
    KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_ID_NOT_FOUND,
})  # fmt: skip
"""Errors by which a coordinator refuses a group that has members, or is no more."""


class GroupTool(Protocol):
    """Who asks the coordinator at an address to change a group without members."""

    def reset_offsets(self, at: str, group: str, offsets: Mapping[Partition, int]) -> None:
        """Have these committed; raises `GroupChanged` or `NotAnswered`."""

    def delete(self, at: str, group: str) -> None:
        """Have it deleted; raises `GroupChanged` or `NotAnswered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredByBrokers:
    """A group as its nodes were while they were read."""

    name: str
    members: Mapping[str, str]
    """The subscription of each member, as its node has it: in Base64."""
    subscriptions: Mapping[str, str]
    owner_names: Mapping[Partition, str]
    offsets: Mapping[Partition, int]
    counts: Mapping[str, int]
    versions: Mapping[str, int] = field(repr=False)
    """Of the group's own node, and of its offsets' nodes."""

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of which anything is known, in order."""
        return sorted({*self.owner_names, *self.offsets}, key=in_order)


class GroupProtocolGroups(NodeReader):
    """The groups that brokers have stored."""

    def __init__(self, ask_all: AskAll, coordinator: GroupTool, paths: GroupPaths = PATHS) -> None:
        super().__init__(ask_all)
        self._coordinator = coordinator
        self.paths = paths
        self.root = paths.groups

    def names(self) -> list[str]:
        """The groups that there are, sorted."""
        return sorted(map(self.paths.named, self.children(self.root)))

    def read(self, group: str) -> StoredByBrokers:
        """A group; raises `NoSuchGroup` or `NotAnswered`."""
        return self.glance(group)

    def glance(self, group: str) -> StoredByBrokers:
        """A group as its nodes were while they were read."""
        nodes = self._nodes(group)
        try:
            [stored] = read_groups(self.paths, {p: d.data for p, d in nodes.items()}).values()
        except (msgspec.DecodeError, ValueError) as problem:
            raise NotAnswered(
                f"What stands at {self.paths.group(group)} is none of ours ({problem}): who wrote "
                f"it?"
            ) from None
        found = group_from(group, stored, now_ms=0)
        wishes = {m.member_id: m.metadata(found.protocol) for m in found.members.values()}
        return StoredByBrokers(
            name=group,
            members={member: base64.b64encode(wish).decode() for member, wish in wishes.items()},
            subscriptions={member: in_words(wish) for member, wish in wishes.items()},
            owner_names={_named(where): owner for where, owner in found.owners.items()},
            offsets={_named(where): commit.offset for where, commit in found.offsets.items()},
            counts={"generation": found.generation},
            versions={path: data.stat.version for path, data in nodes.items()},
        )

    def reset_offsets(self, group: StoredByBrokers, offsets: Mapping[Partition, int]) -> None:
        """Store these instead, if nobody is a member; by whoever coordinates, if one does."""
        require_empty(group)
        if at := self._leader():
            self._coordinator.reset_offsets(at, group.name, offsets)
            return
        now_ms = time.time_ns() // 1_000_000
        topics = sorted({self.paths.topic(group.name, topic) for topic, _ in offsets})
        stand = zip(topics, self.stands(*topics), strict=True)
        writes: list[Write] = [Create(path) for path, stands in stand if not stands]
        for topic, number in sorted(offsets, key=in_order):
            path = self.paths.offset(group.name, (topic, int(number)))
            commit = StoredCommit(offset=offsets[topic, number], committed_ms=now_ms)
            data, version = msgspec.json.encode(commit), group.versions.get(path)
            writes.append(Create(path, data) if version is None else Set(path, data, version))
        self._write(group, writes)

    def delete(self, group: StoredByBrokers) -> None:
        """Delete the group and its offsets, if nobody is a member; likewise."""
        require_empty(group)
        if at := self._leader():
            self._coordinator.delete(at, group.name)
            return
        self._write(group, [Delete(path) for path in self.tree(self.paths.group(group.name))])

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _nodes(self, group: str) -> dict[str, Data]:
        """The group's own node, and those of its offsets, by path."""
        path = self.paths.group(group)
        [own] = self.data([path])
        if own is None:
            raise NoSuchGroup(f"No broker has stored a group {group!r}.")

        def offset(partition: Partition) -> str:
            topic, number = partition
            return f"{self.paths.topic(group, topic)}/{number}"

        offsets = self.leaves(path, offset, unquoted)
        return {path: own, **{offset(partition): data for partition, data in offsets.items()}}

    def _write(self, group: StoredByBrokers, writes: Sequence[Write]) -> None:
        """Do writes, in as many transactions as it takes, as long as nobody is elected."""
        [epoch] = self.data([self.paths.election.epoch])
        if self._leader():  # from here on, an election is a new epoch
            raise GroupChanged(
                f"A broker has been elected while {group.name!r} was looked at (nothing was done): "
                f"look again."
            )
        elected = Check(self.paths.election.epoch, epoch.stat.version if epoch else ANY_VERSION)
        own = self.paths.group(group.name)
        same = Check(own, group.versions[own])
        parts = list(split(writes))
        for number, part in enumerate(parts):
            [answer] = self.ask_all([Multi((elected, same, *part))])
            if not isinstance(answer, Done):
                raise refused(group, answer, number, len(parts))

    def _leader(self) -> str:
        """The address of the broker that coordinates; empty where none does."""
        [leader] = self.data([self.paths.election.leader])
        if leader is None:
            return ""
        broker, _ = read_leader(leader.data)
        path = f"{REGISTRATIONS}/{broker}"
        [found] = self.data([path])
        if found is None:
            raise NotAnswered(
                f"Broker {broker or '?'} coordinates, and has not said where: look again in a "
                f"moment."
            )
        told = read_json(path, found.data)
        return f"{told.get('host')}:{told.get('port')}"


class AtCoordinator:
    """A broker that coordinates, asked by Kafka's wire; `settings` are those of Kafka's client."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def reset_offsets(self, at: str, group: str, offsets: Mapping[Partition, int]) -> None:
        """Have these committed; raises `GroupChanged` or `NotAnswered`."""
        wanted = [OffsetOf(t, int(number), offset) for (t, number), offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, wanted)
        admin = administrator(at, self._settings)
        futures = admin.alter_consumer_group_offsets([asked], request_timeout=PATIENCE_S)
        done = self._outcome(at, group, futures[group])
        for each in done.topic_partitions:
            if each.error is not None:
                raise self._refused(at, group, each.error)

    def delete(self, at: str, group: str) -> None:
        """Have it deleted; raises `GroupChanged` or `NotAnswered`."""
        admin = administrator(at, self._settings)  # which has to live until it has the answer
        futures = admin.delete_consumer_groups([group], request_timeout=PATIENCE_S)
        self._outcome(at, group, futures[group])

    def _outcome(self, at: str, group: str, future: Future[Any]) -> Any:
        try:
            return future.result(PATIENCE_S + 1)
        except KafkaException as problem:
            raise self._refused(at, group, problem.args[0]) from None
        except TimeoutError:
            raise NotAnswered(
                f"The coordinator at {at} gave no answer about {group!r}: nobody knows whether it "
                f"was done. Describe the group, and try again."
            ) from None

    def _refused(self, at: str, group: str, error: KafkaError) -> HerdError:
        if error.code() in CHANGED:
            return GroupChanged(
                f"The coordinator at {at} refuses to change {group!r} ({error.str()}): somebody "
                f"has joined it, or has deleted it. Look again."
            )
        return NotAnswered(
            f"The coordinator at {at} did not change {group!r}: {error.str()}. If it asks for TLS "
            f"or SASL, say how by --kafka, and describe the group before you try again."
        )


def _named(where: TopicPartition) -> Partition:
    """A partition as all protocols' groups name it."""
    return where[0], str(where[1])


def in_words(subscription: bytes) -> str:
    """
    A member's own words, in words; how many bytes they are, if they are no consumer's.

    >>> from herdproof.consuming.consumer_protocol import write_subscription
    >>> in_words(write_subscription(["orders", "payments"])), in_words(b"?")
    ('orders, payments', '1 byte')
    """
    try:
        topics = read_subscription(subscription)["topics"]
    except Malformed:
        return f"{len(subscription)} byte{'' if len(subscription) == 1 else 's'}"
    return topics_in_words((topic, 1) for topic in sorted(topics))
