"""
Records of `__consumer_offsets` as neutral events: what each one says that happened to its group.

A group's records lie in one partition, in the order in which its coordinator wrote them. A
generation of a classic group is one record, with all members and what each is to have. A group of
KIP-848 is told in pieces: its epoch, its members, what each is meant to have, what each has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from herdproof.pipeline.audit.auditor import Malformed
from herdproof.pipeline.judging import events as e
from herdproof.pipeline.offsets.layouts import Values
from herdproof.pipeline.offsets.records import Key, read_assignment, read_key, read_value
from herdproof.pipeline.offsets.segments import ABORTED, OPEN, LogRecord

Told: TypeAlias = list[e.Event]

CONSUMER = "consumer"
"""The protocol type of consumers; members of others (connect) embed their own messages."""

UNKNOWN = "unknown"
"""How a member went: the log does not tell."""

At: TypeAlias = dict[str, Any]
"""When and where an event happened."""

STABLE = 0
"""The state of a member of KIP-848 that has all it is to have, and nothing else."""

_OUTCOMES = {ABORTED: "refused", OPEN: "unknown"}
"""Of a commit within a transaction; of any other it is stored."""

_MS = 1_000_000


def events(records: Iterable[LogRecord]) -> Told:
    """All that a group's records tell, in the order of the log; what is malformed tells nothing."""
    teller = Teller()
    told: Told = []
    for record in records:
        try:
            told += teller.tell(record)
        except Malformed:
            continue
    return told


class Entry(NamedTuple):
    """A record, decoded; no `value`: what its key names is deleted."""

    at: At
    key: Key
    value: Values | None
    transaction: str | None


class Teller:
    """Tells one group's records; keeps what is live, and can be pickled."""

    def __init__(self) -> None:
        self._members: dict[str, str] = {}
        """By member id, the consumer: its instance's id if it is static, or else the same."""
        self._topics: dict[str, str] = {}
        """By topic id, the name; where none was told in time, the id, and that for good."""
        self._target: dict[str, tuple[e.Partition, ...]] = {}
        self._current: dict[str, tuple[int, int, frozenset[e.Partition]]] = {}
        """By member, its epoch, its state, and what it has or is about to give up."""
        self._epoch: int | None = None
        """Of the target that is written."""
        self._settled = False
        self._last_ns = 0

    def tell(self, record: LogRecord) -> Told:
        """What the next record of the group says that happened; or `Malformed`."""
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

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def committed(self, of: Entry) -> Told:
        """An offset is stored, or deleted; who did it is not told."""
        topic = of.key.values["topic"]
        if of.value is not None and of.value.get("topic_id"):
            self._topics.setdefault(of.value["topic_id"], topic)
        outcome = _OUTCOMES.get(of.transaction or "", "stored")
        return [
            e.Committed(
                **of.at, partition=(topic, str(of.key.values["partition"])),
                offset=None if of.value is None else of.value["offset"], outcome=outcome,
                reset=not self._members,
            )
        ]  # fmt: skip

    # ── Classic groups ──────────────────────────────────────────────────────────────────────

    def generation(self, of: Entry) -> Told:
        """A generation, with its members and what each is to have; or the group is deleted."""
        if of.value is None:
            return self._deleted(of.at)
        own: list[tuple[str, str, list[e.Partition]]] = []
        for member in of.value["members"]:
            consumer: str = member.get("group_instance_id") or member["member_id"]
            own.append((member["member_id"], consumer, self._assignment(of.value, member)))
        told = self._members_are(of.at, {member: consumer for member, consumer, _ in own})
        owners = tuple((partition, member) for member, _, given in own for partition in given)
        told.append(
            e.Assigned(**of.at, generation=of.value["generation"], owners=owners, members=len(own))
        )
        return told

    def _assignment(self, value: Values, member: Values) -> list[e.Partition]:
        if value["protocol_type"] != CONSUMER:
            return []
        try:
            return read_assignment(member["assignment"])
        except Malformed as wrong:
            why = f"the assignment of {member['member_id']}: {wrong.why}"
            raise Malformed(wrong.reason, why) from None

    def _members_are(self, at: At, members: Mapping[str, str]) -> Told:
        """Who has gone since, and who has come."""
        before, self._members = self._members, dict(members)
        gone = [
            e.Left(**at, member=member, consumer=consumer, how=UNKNOWN)
            for member, consumer in before.items()
            if member not in members
        ]
        come = [
            e.Joined(**at, member=member, consumer=consumer)
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
        return [*told, e.GroupDeleted(**at)]

    # ── Groups of KIP-848 ───────────────────────────────────────────────────────────────────

    def group_epoch(self, of: Entry) -> Told:
        """Something has changed, so that the group is to be rebalanced; or it is deleted."""
        if of.value is None:
            return self._deleted(of.at)
        self._settled = False
        return [e.Rebalance(**of.at, generation=of.value["epoch"])]

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
            left = e.Left(**of.at, member=name, consumer=consumer, how=UNKNOWN)
            return [left, *self._settles(of.at)]
        if name in self._members:
            return []
        self._members[name] = of.value["instance_id"] or name
        return [e.Joined(**of.at, member=name, consumer=self._members[name])]

    def meant(self, of: Entry) -> Told:
        """What a member is to have, as soon as the target's epoch is written."""
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
        assigned = e.Assigned(
            **of.at, generation=self._epoch, owners=owners, members=len(self._members)
        )
        return [assigned, *self._settles(of.at)]

    def has(self, of: Entry) -> Told:
        """What a member has: its coordinator gives it to nobody else until it is given up."""
        name = of.key.values["member"]
        before = self._current.pop(name, (0, STABLE, frozenset[e.Partition]()))[2]
        now: frozenset[e.Partition] = frozenset()
        epoch = self._epoch
        if of.value is not None:
            given = of.value["assigned_partitions"] + of.value["partitions_pending_revocation"]
            now = frozenset(self._named(given))
            epoch = of.value["member_epoch"]
            self._current[name] = (of.value["member_epoch"], _state(of.value), now)
        at, consumer = of.at, self._members.get(name) or str(name)
        told: Told = [
            e.Ended(**at, consumer=consumer, partition=p, how="stopped", generation=epoch)
            for p in sorted(before - now)
        ]
        told += [
            e.Began(**at, consumer=consumer, partition=p, offset=-1, generation=epoch)
            for p in sorted(now - before)
        ]
        return told + self._settles(of.at)

    def _settles(self, at: At) -> Told:
        """Whether every member now has what the latest target says."""
        if self._settled or self._epoch is None or not self._members:
            return []
        wanted = (self._epoch, STABLE)
        if any(self._current.get(name, ())[:2] != wanted for name in self._members):
            return []
        self._settled = True
        return [e.Settled(**at, generation=self._epoch)]

    def _named(self, topics: Iterable[Values]) -> list[e.Partition]:
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


_TELLS: Mapping[str, Callable[[Teller, Entry], Told]] = {
    "OffsetCommit": Teller.committed,
    "GroupMetadata": Teller.generation,
    "ConsumerGroupMetadata": Teller.group_epoch,
    "ConsumerGroupPartitionMetadata": Teller.topics,
    "ConsumerGroupMemberMetadata": Teller.member,
    "ConsumerGroupTargetAssignmentMetadata": Teller.target_epoch,
    "ConsumerGroupTargetAssignmentMember": Teller.meant,
    "ConsumerGroupCurrentMemberAssignment": Teller.has,
}
"""By kind of record; others (of share and streams groups, regular expressions) tell no event."""
