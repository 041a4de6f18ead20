"""
Groups as ZooKeeper has them, for operators, whatever their protocol: which there are, and in whose.

A protocol whose groups operators may look at has `groups` beside its consumers' entry point; it
answers with its `GroupsAdmin`. Where protocols share a tree, a group has one: that of its members,
or, where it has none, of those who have left owners behind. In another tree the same name is
another group's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeAlias

from herdproof.consuming.assignment import Partition
from herdproof.consuming.membership import GROUP
from herdproof.errors import CallerError, HerdError, WorldError
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Data,
    Delete,
    Exists,
    Found,
    Get,
    Names,
    Operation,
    Refusal,
    Set,
    Why,
)

AskAll: TypeAlias = Callable[[Sequence[Operation]], Sequence[Answer]]
"""Asks ZooKeeper, all at once or one by one; answers in the order of the operations."""
Write: TypeAlias = Create | Delete | Set

MAX_TRANSACTION_BYTES = 512 * 1024
"""A larger transaction is split; ZooKeeper's own limit is just below 1 MiB."""
OPERATION_BYTES = 128
"""Bytes of an operation in a transaction beside its path and data, generously."""


class NoSuchGroup(CallerError):
    """A group was named that ZooKeeper does not know."""


class SeveralGroups(CallerError):
    """A name was given that groups of several protocols have, and none of these."""


class NotAnswered(WorldError):
    """ZooKeeper did not answer, or nothing that makes sense."""


class UnknownTopic(CallerError):
    """A topic that Kafka does not have."""


class GroupHasMembers(CallerError):
    """Refusal to change a group that somebody consumes in."""


class GroupChanged(WorldError):
    """Somebody else changed the group after it was looked at."""


class SeenGroup(Protocol):
    """A group, as far as every protocol has it."""

    @property
    def name(self) -> str:
        """As its users know it."""

    @property
    def members(self) -> Mapping[str, str]:
        """The subscription of each member, as it is written."""

    @property
    def subscriptions(self) -> Mapping[str, str]:
        """The subscription of each member, in words."""

    @property
    def owner_names(self) -> Mapping[Partition, str]:
        """Who owns each partition; of a group without members, who did at last."""

    @property
    def offsets(self) -> Mapping[Partition, int]:
        """The stored offset of each partition."""

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of which anything is known, in order."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers that the protocol counts of the group, as its generation."""


class GroupsAdmin(Protocol):
    """The groups of one protocol; whose `read` a group is, to that it is given back."""

    @property
    def root(self) -> str:
        """The node below which its groups lie; they are another protocol's that has the same."""

    def names(self) -> list[str]:
        """The groups that there are, sorted."""

    def read(self, group: str) -> Any:
        """A group as it is, a `SeenGroup`; raises `NoSuchGroup` or `NotAnswered`."""

    def glance(self, group: str) -> Any:
        """A group as its nodes were while they were read: a glance, not a moment."""

    def reset_offsets(self, group: Any, offsets: Mapping[Partition, int]) -> None:
        """Store these instead, if the group is as it was read, and nobody is a member."""

    def delete(self, group: Any) -> None:
        """Delete the group and its offsets, if it is as it was read, and nobody is a member."""


@dataclass(frozen=True)
class FoundGroup:
    """A group, and its protocol."""

    protocol: str
    admin: GroupsAdmin
    group: SeenGroup

    @property
    def weight(self) -> tuple[bool, bool]:
        """The larger, the better its protocol's claim to the group."""
        return bool(self.group.members), bool(self.group.owner_names)

    def reset_offsets(self, offsets: Mapping[Partition, int]) -> None:
        """Raises `GroupHasMembers`, `GroupChanged` or `NotAnswered`."""
        self.admin.reset_offsets(self.group, offsets)

    def delete(self) -> None:
        """Raises `GroupHasMembers`, `GroupChanged` or `NotAnswered`."""
        self.admin.delete(self.group)


