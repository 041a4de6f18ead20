"""A group as it is stored, and one made of what is stored."""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.consuming.consumer_protocol import read_assignment, read_subscription
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredCommit,
    StoredMember,
    StoredMetadata,
    TopicPartition,
)
from herdproof.protocols.group_protocol.messages import NO_OFFSET, GroupProtocol
from herdproof.protocols.group_protocol.steps import GroupAction, GroupStep, OffsetMark, Share


def metadata_of(group: ClassicGroup) -> StoredMetadata:
    """A group as it is stored; one that is stored in the middle of a rebalance has joined."""
    return StoredMetadata(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        is_assigned=group.is_in(GroupState.STABLE),
        state_since_ms=group.since_ms,
        members=tuple(_stored(member, group.protocol) for member in group.members.values()),
    )


def _stored(member: ClassicMember, protocol: str | None) -> StoredMember:
    return StoredMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
        given_up=member.given_up,
    )


def group_from(name: str, stored: StoredClassicGroup, now_ms: int) -> ClassicGroup:
    """A group as it was stored: empty, stable, or with a leader that is yet to assign."""
    metadata = stored.metadata
    group = ClassicGroup(name, now_ms, offsets=dict(stored.offsets))
    if metadata is None:
        return group
    group.since_ms = metadata.state_since_ms
    group.generation = metadata.generation
    for member in metadata.members:
        group.add(_member(member, metadata.protocol), metadata.protocol_type)
    group.protocol_type = metadata.protocol_type or None
    group.protocol = metadata.protocol
    group.leader = metadata.leader
    group.topics = topics_of(group)
    group.owners = owners_of(group)
    if group.members and metadata.is_assigned:
        group.state = GroupState.STABLE
    elif group.members:
        group.state = GroupState.COMPLETING_REBALANCE
        group.unsynced = dict.fromkeys(group.members)
    return group


def _member(stored: StoredMember, protocol: str | None) -> ClassicMember:
    return ClassicMember(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=(GroupProtocol(protocol or "", stored.subscription),),
        assignment=stored.assignment,
        given_up=stored.given_up,
    )


def as_stored(action: GroupAction, group: ClassicGroup) -> GroupStep:
    """A step that tells what is stored of a group, but for its offsets."""
    return GroupStep(
        action=action,
        group=group.name,
        generation=group.generation,
        leader=group.leader or "",
        members=tuple(group.members),
        owners=shares_of(group, *group.members),
        is_assigned=group.is_in(GroupState.STABLE),
    )


def shares_of(group: ClassicGroup, *members: str) -> tuple[Share, ...]:
    """The members' assignments, as far as they can be read."""
    if not group.is_of_consumers():
        return ()
    return tuple(
        Share(member_id, *where)
        for member_id in members
        for where in _assigned(group.members[member_id])
    )


def marks_of(offsets: Mapping[TopicPartition, StoredCommit | None]) -> tuple[OffsetMark, ...]:
    """Offsets by partition, as a step tells them."""
    return tuple(
        OffsetMark(topic, number, NO_OFFSET if stored is None else stored.offset)
        for (topic, number), stored in offsets.items()
    )


# ── What can be read of consumers ───────────────────────────────────────────────────────────


def topics_of(group: ClassicGroup) -> frozenset[str] | None:
    """The topics of a group's members; None where they cannot be read, or are not to be."""
    if not group.is_of_consumers():
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(read_subscription(member.metadata(group.protocol))["topics"])
        except Malformed:
            return None
    return frozenset(topics)


def owners_of(group: ClassicGroup) -> dict[TopicPartition, str]:
    """Who was assigned a partition last, as the members' assignments say."""
    if not group.is_of_consumers():
        return {}
    owners = {where: m.member_id for m in group.members.values() for where in m.given_up}
    for member in group.members.values():
        owners |= dict.fromkeys(_assigned(member), member.member_id)
    return owners


def _assigned(member: ClassicMember) -> list[TopicPartition]:
    """The partitions that a consumer is assigned; none where that cannot be read."""
    try:
        return read_assignment(member.assignment)
    except Malformed:
        return []


def hand_over(group: ClassicGroup) -> None:
    """Members have got new assignments: who had a partition that nobody has now gave it up."""
    before, group.owners = group.owners, {}
    for member in group.members.values():
        member.given_up = ()
    now = owners_of(group)
    given_up: dict[str, list[TopicPartition]] = {}
    for where, owner in before.items():
        if where not in now and owner in group.members:
            given_up.setdefault(owner, []).append(where)
    for owner, partitions in given_up.items():
        group.members[owner].given_up = tuple(partitions)
    group.owners = owners_of(group)


def withdraw(group: ClassicGroup) -> None:
    """No assignment stands any more; whoever had a partition was the last to have it."""
    for member in group.members.values():
        member.assignment = b""
        owned = (where for where, owner in group.owners.items() if owner == member.member_id)
        member.given_up = tuple(owned)
