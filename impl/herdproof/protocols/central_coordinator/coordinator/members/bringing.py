"""
Offsets that are brought: where the owners of partitions have stopped, as their process says.

Who registers names former registrations that are over, and where their fetchers stopped. What such
a one has finished, and could not report any more, is taken from it as if it had, and stored before
anybody else is given the partition: of the partition's owner alone, in the present generation, if
it had the same consumer id. A stored offset is read before one is taken, so that none goes back.

Source: herdspec's variant `bringing`; docs/wire.md, "Bodies of version 4".
"""

from __future__ import annotations

from collections.abc import Iterator

from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.commits import normal
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Registered
from herdproof.protocols.central_coordinator.wire.messages import Brought


class BroughtOffsets(CorePart):
    """Takes offsets from who registers, of its former registrations."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._offsets = context.offsets

    def unread(self, group: Group, member: Registered) -> list[Partition]:
        """The partitions of which it brings an offset, and the stored one is not read yet."""
        said = {partition: None for partition, _ in self._of_owners(group, member)}
        return self._offsets.missing(group.name, said)

    def take(self, group: Group, member: Registered) -> tuple[Offset, ...]:
        """Note, once, what it brings; returns that. All that is stored of it has been read."""
        taken: dict[Partition, int] = {}
        for partition, offset in self._of_owners(group, member):
            taken[partition] = max(offset, taken.get(partition, offset))
            self._offsets.note(group.name, partition, offset)
        member.brought = ()
        self._offsets.flush_later()
        return tuple(Offset(*partition, offset) for partition, offset in taken.items())

    def _of_owners(self, group: Group, member: Registered) -> Iterator[tuple[Partition, int]]:
        """The offsets that it brings, as far as they count."""
        for one in member.brought if member.auto_commit else ():
            for offset in one.offsets:
                partition = (offset.topic, normal(offset.partition))
                if offset.offset >= 0 and self._may_bring(group, member, one, partition):
                    yield partition, offset.offset

    def _may_bring(
        self, group: Group, member: Registered, one: Brought, partition: Partition
    ) -> bool:
        """True if a registration that is over owns a partition still, and is the member's own."""
        owner = group.owners.get(partition)
        return (
            owner is not None
            and one.registration in member.former
            and owner.registration == one.registration
            and owner.consumer_id == member.consumer_id
            and one.generation == group.generation
            and not group.is_closed()
        )