class AllGroups:
    """
    The groups of all protocols.

    `kafka` are further settings of Kafka's client, for whoever is to be asked by its wire.
    """

    def __init__(self, ask_all: AskAll, kafka: Mapping[str, str] | None = None) -> None:
        self.reader = NodeReader(ask_all)
        self._admins = admins_of(ask_all, kafka or {})

    def glance_at_all(self) -> list[FoundGroup]:
        """Every group, each as its nodes were while they were read."""
        names = {name: None for admin in self._admins.values() for name in admin.names()}
        return [found for name in sorted(names) for found in self._find(name)]

    def read(self, group: str, protocol: str | None = None) -> FoundGroup:
        """
        A group as it is, of this protocol, if one is named.

        Raises `NoSuchGroup`, `SeveralGroups`, `NotAnswered`, or what its protocol does.
        """
        there = self._find(group)
        found = [each for each in there if protocol in (None, each.protocol)]
        if not found:
            of = f" of {protocol}" if there else ""
            raise NoSuchGroup(
                f"There is no group {group!r}{of}: `herdproof groups list` names those that there "
                f"are."
            )
        if len(found) > 1:
            of = " and ".join(each.protocol for each in found)
            raise SeveralGroups(
                f"There is a group {group!r} of {of} each: say which, by --protocol."
            )
        [only] = found
        return FoundGroup(only.protocol, only.admin, only.admin.read(group))

    def _find(self, group: str) -> list[FoundGroup]:
        """Whose it is in each tree, of those that know it: who has members, or has left owners."""
        claims: dict[str, FoundGroup] = {}
        for protocol, admin in self._admins.items():
            try:
                claim = FoundGroup(protocol, admin, admin.glance(group))
            except NoSuchGroup:
                continue
            before = claims.get(admin.root)
            if before is None or before.weight <= claim.weight:
                claims[admin.root] = claim
        return [*claims.values()]


