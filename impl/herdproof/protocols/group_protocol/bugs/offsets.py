"""
Bugs of committed offsets: of who may commit, and of when they are forgotten.

Source: apache/kafka, the commits of KAFKA-8069, KAFKA-13636 and KAFKA-14201.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from msgspec.structs import replace as struct_replace

from herdproof.protocols.group_protocol.bugs.occasions import BuggyCoordinator, BuggyPart
from herdproof.protocols.group_protocol.coordinator.admin import GroupAdmin
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import (
    GroupEffect,
    StoredClassicGroup,
    StoredCommit,
)
from herdproof.protocols.group_protocol.messages import Error, OffsetCommitRequest

UNSET_MS = -1
"""Retention that is stored where a commit has not said how long it is kept."""


class AsksForTheInstance(BuggyPart, CommittedOffsets):
    """Whoever says an instance id must be that member."""

    def _why_not(self, group: ClassicGroup | None, request: OffsetCommitRequest) -> Error:
        as_ought = super()._why_not(group, request)
        if group is not None and request.group_instance_id is not None:
            error = group.why_not(request.member_id, request.group_instance_id)
            if error:
                if error is not as_ought:
                    self._differs()
                return error
        return as_ought


class ExpiresWhileRebalancing(BuggyPart, GroupAdmin):
    """Offsets of topics to which the last generation did not subscribe expire at any time."""

    def _is_expired(
        self, group: ClassicGroup, offset: StoredCommit, now_ms: int, kept_ms: int
    ) -> bool:
        as_ought = super()._is_expired(group, offset, now_ms, kept_ms)
        if group.is_of_consumers() and not group.is_in(GroupState.EMPTY):
            is_expired = now_ms - offset.committed_ms >= kept_ms
            if is_expired is not as_ought:
                self._differs()
            return is_expired
        return as_ought


class ExpiresWhatSaysNoTime(BuggyPart, GroupAdmin):
    """A time that was never set is one like any other, and long ago."""

    def _is_expired(
        self, group: ClassicGroup, offset: StoredCommit, now_ms: int, kept_ms: int
    ) -> bool:
        is_expired = super()._is_expired(group, offset, now_ms, kept_ms)
        if is_expired and offset.expires_ms == UNSET_MS:
            as_stored = struct_replace(offset, expires_ms=None)
            if not super()._is_expired(group, as_stored, now_ms, kept_ms):
                self._differs()
        return is_expired


class Kafka14201(BuggyCoordinator):
    """A consumer with an instance id that assigns partitions by hand cannot commit."""

    offsets_class: ClassVar[type[CommittedOffsets]] = AsksForTheInstance


class Kafka13636(BuggyCoordinator):
    """A group that rebalances loses offsets of a topic that a new member is about to read."""

    admin_class: ClassVar[type[GroupAdmin]] = ExpiresWhileRebalancing


class Kafka8069(BuggyCoordinator):
    """After a failover all offsets that nobody is subscribed to are forgotten as soon as looked."""

    admin_class: ClassVar[type[GroupAdmin]] = ExpiresWhatSaysNoTime

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """All is read: it coordinates; what says no time is read as a time long ago."""
        return super().lead(now_ms, {name: _misread(group) for name, group in groups.items()})


def _misread(group: StoredClassicGroup) -> StoredClassicGroup:
    """A stored group whose offsets are kept until a time that was never set."""
    offsets = {
        where: struct_replace(each, expires_ms=UNSET_MS) if each.expires_ms is None else each
        for where, each in group.offsets.items()
    }
    return replace(group, offsets=offsets)
