"""Which core a coordinator has: the one that is held to the spec, or one with a historical bug."""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.server.shell import ObserveGroups, ignore_effects


@dataclass(frozen=True)
class GroupCore:
    """Which core a coordinator has, and who is told of all that it does."""

    coordinator: type[GroupCoordinator] = GroupCoordinator
    observe: ObserveGroups = ignore_effects


def core_with(bug: str | None) -> type[GroupCoordinator]:
    """The core, or one with this bug; bugs are imported here alone. Raises `NoSuchBug`."""
    if bug is None:
        return GroupCoordinator
    from herdproof.protocols.group_protocol.bugs.registry import bug_named

    return bug_named(bug)
