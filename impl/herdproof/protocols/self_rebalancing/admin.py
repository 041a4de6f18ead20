"""
Groups that rebalance by themselves, for operators: as ZooKeeper has them, and reset when idle.

A reset is one transaction, or several where one cannot hold it all, that ZooKeeper refuses if
anybody has registered meanwhile, of this protocol or another one, or has stored an offset. What
counts the claims of a partition stays even if the group is deleted: so whoever comes back late is
refused still.

Source: *ours*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from herdproof.consuming.assignment import Partition
from herdproof.consuming.group_nodes import ROOT
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.stored_groups import (
    NodeReader,
    NoSuchGroup,
    Write,
    emptied,
    in_order,
    offset_writes,
    pattern_in_words,
    refused,
    require_empty,
    split,
    topics_in_words,
)
from herdproof.consuming.subscription import InvalidSubscription
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs, UnusableName, parents
from herdproof.protocols.self_rebalancing.registries.registrations import (
    BadRegistration,
    SubscriptionPattern,
    parsed,
)
from herdproof.zookeeper.operations import Create, Data, Delete, Done, Multi, Refusal, Why


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancingGroup:
    """A group as its nodes were while they were read."""

    name: str
    members: Mapping[str, str]
    owner_names: Mapping[Partition, str]
    offsets: Mapping[Partition, int]
    counts: Mapping[str, int] = field(default_factory=dict)
    registers: Sequence[str] = field(repr=False)
    """The nodes that stand below which members register, of this protocol or another one."""
    offset_versions: Mapping[Partition, int] = field(repr=False)

    @property
    def subscriptions(self) -> Mapping[str, str]:
        """The wishes of each member, in words."""
        return {consumer: in_words(text) for consumer, text in self.members.items()}

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of which anything is known, in order."""
        return sorted({*self.owner_names, *self.offsets}, key=in_order)


class RebalancingGroups(NodeReader):
    """The groups of a cluster whose members register below `ids`."""

    root = ROOT

    def names(self) -> list[str]:
        """The groups that there are, sorted."""
        names = sorted(self.children(self.root))
        stand = self.stands(*(GroupDirs(name).ids for name in names))
        return [name for name, stands in zip(names, stand, strict=True) if stands]

    def read(self, group: str) -> RebalancingGroup:
        """A group; raises `NoSuchGroup` or `NotAnswered`."""
        return self.glance(group)

    def glance(self, group: str) -> RebalancingGroup:
        """A group as its nodes were while they were read."""
        dirs = self._dirs(group)
        consumers = sorted(self.children(dirs.ids))
        wanted = zip(consumers, self.data([dirs.id(name) for name in consumers]), strict=True)
        offsets = self._leaves(dirs, "offsets")
        return RebalancingGroup(
            name=group,
            members={name: text(data) for name, data in wanted if data is not None},
            owner_names={
                partition: text(data).rpartition("-")[0]
                for partition, data in self._leaves(dirs, "owners").items()
                if data.stat.ephemeral_owner  # else another protocol has left it
            },
            offsets={p: offset for p, d in offsets.items() if (offset := read_offset(d.data)) >= 0},
            registers=[path for path in (dirs.ids, dirs.subscriptions) if all(self.stands(path))],
            offset_versions={partition: data.stat.version for partition, data in offsets.items()},
        )

    def reset_offsets(self, group: RebalancingGroup, offsets: Mapping[Partition, int]) -> None:
        """Store these instead, if nobody is a member, and no offset was stored meanwhile."""
        dirs = GroupDirs(group.name)
        writes = offset_writes(offsets, group.offset_versions, dirs.offset)
        self._make(node for write in writes for node in parents(write.path))
        self._write(group, writes)

    def delete(self, group: RebalancingGroup) -> None:
        """Delete the group and its offsets, if nobody is a member."""
        dirs = GroupDirs(group.name)
        above = dirs.ids.rpartition("/")[0]
        tops = (f"{above}/owners", f"{above}/offsets")
        self._write(group, [Delete(path) for top in tops for path in self.tree(top)])
        self.ask_all([Delete(dirs.ids), Delete(above)])  # unless somebody has come

    def _dirs(self, group: str) -> GroupDirs:
        try:
            dirs = GroupDirs(group)
        except UnusableName as problem:
            raise NoSuchGroup(str(problem)) from None
        if not all(self.stands(dirs.ids)):
            raise NoSuchGroup(f"There is no group {group!r} that rebalances by itself.")
        return dirs

    def _leaves(self, dirs: GroupDirs, what: str) -> dict[Partition, Data]:
        path = {"owners": dirs.owner, "offsets": dirs.offset}[what]
        return self.leaves(f"{dirs.ids.rpartition('/')[0]}/{what}", path)

    def _make(self, paths: Iterator[str]) -> None:
        for path in dict.fromkeys(paths):
            [answer] = self.ask_all([Create(path)])
            if isinstance(answer, Refusal) and answer.why is not Why.NODE_EXISTS:
                raise NoSuchGroup(f"{path} cannot be made: {answer.why.value}")

    def _write(self, group: RebalancingGroup, writes: Sequence[Write]) -> None:
        """Do writes, in as many transactions as it takes, as long as nobody registers."""
        require_empty(group)
        parts = list(split(writes))
        for number, part in enumerate(parts):
            [answer] = self.ask_all([Multi((*emptied(group.registers), *part))])
            if not isinstance(answer, Done):
                raise refused(group, answer, number, len(parts))


def text(data: Data) -> str:
    """A node's data as text, whatever it is."""
    return data.data.decode(errors="replace")


def in_words(registration: str) -> str:
    """A registration as it is written, in words; one that is none as it is."""
    try:
        wanted = parsed(registration.encode())
    except (BadRegistration, InvalidSubscription):
        return registration
    if not wanted.is_wildcard:
        return topics_in_words(wanted.subscription)
    [(regex, count)] = wanted.subscription
    excluding = wanted.pattern is SubscriptionPattern.BLACK_LIST
    return pattern_in_words(regex, count, excluding=excluding)
