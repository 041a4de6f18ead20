"""
The states of a group, and every transition between them: one table that code, docs and tests read.

Source: apache/kafka, `ClassicGroupState` (there by the states before; here by those after).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """Where a group is, under Kafka's names."""

    EMPTY = "Empty"
    """It has no members, perhaps committed offsets; some may be about to join."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Its members are to join anew; who does not in time is a member no longer."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined a new generation; its leader is to bring what each is assigned."""
    STABLE = "Stable"
    """All know what they are assigned, or can ask for it."""
    DEAD = "Dead"
    """It is deleted, or another coordinator's."""


NEXT: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}


def transition(before: GroupState, after: GroupState) -> GroupState:
    """The state after, which the table must have."""
    assert after in NEXT[before], f"a group does not go from {before.value} to {after.value}"
    return after


def mermaid() -> str:
    """The diagram of docs, drawn from the table."""
    arrows = (
        f"  {before.value} --> {after.value}"
        for before in GroupState
        for after in GroupState
        if after in NEXT[before] and after is not before
    )
    return "\n".join(["stateDiagram-v2", *arrows])
