"""
Records of `__consumer_offsets` as events: what each one says that happened to its group.

A group's records lie in one partition, in the order in which its coordinator wrote them. A
generation of a classic group is one record, with all members and what each is to have. A group of
KIP-848 is told in pieces: its epoch, its members, what each is meant to have, what each has.

Events are made by the million: as structs of msgspec they cost a tenth of what dataclasses would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

from msgspec import Struct

from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.consuming.layouts import Values
from herdproof.errors import Malformed
from herdproof.pipeline.offsets.records import (
    Key,
    Partition,
    partition_of,
    read_key,
    read_value,
)
from herdproof.pipeline.offsets.segments import ABORTED, OPEN, LogRecord

CONSUMER = "consumer"
"""The protocol type of consumers; members of others (connect) embed their own messages."""

At: TypeAlias = dict[str, Any]
"""When and where an event happened."""

STABLE = 0
"""The state of a member of KIP-848 that has all it is to have, and nothing else."""

_OUTCOMES = {ABORTED: "refused", OPEN: "unknown"}
"""Of a commit within a transaction; of any other it is stored."""

_MS = 1_000_000


Share: TypeAlias = tuple[Partition, str]
"""A partition, and the member that is to have it."""


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened; `place`: topic, partition and offset. Nobody says who tells it."""

    node: ClassVar[str] = ""
    epoch: ClassVar[int] = 0
    action: ClassVar[str] = ""
    time_ns: int
    place: str
    generation: int = 0


class Joined(Event, frozen=True, kw_only=True):
    """A member was accepted; its consumer is its instance, if it is static."""

    member: str
    consumer: str


class Left(Event, frozen=True, kw_only=True):
    """A member is counted as gone; nobody says why."""

    member: str
    consumer: str


class Rebalance(Event, frozen=True, kw_only=True):
    """A group of KIP-848 is to be rebalanced."""


class GenerationStored(Event, frozen=True, kw_only=True):
    """A generation is stored: its members, and which of them is to have what."""

    owners: tuple[Share, ...]
    consumers: Mapping[str, str]
    """By member, its consumer."""

    def consumer_of(self, member: str | None) -> str | None:
        """Who a member is."""
        return None if member is None else self.consumers.get(member, member)


class Settled(Event, frozen=True, kw_only=True):
    """Every member of a generation has what it is to have."""


class GroupDeleted(Event, frozen=True, kw_only=True):
    """The group is no more; another of its name begins anew, with its generations too."""


class Began(Event, frozen=True, kw_only=True):
    """A consumer has a partition from here on."""

    consumer: str
    member: str
    partition: Partition


class Ended(Event, frozen=True, kw_only=True):
    """A consumer has given a partition up."""

    consumer: str
    partition: Partition


class OffsetStored(Event, frozen=True, kw_only=True):
    """An offset is stored, or not; `outcome`: stored, refused or unknown."""

    partition: Partition
    offset: int | None
    """None: it was deleted, or expired."""
    outcome: str
    is_reset: bool
    """The group may have had no member: whoever did it set the offset, and may set it back."""


class Unread(Event, frozen=True, kw_only=True):
    """A record cannot be read: what it told is not known."""

    key: Key
    consumer: str
    """Whose it is; "" if it is no member's."""


Told: TypeAlias = list[Event]


def events(records: Iterable[LogRecord]) -> Told:
    """All that a group's records tell, in the order of the log."""
    teller = EventDecoder()
    told: Told = []
    for record in records:
        try:
            told += teller.tell(record)
        except Malformed:
            told.append(teller.lose(record))
    return told


class Entry(NamedTuple):
    """A record, decoded; no `value`: what its key names is deleted."""

    at: At
    key: Key
    value: Values | None
    transaction: str | None


