"""
The common ground of a group coordinator's core: one `GroupContext`, made by `coordinator.py`.

Every part says through the one `GroupOutbox` what must now happen, and answers a request there, so
that each is answered once. What is to be done when a change is stored, or a time has come, is a
bound method, or a `partial` of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.stored import as_stored, metadata_of
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredCommit,
    StoredMetadata,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.messages import GroupRequest, GroupResponse
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.steps import GroupAction, GroupStep
from herdproof.shells.expiry import Purgatory

StoredThen: TypeAlias = Callable[[bool], None]
"""Goes on when it is known whether a change is stored."""
Deed: TypeAlias = Callable[[], None]


class GroupOutbox:
    """The effects of what is being taken, its time, and the requests that are not answered yet."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.effects: list[GroupEffect] = []
        self.open: dict[int, GroupRequest] = {}
        self.thens: dict[int, tuple[str, StoredThen]] = {}
        """Of each change that is being stored: its group, and what follows."""
        self.token = 0

    def begin(self, now_ms: int) -> None:
        """Something is taken at this time."""
        self.now_ms = now_ms
        self.effects = []

    def take(self, step: GroupStep) -> None:
        """A step of the protocol is taken."""
        self.effects.append(step)

    def report(self, what: What, group: str = "", **details: str | int) -> None:
        """Tell operators of something."""
        self.effects.append(Report(what, group, tuple(details.items())))

    def received(self, caller: int, request: GroupRequest) -> None:
        """A request is to be answered."""
        assert caller not in self.open, f"request {caller} was given twice"
        self.open[caller] = request

    def answer(self, caller: int, response: GroupResponse) -> None:
        """A request is answered, for the first and only time."""
        del self.open[caller]
        self.effects.append(GroupAnswer(caller, response))

    def store(
        self, step: GroupStep, then: StoredThen, *, metadata: StoredMetadata | None = None,
        offsets: Mapping[TopicPartition, StoredCommit | None] | None = None,
        is_deleted: bool = False,
    ) -> None:  # fmt: skip
        """A change is to be stored, which this step leads to; go on when that is known."""
        self.token += 1
        self.thens[self.token] = step.group, then
        self.take(replace(step, number=self.token))
        change = StoreGroup(
            token=self.token,
            group=step.group,
            metadata=metadata,
            offsets=offsets or {},
            is_deleted=is_deleted,
        )
        self.effects.append(change)

    def forget(self) -> None:
        """No change that was to be stored matters any more."""
        self.thens.clear()


class GroupContext:
    """The knowledge that every part of one coordinator's core shares."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.new_id = new_id
        self.outbox = GroupOutbox()
        self.purgatory = Purgatory()
        self.groups: dict[str, ClassicGroup] = {}
        self.pending: set[str] = set()
        """Member ids of all groups that were given out, and nobody has joined with yet."""
        self.queues: dict[str, list[Deed]] = {}
        """Of each group whose metadata is being stored: what is done after that, in order."""

    @property
    def is_full(self) -> bool:
        """Tells whether there are as many groups as may be begun, or more: all stored ones are."""
        return len(self.groups) >= self.settings.max_groups

    def in_turn(self, group: str, deed: Deed) -> None:
        """Do this now, or once what a group is now is stored, after what waits for that."""
        queue = self.queues.get(group)
        if queue is None:
            deed()
        else:
            queue.append(deed)

    def store_group(self, action: GroupAction, group: ClassicGroup, then: StoredThen) -> None:
        """Store what a group is now; all else that is asked of it waits until that is done."""
        assert group.name not in self.queues
        self.queues[group.name] = []
        stored = partial(self._group_stored, group.name, then)
        self.outbox.store(as_stored(action, group), stored, metadata=metadata_of(group))

    def delete_group(self, name: str, then: StoredThen) -> None:
        """Store that a group is no more."""
        self.queues[name] = []
        step = GroupStep(action="delete_group", group=name)
        self.outbox.store(step, partial(self._group_stored, name, then), is_deleted=True)

    def _group_stored(self, name: str, then: StoredThen, ok: bool) -> None:
        queue = self.queues.pop(name)
        then(ok)
        for deed in queue:
            self.in_turn(name, deed)


class GroupPart:
    """A part of the core; it acts through what it emits and the time that passes."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._settings = context.settings
        self._outbox = context.outbox
        self._purgatory = context.purgatory
        self._groups = context.groups
        self._queues = context.queues
        self._in_turn = context.in_turn

    def _after(self, wait_ms: int, kind: str, group: str, then: Deed, member: str = "") -> None:
        """Go on so after a while, and when the group is not being stored."""
        due_ms = self._outbox.now_ms + wait_ms
        self._purgatory.watch((kind, (group, member)), due_ms, partial(self._in_turn, group, then))

    def _never(self, kind: str, group: str, member: str = "") -> None:
        """Do nothing of what was to be done after a while."""
        self._purgatory.clear((kind, (group, member)))
