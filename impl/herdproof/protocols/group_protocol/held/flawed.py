"""
The group coordinator with a mistake put into it: what the simulator, and the spec, are to find.

Those of `FLAWS` have variants of the same names in the spec. Two of them are Kafka's own: a
generation is stored with its assignment, and told before; of a commit nothing but the member and
its generation is looked at. `TakesAnyCommit` is worse than Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from herdproof.conformance.flawed import with_parts
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.states import Generation
from herdproof.protocols.group_protocol.coordinator.context import GroupContext, StoredThen
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.sessions import Sessions
from herdproof.protocols.group_protocol.coordinator.stored import as_stored
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    OffsetCommitRequest,
    PartitionToCommit,
)
from herdproof.protocols.group_protocol.steps import GroupAction


class TellsFirst(GroupContext):
    """Goes on at once with a generation, which is stored with its assignment."""

    def store_group(self, action: GroupAction, group: ClassicGroup, then: StoredThen) -> None:
        """Store what a group is, unless its members are yet to be assigned anything."""
        if action == "complete_join" and group.members:
            self.outbox.take(as_stored(action, group))
            then(True)
        else:
            super().store_group(action, group, then)


class NeverWaits(Sessions):
    """Looks at nothing but the time."""

    def _waits(self, group: ClassicGroup, member_id: str) -> bool:
        del group, member_id
        return False


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


class CommitsItsFormer(ConsumerCoordinator):
    """Commits what it had, under the generation that it has joined since."""

    had: tuple[int, Mapping[TopicPartition, int]] = (0, MappingProxyType({}))
    """In which generation, and how far it was."""

    def give_up(self, *, is_member: bool) -> RequestFuture[None]:
        """Remember how far it is."""
        self.had = (self.generation.generation_id, self.subscriptions.finished())
        return super().give_up(is_member=is_member)

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Commit that before anything else."""
        former, offsets = self.had
        if generation.generation_id == former + 1:
            self.offsets.commit(offsets)
        super().on_join_complete(generation, assignment)


TellsBeforeStoring = with_parts(GroupCoordinator, context_class=TellsFirst)
"""A generation that is told may be told to others, after a failover."""
TakesAnyMembersCommit = with_parts(GroupCoordinator, offsets_class=OfAnyMember)
"""A member overwrites the offset of a partition that is another's."""
TakesAnyCommit = with_parts(GroupCoordinator, offsets_class=OfAnybody)
"""Who was taken for dead overwrites offsets."""
ExpelsWhoWaits = with_parts(
    GroupCoordinator, rebalancer_class=with_parts(GroupRebalancer, sessions_class=NeverWaits)
)
"""A session timer goes on while JoinGroup or SyncGroup waits."""
CommitsWhatItHad = with_parts(GroupConsumer, coordinator_class=CommitsItsFormer)
"""A client that commits what it had, under the generation that it has joined since."""

Flawed = tuple[type[GroupCoordinator], type[GroupConsumer]]
FLAWS: Mapping[str, Flawed] = {
    "generation_unstored": (TellsBeforeStoring, GroupConsumer),
    "commit_by_generation": (TakesAnyMembersCommit, CommitsWhatItHad),
    "expels_who_waits": (ExpelsWhoWaits, GroupConsumer),
}
"""Cores by the names of the spec's variants, each with the clients that show its mistake."""
