"""
The group coordinator's core, held to the variant in which members choose among protocols.

A protocol is one of as many names as there are assignors; all of them say the same of a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.conformance.beside import beside
from herdproof.conformance.flawed import with_parts
from herdproof.protocols.group_protocol.coordinator.context import GroupContext, StoredThen
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import (
    ClassicGroup,
    ClassicMember,
)
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.held.adapter import ANSWERED, HeldCoordinators, with_mistake
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupProtocol,
    GroupResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from herdproof.protocols.group_protocol.steps import GroupAction
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member
from herdspec.protocols.group_protocol.variants.choice import spec as c
from herdspec.protocols.group_protocol.variants.choice.properties import CHOICE_HELD


def assignor(name: str | None) -> c.Assignor | None:
    """The assignor of a protocol's name."""
    return c.Assignor(int(name[1:])) if name else None


@beside(CHOICE_HELD)
class HeldChoosing(HeldCoordinators):
    """Cores, and clients of the spec's own that list protocols."""

    chosen: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "store_assignment": ("plan",), "store_generation": ("leader", "protocol"),
    }  # fmt: skip

    def begin(  # type: ignore[override]
        self, Broker: int, Member: int, Partition: int, Assignor: int  # noqa: N803 - sorts
    ) -> None:  # fmt: skip
        """Begin with a number of each; nobody is elected."""
        self._open(Broker=Broker, Member=Member, Partition=Partition, Assignor=Assignor)
        self._open_world(Broker)

    def _seen(self) -> dict[str, Any]:
        stored = self._stored.metadata
        protocol = None if stored is None else assignor(stored.protocol)
        return {**super()._seen(), "protocol": protocol, "listed_by": self._listed()}

    def _listed(self) -> dict[tuple[c.Member, c.Assignor], bool]:
        """By what the core has in memory; where nobody has, the spec looks at what is stored."""
        if self._leader is None:
            return dict(self._s.listed_by)
        members = self._group.members if self._group is not None else {}
        lists = {
            m: {p.name for p in members[name].protocols} if name in members else set()
            for m in Member
            for name in (self._ids.get(m, ""),)
        }
        return {(m, a): f"a{a.index}" in lists[m] for m in Member for a in c.Assignor}

    def _told(self) -> dict[str, Any]:
        return {name: dict(getattr(self._s, name)) for name in (*ANSWERED, "uses")}

    def _end_step(self, before: c.ChoosingGroup) -> None:  # type: ignore[override]
        self._s.uses = dict(before.uses)
        super()._end_step(before)

    def _hears(self, s: c.ChoosingGroup, m: c.Member, told: GroupResponse) -> None:  # type: ignore[override]
        super()._hears(s, m, told)
        if isinstance(told, JoinGroupResponse) and told.error is Error.NONE:
            s.uses[m] = assignor(told.protocol_name)

    def _protocols(self, m: c.Member) -> tuple[GroupProtocol, ...]:
        names = (f"a{a.index}" for a in c.Assignor if self._s.supports[m, a])
        return self._subscribed_by(m, *names)

    def _store_generation(self) -> tuple[c.Member | None, c.Assignor | None]:  # type: ignore[override]
        leader = super()._store_generation()
        assert self._stored.metadata is not None
        return leader, assignor(self._stored.metadata.protocol)


# ── Cores with a mistake ────────────────────────────────────────────────────────────────────


class TakesTheLeaders(GroupContext):
    """Stores a generation with the protocol that its leader has listed first, the last to come."""

    def store_group(self, action: GroupAction, group: ClassicGroup, then: StoredThen) -> None:
        """The others are not asked."""
        if action == "complete_join" and group.members:
            group.leader, leader = list(group.members.items())[-1]
            group.protocol = leader.protocols[0].name
        super().store_group(action, group, then)


class ListsUnnoticed(Joins):
    """A member that lists other protocols is told of the generation that there is."""

    def _changes(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest
    ) -> bool:
        """Its protocols are taken down, and that is all."""
        self._update(group, member, request)
        return group.is_in(GroupState.PREPARING_REBALANCE) or (
            group.is_in(GroupState.STABLE) and member.member_id == group.leader
        )


CHOOSING_CORES: Mapping[str, type[GroupCoordinator]] = {
    "leaders_protocol": with_parts(GroupCoordinator, context_class=TakesTheLeaders),
    "other_protocols_unnoticed": with_parts(GroupCoordinator, joins_class=ListsUnnoticed),
    "only_the_chosen_is_stored": GroupCoordinator,
    "held_to_what_it_was": GroupCoordinator,
}
"""By mistake of this variant, the core that has it; the last two are of the core as it is."""


def choosing(switches: frozenset[str], spec: Specification) -> type[HeldCoordinators]:
    """The adapter of cores with this mistake, for the variant of the spec that has it, too."""
    return with_mistake(HeldChoosing, CHOICE_HELD, CHOOSING_CORES, switches, spec)
