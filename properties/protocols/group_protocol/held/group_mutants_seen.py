"""Twelve mistakes more in the group coordinator's core, which a group's consumers suffer from."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from msgspec import structs

from herdproof.protocols.group_protocol.coordinator.context import StoredThen
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.gathered import GatheredAnswer
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.memberships import Memberships
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets, Offsets
from herdproof.protocols.group_protocol.coordinator.rebalance import (
    GroupRebalancer,
    assignment_of,
    generation_of,
)
from herdproof.protocols.group_protocol.coordinator.sessions import Sessions
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import (
    GroupEffect,
    StoredClassicGroup,
    StoredCommit,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    FetchedGroup,
    GroupToFetch,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    PartitionToCommit,
    SyncGroupRequest,
)
from herdproof.protocols.group_protocol.steps import GroupAction
from properties.protocols.group_protocol.held.group_mutants import of


class KeepsGeneration(GroupRebalancer):
    """The next generation has the number of the last one."""

    def complete(self, group: ClassicGroup) -> None:
        """Begin it."""
        group.generation = max(group.generation - 1, 0)
        super().complete(group)


class SaysTheLeadersPart(GroupRebalancer):
    """All members are told what the leader is assigned."""

    def answer_syncs(self, group: ClassicGroup, error: Error = Error.NONE) -> None:
        """Tell them."""
        if error or group.leader is None:
            super().answer_syncs(group, error)
            return
        for caller in group.syncing.values():
            self._outbox.answer(caller, assignment_of(group, group.leader))
        group.syncing.clear()


class AnswersTheLeaderAlone(GroupRebalancer):
    """Whoever asked for its assignment before the leader brought it waits on."""

    def answer_syncs(self, group: ClassicGroup, error: Error = Error.NONE) -> None:
        """Tell the leader."""
        caller = group.syncing.pop(group.leader or "", None)
        if error or caller is None or group.leader is None:
            super().answer_syncs(group, error)
        else:
            self._outbox.answer(caller, assignment_of(group, group.leader))


class MakesAllLeaders(GroupRebalancer):
    """Each member is told that it leads."""

    def answer_join(
        self, group: ClassicGroup, member_id: str, leader: str | None = None,
        *, skip_assignment: bool = False,
    ) -> None:  # fmt: skip
        """Tell it."""
        told = generation_of(group, member_id, leader, skip_assignment=skip_assignment)
        leads = replace(told, leader=member_id, members=group.told_to_leader())
        self._outbox.answer(group.joining.pop(member_id), leads)


class EndlessSessions(Sessions):
    """Nobody is looked after."""

    def renew(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """Be content."""


class NeverExpires(GroupRebalancer):
    """Members whose session is over are members."""

    sessions_class = EndlessSessions


class DeafToNewcomers(Joins):
    """A stable group takes nobody."""

    def _add(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        if group.is_in(GroupState.STABLE):
            group.pending.pop(member_id, None)
            self._refuse(caller, request, Error.REBALANCE_IN_PROGRESS, member_id)
        else:
            super()._add(group, caller, request, member_id)


class MissesNobody(Memberships):
    """Who leaves is no member any more, and those who stay go on as they were."""

    def leave(self, caller: int, request: LeaveGroupRequest) -> None:
        """Let them go."""
        group = self._groups.get(request.group_id)
        left = tuple(self._leave(group, one) for one in request.members)
        told = LeaveGroupResponse(members=left)
        self._in_turn(request.group_id, partial(self._outbox.answer, caller, told))


class SaysWhatWas(Memberships):
    """A member that asks for its assignment is told the last one, if it had any."""

    def _park(self, group: ClassicGroup, caller: int, request: SyncGroupRequest) -> None:
        member = group.members[request.member_id]
        if member.assignment and member.member_id != group.leader:
            self._outbox.answer(caller, assignment_of(group, member.member_id))
        else:
            super()._park(group, caller, request)


class FetchesOneTooFar(CommittedOffsets):
    """Offsets are told that are one larger than what is stored."""

    def _fetch(
        self, gathered: GatheredAnswer[FetchedGroup], place: int, asked: GroupToFetch, since: int
    ) -> None:
        group = self._groups.get(asked.group_id)
        kept = {} if group is None else group.offsets
        if group is not None:
            group.offsets = {
                where: structs.replace(s, offset=s.offset + 1) for where, s in kept.items()
            }
        super()._fetch(gathered, place, asked, since)
        if group is not None:
            group.offsets = kept


class CommitsOneTooFew(CommittedOffsets):
    """What is stored is one less than what was committed."""

    def _stored_offset(self, request: OffsetCommitRequest, each: PartitionToCommit) -> StoredCommit:
        stored = super()._stored_offset(request, each)
        return structs.replace(stored, offset=max(stored.offset - 1, 0))


class CommitsForAll(CommittedOffsets):
    """An offset is stored for all partitions of its topic that have one."""

    def _store(
        self, action: GroupAction, group: ClassicGroup, offsets: Offsets, then: StoredThen
    ) -> None:
        [offset, *_] = offsets.values()
        super()._store(action, group, {**dict.fromkeys(group.offsets, offset), **offsets}, then)


class BeginsAnew(GroupCoordinator):
    """Generations are counted from one again, once it was elected."""

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """Load, and forget how many there were."""
        effects = super().lead(now_ms, groups)
        for group in self.groups.values():
            group.generation = 0
        return effects


SEEN_MUTANTS: Mapping[str, type[GroupCoordinator]] = {
    "keeps_generation": of(rebalancer_class=KeepsGeneration),
    "says_the_leaders_part": of(rebalancer_class=SaysTheLeadersPart),
    "answers_the_leader_alone": of(rebalancer_class=AnswersTheLeaderAlone),
    "makes_all_leaders": of(rebalancer_class=MakesAllLeaders),
    "never_expires": of(rebalancer_class=NeverExpires),
    "deaf_to_newcomers": of(joins_class=DeafToNewcomers),
    "misses_nobody": of(memberships_class=MissesNobody),
    "says_what_was": of(memberships_class=SaysWhatWas),
    "fetches_one_too_far": of(offsets_class=FetchesOneTooFar),
    "commits_one_too_few": of(offsets_class=CommitsOneTooFew),
    "commits_for_all": of(offsets_class=CommitsForAll),
    "begins_anew": BeginsAnew,
}
