"""
DescribeGroups, ListGroups and DeleteGroups, and what deletes itself: offsets that nobody needs.

Source: apache/kafka, `GroupMetadataManager` (describeGroups, listGroups), `GroupCoordinatorShard`
(deleteGroups, cleanupGroupMetadata), `ClassicGroup.offsetExpirationCondition`.
"""

from __future__ import annotations

from functools import partial

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.gathered import GatheredAnswer
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import StoredCommit
from herdproof.protocols.group_protocol.messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    Error,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from herdproof.protocols.group_protocol.reports import What

CLASSIC = "classic"
"""The type of all groups that there are here, as ListGroups names it."""
NOT_FOUND_FROM_VERSION = 6
"""From here on DescribeGroups says so of a group that there is not; before, it is Dead."""
RETENTION = "retention"


class GroupAdmin(GroupPart):
    """DescribeGroups, ListGroups, DeleteGroups, and the retention of offsets."""

    def __init__(self, context: GroupContext, offsets: CommittedOffsets) -> None:
        super().__init__(context)
        self._offsets = offsets

    # ── DescribeGroups, ListGroups ──────────────────────────────────────────────────────────

    def describe(self, caller: int, request: DescribeGroupsRequest) -> None:
        """Somebody wants to know all of groups."""
        answer = partial(self._answer_describe, caller)
        gathered = GatheredAnswer[DescribedGroup](len(request.groups), answer)
        for place, name in enumerate(request.groups):
            self._in_turn(name, partial(self._describe, gathered, place, name, request.version))

    def _describe(
        self, gathered: GatheredAnswer[DescribedGroup], place: int, name: str, version: int
    ) -> None:
        group = self._groups.get(name)
        gathered.put(place, _unknown(name, version) if group is None else _described(group))

    def _answer_describe(self, caller: int, groups: tuple[DescribedGroup, ...]) -> None:
        self._outbox.answer(caller, DescribeGroupsResponse(groups=groups))

    def list_groups(self, caller: int, request: ListGroupsRequest) -> None:
        """Somebody wants to know which groups there are."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {each.strip().lower() for each in request.types_filter}
        groups = tuple(
            ListedGroup(name, group.protocol_type or "", group.state.value, CLASSIC)
            for name, group in sorted(self._groups.items())
            if (not states or group.state.value.lower() in states)
            and (not types or CLASSIC in types)
        )
        self._outbox.answer(caller, ListGroupsResponse(groups=groups))

    # ── DeleteGroups ────────────────────────────────────────────────────────────────────────

    def delete(self, caller: int, request: DeleteGroupsRequest) -> None:
        """Groups without members are forgotten, with their offsets."""
        names = tuple(dict.fromkeys(request.groups))
        gathered = GatheredAnswer[DeletedGroup](len(names), partial(self._answer_delete, caller))
        for place, name in enumerate(names):
            self._offsets.after_commits(name, partial(self._delete, gathered, place, name))

    def _answer_delete(self, caller: int, results: tuple[DeletedGroup, ...]) -> None:
        self._outbox.answer(caller, DeleteGroupsResponse(results=results))

    def _delete(self, gathered: GatheredAnswer[DeletedGroup], place: int, name: str) -> None:
        group = self._groups.get(name)
        if group is None:
            gathered.put(place, DeletedGroup(name, Error.GROUP_ID_NOT_FOUND))
        elif not group.is_in(GroupState.EMPTY):
            gathered.put(place, DeletedGroup(name, Error.NON_EMPTY_GROUP))
        else:
            self._context.delete_group(name, partial(self._deleted, gathered, place, group))

    def _deleted(
        self, gathered: GatheredAnswer[DeletedGroup], place: int, group: ClassicGroup, ok: bool
    ) -> None:
        self._bury(group, What.GROUP_DELETED, ok)
        error = Error.NONE if ok else Error.UNKNOWN_SERVER_ERROR
        gathered.put(place, DeletedGroup(group.name, error))

    def _bury(self, group: ClassicGroup, what: What, ok: bool) -> None:
        if ok:
            self._outbox.report(what, group.name, offsets=len(group.offsets))
            group.go_to(GroupState.DEAD, self._outbox.now_ms)
            del self._groups[group.name]
            self._context.pending.difference_update(group.pending)
        else:
            self._outbox.report(What.NOT_STORED, group.name, change="the deletion")

    # ── Retention ───────────────────────────────────────────────────────────────────────────

    def look_again(self) -> None:
        """Look for what nobody needs any more after a while, and again and again."""
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._after(interval_ms, RETENTION, "", self._look)

    def _look(self) -> None:
        for name in list(self._groups):
            self._offsets.after_commits(name, partial(self._clean, name))
        self.look_again()

    def _clean(self, name: str) -> None:
        """Forget the offsets of a group that have expired, and the group if that leaves nothing."""
        group = self._groups.get(name)
        if group is None:
            return
        now_ms, kept_ms = self._outbox.now_ms, self._settings.offsets_retention_ms
        expired = [
            where
            for where, offset in group.offsets.items()
            if not group.is_subscribed_to(where[0])
            and self._is_expired(group, offset, now_ms, kept_ms)
        ]
        if len(expired) == len(group.offsets) and group.is_in(GroupState.EMPTY):
            if not group.pending:
                self._context.delete_group(name, partial(self._bury, group, What.GROUP_EXPIRED))
        elif expired:
            self._offsets.forget(group, expired)

    def _is_expired(
        self, group: ClassicGroup, offset: StoredCommit, now_ms: int, kept_ms: int
    ) -> bool:
        """
        Tells whether an offset has been kept long enough.

        That of a group without members counts from when the last one left; that of a stable group
        of consumers, or of one that never had members, from its commit. A commit may have said how
        long.
        """
        if group.protocol_type is None or (
            group.is_of_consumers() and group.is_in(GroupState.STABLE)
        ):
            since_ms = offset.committed_ms
        elif group.is_in(GroupState.EMPTY):
            since_ms = group.since_ms
        else:
            return False
        if offset.expires_ms is not None:
            return now_ms >= offset.expires_ms
        return now_ms - since_ms >= kept_ms


def _unknown(name: str, version: int) -> DescribedGroup:
    """A group that there is not."""
    dead = GroupState.DEAD.value
    if version < NOT_FOUND_FROM_VERSION:
        return DescribedGroup(group_id=name, state=dead)
    why = f"Group {name} not found."
    return DescribedGroup(
        group_id=name, error=Error.GROUP_ID_NOT_FOUND, error_message=why, state=dead
    )


def _described(group: ClassicGroup) -> DescribedGroup:
    """A group; what its members say in its protocol is told while it is stable."""
    is_stable = group.is_in(GroupState.STABLE)
    members = tuple(
        DescribedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=member.metadata(group.protocol) if is_stable else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group_id=group.name,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
    )
