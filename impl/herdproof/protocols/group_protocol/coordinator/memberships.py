"""
SyncGroup, Heartbeat and LeaveGroup: what members ask between one rebalance and the next.

The leader's SyncGroup brings what each member is assigned; it is stored, and only then does any
member learn its part. The others are parked until then.

Source: apache/kafka, `GroupMetadataManager` (classicGroupSync, …Heartbeat, …Leave).
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.rebalance import (
    GroupRebalancer,
    assignment_of,
)
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.coordinator.stored import (
    as_stored,
    hand_over,
    shares_of,
    withdraw,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.steps import (
    TOLD,
    WAITS,
    GroupAction,
    GroupStep,
    Share,
)

MANY_FROM_VERSION = 3
"""From here on several members leave by one request, each with an error of its own."""


class Memberships(GroupPart):
    """SyncGroup, Heartbeat and LeaveGroup."""

    def __init__(self, context: GroupContext, rebalancer: GroupRebalancer) -> None:
        super().__init__(context)
        self._rebalancer = rebalancer
        self._sessions = rebalancer.sessions

    # ── SyncGroup ───────────────────────────────────────────────────────────────────────────

    def sync(self, caller: int, request: SyncGroupRequest) -> None:
        """A member asks for its assignment."""
        group = self._groups.get(request.group_id)
        error = _why_not_sync(group, request)
        if group is None or error:
            self._take("handle_sync_group", request, error.name)
            self._report_refused("SyncGroup", request.group_id, request.member_id, error)
            self._outbox.answer(caller, SyncGroupResponse(error=error))
        elif group.is_in(GroupState.STABLE):
            shares = shares_of(group, request.member_id)
            self._take("handle_sync_group", request, TOLD, shares)
            self._rebalancer.synced(group, request.member_id)
            self._asks_in_stable(group, request.member_id)
            self._outbox.answer(caller, assignment_of(group, request.member_id))
        else:
            self._park(group, caller, request)

    def _asks_in_stable(self, group: ClassicGroup, member_id: str) -> None:
        """Who asks for its assignment in a Stable group is alive, as it is in Kafka until 3.9."""
        self._sessions.renew(group, group.members[member_id])

    def _park(self, group: ClassicGroup, caller: int, request: SyncGroupRequest) -> None:
        """A member waits for its assignment; or brings those of all, if it is the leader."""
        self._take("handle_sync_group", request, WAITS)
        self._rebalancer.refuse_sync(group, request.member_id, Error.REBALANCE_IN_PROGRESS)
        group.syncing[request.member_id] = caller
        self._rebalancer.synced(group, request.member_id)
        if request.member_id == group.leader:
            self._assign(group, request)

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        """The leader has assigned; who is left out of it has nothing."""
        assigned = {each.member_id: each.assignment for each in request.assignments}
        for member in group.members.values():
            member.assignment = assigned.get(member.member_id, b"")
        hand_over(group)
        group.go_to(GroupState.STABLE, self._outbox.now_ms)
        self._context.store_group("share_out", group, partial(self._assigned, group))

    def _assigned(self, group: ClassicGroup, ok: bool) -> None:
        """The assignments are stored: all who wait for theirs may know."""
        if ok:
            shares = shares_of(group, *group.syncing)
            step = as_stored("answer_syncs", group)
            self._outbox.take(replace(step, members=tuple(group.syncing), owners=shares))
            lasted_ms, group.rebalances_since_ms = self._rebalancer.lasts_ms(group), None
            self._outbox.report(
                What.GENERATION_ASSIGNED, group.name, generation=group.generation,
                members=len(group.members), ms=lasted_ms,
            )  # fmt: skip
            self._rebalancer.answer_syncs(group)
        else:
            withdraw(group)
            self._rebalancer.answer_syncs(group, Error.UNKNOWN_SERVER_ERROR)
            self._outbox.report(What.NOT_STORED, group.name, change="an assignment")
            self._rebalancer.prepare(group, "their assignments could not be stored")

    # ── Heartbeat ───────────────────────────────────────────────────────────────────────────

    def heartbeat(self, caller: int, request: HeartbeatRequest) -> None:
        """A member is alive; it learns whether it is to join anew."""
        group = self._groups.get(request.group_id)
        error = Error.UNKNOWN_MEMBER_ID
        if group is not None:
            error = group.why_not(request.member_id, request.group_instance_id)
            if not error and request.generation_id != group.generation:
                error = Error.ILLEGAL_GENERATION
            if not error:
                self._sessions.renew(group, group.members[request.member_id])
                if group.is_in(GroupState.PREPARING_REBALANCE):
                    error = Error.REBALANCE_IN_PROGRESS
        self._take("heartbeat", request, error.name)
        if error:
            self._report_refused("Heartbeat", request.group_id, request.member_id, error)
        self._outbox.answer(caller, HeartbeatResponse(error=error))

    # ── LeaveGroup ──────────────────────────────────────────────────────────────────────────

    def leave(self, caller: int, request: LeaveGroupRequest) -> None:
        """Members leave, or are made to; they know when what follows from that is stored."""
        group = self._groups.get(request.group_id)
        left = tuple(self._leave(group, one) for one in request.members)
        if group is not None and any(not one.error for one in left):
            if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self._rebalancer.prepare(group, "a member has left")
            else:
                self._rebalancer.complete_if_joined(group)
        is_one = request.version < MANY_FROM_VERSION and len(left) == 1
        told = LeaveGroupResponse(error=left[0].error if is_one else Error.NONE, members=left)
        self._in_turn(request.group_id, partial(self._outbox.answer, caller, told))

    def _leave(self, group: ClassicGroup | None, leaving: LeavingMember) -> LeftMember:
        """One leaves; who has no member id to tell is known by its instance id alone."""
        instance, member_id = leaving.group_instance_id, leaving.member_id
        if group is None:
            return LeftMember(member_id, instance, Error.UNKNOWN_MEMBER_ID)
        if not member_id and instance is not None:
            member_id = group.instances.get(instance, "")
        if member_id not in group.pending:
            error = group.why_not(member_id, instance)
            if error:
                self._left(group, member_id, error)
                self._report_refused("LeaveGroup", group.name, member_id, error)
                return LeftMember(leaving.member_id, instance, error)
        self._left(group, member_id, Error.NONE)
        was_member = member_id in group.members
        self._rebalancer.drop(group, member_id)
        if was_member:
            members = len(group.members)
            self._outbox.report(What.MEMBER_LEFT, group.name, member=member_id, members=members)
        return LeftMember(leaving.member_id, instance)

    # ── Steps, and reports ───────────────────────────────────────────────────────────────────

    def _take(
        self, action: GroupAction, request: SyncGroupRequest | HeartbeatRequest, outcome: str,
        shares: tuple[Share, ...] = (),
    ) -> None:  # fmt: skip
        """A member's request is read, and this comes of it."""
        self._outbox.take(
            GroupStep(
                action=action, group=request.group_id, member=request.member_id,
                generation=request.generation_id, outcome=outcome, owners=shares,
            )
        )  # fmt: skip

    def _left(self, group: ClassicGroup, member_id: str, error: Error) -> None:
        """A member's LeaveGroup is read, and this comes of it."""
        step = GroupStep(
            action="handle_leave_group", group=group.name, member=member_id, outcome=error.name
        )
        self._outbox.take(step)

    def _report_refused(self, request: str, group: str, member_id: str, error: Error) -> None:
        """Tell of a request that is refused for more than that all are to join anew."""
        if error is Error.FENCED_INSTANCE_ID:
            self._outbox.report(What.MEMBER_FENCED, group, member=member_id, request=request)
        elif error is not Error.REBALANCE_IN_PROGRESS:
            self._outbox.report(
                What.REQUEST_REFUSED, group, request=request, member=member_id, error=error.name
            )


def _why_not_sync(group: ClassicGroup | None, request: SyncGroupRequest) -> Error:
    """Why a sync is refused; NONE if it is not."""
    if group is None:
        return Error.UNKNOWN_MEMBER_ID
    error = group.why_not(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return Error.ILLEGAL_GENERATION
    named = ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol))
    if any(None not in (theirs, ours) and theirs != ours for theirs, ours in named):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return Error.REBALANCE_IN_PROGRESS
    return Error.NONE
