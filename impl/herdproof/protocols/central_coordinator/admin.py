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

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from herdproof.consuming.assignment import Partition
from herdproof.errors import CallerError, HerdError, WorldError
from herdproof.protocols.central_coordinator.stored_groups import (
    NotAnswered,
    StoredGroup,
    StoredGroups,
    in_order,
)
from herdproof.protocols.election.shell import parents
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Delete,
    Done,
    Exists,
    Found,
    Multi,
    Refusal,
    Set,
    Why,
)

Write: TypeAlias = Create | Delete | Set

MAX_TRANSACTION_BYTES = 512 * 1024
"""A larger transaction is split; ZooKeeper's own limit is just below 1 MiB."""
OPERATION_BYTES = 128
"""What an operation takes in a transaction beside its path and data, generously."""


class GroupHasMembers(CallerError):
    """What was asked for is not done to a group that somebody consumes in."""


class GroupChanged(WorldError):
    """Somebody else changed the group after it was looked at."""


def reset_offsets(
    groups: StoredGroups, group: StoredGroup, offsets: Mapping[Partition, int]
) -> None:
    """
    Store these offsets instead of what is stored, if the group is as it was and has no members.

    Raises `GroupHasMembers`, `GroupChanged` or `NotAnswered`; then nothing was done, or, of a
    reset that one transaction cannot hold, what the error says.
    """
    require_empty(group)
    writes: list[Write] = []
    for partition in sorted(offsets, key=in_order):
        path, data = groups.paths.offset(group.name, *partition), str(offsets[partition]).encode()
        version = group.offset_versions.get(partition)
        writes.append(Create(path, data) if version is None else Set(path, data, version))
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
    nodes = [Delete(path) for top in (owners, offsets) for path in tree(groups, top)]
    write_in_parts(groups, group, nodes, farewell=True)
    groups.ask_all([Delete(owners.rpartition("/")[0])])  # unless somebody keeps something there


def require_empty(group: StoredGroup) -> None:
    """Refuse what would pull the ground from under members."""
    if group.members:
        named = ", ".join(sorted(group.members)[:5]) + (", …" if len(group.members) > 5 else "")
        raise GroupHasMembers(
            f"The group {group.name!r} has members ({named}): close its consumers first. One that "
            f"crashed goes when its session timeout has passed, and a coordinator has to run."
        )


def tree(groups: StoredGroups, top: str) -> Iterator[str]:
    """The nodes of a tree that stand, each after those below it; its top too."""
    [found] = groups.ask_all([Exists(top)])
    if found == Found(None):
        return
    for name in groups.children(top):
        yield from tree(groups, f"{top}/{name}")
    yield top


def write_in_parts(
    groups: StoredGroups, group: StoredGroup, writes: Sequence[Write], *, farewell: bool = False
) -> None:
    """Do writes, each part only if nobody else has touched the group; `farewell` deletes it."""
    parts = list(split(writes))
    version, stands = group.commit_point.stat.version, group.has_subscriptions
    for number, part in enumerate(parts):
        ends = farewell and number == len(parts) - 1
        guard = guarded(groups, group, version + number, stands or number > 0, ends)
        [answer] = groups.ask_all([Multi((*guard, *part))])
        if not isinstance(answer, Done):
            raise refused(group, answer, number, len(parts))


def guarded(
    groups: StoredGroups, group: StoredGroup, version: int, stands: bool, ends: bool
) -> list[Write]:
    """What ZooKeeper refuses if the group was touched, or if somebody has registered."""
    node, above = groups.paths.group(group.name), groups.paths.subscriptions(group.name)
    emptied: list[Write] = [Delete(above)] if stands else []
    if ends:
        return [*emptied, Delete(node, version)]
    return [Set(node, group.commit_point.data, version), *emptied, Create(above)]


def split(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """Transactions of these writes, none too large; at least one."""
    part: list[Write] = []
    room = MAX_TRANSACTION_BYTES
    for write in writes:
        data = b"" if isinstance(write, Delete) else write.data
        needs = len(write.path.encode()) + len(data) + OPERATION_BYTES
        if needs > room and part:
            yield part
            part, room = [], MAX_TRANSACTION_BYTES
        part.append(write)
        room -= needs
    yield part


def refused(group: StoredGroup, answer: Answer, done: int, parts: int) -> HerdError:
    """What to say of a transaction that was not done."""
    so_far = f"{done} of {parts} parts are done" if done else "nothing was done"
    match answer:
        case Refusal(why=Why.NOT_EMPTY | Why.BAD_VERSION | Why.NO_NODE | Why.NODE_EXISTS):
            return GroupChanged(
                f"The group {group.name!r} was changed while this was decided ({so_far}): a "
                f"consumer has registered, or somebody else resets it. Look again."
            )
        case Refusal(why=Why.BAD_ARGUMENTS):
            return NotAnswered(
                f"ZooKeeper refused to change {group.name!r} ({so_far}): its nodes belong to "
                f"another user, so give --config with zookeeper.user and password_file."
            )
        case _:
            return NotAnswered(
                f"ZooKeeper gave no answer: nobody knows whether part {done + 1} of {parts} was "
                f"done. Describe the group, and try again."
            )
