"""
Bugs of rebalances: of what members are told of them, and of how long they take.

Source: apache/kafka, the commits of KAFKA-2557, KAFKA-8653 and KAFKA-12890.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
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


class TellsIllegalGeneration(Memberships):
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
            told = HeartbeatResponse(error=Error.ILLEGAL_GENERATION)
            self._outbox.answer(caller, told)
        else:
            super().heartbeat(caller, request)


class WaitsForNoSyncs(GroupRebalancer):
    """Nobody looks whether the assignments ever come."""

    def wait_for_syncs(self, group: ClassicGroup) -> None:
        """Members are to ask for their assignments, at any time."""


class TakesNoTimeoutForZero(Joins):
    """Who says no rebalance timeout is not waited for."""

    def join(self, caller: int, request: JoinGroupRequest) -> None:
        """Somebody joins, or rejoins."""
        timeout_ms = request.rebalance_timeout_ms
        super().join(caller, replace(request, rebalance_timeout_ms=timeout_ms or 0))


class Kafka2557(GroupCoordinator):
    """A heartbeat during a rebalance is told ILLEGAL_GENERATION: members give up all they know."""

    memberships_class: ClassVar[type[Memberships]] = TellsIllegalGeneration


class Kafka12890(GroupCoordinator):
    """A group whose leader sends heartbeats and never assigns waits for ever."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = WaitsForNoSyncs


class Kafka8653(GroupCoordinator):
    """Members that join by JoinGroup 0 throw each other out, one rebalance after the other."""

    joins_class: ClassVar[type[Joins]] = TakesNoTimeoutForZero
