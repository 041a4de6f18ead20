"""
Bugs of joins that time out, and of those that do not.

Source: apache/kafka, the commits of KAFKA-7196, KAFKA-7610 and KAFKA-9232.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from herdproof.protocols.group_protocol.bugs.occasions import BuggyCoordinator, BuggyPart
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup, ClassicMember
from herdproof.protocols.group_protocol.coordinator.joins import KNOWN_ID_FROM_VERSION, Joins
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.sessions import Sessions
from herdproof.protocols.group_protocol.messages import JoinGroupRequest

FIRST = "first session"


class FirstSessionStays(BuggyPart, Sessions):
    """The long session of a new member is never taken back."""

    def renew(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """A member is heard of; a new one's first session ends in any case."""
        super().renew(group, member, timeout_ms)
        if timeout_ms is not None:
            ends = partial(self._first_ends, group, member)
            self._after(timeout_ms, FIRST, group.name, ends, member.member_id)

    def _first_ends(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.member_id) is member:
            self._differs()
            self._ended(group, member)


class OldJoinsAlone(Joins):
    """Whoever was given its id first, by JoinGroup 4 and newer, is looked after as it ought to."""

    def _add(
        self, group: ClassicGroup, caller: int, request: JoinGroupRequest, member_id: str
    ) -> None:
        super()._add(group, caller, request, member_id)
        if request.version >= KNOWN_ID_FROM_VERSION:
            self._never(FIRST, group.name, member_id)


class NewMembersWait(BuggyPart, Sessions):
    """Who waits for a rebalance is waited for, be it new and long gone."""

    def _due(self, group: ClassicGroup, member: ClassicMember) -> None:
        if self._waits(group, member.member_id):
            is_due = member.deadline_ms <= self._outbox.now_ms
            if is_due and member.is_new and group.members.get(member.member_id) is member:
                self._differs()
            member.deadline_ms = self._outbox.now_ms + member.session_timeout_ms
        super()._due(group, member)


class SessionsOfTheGone(BuggyPart, Sessions):
    """The session of who was left behind ends like any other."""

    def _due(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.member_id) is member:
            super()._due(group, member)
        elif self._groups.get(group.name) is group and group.members:
            self._differs()
            self._ended(group, member)

    def end(self, group: ClassicGroup, member_id: str) -> None:
        """Who is no member any more is waited for all the same, but for who is about to join."""
        if member_id in group.pending:
            super().end(group, member_id)


class KeepsTheFirstSession(GroupRebalancer):
    """Rebalances with `FirstSessionStays`."""

    sessions_class: ClassVar[type[Sessions]] = FirstSessionStays


class KeepsNewMembers(GroupRebalancer):
    """Rebalances with `NewMembersWait`."""

    sessions_class: ClassVar[type[Sessions]] = NewMembersWait


class KeepsSessionsOfTheGone(GroupRebalancer):
    """Rebalances with `SessionsOfTheGone`."""

    sessions_class: ClassVar[type[Sessions]] = SessionsOfTheGone


class Kafka9232(BuggyCoordinator):
    """A member that joined by JoinGroup 3 or older is taken for dead after five minutes, alive."""

    joins_class: ClassVar[type[Joins]] = OldJoinsAlone
    rebalancer_class: ClassVar[type[GroupRebalancer]] = KeepsTheFirstSession


class Kafka7610(BuggyCoordinator):
    """New members that gave up waiting for a rebalance and asked again are members, all of them."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = KeepsNewMembers


class Kafka7196(BuggyCoordinator):
    """Who was left behind by a rebalance sets off another one when its session would have ended."""

    rebalancer_class: ClassVar[type[GroupRebalancer]] = KeepsSessionsOfTheGone
