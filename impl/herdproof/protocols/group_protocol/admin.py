"""
Groups of the group protocol, for operators: as brokers have stored them, and reset when idle.

A broker that coordinates has all groups in its memory, and answers from there. So nothing is
changed in ZooKeeper while one does: Kafka's own `kafka-consumer-groups` resets and deletes at that
broker. Without one, a change is one transaction, or several where one cannot hold it all, that
ZooKeeper refuses if a coordinator was elected meanwhile, or if somebody else has changed the group.

Source: *ours*.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from herdproof.consuming.assignment import Partition
from herdproof.consuming.consumer_protocol import read_subscription
from herdproof.consuming.stored_groups import (
    AskAll,
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
from herdproof.errors import CallerError, Malformed
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


class CoordinatorRuns(CallerError):
    """Refusal to change what a broker that coordinates has in its memory."""


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

    def __init__(self, ask_all: AskAll, paths: GroupPaths = PATHS) -> None:
        super().__init__(ask_all)
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
        """Store these instead, if nobody is a member, and no broker coordinates."""
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
        """Delete the group and its offsets, if nobody is a member, and no broker coordinates."""
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
        require_empty(group)
        [epoch] = self.data([self.paths.election.epoch])
        self._require_nobody_leads()  # from here on: an election is a new epoch
        elected = Check(self.paths.election.epoch, epoch.stat.version if epoch else ANY_VERSION)
        own = self.paths.group(group.name)
        same = Check(own, group.versions[own])
        parts = list(split(writes))
        for number, part in enumerate(parts):
            [answer] = self.ask_all([Multi((elected, same, *part))])
            if not isinstance(answer, Done):
                raise refused(group, answer, number, len(parts))

    def _require_nobody_leads(self) -> None:
        """Refuse to change what a coordinator would not read before it has written it anew."""
        [leader] = self.data([self.paths.election.leader])
        if leader is None:
            return
        broker, _ = read_leader(leader.data)
        path = f"{REGISTRATIONS}/{broker}"
        [found] = self.data([path])
        where = "" if found is None else " at {host}:{port}".format(**read_json(path, found.data))
        raise CoordinatorRuns(
            f"Broker {broker or '?'}{where} coordinates, and has all groups in its memory: change "
            f"them there, as by `kafka-consumer-groups --bootstrap-server …`, or stop all brokers "
            f"of this ZooKeeper first."
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
