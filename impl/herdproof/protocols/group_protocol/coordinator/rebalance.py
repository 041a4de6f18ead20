"""
A rebalance, from the first who wants one to the generation that all have joined.

It begins with `prepare`: members are told by their heartbeats to join anew, and their joins are
parked. Once all have joined, or the longest rebalance timeout is over, `complete` makes the next
generation of those that have; dynamic members that have not are members no longer, static ones
remain. The joins are answered when that generation is stored, so that none is ever handed out
twice. Then each member is to ask for its assignment (`memberships.py`) before the time is over once
more.

A group that was empty waits for more to join, as long as new ones come: the initial delay, extended
up to the rebalance timeout.

Source: apache/kafka, `GroupMetadataManager` (prepareRebalance, completeClassicGroupJoin, …).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.sessions import Sessions
from herdproof.protocols.group_protocol.coordinator.states import NEXT, GroupState
from herdproof.protocols.group_protocol.coordinator.stored import (
    as_stored,
    topics_of,
    withdraw,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    JoinGroupResponse,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.steps import GroupStep

JOIN = "join"
SYNC = "sync"


class GroupRebalancer(GroupPart):
    """Rebalances of all groups."""

    sessions_class: ClassVar[type[Sessions]] = Sessions

    def __init__(self, context: GroupContext) -> None:
        super().__init__(context)
        self.sessions = self.sessions_class(context, self.remove, self.forget_pending)

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def prepare_or_complete(self, group: ClassicGroup, why: str) -> None:
        """Begin a rebalance, or go on with the one there is, if that is possible now."""
        if GroupState.PREPARING_REBALANCE in NEXT[group.state]:
            self.prepare(group, why)
        else:
            self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup, why: str) -> None:
        """All members are to join anew."""
        members = len(group.members)
        self._outbox.report(What.REBALANCE_STARTED, group.name, why=why, members=members)
        if group.rebalances_since_ms is None:
            group.rebalances_since_ms = self._outbox.now_ms
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            withdraw(group)
            self.answer_syncs(group, Error.REBALANCE_IN_PROGRESS)
        group.unsynced.clear()
        self._never(SYNC, group.name)
        was_empty = group.is_in(GroupState.EMPTY)
        group.go_to(GroupState.PREPARING_REBALANCE, self._outbox.now_ms)
        if was_empty:
            delay_ms = self._settings.group_initial_rebalance_delay_ms
            left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            self._delay(group, delay_ms, left_ms)
        elif group.have_all_joined():
            self.complete(group)
        else:
            self._wait_for_joins(group)

    def complete_if_joined(self, group: ClassicGroup) -> None:
        """Go on if all have joined, unless more may come to a group that was empty."""
        is_initial = group.before is GroupState.EMPTY
        if group.is_in(GroupState.PREPARING_REBALANCE) and not is_initial:
            self._complete_without_delay(group)

    def complete(self, group: ClassicGroup) -> None:
        """The next generation is that of those who have joined."""
        self._never(JOIN, group.name)
        for member in list(group.members.values()):
            if self._is_left_behind(group, member):
                self.expel(group, member.member_id, "it has not joined anew in time")
        if group.members and not group.elect():
            self._wait_for_joins(group)
            return
        group.generation += 1
        group.protocol = group.selected_protocol() if group.members else None
        group.topics = topics_of(group)
        next_state = GroupState.COMPLETING_REBALANCE if group.members else GroupState.EMPTY
        group.go_to(next_state, self._outbox.now_ms)
        self._context.store_group("complete_join", group, partial(self._joined, group))

    def _is_left_behind(self, group: ClassicGroup, member: ClassicMember) -> bool:
        """Tells whether a member is left out since it has not joined in time; static ones stay."""
        return member.group_instance_id is None and member.member_id not in group.joining

    def _complete_without_delay(self, group: ClassicGroup) -> None:
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.have_all_joined():
            self.complete(group)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        timeout_ms = group.rebalance_timeout_ms()
        self._after(timeout_ms, JOIN, group.name, partial(self.complete, group))

    def _delay(self, group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
        """Wait for more to join; `left_ms` of the rebalance timeout remain after that."""
        group.is_growing = False
        go_on = partial(self._delayed, group, delay_ms, left_ms)
        self._after(delay_ms, JOIN, group.name, go_on)

    def _delayed(self, group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
        if group.is_growing and left_ms:
            longer_ms = min(self._settings.group_initial_rebalance_delay_ms, left_ms)
            self._delay(group, longer_ms, max(left_ms - delay_ms, 0))
        else:
            self.complete(group)

    def _joined(self, group: ClassicGroup, ok: bool) -> None:
        """The generation is stored: all who wait for it may know, and are to ask for more."""
        if ok:
            step = as_stored("answer_joins", group)
            self._outbox.take(replace(step, owners=(), members=tuple(group.joining)))
        if not group.members:
            group.rebalances_since_ms = None
            self._outbox.report(What.GROUP_EMPTY, group.name, generation=group.generation)
            return
        for member in group.members.values():
            group.unsynced[member.member_id] = None
            member.is_new = False
            self.sessions.renew(group, member)
        if not ok:
            for member_id in list(group.joining):
                self.refuse_join(group, member_id, Error.UNKNOWN_SERVER_ERROR)
            self._outbox.report(What.NOT_STORED, group.name, change="a generation")
            self.prepare(group, "their generation could not be stored")
            return
        self._outbox.report(
            What.GENERATION_BEGUN, group.name, generation=group.generation,
            members=len(group.members), protocol=group.protocol or "", leader=group.leader or "",
            ms=self.lasts_ms(group),
        )  # fmt: skip
        for member_id in list(group.joining):
            self.answer_join(group, member_id)
        self.wait_for_syncs(group)

    def lasts_ms(self, group: ClassicGroup) -> int:
        """The time since all members were to join anew, as far as this coordinator knows."""
        since_ms = group.rebalances_since_ms
        return 0 if since_ms is None else self._outbox.now_ms - since_ms

    # ── Those who wait ──────────────────────────────────────────────────────────────────────

    def park_join(self, group: ClassicGroup, member_id: str, caller: int) -> None:
        """A member waits for the next generation; if it did already, it does so here from now."""
        if member_id in group.joining:
            self.refuse_join(group, member_id, Error.REBALANCE_IN_PROGRESS)
        group.joining[member_id] = caller

    def answer_join(
        self, group: ClassicGroup, member_id: str, leader: str | None = None,
        *, skip_assignment: bool = False,
    ) -> None:  # fmt: skip
        """A member that waits is told of its generation."""
        caller = group.joining.pop(member_id)
        told = generation_of(group, member_id, leader, skip_assignment=skip_assignment)
        self._outbox.answer(caller, told)

    def refuse_join(
        self, group: ClassicGroup, member_id: str, error: Error, *, named: bool = True
    ) -> None:
        """A join is no longer waited with, if it was."""
        caller = group.joining.pop(member_id, None)
        if caller is not None:
            told = JoinGroupResponse(error=error, member_id=member_id if named else "")
            self._outbox.answer(caller, told)

    def refuse_sync(self, group: ClassicGroup, member_id: str, error: Error) -> None:
        """A sync is no longer waited with, if it was."""
        caller = group.syncing.pop(member_id, None)
        if caller is not None:
            self._outbox.answer(caller, SyncGroupResponse(error=error))

    def answer_syncs(self, group: ClassicGroup, error: Error = Error.NONE) -> None:
        """All who wait for their assignment are told it, or why they are not; all are alive."""
        for member_id, caller in list(group.syncing.items()):
            self.sessions.renew(group, group.members[member_id])
            told = SyncGroupResponse(error=error) if error else assignment_of(group, member_id)
            self._outbox.answer(caller, told)
        group.syncing.clear()

    # ── Asking for assignments ──────────────────────────────────────────────────────────────

    def wait_for_syncs(self, group: ClassicGroup) -> None:
        """Members are to ask for their assignments in time."""
        timeout_ms = group.rebalance_timeout_ms()
        missing = partial(self._syncs_missing, group, group.generation)
        self._after(timeout_ms, SYNC, group.name, missing)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member has asked for its assignment."""
        group.unsynced.pop(member_id, None)
        if not group.unsynced:
            self._never(SYNC, group.name)

    def _syncs_missing(self, group: ClassicGroup, generation: int) -> None:
        """Who has not asked for its assignment is a member no longer."""
        if group.generation == generation and group.unsynced:
            for member_id in list(group.unsynced):
                self.expel(group, member_id, "it has not asked for its assignment in time")
            self.prepare(group, "members have not asked for their assignments in time")

    # ── Leaving ─────────────────────────────────────────────────────────────────────────────

    def drop(self, group: ClassicGroup, member_id: str) -> None:
        """Somebody is no member any more, nor about to be one; whoever waits for it is told."""
        self.refuse_join(group, member_id, Error.UNKNOWN_MEMBER_ID, named=False)
        self.refuse_sync(group, member_id, Error.UNKNOWN_MEMBER_ID)
        self.sessions.end(group, member_id)
        group.remove(member_id)
        self._context.pending.discard(member_id)

    def expel(self, group: ClassicGroup, member_id: str, why: str) -> None:
        """Somebody is waited for no longer, and dropped, if it was a member, or about to be."""
        was_member = member_id in group.members
        if was_member or member_id in group.pending:
            self._outbox.take(GroupStep(action="expire", group=group.name, member=member_id))
        self.drop(group, member_id)
        if was_member:
            members = len(group.members)
            self._outbox.report(
                What.MEMBER_EXPIRED, group.name, member=member_id, why=why, members=members
            )

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """A member is one no longer, and those that remain share what it had."""
        self.expel(group, member.member_id, "it was not heard of for too long")
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, "a member is gone")
        else:
            self._complete_without_delay(group)

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Who was given a member id has not joined with it."""
        self.expel(group, member_id, "it has not joined in time")
        self._complete_without_delay(group)


def generation_of(
    group: ClassicGroup, member_id: str, leader: str | None = None, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The answer that tells a member of its generation: all members, if it is the leader."""
    leads = member_id == group.leader and leader is None
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.told_to_leader() if leads else (),
    )


def assignment_of(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    """The answer that tells a member its assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )
