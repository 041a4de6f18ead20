"""
Sessions: a member that is not heard of for its session timeout is a member no longer.

No timer is set anew at each heartbeat, of which there are thousands a second: the one that there is
looks, when it fires, how much time is left. A member that waits for a rebalance, or for its
assignment, cannot send heartbeats and needs none; but a new one may have gone without anybody
noticing, and is waited for no longer than `group_new_member_join_timeout_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember

SESSION = "session"


class Sessions(GroupPart):
    """The timers of members, and of those that are about to join; `ended` and `gave_up` follow."""

    def __init__(
        self, context: GroupContext, ended: Callable[[ClassicGroup, ClassicMember], None],
        gave_up: Callable[[ClassicGroup, str], None],
    ) -> None:  # fmt: skip
        super().__init__(context)
        self._ended = ended
        self._gave_up = gave_up

    def renew(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """A member is heard of: its session goes on for its timeout, or for another."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline_ms = self._outbox.now_ms + timeout_ms
        if member.watched_ms is None or member.watched_ms > member.deadline_ms:
            self._watch(group, member)

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Who was given this member id is to join with it in that time."""
        gave_up = partial(self._pending_ended, group, member_id)
        self._after(timeout_ms, SESSION, group.name, gave_up, member_id)

    def end(self, group: ClassicGroup, member_id: str) -> None:
        """Nobody of this id is waited for any more."""
        self._never(SESSION, group.name, member_id)

    def _watch(self, group: ClassicGroup, member: ClassicMember) -> None:
        member.watched_ms = member.deadline_ms
        left_ms = member.deadline_ms - self._outbox.now_ms
        due = partial(self._due, group, member)
        self._after(left_ms, SESSION, group.name, due, member.member_id)

    def _due(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The time has come, unless the member was heard of since."""
        member.watched_ms = None
        if group.members.get(member.member_id) is not member:
            return
        if member.deadline_ms > self._outbox.now_ms:
            self._watch(group, member)
        elif member.is_new or not self._waits(group, member.member_id):
            self._ended(group, member)

    def _waits(self, group: ClassicGroup, member_id: str) -> bool:
        return member_id in group.joining or member_id in group.syncing

    def _pending_ended(self, group: ClassicGroup, member_id: str) -> None:
        if self._groups.get(group.name) is group and member_id in group.pending:
            self._gave_up(group, member_id)
