"""
The group coordinator with a mistake put into it: what the simulator, and the spec, are to find.

Both mistakes are Kafka's own: a generation is told before it is stored, and of a commit nothing but
the member and its generation is looked at. The third one is worse than Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, StoredThen
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.coordinator.stored import as_stored, metadata_of
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupResponse,
    OffsetCommitRequest,
    PartitionToCommit,
)
from herdproof.protocols.group_protocol.simulated.member import SimulatedGroupMember
from herdproof.protocols.group_protocol.steps import GroupAction


class TellsFirst(GroupContext):
    """Goes on at once with what is only about to be stored."""

    def store_group(self, action: GroupAction, group: ClassicGroup, then: StoredThen) -> None:
        """Store what a group is, and wait for nothing."""
        self.outbox.store(as_stored(action, group), _ignore, metadata=metadata_of(group))
        then(True)


class OfAnyMember(CommittedOffsets):
    """Takes commits for partitions of other members."""

    def _why_not_partition(
        self, group: ClassicGroup, member_id: str, where: TopicPartition, offset: PartitionToCommit
    ) -> Error:
        del group, member_id, where, offset
        return Error.NONE


class OfAnybody(OfAnyMember):
    """Takes every commit, whoever it is from, and whenever."""

    def _why_not(self, group: ClassicGroup | None, request: OffsetCommitRequest) -> Error:
        del group, request
        return Error.NONE


class TellsBeforeStoring(GroupCoordinator):
    """A generation that is told may be told to others, after a failover."""

    context_class: ClassVar[type[GroupContext]] = TellsFirst


class TakesAnyMembersCommit(GroupCoordinator):
    """A member overwrites the offset of a partition that is another's."""

    offsets_class: ClassVar[type[CommittedOffsets]] = OfAnyMember


class TakesAnyCommit(GroupCoordinator):
    """Who was taken for dead overwrites offsets."""

    offsets_class: ClassVar[type[CommittedOffsets]] = OfAnybody


class CommitsWhatItHad(SimulatedGroupMember):
    """A client that commits what it had, under the generation that it has joined since."""

    had: tuple[int, Mapping[TopicPartition, int]] = (0, MappingProxyType({}))
    """In which generation, and how far it was."""

    def _stop(self) -> None:
        self.had = (self.generation, dict(self.fresh))
        super()._stop()

    def _synced(self, told: GroupResponse) -> None:
        generation, fresh = self.had
        if fresh and self.generation == generation + 1:
            self.fresh = dict(fresh)
            self._commit(None)
            self.fresh = {}
        super()._synced(told)


def _ignore(ok: bool) -> None:
    """Go on with nothing, be it stored or not."""
    del ok
