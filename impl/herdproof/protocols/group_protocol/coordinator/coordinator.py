"""
The group coordinator's core, as `effects.py` describes it: here its parts are joined.

What a part decides stands in its own file: `joins.py`, `rebalance.py`, `memberships.py`,
`sessions.py`, `offsets.py`, `admin.py`. While a group's generation or assignments are being stored,
whatever else is asked of that group waits, so that nobody sees what may never have been.

Source: `003` as PROTOCOLS.md rules (section C), and apache/kafka, `GroupCoordinatorService`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import ClassVar, assert_never

from msgspec.structs import replace

from herdproof.protocols.group_protocol.coordinator.admin import GroupAdmin
from herdproof.protocols.group_protocol.coordinator.context import GroupContext
from herdproof.protocols.group_protocol.coordinator.joins import Joins
from herdproof.protocols.group_protocol.coordinator.memberships import Memberships
from herdproof.protocols.group_protocol.coordinator.offsets import CommittedOffsets
from herdproof.protocols.group_protocol.coordinator.rebalance import GroupRebalancer
from herdproof.protocols.group_protocol.coordinator.refusals import refusal
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.coordinator.stored import as_stored, group_from, marks_of
from herdproof.protocols.group_protocol.effects import GroupEffect, StoredClassicGroup
from herdproof.protocols.group_protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    Error,
    GroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.steps import DONE, REFUSED, GroupStep


class Reign(Enum):
    """The reign of a coordinator: not elected, loading, or coordinating."""

    NOT_ELECTED = "not elected"
    LOADING = "loading"
    LEADING = "leading"


class GroupCoordinator:
    """One coordinator of all groups; its fields may be read at any time."""

    context_class: ClassVar[type[GroupContext]] = GroupContext
    rebalancer_class: ClassVar[type[GroupRebalancer]] = GroupRebalancer
    joins_class: ClassVar[type[Joins]] = Joins
    memberships_class: ClassVar[type[Memberships]] = Memberships
    offsets_class: ClassVar[type[CommittedOffsets]] = CommittedOffsets
    admin_class: ClassVar[type[GroupAdmin]] = GroupAdmin
    """The classes that make these parts; a subclass may name others."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.epoch = 0
        """The last epoch that it was elected in; 0 before."""
        self.reign = Reign.NOT_ELECTED
        self.context = context = self.context_class(settings, new_id)
        self.groups = context.groups
        self._outbox = context.outbox
        self._purgatory = context.purgatory
        self._rebalancer = self.rebalancer_class(context)
        self._joins = self.joins_class(context, self._rebalancer)
        self._memberships = self.memberships_class(context, self._rebalancer)
        self._offsets = self.offsets_class(context, self._rebalancer.sessions)
        self._admin = self.admin_class(context, self._offsets)
        self._early: list[tuple[int, HeartbeatRequest]] = []
        """Heartbeats that came while it loads: whom they are of, nobody knows yet."""
        self._loads_since_ms = 0

    @property
    def next_deadline(self) -> int | None:
        """When `tick` is to be called next, in ms; None: when anything else has happened."""
        return self._purgatory.due()

    # ── What happens ────────────────────────────────────────────────────────────────────────

    def handle(self, now_ms: int, caller: int, request: GroupRequest) -> list[GroupEffect]:
        """A request was received."""
        self._outbox.begin(now_ms)
        self._outbox.received(caller, request)
        error = _malformed(request, self.settings) or self._absent(request)
        if self.reign is Reign.LOADING and isinstance(request, HeartbeatRequest) and not error:
            self._early.append((caller, request))
        elif error is not None:
            if isinstance(request, JoinGroupRequest) and self.reign is Reign.LEADING:
                self._joins.report_refused(request, error, request.member_id)
            self._outbox.answer(caller, refusal(request, error))
        else:
            self._route(caller, request)
        return self._outbox.effects

    def tick(self, now_ms: int) -> list[GroupEffect]:
        """The next deadline has come."""
        self._outbox.begin(now_ms)
        self._purgatory.expire(now_ms)
        return self._outbox.effects

    def stored(self, now_ms: int, token: int, ok: bool) -> list[GroupEffect]:
        """A change is stored; or, if not `ok`, it was refused, and is not."""
        self._outbox.begin(now_ms)
        if token in self._outbox.thens:
            group, then = self._outbox.thens.pop(token)
            outcome = DONE if ok else REFUSED
            self._outbox.take(
                GroupStep(action="answered", group=group, number=token, outcome=outcome)
            )
            then(ok)
        return self._outbox.effects

    # ── Leadership ──────────────────────────────────────────────────────────────────────────

    def load(self, now_ms: int, epoch: int) -> list[GroupEffect]:
        """It was elected; what is stored is being read."""
        effects = self.resign(now_ms)
        self.epoch = epoch
        self.reign = Reign.LOADING
        self._loads_since_ms = now_ms
        self._outbox.report(What.COORDINATOR_STARTUP, epoch=epoch)
        return effects

    def lead(self, now_ms: int, groups: Mapping[str, StoredClassicGroup]) -> list[GroupEffect]:
        """All is read: it coordinates, and gives every member the time of a session."""
        self._outbox.begin(now_ms)
        self.reign = Reign.LEADING
        self._outbox.take(GroupStep(action="load_group", epoch=self.epoch))
        for name, stored in groups.items():
            group = self.groups[name] = group_from(name, stored, now_ms)
            self._outbox.take(replace(as_stored("found", group), offsets=marks_of(group.offsets)))
            for member in group.members.values():
                self._rebalancer.sessions.renew(group, member)
            if len(group.members) > self.settings.group_max_size:
                self._rebalancer.prepare(group, "there are more of them than group_max_size")
            elif group.is_in(GroupState.COMPLETING_REBALANCE):
                group.rebalances_since_ms = now_ms
                self._rebalancer.wait_for_syncs(group)
        self._report_loaded()
        self._admin.look_again()
        early, self._early = self._early, []
        for caller, request in early:
            self._route(caller, request)
        return self._outbox.effects

    def _report_loaded(self) -> None:
        """Tell how much was read; groups beyond the bound are kept, since nothing may be lost."""
        count, most = len(self.groups), self.settings.max_groups
        members = sum(len(group.members) for group in self.groups.values())
        ms = self._outbox.now_ms - self._loads_since_ms
        self._outbox.report(
            What.COORDINATOR_READY, epoch=self.epoch, groups=count, members=members, ms=ms
        )
        if count > most:
            self._outbox.report(What.TOO_MANY_GROUPS, groups=count, max_groups=most)

    def resign(self, now_ms: int) -> list[GroupEffect]:
        """It is elected no longer, or does not know: whoever waits is to ask another."""
        self._outbox.begin(now_ms)
        if self.reign is not Reign.NOT_ELECTED:
            self._outbox.take(GroupStep(action="step_down", epoch=self.epoch))
            waited = len(self._outbox.open)
            self._outbox.report(What.STEPPED_DOWN, epoch=self.epoch, waited=waited)
        self.reign = Reign.NOT_ELECTED
        for caller, request in list(self._outbox.open.items()):
            self._outbox.answer(caller, refusal(request, Error.NOT_COORDINATOR))
        for group in self.groups.values():
            group.go_to(GroupState.DEAD, now_ms)
        self._early.clear()
        self.groups.clear()
        self.context.pending.clear()
        self.context.queues.clear()
        self._offsets.clear()
        self._outbox.forget()
        self._purgatory.clear_all()
        return self._outbox.effects

    # ── Requests ────────────────────────────────────────────────────────────────────────────

    def _absent(self, request: GroupRequest) -> Error | None:
        """The answer of whoever does not coordinate, or not yet; a heartbeat can wait."""
        match self.reign:
            case Reign.LEADING:
                return None
            case Reign.NOT_ELECTED:
                is_list = isinstance(request, ListGroupsRequest)
                return Error.NONE if is_list else Error.NOT_COORDINATOR
            case Reign.LOADING:
                is_heartbeat = isinstance(request, HeartbeatRequest)
                return None if is_heartbeat else Error.COORDINATOR_LOAD_IN_PROGRESS
            case _:
                assert_never(self.reign)

    def _route(self, caller: int, request: GroupRequest) -> None:
        """A request goes to the part that it is for, when its group is not being stored."""
        in_turn = self.context.in_turn
        match request:
            case JoinGroupRequest():
                in_turn(request.group_id, partial(self._joins.join, caller, request))
            case SyncGroupRequest():
                in_turn(request.group_id, partial(self._memberships.sync, caller, request))
            case HeartbeatRequest():
                deed = partial(self._memberships.heartbeat, caller, request)
                in_turn(request.group_id, deed)
            case LeaveGroupRequest():
                in_turn(request.group_id, partial(self._memberships.leave, caller, request))
            case OffsetCommitRequest():
                in_turn(request.group_id, partial(self._offsets.commit, caller, request))
            case OffsetFetchRequest():
                self._offsets.fetch(caller, request)
            case OffsetDeleteRequest():
                self._offsets.delete(caller, request)
            case DescribeGroupsRequest():
                self._admin.describe(caller, request)
            case ListGroupsRequest():
                self._admin.list_groups(caller, request)
            case DeleteGroupsRequest():
                self._admin.delete(caller, request)
            case _:
                assert_never(request)


def _malformed(request: GroupRequest, settings: GroupSettings) -> Error | None:
    """
    The error in a request's own values, if there is any.

    Commits and fetches of the group with the empty name are as old as groups, and stay possible.
    """
    match request:
        case OffsetCommitRequest() | OffsetFetchRequest():
            return None
        case DescribeGroupsRequest() | ListGroupsRequest() | DeleteGroupsRequest():
            return None
        case _ if not request.group_id:
            return Error.INVALID_GROUP_ID
        case JoinGroupRequest(session_timeout_ms=timeout_ms):
            least, most = (
                settings.group_min_session_timeout_ms,
                settings.group_max_session_timeout_ms,
            )
            return None if least <= timeout_ms <= most else Error.INVALID_SESSION_TIMEOUT
        case _:
            return None
