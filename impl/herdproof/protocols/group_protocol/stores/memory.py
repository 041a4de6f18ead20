"""A store in this process's memory: nothing waits, nothing fails, and nothing outlives it."""

from __future__ import annotations

from herdproof.protocols.group_protocol.effects import StoredClassicGroup, StoreGroup
from herdproof.protocols.group_protocol.stores.port import LoadedThen, WriteOutcome, WrittenThen


class MemoryGroupStore:
    """The groups of a coordinator that is the only one."""

    def __init__(self) -> None:
        self.groups: dict[str, StoredClassicGroup] = {}
        self.epoch = 0

    def load(self, epoch: int, then: LoadedThen) -> None:
        """All groups, at once."""
        self.epoch = epoch
        then(dict(self.groups))

    def write(self, change: StoreGroup, then: WrittenThen) -> None:
        """Do a change at once."""
        changed = applied(self.groups.get(change.group, StoredClassicGroup()), change)
        if changed is None:
            self.groups.pop(change.group, None)
        else:
            self.groups[change.group] = changed
        then(WriteOutcome.DONE)


def applied(group: StoredClassicGroup, change: StoreGroup) -> StoredClassicGroup | None:
    """A stored group after a change; None where nothing of it is left."""
    if change.is_deleted:
        return None
    metadata = group.metadata if change.metadata is None else change.metadata
    offsets = {**group.offsets, **change.offsets}
    left = {where: offset for where, offset in offsets.items() if offset is not None}
    return StoredClassicGroup(metadata, left) if metadata is not None or left else None
