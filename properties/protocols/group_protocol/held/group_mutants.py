"""Twelve mistakes planted in the group coordinator's core, beside those that have variants."""

from collections.abc import Mapping
from typing import cast

from herdproof.conformance.flawed import Flawed
from herdproof.protocols.group_protocol.coordinator.context import Deed, GroupContext, StoredThen
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.memberships import Memberships
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets, Offsets
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.coordinator.stored import as_stored, metadata_of
from herdproof.protocols.group_protocol.effects import GroupEffect, StoredClassicGroup
from herdproof.protocols.group_protocol.messages import (
    Error,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from herdproof.protocols.group_protocol.steps import WAITS, GroupAction


class WelcomesStrangers(Joins):
    """Whoever says to be a member becomes one again."""

    def _rejoin(self, group: ClassicGroup, caller: int, request: JoinGroupRequest) -> None:
        if request.member_id not in group.members:
            group.pending[request.member_id] = None
            self._take(group.name, request.member_id, WAITS)
            self._add(group, caller, request, request.member_id)
        else:
            super()._rejoin(group, caller, request)


class LeaderUnheard(Joins):
    """A leader that joins a stable group anew is told what it knows."""

    def _changes(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest
    ) -> bool:
        stable = group.is_in(GroupState.STABLE)
        return not stable and super()._changes(group, member, request)


class BeatsAnyGeneration(Memberships):
    """A heartbeat of an older generation is taken for one of the present."""

    def heartbeat(self, caller: int, request: HeartbeatRequest) -> None:
        """Whatever generation it names."""
        group = self._groups.get(request.group_id)
        if group is not None and request.generation_id < group.generation:
            self._take("heartbeat", request, Error.NONE.name)
            object.__setattr__(request, "generation_id", group.generation)
        super().heartbeat(caller, request)


class NeverSaysRebalance(Memberships):
    """Heartbeats do not tell that all are to join anew."""

    def heartbeat(self, caller: int, request: HeartbeatRequest) -> None:
        """As if the group were stable."""
        group = self._groups.get(request.group_id)
        if group is None or not group.is_in(GroupState.PREPARING_REBALANCE):
            super().heartbeat(caller, request)
            return
        group.state = GroupState.STABLE
        super().heartbeat(caller, request)
        group.state = GroupState.PREPARING_REBALANCE


class NobodyLeaves(Memberships):
    """LeaveGroup is answered, and forgotten."""

    def leave(self, caller: int, request: LeaveGroupRequest) -> None:
        """Say that it is done."""
        for one in request.members:
            group = self._groups.get(request.group_id)
            if group is not None and one.member_id in group.members:
                self._left(group, one.member_id, Error.NONE)
        self._outbox.answer(caller, LeaveGroupResponse())


class FetchesAtOnce(CommittedOffsets):
    """An OffsetFetch does not wait for the commits that came before it."""

    def after_commits(self, group: str, deed: Deed) -> None:
        """Do it now."""
        self._in_turn(group, deed)


class AnswersUnstored(CommittedOffsets):
    """An OffsetCommit is answered before it is stored."""

    def _store(
        self, action: GroupAction, group: ClassicGroup, offsets: Offsets, then: StoredThen
    ) -> None:
        super()._store(action, group, offsets, _ignore)
        then(True)


class WaitsForNobody(GroupRebalancer):
    """The next generation begins once one has joined; who has not is dropped without a word."""

    def complete_if_joined(self, group: ClassicGroup) -> None:
        """Begin it."""
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.joining:
            missing = [m for m in group.members if m not in group.joining]
            for member_id in missing:
                self.drop(group, member_id)
            self.complete(group)


class SkipsGenerations(GroupCoordinator):
    """It counts on from one generation further than it has loaded."""

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """Load, and add one."""
        effects = super().lead(now_ms, groups)
        for group in self.groups.values():
            group.generation += 1
        return effects


class ForgetsOffsets(GroupCoordinator):
    """It loads members alone."""

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """Load, and forget offsets."""
        effects = super().lead(now_ms, groups)
        for group in self.groups.values():
            group.offsets.clear()
        return effects


class ForgetsMember(GroupCoordinator):
    """It loads all members but one."""

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """Load, and forget the last."""
        effects = super().lead(now_ms, groups)
        for group in self.groups.values():
            for member_id in list(group.members)[1:][-1:]:
                group.remove(member_id)
        return effects


class AssignsUnstored(GroupContext):
    """Assignments are told before they are stored."""

    def store_group(self, action: GroupAction, group: ClassicGroup, then: StoredThen) -> None:
        """Go on at once with an assignment."""
        if action != "share_out":
            super().store_group(action, group, then)
            return
        self.outbox.store(as_stored(action, group), _ignore, metadata=metadata_of(group))
        then(True)


def _ignore(ok: bool) -> None:
    del ok


def of(**parts: type[object]) -> type[GroupCoordinator]:
    """A core with these parts in the place of its own, of which the first says what is wrong."""
    wrong = next(iter(parts.values())).__doc__
    made = Flawed("MistakenCoordinator", (GroupCoordinator,), {"__doc__": wrong, **parts})
    return cast(type[GroupCoordinator], made)


MUTANTS: Mapping[str, type[GroupCoordinator]] = {
    "welcomes_strangers": of(joins_class=WelcomesStrangers),
    "leader_unheard": of(joins_class=LeaderUnheard),
    "beats_any_generation": of(memberships_class=BeatsAnyGeneration),
    "never_says_rebalance": of(memberships_class=NeverSaysRebalance),
    "nobody_leaves": of(memberships_class=NobodyLeaves),
    "fetches_at_once": of(offsets_class=FetchesAtOnce),
    "answers_unstored": of(offsets_class=AnswersUnstored),
    "waits_for_nobody": of(rebalancer_class=WaitsForNobody),
    "skips_generations": SkipsGenerations,
    "forgets_offsets": ForgetsOffsets,
    "forgets_a_member": ForgetsMember,
    "assigns_unstored": of(context_class=AssignsUnstored),
}
