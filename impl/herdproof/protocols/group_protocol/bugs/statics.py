"""
Bugs of static members, which come back under a new member id.

Source: apache/kafka, the commits of KAFKA-8220, KAFKA-8500, KAFKA-8715, KAFKA-9801, KAFKA-10284 and
KAFKA-14009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from herdproof.protocols.group_protocol.bugs.occasions import BuggyCoordinator, BuggyPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import (
    GroupEffect,
    StoredClassicGroup,
    StoredMember,
)
from herdproof.protocols.group_protocol.messages import Error, JoinGroupRequest
from herdproof.protocols.group_protocol.steps import GroupStep


class LeavesStaticBehind(BuggyPart, GroupRebalancer):
    """Whoever has not joined in time is a member no longer, static or not."""

    def _is_left_behind(self, group: ClassicGroup, member: ClassicMember) -> bool:
        is_left_behind = member.member_id not in group.joining
        if is_left_behind and not super()._is_left_behind(group, member):
            self._differs()
        return is_left_behind


class ReplacesWhenStable(BuggyPart, Joins):
    """A static member that comes back during a rebalance is one member more."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if group.is_in(GroupState.STABLE):
            super()._replace(group, caller, request, member_id)
        else:
            self._differs()
            self._add(group, caller, request, member_id)


class NamesByTheGroupsTime(BuggyPart, Joins):
    """A static member's id is made of the time at which its group came to its state."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        del member_id
        by_time = f"{request.group_instance_id}-{group.since_ms}"
        if by_time in group.members:  # as the process before it, which nobody tells apart
            self._differs()
        super()._replace(group, caller, request, by_time)


class TakesNoPartInTheMiddle(BuggyPart, Joins):
    """A static member that comes back while assignments are awaited begins no rebalance."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if not group.is_in(GroupState.COMPLETING_REBALANCE):
            super()._replace(group, caller, request, member_id)
            return
        self._differs()
        assert request.group_instance_id is not None
        instance = request.group_instance_id
        self._outbox.take(
            GroupStep(
                action="replace_member", group=group.name, member=member_id, instance=instance
            )
        )
        old_id, leader = group.instances[instance], group.leader
        self._rebalancer.refuse_sync(group, old_id, Error.FENCED_INSTANCE_ID)
        member = group.replace(old_id, member_id)
        self._sessions.renew(group, member)
        self._update(group, member, request)
        self._rebalancer.park_join(group, member_id, caller)
        self._rebalancer.answer_join(group, member_id, leader)


class StoresNoNewId(BuggyPart, Joins):
    """The new id of a static member that comes back is told, and not stored."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if not group.is_in(GroupState.STABLE):
            super()._replace(group, caller, request, member_id)
            return
        assert request.group_instance_id is not None
        old_id, leader = group.instances[request.group_instance_id], group.leader
        self._counting().untold[group.name, request.group_instance_id] = member_id
        self._sessions.renew(group, group.replace(old_id, member_id))
        self._rebalancer.park_join(group, member_id, caller)
        self._rebalancer.answer_join(group, member_id, leader)


class KeepsTheRebalanceTimeout(BuggyPart, Joins):
    """A static member that comes back has the rebalance timeout that it once said."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        assert request.group_instance_id is not None
        member = group.members[group.instances[request.group_instance_id]]
        told = replace(request, rebalance_timeout_ms=member.rebalance_timeout_ms)
        if told != request:
            self._differs()
        super()._replace(group, caller, told, member_id)


class Kafka8220(BuggyCoordinator):
    """A static member that is away when a rebalance ends is a member no longer."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = LeavesStaticBehind


class Kafka8500(BuggyCoordinator):
    """A static member that comes back during a rebalance is there twice, and both are assigned."""

    joins_class: ClassVar[type[Joins]] = ReplacesWhenStable


class Kafka8715(BuggyCoordinator):
    """A static member that comes back twice has the same member id: the older one is not fenced."""

    joins_class: ClassVar[type[Joins]] = NamesByTheGroupsTime


class Kafka9801(BuggyCoordinator):
    """A static member that comes back while assignments are awaited is assigned nothing."""

    joins_class: ClassVar[type[Joins]] = TakesNoPartInTheMiddle


class Kafka10284(BuggyCoordinator):
    """After a failover a static member that had come back is fenced by its own older id."""

    joins_class: ClassVar[type[Joins]] = StoresNoNewId

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """All is read: it coordinates; an occasion is each id that was told and is not there."""
        told, self.counting.untold = self.counting.untold, {}
        for (name, instance), member_id in told.items():
            found = {m.group_instance_id: m.member_id for m in _stored_members(groups.get(name))}
            if found.get(instance, member_id) != member_id:
                self.counting.occasions += 1
        return super().lead(now_ms, groups)


class Kafka14009(BuggyCoordinator):
    """A static member that comes back cannot change its rebalance timeout."""

    joins_class: ClassVar[type[Joins]] = KeepsTheRebalanceTimeout


def _stored_members(group: StoredClassicGroup | None) -> tuple[StoredMember, ...]:
    """The members of a group that may not be stored, or not have any."""
    return () if group is None or group.metadata is None else group.metadata.members
