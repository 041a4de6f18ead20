"""
A group as ZooKeeper has it, read from outside: by operators, and by tests.

A coordinator reads the same nodes piece by piece (`recovery.py`); here a group is read whole, as it
was at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.stored_groups import (
    AskAll,
    NodeReader,
    NoSuchGroup,
    in_order,
    pattern_in_words,
    read_json,
    topics_in_words,
)
from herdproof.consuming.subscription import InvalidSubscription, Named, Wildcard, parse
from herdproof.errors import WorldError
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import read_owner
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import (
    Data,
)

PATHS = Paths()

LOOKS = 3
"""Number of times that a group is read that is changed while it is read."""


class GroupRestless(WorldError):
    """A group was changed every time that it was read."""


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
    registers: Sequence[str] = field(repr=False)
    """The nodes that stand below which members register, of this protocol or another one."""
    offset_versions: Mapping[Partition, int] = field(repr=False)
    """Of the offsets' nodes."""

    @property
    def subscriptions(self) -> Mapping[str, str]:
        """The subscription of each member, in words."""
        return {consumer: in_words(text) for consumer, text in self.members.items()}

    @property
    def owner_names(self) -> Mapping[Partition, str]:
        """The consumer of each partition."""
        return {partition: owner.consumer_id for partition, owner in self.owners.items()}

    @property
    def counts(self) -> Mapping[str, int]:
        """Generation and epoch."""
        return {"generation": self.generation, "epoch": self.epoch}

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of which anything is known, in order."""
        return sorted({*self.owners, *self.offsets}, key=in_order)


class StoredGroups(NodeReader):
    """The groups of a cluster."""

    def __init__(self, ask_all: AskAll, paths: Paths = PATHS) -> None:
        super().__init__(ask_all)
        self.paths = paths

    def names(self) -> list[str]:
        """The groups that there are, sorted."""
        return sorted(map(unquoted, self.children(self.paths.groups)))

    def glance(self, group: str) -> StoredGroup:
        """A group as its nodes were while they were read: a glance, not a moment."""
        return self._read(group)

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

    def _read(self, group: str) -> StoredGroup:
        """Read everything of a group once."""
        paths = self.paths
        point = self._commit_point(group)
        said = read_json(paths.group(group), point.data)
        above = paths.subscriptions(group)
        registers = [path for path in (above, paths.ids(group)) if self.stands(path) == [True]]
        consumers = list(map(unquoted, self.children(above)))
        nodes = [paths.subscription(group, consumer) for consumer in consumers]
        subscriptions = zip(consumers, self.data(nodes), strict=True)
        owners = self._leaves(paths.owners(group), paths.owner, group)
        offsets = self._leaves(paths.offsets(group), paths.offset, group)
        return StoredGroup(
            name=group,
            generation=said.get("generation", 0),
            epoch=said.get("epoch", 0),
            members={c: data.data.decode(errors="replace") for c, data in subscriptions if data},
            owners={p: read_owner(data.data) for p, data in owners.items()},
            offsets={p: offset for p, d in offsets.items() if (offset := read_offset(d.data)) >= 0},
            commit_point=point,
            registers=registers,
            offset_versions={p: data.stat.version for p, data in offsets.items()},
        )

    def _leaves(
        self, top: str, path_of: Callable[[str, str, str], str], group: str
    ) -> dict[Partition, Data]:
        return self.leaves(top, lambda partition: path_of(group, *partition), unquoted)

    def _commit_point(self, group: str) -> Data:
        """The group's node."""
        [data] = self.data([self.paths.group(group)])
        if data is None:
            raise NoSuchGroup(
                f"There is no group {group!r}: `herdproof groups list` names those that there are."
            )
        return data


def in_words(topic_count: str) -> str:
    """
    A subscription as it is stored, in words; one that is none as it is.

    >>> in_words('{"orders": 1}'), in_words("!2!orders-.*"), in_words("?")
    ('orders', 'topics that do not match orders-.* (2 streams)', '?')
    """
    try:
        subscription = parse(topic_count)
    except InvalidSubscription:
        return topic_count
    match subscription:
        case Named(topics):
            return topics_in_words(topics)
        case Wildcard(regex, count, excluding):
            return pattern_in_words(regex, count, excluding=excluding)
