"""
JoinGroup: who is refused, who is given a member id first, and whose join begins a rebalance.

A member that joins anew although nothing has changed has missed the answer, and gets it again; the
leader of a stable group is believed that something changed that only it can see (partitions of a
topic, say). A static member that comes back under no member id is the same one: it goes on with a
new id, and whoever comes with the old one is fenced.

Source: apache/kafka, `GroupMetadataManager.classicGroupJoin` and what it calls.
"""

from __future__ import annotations

from functools import partial

from herdproof.protocols.group_protocol.coordinator.context import Deed, GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.rebalance import (
    GroupRebalancer,
    generation_of,
)
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.messages import (
    Error,
    JoinGroupRequest,
    JoinGroupResponse,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.steps import CHANGED, NEW, TOLD, WAITS, GroupStep

KNOWN_ID_FROM_VERSION = 4
"""From here on a dynamic member is given its id first, and joins with it."""
SKIP_FROM_VERSION = 9
"""From here on a leader can be told that it need not assign."""


class Joins(GroupPart):
    """JoinGroup."""

    def __init__(self, context: GroupContext, rebalancer: GroupRebalancer) -> None:
        super().__init__(context)
        self._rebalancer = rebalancer
        self._sessions = rebalancer.sessions

    def join(self, caller: int, request: JoinGroupRequest) -> None:
        """Somebody joins, or rejoins."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                self._refuse(caller, request, Error.UNKNOWN_MEMBER_ID, request.member_id)
                return
            if self._context.is_full:
                self._refuse(caller, request, Error.POLICY_VIOLATION)
                return
            group = ClassicGroup(request.group_id, self._outbox.now_ms)
            self._groups[request.group_id] = group
        if not self._has_room(group, request.member_id):
            self._rebalancer.expel(group, request.member_id, "there is no room for it")
            self._refuse(caller, request, Error.GROUP_MAX_SIZE_REACHED)
            self._rebalancer.complete_if_joined(group)
        elif not group.supports(request.protocol_type, request.protocols):
            error = Error.INCONSISTENT_GROUP_PROTOCOL
            self._refuse(caller, request, error, request.member_id)
        elif not request.member_id:
            self._join_anew(group, caller, request)
        elif request.member_id in group.pending and request.group_instance_id is None:
            self._take(group.name, request.member_id, WAITS)
            self._add(group, caller, request, request.member_id)
        else:
            self._rejoin(group, caller, request)

    def _refuse(
        self, caller: int, request: JoinGroupRequest, error: Error, member_id: str = ""
    ) -> None:
        self._take(request.group_id, member_id or request.member_id, error.name)
        if error is not Error.MEMBER_ID_REQUIRED:
            self.report_refused(request, error, member_id or request.member_id)
        self._outbox.answer(caller, JoinGroupResponse(error=error, member_id=member_id))

    def report_refused(self, request: JoinGroupRequest, error: Error, member_id: str) -> None:
        """Tell that a join was refused."""
        if error is Error.FENCED_INSTANCE_ID:
            self._outbox.report(
                What.MEMBER_FENCED, request.group_id, member=member_id, request="JoinGroup"
            )
        else:
            self._outbox.report(
                What.JOIN_REFUSED, request.group_id, member=member_id, client=request.client_id,
                host=request.client_host, error=error.name,
            )  # fmt: skip

    def _take(
        self, group: str, member_id: str, outcome: str, generation: int = 0, instance: str = ""
    ) -> None:  # fmt: skip
        """A JoinGroup is read, and this comes of it."""
        self._outbox.take(
            GroupStep(
                action="handle_join_group", group=group, member=member_id, outcome=outcome,
                generation=generation, instance=instance,
            )
        )  # fmt: skip

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """
        Tells whether one more may join, or is there already.

        While members join anew, those count that have: so the last to come are left out of a group
        that has become too large.
        """
        size = self._settings.group_max_size
        if group.is_in(GroupState.EMPTY):
            return True
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return member_id in group.joining or len(group.joining) < size
        return member_id in group.members or len(group.members) < size

    # ── New members ─────────────────────────────────────────────────────────────────────────

    def _join_anew(self, group: ClassicGroup, caller: int, request: JoinGroupRequest) -> None:
        """Somebody has no member id yet, or none any more."""
        instance = request.group_instance_id
        stem = request.client_id if instance is None else instance
        member_id = f"{stem}-{self._context.new_id()}"
        if instance is not None and instance in group.instances:
            self._replace(group, caller, request, member_id)
        elif instance is None and request.version >= KNOWN_ID_FROM_VERSION:
            if len(self._context.pending) >= self._settings.max_pending_members:
                self._refuse(caller, request, Error.COORDINATOR_LOAD_IN_PROGRESS)
                return
            group.pending[member_id] = None
            self._context.pending.add(member_id)
            self._sessions.expect(group, member_id, request.session_timeout_ms)
            self._refuse(caller, request, Error.MEMBER_ID_REQUIRED, member_id)
        else:
            self._take(group.name, member_id, NEW, instance=instance or "")
            self._add(group, caller, request, member_id)

    def _add(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        """Somebody is a member from now on."""
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            protocols=request.protocols,
            is_new=True,
        )
        self._sessions.end(group, member_id)
        group.is_growing = True
        group.add(member, request.protocol_type)
        self._context.pending.discard(member_id)
        self._rebalancer.park_join(group, member_id, caller)
        self._sessions.renew(group, member, self._settings.group_new_member_join_timeout_ms)
        self._outbox.report(
            What.MEMBER_JOINED, group.name, member=member_id, client=request.client_id,
            host=request.client_host, members=len(group.members),
        )  # fmt: skip
        self._rebalancer.prepare_or_complete(group, "a member has joined")

    # ── Members that join anew ──────────────────────────────────────────────────────────────

    def _rejoin(self, group: ClassicGroup, caller: int, request: JoinGroupRequest) -> None:
        """Somebody says to be a member."""
        error = group.why_not(request.member_id, request.group_instance_id)
        if error:
            self._refuse(caller, request, error, request.member_id)
            return
        member = group.members[request.member_id]
        if self._changes(group, member, request):
            is_same = member.protocols == request.protocols
            self._take(group.name, member.member_id, WAITS if is_same else CHANGED)
            self._update(group, member, request)
            self._rebalancer.park_join(group, member.member_id, caller)
            why = "its leader asks for that" if is_same else "a member subscribes otherwise"
            self._rebalancer.prepare_or_complete(group, why)
        else:
            self._take(group.name, member.member_id, TOLD, group.generation)
            self._outbox.answer(caller, generation_of(group, member.member_id))

    def _changes(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest
    ) -> bool:
        """Tells whether a member joins anew for more than an answer that it has missed."""
        if group.is_in(GroupState.PREPARING_REBALANCE) or member.protocols != request.protocols:
            return True
        return group.is_in(GroupState.STABLE) and member.member_id == group.leader

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest
    ) -> None:
        group.update(
            member,
            request.protocols,
            request.session_timeout_ms,
            _rebalance_timeout_ms(request),
        )

    # ── Static members that come back ───────────────────────────────────────────────────────

    def _replace(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        """A static member has lost its member id: it goes on under a new one."""
        assert request.group_instance_id is not None
        instance = request.group_instance_id
        self._outbox.take(
            GroupStep(
                action="replace_member", group=group.name, member=member_id, instance=instance
            )
        )
        old_id, leader = group.instances[instance], group.leader
        self._outbox.report(
            What.MEMBER_REPLACED, group.name, instance=instance, member=member_id, former=old_id
        )
        self._rebalancer.refuse_join(group, old_id, Error.FENCED_INSTANCE_ID)
        self._rebalancer.refuse_sync(group, old_id, Error.FENCED_INSTANCE_ID)
        member = group.replace(old_id, member_id)
        waits_ms = self._settings.group_new_member_join_timeout_ms if member.is_new else None
        self._sessions.renew(group, member, waits_ms)
        undo = partial(
            self._undo, group, member, old_id,
            partial(
                group.update, member, member.protocols, member.session_timeout_ms,
                member.rebalance_timeout_ms,
            ),
        )  # fmt: skip
        self._update(group, member, request)
        self._rebalancer.park_join(group, member_id, caller)
        why = "a static member has come back"
        if not group.is_in(GroupState.STABLE):
            self._rebalancer.prepare_or_complete(group, why)
        elif group.selected_protocol() != group.protocol:
            self._rebalancer.prepare(group, f"{why}, with another protocol")
        else:
            told = None if request.version >= SKIP_FROM_VERSION else leader
            replaced = partial(self._replaced, group, member_id, told, undo)
            self._context.store_group("replace_member", group, replaced)

    def _replaced(
        self, group: ClassicGroup, member_id: str, told: str | None, undo: Deed, ok: bool
    ) -> None:
        """
        Nothing else has changed: the others need not know, if the new id is stored.

        A leader that comes back must not assign anew. One that can be told so is told of all
        members; any other is told that its old id leads.
        """
        if not ok:
            self._rebalancer.refuse_join(group, member_id, Error.UNKNOWN_SERVER_ERROR, named=False)
            undo()
            self._outbox.report(What.NOT_STORED, group.name, change="a static member's new id")
            return
        skips = told is None and member_id == group.leader
        self._rebalancer.answer_join(group, member_id, told, skip_assignment=skips)

    def _undo(self, group: ClassicGroup, member: ClassicMember, old_id: str, restore: Deed) -> None:
        """The new id is not stored: the old one stands."""
        restore()
        group.replace(member.member_id, old_id)
        self._sessions.renew(group, member)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """The time that a member asks to be waited for when all join anew."""
    if request.rebalance_timeout_ms is None:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms
