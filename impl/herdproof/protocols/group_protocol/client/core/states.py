"""The states of a member as its own client knows it, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from herdproof.protocols.group_protocol.messages import NO_GENERATION


class MemberState(Enum):
    """State of a member in its group."""

    UNJOINED = "UNJOINED"
    """It is in no generation; so it begins."""
    REBALANCING = "REBALANCING"
    """Its JoinGroup, or its SyncGroup, is under way; from before the first is sent."""
    STABLE = "STABLE"
    """It has its assignment."""


NEXT: Mapping[MemberState, tuple[MemberState, ...]] = {
    MemberState.UNJOINED: (MemberState.REBALANCING,),
    MemberState.REBALANCING: (MemberState.STABLE, MemberState.UNJOINED),
    MemberState.STABLE: (MemberState.REBALANCING, MemberState.UNJOINED),
}
"""The states that may follow each."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Membership in a group: in which generation, under which id and protocol."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol: str | None = None

    @property
    def over(self) -> Generation:
        """The membership that is left when its generation is over: the member id."""
        return Generation(member_id=self.member_id)


NO_MEMBER = Generation()
"""Whoever is in no group: also who assigns partitions by hand."""


def transition(before: MemberState, after: MemberState) -> MemberState:
    """The state after, which the table must have."""
    assert after in NEXT[before], f"a member does not go from {before.value} to {after.value}"
    return after
