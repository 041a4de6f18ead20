"""Which core a coordinator has: the one that is held to the spec, or one with a historical bug."""

from __future__ import annotations

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator


def core_with(bug: str | None) -> type[GroupCoordinator]:
    """The core, or one with this bug; bugs are imported here alone. Raises `NoSuchBug`."""
    if bug is None:
        return GroupCoordinator
    from herdproof.protocols.group_protocol.bugs.registry import bug_named

    return bug_named(bug)