class EventDecoder:
    """Tells one group's records; keeps what is live."""

    def __init__(self) -> None:
        self._members: dict[str, str] = {}
        """By member id, the consumer: its instance's id if it is static, or else the same."""
        self._topics: dict[str, str] = {}
        """By topic id, the name; where none was told in time, the id, and that for good."""
        self._target: dict[str, tuple[Partition, ...]] = {}
        self._current: dict[str, tuple[int, int, frozenset[Partition]]] = {}
        """By member, its epoch, its state, and what it has or is about to give up."""
        self._epoch: int | None = None
        """Of the target that is written."""
        self._settled = False
        self._last_ns = 0
        self._is_unsure = False
        """True if a record cannot be read that may have told that no member was left."""

    def tell(self, record: LogRecord) -> Told:
        """The events that the next record of the group tells; or `Malformed`."""
        key = read_key(record.key)
        tell = _TELLS.get(key.kind.name)
        if tell is None:
            return []
        value = None if record.value is None else read_value(key.kind, record.value)
        if record.time_ns is not None:  # else it is as old as the one before
            self._last_ns = record.time_ns
        elif value is not None and "commit_timestamp" in value:
            self._last_ns = value["commit_timestamp"] * _MS
        at = {"time_ns": self._last_ns, "place": record.place}
        return tell(self, Entry(at, key, value, record.transaction))

    def lose(self, record: LogRecord) -> Unread:
        """The events lost with a record of the group that cannot be read."""
        key = read_key(record.key)
        member: str = key.values.get("member", "")
        if key.kind.name == "GroupMetadata":
            self._is_unsure = True
        elif key.kind.name == "ConsumerGroupTargetAssignmentMember":
            self._target.pop(member, None)
        return Unread(
            time_ns=record.time_ns or self._last_ns, place=record.place, key=key,
            consumer=self._members.get(member, member),
        )  # fmt: skip

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def committed(self, of: Entry) -> Told:
        """An offset is stored, or deleted; who did it is not told."""
        if of.value is not None and of.value.get("topic_id"):
            self._topics.setdefault(of.value["topic_id"], of.key.values["topic"])
        outcome = _OUTCOMES.get(of.transaction or "", "stored")
        return [
            OffsetStored(
                **of.at, partition=partition_of(of.key),
                offset=None if of.value is None else of.value["offset"], outcome=outcome,
                is_reset=self._is_unsure or not self._members,
            )
        ]  # fmt: skip

    # ── Classic groups ──────────────────────────────────────────────────────────────────────

    def generation(self, of: Entry) -> Told:
        """A generation, with its members and what each is to have; or the group is deleted."""
        if of.value is None:
            return self._deleted(of.at)
        own: list[tuple[str, str, list[Partition]]] = []
        for member in of.value["members"]:
            consumer: str = member.get("group_instance_id") or member["member_id"]
            own.append((member["member_id"], consumer, self._assignment(of.value, member)))
        told = self._members_are(of.at, {member: consumer for member, consumer, _ in own})
        owners = tuple((partition, member) for member, _, given in own for partition in given)
        return [*told, self._assigned(of.at, of.value["generation"], owners)]

    def _assigned(self, at: At, generation: int, owners: tuple[Share, ...]) -> GenerationStored:
        """A generation, with the members that there are."""
        return GenerationStored(
            **at, generation=generation, owners=owners, consumers=dict(self._members)
        )

    def _assignment(self, value: Values, member: Values) -> list[Partition]:
        if value["protocol_type"] != CONSUMER:
            return []
        try:
            given = read_assignment(member["assignment"])
        except Malformed as wrong:
            why = f"the assignment of {member['member_id']}: {wrong.why}"
            raise Malformed(wrong.reason, why) from None
        return [(topic, str(number)) for topic, number in given]

    def _members_are(self, at: At, members: Mapping[str, str]) -> Told:
        """Who has gone since, and who has come."""
        before, self._members, self._is_unsure = self._members, dict(members), False
        gone = [
            Left(**at, member=member, consumer=consumer)
            for member, consumer in before.items()
            if member not in members
        ]
        come = [
            Joined(**at, member=member, consumer=consumer)
            for member, consumer in members.items()
            if member not in before
        ]
        return [*gone, *come]

    def _deleted(self, at: At) -> Told:
        """The group is no more: another of its name begins anew."""
        told = self._members_are(at, {})
        self._target.clear()
        self._current.clear()
        self._epoch, self._settled = None, False
        return [*told, GroupDeleted(**at)]

    # ── Groups of KIP-848 ───────────────────────────────────────────────────────────────────

    def group_epoch(self, of: Entry) -> Told:
        """Something has changed, so that the group is to be rebalanced; or it is deleted."""
        if of.value is None:
            return self._deleted(of.at)
        self._settled = False
        return [Rebalance(**of.at, generation=of.value["epoch"])]

    def topics(self, of: Entry) -> Told:
        """The names of topics (until 4.0)."""
        for topic in () if of.value is None else of.value["topics"]:
            self._topics.setdefault(topic["topic_id"], topic["topic_name"])
        return []

    def member(self, of: Entry) -> Told:
        """A member is there, or no more."""
        name = of.key.values["member"]
        if of.value is None:
            consumer = self._members.pop(name, None)
            if consumer is None:
                return []
            left = Left(**of.at, member=name, consumer=consumer)
            return [left, *self._settles(of.at)]
        if name in self._members:
            return []
        self._members[name] = of.value["instance_id"] or name
        return [Joined(**of.at, member=name, consumer=self._members[name])]

    def meant(self, of: Entry) -> Told:
        """The partitions that a member is to have, as soon as the target's epoch is written."""
        name = of.key.values["member"]
        if of.value is None:
            self._target.pop(name, None)
        else:
            self._target[name] = tuple(self._named(of.value["topic_partitions"]))
        return []

    def target_epoch(self, of: Entry) -> Told:
        """All targets are written."""
        if of.value is None:
            return []
        self._epoch, self._settled = of.value["assignment_epoch"], False
        owners = tuple((p, name) for name, given in self._target.items() for p in given)
        assigned = self._assigned(of.at, self._epoch, owners)
        return [assigned, *self._settles(of.at)]

    def has(self, of: Entry) -> Told:
        """The partitions of a member: nobody else is given them until they are given up."""
        name = of.key.values["member"]
        before = self._current.pop(name, (0, STABLE, frozenset[Partition]()))[2]
        now: frozenset[Partition] = frozenset()
        epoch = self._epoch or 0
        if of.value is not None:
            given = of.value["assigned_partitions"] + of.value["partitions_pending_revocation"]
            now = frozenset(self._named(given))
            epoch = of.value["member_epoch"]
            self._current[name] = (of.value["member_epoch"], _state(of.value), now)
        at, consumer = of.at, self._members.get(name) or str(name)
        told: Told = [Ended(**at, consumer=consumer, partition=p) for p in sorted(before - now)]
        told += [
            Began(**at, consumer=consumer, member=name, partition=p, generation=epoch)
            for p in sorted(now - before)
        ]
        return told + self._settles(of.at)

    def _settles(self, at: At) -> Told:
        """The event that every member now has what the latest target says, if so."""
        if self._settled or self._epoch is None or not self._members:
            return []
        wanted = (self._epoch, STABLE)
        if any(self._current.get(name, ())[:2] != wanted for name in self._members):
            return []
        self._settled = True
        return [Settled(**at, generation=self._epoch)]

    def _named(self, topics: Iterable[Values]) -> list[Partition]:
        """Partitions with their topics' names."""
        return [
            (self._topics.setdefault(topic["topic_id"], topic["topic_id"]), str(number))
            for topic in topics
            for number in topic["partitions"]
        ]


def _state(value: Values) -> int:
    """A member's state; Kafka 3.7 wrote none, but what it lacks."""
    if "state" in value:
        return int(value["state"])
    behind = value["member_epoch"] != value["target_member_epoch"]
    lacks = value["partitions_pending_revocation"] or value["partitions_pending_assignment"]
    return STABLE + 1 if behind or lacks else STABLE


_TELLS: Mapping[str, Callable[[EventDecoder, Entry], Told]] = {
    "OffsetCommit": EventDecoder.committed,
    "GroupMetadata": EventDecoder.generation,
    "ConsumerGroupMetadata": EventDecoder.group_epoch,
    "ConsumerGroupPartitionMetadata": EventDecoder.topics,
    "ConsumerGroupMemberMetadata": EventDecoder.member,
    "ConsumerGroupTargetAssignmentMetadata": EventDecoder.target_epoch,
    "ConsumerGroupTargetAssignmentMember": EventDecoder.meant,
    "ConsumerGroupCurrentMemberAssignment": EventDecoder.has,
}
"""By kind of record; others (of share and streams groups, regular expressions) tell no event."""
