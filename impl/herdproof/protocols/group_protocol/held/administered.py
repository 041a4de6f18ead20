"""The group coordinator's core, held to the variant in which somebody administers the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused
from herdproof.conformance.beside import beside
from herdproof.conformance.flawed import with_parts
from herdproof.protocols.group_protocol.client.core.offset_requests import to_commit
from herdproof.protocols.group_protocol.coordinator.admin import GroupAdmin
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.gathered import GatheredAnswer
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators, place, with_mistake
from herdproof.protocols.group_protocol.messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    Error,
    GroupRequest,
    GroupResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    TopicToFetch,
)
from herdproof.protocols.group_protocol.simulated.gated_coordinators import GROUP
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol import spec as c
from herdspec.protocols.group_protocol.variants.administered.properties import ADMINISTERED_HELD


@beside(ADMINISTERED_HELD)
class HeldAdministered(HeldCoordinators):
    """Cores, the spec's own clients, and somebody who asks for what only tools ask for."""

    same: ClassVar = {
        **HeldCoordinators.same,
        **dict.fromkeys(("store_deleted_offsets", "store_deleted_group"), "done"),
        **dict.fromkeys(("answer_deleted_offsets", "answer_deleted_group"), "heard"),
    }
    follows: ClassVar[Mapping[str, Sequence[str]]] = {
        **HeldCoordinators.follows, "commit_from_outside": ("flush_offsets",),
    }  # fmt: skip
    offered = ("commit_from_outside", "delete_offsets", "delete_group")

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Nobody has asked for anything."""
        super().begin(Broker, Member, Partition)
        self._outside: dict[int, GroupResponse | None] = {}
        """The answers to what was asked by nobody who is a member, by the number of that."""

    def _perform(self, effects: Any, present: int = 0) -> None:
        mine = [*effects]
        for effect in mine:
            if getattr(effect, "caller", None) in self._outside:
                self._outside[effect.caller] = effect.response
        others = [e for e in mine if getattr(e, "caller", None) not in self._outside]
        super()._perform(others, present)

    def _administer(self, request: GroupRequest) -> None:
        """Ask for what is answered once it is stored; what is answered at once is refused."""
        core = self._coordinator
        if core is None or self._write is not None:
            raise Refused("nobody decides anything now")
        caller = self._numbers()
        self._outside = {caller: None}
        self._perform(core.handle(self._now_ms, caller, request), caller)
        if self._outside[caller] is not None:
            raise Refused(str(self._outside[caller]))

    # ── What is asked ───────────────────────────────────────────────────────────────────────

    def _commit_from_outside(self, p: c.Partition, offset: int) -> None:
        if not offset:
            raise Refused("there is no such offset to the spec")
        topics = to_commit({place(p): offset})
        self._administer(OffsetCommitRequest(version=9, group_id=GROUP, topics=topics))

    def _delete_offsets(self, p: c.Partition) -> None:
        topic, number = place(p)
        topics = (TopicToFetch(topic, (number,)),)
        self._administer(OffsetDeleteRequest(version=0, group_id=GROUP, topics=topics))

    def _delete_group(self) -> None:
        """Delete what is stored; a group that somebody is only about to join is none."""
        if self._stored.metadata is None and not self._stored.offsets:
            raise Refused("nothing is stored of it")
        self._administer(DeleteGroupsRequest(version=2, groups=(GROUP,)))
        self._noted.clear()

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _in_store(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {
            "generation": 0, "assigned": 0, "leader": None,
            "belongs": dict.fromkeys(Member, False), "owner": dict.fromkeys(Partition),
        }  # fmt: skip
        return {**(nothing if self._stored.metadata is None else {}), **super()._in_store()}

    def _taken_offsets(self) -> dict[str, Any]:
        is_under_way = self._kind() is c.GroupWrite.DELETED_OFFSETS and not self._is_done
        going = self._write.offsets if self._write is not None and is_under_way else {}
        seen = super()._taken_offsets()
        return {**seen, "going": {p: place(p) in going for p in Partition}}

    def _kind(self) -> c.GroupWrite:
        write = self._write
        if write is not None and write.is_deleted:
            return c.GroupWrite.DELETED_GROUP
        if write is not None and None in write.offsets.values():
            return c.GroupWrite.DELETED_OFFSETS
        return super()._kind()


# ── Cores with a mistake ────────────────────────────────────────────────────────────────────


class DeletesWithMembers(GroupAdmin):
    """Deletes groups, whoever is in them."""

    def _delete(self, gathered: GatheredAnswer[DeletedGroup], place: int, name: str) -> None:
        group = self._groups[name]
        self._context.delete_group(name, partial(self._deleted, gathered, place, group))


class TakesFromAnywhere(CommittedOffsets):
    """Takes commits from outside whatever the group's state."""

    def _why_not(self, group: ClassicGroup | None, request: OffsetCommitRequest) -> Error:
        return Error.NONE if request.generation_id < 0 else super()._why_not(group, request)

    def _why_not_partition(self, *of: Any) -> Error:
        """Nobody asks who owns the partition."""
        del of
        return Error.NONE


ADMINISTERED_CORES: Mapping[str, type[GroupCoordinator]] = {
    "deleted_with_members": with_parts(GroupCoordinator, admin_class=DeletesWithMembers),
    "commits_from_anywhere": with_parts(GroupCoordinator, offsets_class=TakesFromAnywhere),
}
"""By mistake of this variant, the core that has it."""


def administered(switches: frozenset[str], spec: Specification) -> type[HeldCoordinators]:
    """The adapter of cores with this mistake, for the variant of the spec that has it, too."""
    return with_mistake(HeldAdministered, ADMINISTERED_HELD, ADMINISTERED_CORES, switches, spec)
