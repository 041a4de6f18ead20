"""The group coordinator's core, held to the variant in which subscriptions change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.conformance.beside import beside
from herdproof.conformance.flawed import with_parts
from herdproof.consuming.consumer_protocol import read_subscription
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators, place, with_mistake
from herdproof.protocols.group_protocol.held.choosing import ListsUnnoticed
from herdproof.protocols.group_protocol.messages import JoinGroupRequest
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.variants.subscriptions.properties import SUBSCRIPTIONS_HELD


@beside(SUBSCRIPTIONS_HELD)
class HeldResubscribing(HeldCoordinators):
    """Cores, and clients of the spec's own that change their subscriptions."""

    def _seen(self) -> dict[str, Any]:
        """The fields: beside others, subscriptions as stored, and as they are in memory."""
        stored, group = self._stored.metadata, self._group
        members = () if stored is None else stored.members
        of_stored = {member.member_id: member.subscription for member in members}
        in_memory = group.members if group is not None else {}
        says = {name: member.protocols[0].metadata for name, member in in_memory.items()}
        return {
            **super()._seen(),
            "interest": self._subscriptions(of_stored),
            "says": self._subscriptions(of_stored if self._leader is None else says),
        }

    def _subscriptions(self, said: Mapping[str, bytes]) -> dict[tuple[Member, Partition], bool]:
        """By member and partition, if it subscribes to the partition's topic."""
        topics = {name: read_subscription(data)["topics"] for name, data in said.items()}
        return {
            (m, p): place(p)[0] in topics.get(self._ids.get(m, ""), ())
            for m in Member
            for p in Partition
        }

    def _asks_for(self, m: Member, p: Partition) -> bool:
        return bool(self._s.asked_for[m, p])


class KeepsTheFirst(Joins):
    """A member that says something else begins a rebalance, and nobody takes down what it says."""

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest
    ) -> None:
        """It counts what the member has said when it came."""


RESUBSCRIBING_CORES: Mapping[str, type[GroupCoordinator]] = {
    "other_subscription_unnoticed": with_parts(GroupCoordinator, joins_class=ListsUnnoticed),
    "first_subscription_kept": with_parts(GroupCoordinator, joins_class=KeepsTheFirst),
}
"""By mistake of this variant, the core that has it; the others are clients'."""


def resubscribing(switches: frozenset[str], spec: Specification) -> type[HeldCoordinators]:
    """The adapter of cores with this mistake, for the variant of the spec that has it, too."""
    return with_mistake(HeldResubscribing, SUBSCRIPTIONS_HELD, RESUBSCRIBING_CORES, switches, spec)
