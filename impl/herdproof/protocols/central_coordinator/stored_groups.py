"""
A group as ZooKeeper has it, read from outside: by operators, and by tests.

A coordinator reads the same nodes piece by piece (`recovery.py`); here a group is read whole, as it
was at one moment.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.errors import CallerError, WorldError
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.recovery import read_owner
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Data,
    Exists,
    Found,
    Get,
    Names,
    Operation,
    Refusal,
    Why,
)

AskAll = Callable[[Sequence[Operation]], Sequence[Answer]]
"""Asks ZooKeeper, all at once or one by one; answers in the order of the operations."""

PATHS = Paths()

LOOKS = 3
"""How often a group is read that is changed while it is read."""


class NoSuchGroup(CallerError):
    """A group was named that ZooKeeper does not know."""


class GroupRestless(WorldError):
    """A group was changed every time that it was read."""


class NotAnswered(WorldError):
    """ZooKeeper did not answer, or nothing that makes sense."""


class UnknownTopic(CallerError):
    """A topic that Kafka does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A group at one moment."""

    name: str
    generation: int
    epoch: int
    members: Mapping[str, str]
    """The topic_count of each consumer that has registered and is not known to be gone."""
    owners: Mapping[Partition, Owner]
    """Of a group without members: who owned what at last."""
    offsets: Mapping[Partition, int]
    commit_point: Data = field(repr=False)
    has_subscriptions: bool = field(repr=False)
    """Whether the node above the subscriptions stands."""
    offset_versions: Mapping[Partition, int] = field(repr=False)
    """Of the offsets' nodes."""

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of which anything is known, in order."""
        return sorted({*self.owners, *self.offsets}, key=in_order)


def in_order(partition: Partition) -> tuple[str, int, str]:
    """The key to sort partitions by: by topic, then as numbers where they are numbers."""
    topic, number = partition
    return (topic, int(number) if number.isdecimal() else -1, number)


class StoredGroups:
    """The groups of a cluster; `ask_all` is a session with its ZooKeeper."""

    def __init__(self, ask_all: AskAll, paths: Paths = PATHS) -> None:
        self.ask_all = ask_all
        self.paths = paths

    def names(self) -> list[str]:
        """The groups that there are, sorted."""
        return sorted(map(unquoted, self.children(self.paths.groups)))

    def glance_at_all(self) -> list[StoredGroup]:
        """Every group, each as its nodes were while they were read: a glance, not a moment."""
        found = []
        for name in self.names():
            with contextlib.suppress(NoSuchGroup):  # deleted between two looks
                found.append(self._read(name))
        return found

    def read(self, group: str) -> StoredGroup:
        """
        A group as it was at one moment; raises `NoSuchGroup`, `GroupRestless` or `NotAnswered`.

        The commit point is read before all else and after it: a generation that began in between is
        seen, and everything is read again.
        """
        for _ in range(LOOKS):
            found = self._read(group)
            if self._commit_point(group) == found.commit_point:
                return found
        raise GroupRestless(f"The group {group!r} is being rebalanced: look again in a moment.")

    def partitions_of(self, topic: str) -> list[str]:
        """The partitions that Kafka says a topic has, in order; raises `UnknownTopic`."""
        path = self.paths.topic(topic)
        [data] = self._data([path])
        if data is None:
            raise UnknownTopic(f"Kafka has no topic {topic!r}: check its name.")
        return sorted(read_json(path, data.data).get("partitions", {}), key=int)

    def children(self, *paths: str) -> list[str]:
        """The paths of the nodes below these, as one list; none below what does not stand."""
        answers = self.ask_all([Children(path) for path in paths])
        return [
            name
            for path, answer in zip(paths, answers, strict=True)
            for name in names_of(path, answer)
        ]

    def _read(self, group: str) -> StoredGroup:
        """Read everything of a group once."""
        paths = self.paths
        point = self._commit_point(group)
        said = read_json(paths.group(group), point.data)
        above = paths.subscriptions(group)
        [stands] = self.ask_all([Exists(above)])
        consumers = list(map(unquoted, self.children(above)))
        nodes = [paths.subscription(group, consumer) for consumer in consumers]
        subscriptions = zip(consumers, self._data(nodes), strict=True)
        owners = self._leaves(paths.owners(group), lambda p: paths.owner(group, *p))
        offsets = self._leaves(paths.offsets(group), lambda p: paths.offset(group, *p))
        return StoredGroup(
            name=group,
            generation=said.get("generation", 0),
            epoch=said.get("epoch", 0),
            members={c: data.data.decode(errors="replace") for c, data in subscriptions if data},
            owners={p: read_owner(data.data) for p, data in owners.items()},
            offsets={p: offset for p, d in offsets.items() if (offset := read_offset(d.data)) >= 0},
            commit_point=point,
            has_subscriptions=isinstance(stands, Found) and stands.stat is not None,
            offset_versions={p: data.stat.version for p, data in offsets.items()},
        )

    def _commit_point(self, group: str) -> Data:
        """The group's node."""
        [data] = self._data([self.paths.group(group)])
        if data is None:
            raise NoSuchGroup(
                f"There is no group {group!r}: `herdproof groups list` names those that there are."
            )
        return data

    def _leaves(self, top: str, path_of: Callable[[Partition], str]) -> dict[Partition, Data]:
        """What stands of each partition, two levels below `top`."""
        topics = self.children(top)
        below = self.ask_all([Children(f"{top}/{topic}") for topic in topics])
        found = [
            (unquoted(topic), unquoted(partition))
            for topic, answer in zip(topics, below, strict=True)
            for partition in names_of(f"{top}/{topic}", answer)
        ]
        data = self._data([path_of(partition) for partition in found])
        return {p: d for p, d in zip(found, data, strict=True) if d is not None}

    def _data(self, paths: Sequence[str]) -> list[Data | None]:
        """The data of each node; None where none stands."""
        answers = self.ask_all([Get(path) for path in paths])
        return [data_of(path, answer) for path, answer in zip(paths, answers, strict=True)]


def names_of(path: str, answer: Answer) -> Sequence[str]:
    """The children that an answer names; none where the node does not stand."""
    if isinstance(answer, Names):
        return answer.names
    if answer == Refusal(Why.NO_NODE):
        return ()
    raise unanswered(path, answer)


def data_of(path: str, answer: Answer) -> Data | None:
    """The data that an answer has; None where the node does not stand."""
    if isinstance(answer, Data):
        return answer
    if answer == Refusal(Why.NO_NODE):
        return None
    raise unanswered(path, answer)


def unanswered(path: str, answer: Answer) -> NotAnswered:
    """What to say of an answer that is none."""
    why = answer.why.value if isinstance(answer, Refusal) else str(answer)
    return NotAnswered(
        f"ZooKeeper did not tell what stands at {path} ({why}): check that most of its servers run."
    )


def read_json(path: str, data: bytes) -> dict[str, Any]:
    """The object that a node's data is; raises `NotAnswered`."""
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise NotAnswered(f"{path} holds {data[:80]!r}, which is none of ours: who wrote it?")
    return said
