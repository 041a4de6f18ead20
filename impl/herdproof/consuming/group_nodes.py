"""
Who is in a group, by its nodes in ZooKeeper: a group has one protocol, and the others stay out.

Members that rebalance by themselves register below `ids`, as Kafka 0.8's do; those that a
coordinator has, below its own node of the group. Both keep owners and offsets in one tree. So
whoever registers writes its own node first, and looks for the others' then: of two that come at
once at least one sees the other, and refuses.

Source: *ours*.
"""

from __future__ import annotations

from collections.abc import Sequence

ROOT = "/consumers"
"""Its children are the groups, of either protocol."""


def ids(group: str) -> str:
    """Its children are members that rebalance by themselves; the group is named as nodes are."""
    return f"{ROOT}/{group}/ids"


def coordinated(group: str) -> str:
    """It stands if a coordinator has, or had, this group."""
    return f"/herdproof/groups/{group}"


def subscriptions(group: str) -> str:
    """Its children are the members that a coordinator has, and those whose leases still run."""
    return f"{coordinated(group)}/subscriptions"


def refusal(group: str, members: Sequence[str], above: str) -> str:
    """The sentence for whoever finds another protocol's members in a group."""
    named = ", ".join(sorted(members)[:3]) + (", …" if len(members) > 3 else "")
    return (
        f"the group {group!r} has members of another protocol ({named}, below {above}), and a "
        f"group has one: close them first, or take another group"
    )