def admins_of(ask_all: AskAll, kafka: Mapping[str, str]) -> dict[str, GroupsAdmin]:
    """By its name, what each protocol whose groups may be looked at has for that."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    makes = {entry.name: getattr(entry.load(), "groups", None) for entry in entries}
    return {name: make(ask_all, kafka) for name, make in makes.items() if make is not None}


# ── For every protocol's own ────────────────────────────────────────────────────────────────


class NodeReader:
    """Reads nodes; `ask_all` is a session with a ZooKeeper."""

    def __init__(self, ask_all: AskAll) -> None:
        self.ask_all = ask_all

    def children(self, *paths: str) -> list[str]:
        """The paths of the nodes below these, as one list; none below what does not stand."""
        answers = self.ask_all([Children(path) for path in paths])
        return [
            name
            for path, answer in zip(paths, answers, strict=True)
            for name in names_of(path, answer)
        ]

    def data(self, paths: Sequence[str]) -> list[Data | None]:
        """The data of each node; None where none stands."""
        answers = self.ask_all([Get(path) for path in paths])
        return [data_of(path, answer) for path, answer in zip(paths, answers, strict=True)]

    def stands(self, *paths: str) -> list[bool]:
        """For each of these nodes, True if it stands."""
        answers = self.ask_all([Exists(path) for path in paths])
        return [isinstance(answer, Found) and answer.stat is not None for answer in answers]

    def leaves(
        self, top: str, path_of: Callable[[Partition], str],
        name_of: Callable[[str], str] = str,
    ) -> dict[Partition, Data]:  # fmt: skip
        """The data of each partition, two levels below `top`; `name_of` reads names of nodes."""
        topics = self.children(top)
        below = self.ask_all([Children(f"{top}/{topic}") for topic in topics])
        found = [
            (name_of(topic), name_of(partition))
            for topic, answer in zip(topics, below, strict=True)
            for partition in names_of(f"{top}/{topic}", answer)
        ]
        data = self.data([path_of(partition) for partition in found])
        return {p: d for p, d in zip(found, data, strict=True) if d is not None}

    def partitions_of(self, topic: str) -> list[str]:
        """The partitions that Kafka says a topic has, in order; raises `UnknownTopic`."""
        path = f"/brokers/topics/{topic}"
        [data] = self.data([path])
        if data is None:
            raise UnknownTopic(f"Kafka has no topic {topic!r}: check its name.")
        return sorted(read_json(path, data.data).get("partitions", {}), key=int)

    def tree(self, top: str) -> Iterator[str]:
        """The nodes of a tree that stand, each after those below it; its top too."""
        [stands] = self.stands(top)
        if stands:
            for name in self.children(top):
                yield from self.tree(f"{top}/{name}")
            yield top


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
    """The error that tells of an answer that is none."""
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


def in_order(partition: Partition) -> tuple[str, int, str]:
    """The key to sort partitions by: by topic, then as numbers where they are numbers."""
    topic, number = partition
    return (topic, int(number) if number.isdecimal() else -1, number)


def topics_in_words(topics: Iterable[tuple[str, int]]) -> str:
    """
    A subscription that names topics, each with its number of streams.

    >>> topics_in_words([("orders", 1), ("payments", 2)])
    'orders, payments (2 streams)'
    """
    named = (name if count == 1 else f"{name} ({count} streams)" for name, count in topics)
    return ", ".join(named) or "nothing"


def pattern_in_words(regex: str, count: int, *, excluding: bool) -> str:
    """
    A subscription to whatever topics match, or do not.

    >>> pattern_in_words("orders-.*", 2, excluding=False)
    'topics that match orders-.* (2 streams)'
    """
    match = "do not match" if excluding else "match"
    return f"topics that {match} {regex}" + ("" if count == 1 else f" ({count} streams)")


def require_empty(group: SeenGroup) -> None:
    """Refuse what would pull the ground from under members."""
    if group.members:
        named = ", ".join(sorted(group.members)[:5]) + (", …" if len(group.members) > 5 else "")
        raise GroupHasMembers(
            f"The group {group.name!r} has members ({named}): close its consumers first. One that "
            f"crashed goes when its session timeout has passed; where a coordinator has the group, "
            f"one has to run."
        )


def emptied(paths: Sequence[str]) -> list[Write]:
    """
    Writes that ZooKeeper refuses if anybody has registered below one of these nodes, which stand.

    It deletes no node that has children.
    """
    return [*(Delete(path) for path in paths), *(Create(path) for path in paths)]


def offset_writes(
    offsets: Mapping[Partition, int], versions: Mapping[Partition, int],
    path_of: Callable[[Partition], str],
) -> list[Write]:  # fmt: skip
    """Store these, each in its node as it was read; `versions` has those that stood."""
    writes: list[Write] = []
    for partition in sorted(offsets, key=in_order):
        path, data = path_of(partition), str(offsets[partition]).encode()
        version = versions.get(partition)
        writes.append(Create(path, data) if version is None else Set(path, data, version))
    return writes


def split(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """Transactions of these writes, none too large; at least one."""
    part: list[Write] = []
    room = MAX_TRANSACTION_BYTES
    for write in writes:
        data = b"" if isinstance(write, Delete) else write.data
        needs = len(write.path.encode()) + len(data) + OPERATION_BYTES
        if needs > room and part:
            yield part
            part, room = [], MAX_TRANSACTION_BYTES
        part.append(write)
        room -= needs
    yield part


def refused(group: SeenGroup, answer: Answer, done: int, parts: int) -> HerdError:
    """The error that tells why a transaction was not done."""
    so_far = f"{done} of {parts} parts are done" if done else "nothing was done"
    match answer:
        case Refusal(why=Why.NOT_EMPTY | Why.BAD_VERSION | Why.NO_NODE | Why.NODE_EXISTS):
            return GroupChanged(
                f"The group {group.name!r} was changed while this was decided ({so_far}): a "
                f"consumer has registered, or somebody else resets it. Look again."
            )
        case Refusal(why=Why.BAD_ARGUMENTS):
            return NotAnswered(
                f"ZooKeeper refused to change {group.name!r} ({so_far}): its nodes belong to "
                f"another user, so give --config with zookeeper.user and password_file."
            )
        case _:
            return NotAnswered(
                f"ZooKeeper gave no answer: nobody knows whether part {done + 1} of {parts} was "
                f"done. Describe the group, and try again."
            )
