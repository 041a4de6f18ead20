"""
Operators' commands on a group that nobody is a member of: reset its offsets, delete it.

Each is one transaction (or several, where one cannot hold it all) that ZooKeeper refuses if the
group is no longer what it was when it was looked at:

- The group's commit point is set anew under the version that was read. A coordinator that decided
  on anything beside this, by what it had read before, is refused in turn, and reads again.
- The node above its subscriptions is deleted and created: ZooKeeper deletes no node that has
  children, so this fails as soon as one consumer has registered.

Source: *ours*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herdproof.consuming.assignment import Partition
from herdproof.consuming.group_nodes import ROOT
from herdproof.consuming.stored_groups import (
    Write,
    emptied,
    offset_writes,
    refused,
    require_empty,
    split,
)
from herdproof.protocols.central_coordinator.stored_groups import StoredGroup, StoredGroups
from herdproof.protocols.election.shell import parents
from herdproof.zookeeper.operations import (
    Create,
    Delete,
    Done,
    Multi,
    Refusal,
    Set,
    Why,
)


def reset_offsets(
    groups: StoredGroups, group: StoredGroup, offsets: Mapping[Partition, int]
) -> None:
    """
    Store these offsets instead of what is stored, if the group is as it was and has no members.

    Raises `GroupHasMembers`, `GroupChanged` or `NotAnswered`; then nothing was done, or, of a
    reset that one transaction cannot hold, what the error says.
    """
    require_empty(group)
    writes = offset_writes(
        offsets,
        group.offset_versions,
        lambda partition: groups.paths.offset(group.name, *partition),
    )
    above = sorted({node for write in writes for node in parents(write.path)})
    for answer in groups.ask_all([Create(path) for path in above]):
        if isinstance(answer, Refusal) and answer.why is not Why.NODE_EXISTS:
            raise refused(group, answer, 0, 1)
    write_in_parts(groups, group, writes)


def delete(groups: StoredGroups, group: StoredGroup) -> None:
    """
    Delete a group and all that is stored of it, if it is as it was and has no members.

    Raises as `reset_offsets` does. The group itself goes with the last part: to delete it again
    deletes what is left.
    """
    require_empty(group)
    owners, offsets = groups.paths.owners(group.name), groups.paths.offsets(group.name)
    nodes = [Delete(path) for top in (owners, offsets) for path in groups.tree(top)]
    write_in_parts(groups, group, nodes, farewell=True)
    groups.ask_all([Delete(owners.rpartition("/")[0])])  # unless somebody keeps something there


def write_in_parts(
    groups: StoredGroups, group: StoredGroup, writes: Sequence[Write], *, farewell: bool = False
) -> None:
    """Do writes, each part only if nobody else has touched the group; `farewell` deletes it."""
    parts = list(split(writes))
    version = group.commit_point.stat.version
    for number, part in enumerate(parts):
        ends = farewell and number == len(parts) - 1
        guard = guarded(groups, group, version + number, number > 0, ends)
        [answer] = groups.ask_all([Multi((*guard, *part))])
        if not isinstance(answer, Done):
            raise refused(group, answer, number, len(parts))


def guarded(
    groups: StoredGroups, group: StoredGroup, version: int, is_made: bool, ends: bool
) -> list[Write]:
    """Writes that ZooKeeper refuses if the group was touched, or if somebody has registered."""
    node, own = groups.paths.group(group.name), groups.paths.subscriptions(group.name)
    others = [path for path in group.registers if path != own]
    stands = own in group.registers or is_made
    emptied_own: list[Write] = [Delete(own)] if stands else []
    if ends:
        return [*emptied(others), *emptied_own, Delete(node, version)]
    return [
        Set(node, group.commit_point.data, version), *emptied(others), *emptied_own, Create(own),
    ]  # fmt: skip


class CoordinatedGroups(StoredGroups):
    """The groups that a coordinator has, or had."""

    root = ROOT

    def reset_offsets(self, group: StoredGroup, offsets: Mapping[Partition, int]) -> None:
        """See `reset_offsets`."""
        reset_offsets(self, group, offsets)

    def delete(self, group: StoredGroup) -> None:
        """See `delete`."""
        delete(self, group)
