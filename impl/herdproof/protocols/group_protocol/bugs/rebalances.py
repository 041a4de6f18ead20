"""
Bugs of rebalances: of what members are told of them, and of how long they take.

Source: apache/kafka, the commits of KAFKA-2557, KAFKA-8653 and KAFKA-12890.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from herdproof.protocols.group_protocol.bugs.occasions import BuggyCoordinator, BuggyPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.memberships import Memberships
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.messages import (
    Error,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
)


class TellsIllegalGeneration(BuggyPart, Memberships):
    """A member that is to join anew is told that its generation is over."""

    def heartbeat(self, caller: int, request: HeartbeatRequest) -> None:
        """A member is alive."""
        group = self._groups.get(request.group_id)
        if (
            group is not None
            and group.is_in(GroupState.PREPARING_REBALANCE)
            and not group.why_not(request.member_id, request.group_instance_id)
        ):
            self._sessions.renew(group, group.members[request.member_id])
            self._take("heartbeat", request, Error.ILLEGAL_GENERATION.name)
            told = HeartbeatResponse(error=Error.ILLEGAL_GENERATION)
            self._outbox.answer(caller, told)
            self._differs()
        else:
            super().heartbeat(caller, request)


class WaitsForNoSyncs(BuggyPart, GroupRebalancer):
    """Nobody looks whether the assignments ever come."""

    def _syncs_missing(self, group: ClassicGroup, generation: int) -> None:
        """Nobody cares who has not asked for its assignment."""
        if group.generation == generation and group.unsynced:
            self._differs()


class TakesNoTimeoutForZero(BuggyPart, Joins):
    """Who says no rebalance timeout is not waited for."""

    def join(self, caller: int, request: JoinGroupRequest) -> None:
        """Somebody joins, or rejoins."""
        if request.rebalance_timeout_ms is None:
            self._differs()
            request = replace(request, rebalance_timeout_ms=0)
        super().join(caller, request)


class Kafka2557(BuggyCoordinator):
    """A heartbeat during a rebalance is told ILLEGAL_GENERATION: members give up all they know."""

    memberships_class: ClassVar[type[Memberships]] = TellsIllegalGeneration


class Kafka12890(BuggyCoordinator):
    """A group whose leader sends heartbeats and never assigns waits for ever."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = WaitsForNoSyncs


class Kafka8653(BuggyCoordinator):
    """Members that join by JoinGroup 0 throw each other out, one rebalance after the other."""

    joins_class: ClassVar[type[Joins]] = TakesNoTimeoutForZero
