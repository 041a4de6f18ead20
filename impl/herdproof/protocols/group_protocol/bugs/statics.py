"""
Bugs of static members, which come back under a new member id.

Source: apache/kafka, the commits of KAFKA-8220, KAFKA-8500, KAFKA-8715, KAFKA-9801, KAFKA-10284 and
KAFKA-14009.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.messages import Error, JoinGroupRequest


class LeavesStaticBehind(GroupRebalancer):
    """Whoever has not joined in time is a member no longer, static or not."""

    def _is_left_behind(self, group: ClassicGroup, member: ClassicMember) -> bool:
        return member.member_id not in group.joining


class ReplacesWhenStable(Joins):
    """A static member that comes back during a rebalance is one member more."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if group.is_in(GroupState.STABLE):
            super()._replace(group, caller, request, member_id)
        else:
            self._add(group, caller, request, member_id)


class NamesByTheGroupsTime(Joins):
    """A static member's id is made of the time at which its group came to its state."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        del member_id
        by_time = f"{request.group_instance_id}-{group.since_ms}"
        super()._replace(group, caller, request, by_time)


class TakesNoPartInTheMiddle(Joins):
    """A static member that comes back while assignments are awaited begins no rebalance."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if not group.is_in(GroupState.COMPLETING_REBALANCE):
            super()._replace(group, caller, request, member_id)
            return
        assert request.group_instance_id is not None
        old_id, leader = group.instances[request.group_instance_id], group.leader
        self._rebalancer.refuse_sync(group, old_id, Error.FENCED_INSTANCE_ID)
        member = group.replace(old_id, member_id)
        self._sessions.renew(group, member)
        self._update(group, member, request)
        self._rebalancer.park_join(group, member_id, caller)
        self._rebalancer.answer_join(group, member_id, leader)


class StoresNoNewId(Joins):
    """The new id of a static member that comes back is told, and not stored."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if not group.is_in(GroupState.STABLE):
            super()._replace(group, caller, request, member_id)
            return
        assert request.group_instance_id is not None
        old_id, leader = group.instances[request.group_instance_id], group.leader
        self._sessions.renew(group, group.replace(old_id, member_id))
        self._rebalancer.park_join(group, member_id, caller)
        self._rebalancer.answer_join(group, member_id, leader)


class KeepsTheRebalanceTimeout(Joins):
    """A static member that comes back has the rebalance timeout that it once said."""

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        assert request.group_instance_id is not None
        member = group.members[group.instances[request.group_instance_id]]
        told = replace(request, rebalance_timeout_ms=member.rebalance_timeout_ms)
        super()._replace(group, caller, told, member_id)


class Kafka8220(GroupCoordinator):
    """A static member that is away when a rebalance ends is a member no longer."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = LeavesStaticBehind


class Kafka8500(GroupCoordinator):
    """A static member that comes back during a rebalance is there twice, and both are assigned."""

    joins_class: ClassVar[type[Joins]] = ReplacesWhenStable


class Kafka8715(GroupCoordinator):
    """A static member that comes back twice has the same member id: the older one is not fenced."""

    joins_class: ClassVar[type[Joins]] = NamesByTheGroupsTime


class Kafka9801(GroupCoordinator):
    """A static member that comes back while assignments are awaited is assigned nothing."""

    joins_class: ClassVar[type[Joins]] = TakesNoPartInTheMiddle


class Kafka10284(GroupCoordinator):
    """After a failover a static member that had come back is fenced by its own older id."""

    joins_class: ClassVar[type[Joins]] = StoresNoNewId


class Kafka14009(GroupCoordinator):
    """A static member that comes back cannot change its rebalance timeout."""

    joins_class: ClassVar[type[Joins]] = KeepsTheRebalanceTimeout
