"""
The rebalance of a group: Stops, offsets, owners, Starts, in this order.

    WAITING    until the group is read, its known consumers are back, and every lease is over
    STOPPING   Stops to all; until everybody has answered, or is gone and his lease over
    FLUSHING   the offsets that are in memory only are written
    WRITING    generation and owners, in one fenced transaction
    STARTING   Starts to all, each with its own partitions; until everybody has answered

A lease is waited for before the Stops where that is possible, so that the others consume meanwhile.
That ends: only a Start gives anybody something that has to be waited for, and none is sent until
then. Whoever registers while the group is WAITING or STOPPING takes part; then nobody is admitted
until the owners are written; who comes later is started with nothing, and waits for the next one.

Groups share nothing here, so that one never waits for another. Whatever changes while the flag is
set makes it dirty; flag and bit are tested and cleared together.

Source: `002` (On Rebalancing), PROTOCOLS.md, rulings 1, 3, 4 and 9.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import (
    NEXT,
    Flag,
    Group,
    Owner,
    Phase,
    Registered,
)
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    Recovery,
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.coordinator.rebalancing.availability import (
    FAILURE,
    REBALANCE,
    START,
    STOP,
    Availability,
)
from herdproof.protocols.central_coordinator.coordinator.rebalancing.necessity import why_necessary
from herdproof.protocols.central_coordinator.coordinator.rebalancing.planner import GroupPlans
from herdproof.protocols.central_coordinator.coordinator.store import CommitPoint, StoreResult
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Start, Stop

Told: TypeAlias = Callable[[Group], None]
Owners: TypeAlias = dict[Partition, Owner]

AT_ONCE = 64
"""Number of rebalances that a handler begins in one event; a large crowd's would hold up all."""
STEPS_OF_AN_OWNER = 150
"""Cost of writing a partition's owner, in the steps of a plan."""


class Rebalancer(CorePart):
    """
    The rebalances of all groups, each by itself.

    `reopened` is told of a group that admits members again.
    """

    def __init__(self, context: Context, recovery: Recovery, reopened: Told) -> None:
        super().__init__(context)
        self.groups_being_rebalanced: dict[str, Flag] = {}
        self.rebalance_request_q: list[deque[Group]] = [
            deque() for _ in range(context.settings.request_handlers)
        ]
        self.planner = GroupPlans(context)
        self._first = 0
        """The handler that works first: the one after that which used the last portion up."""
        self._preparing: deque[Group] = deque()
        """Groups whose owners are written by the next ticks."""
        self._server = context.server
        self._store = context.store
        self._offsets = context.offsets
        self._topics = context.topics
        self._recovery = recovery
        self._reopened = reopened
        self._availability = Availability(context)

    def clear(self) -> None:
        """No group is rebalanced, or waits for it."""
        self.groups_being_rebalanced.clear()
        self._preparing.clear()
        for queue in self.rebalance_request_q:
            queue.clear()

    def _enter(self, group: Group, phase: Phase) -> None:
        """A group's rebalance is in this phase from now on."""
        before = group.phase
        assert phase in NEXT[before], f"a group that is {before.value} cannot be {phase.value} next"
        group.phase = phase

    # ── Requests, and their handlers ────────────────────────────────────────────────────────

    def request(self, group: Group) -> None:
        """Set the group's flag and queue it; if the flag is set already, note that it is dirty."""
        flag = self.groups_being_rebalanced[group.name]
        if flag.compare_and_set():
            self._purgatory.clear(("rebalance", group.name))
            group.began_ms = self._outbox.now_ms
            if group.triggered_ms is None:
                group.triggered_ms = group.began_ms
            self._queue(group)
        else:
            flag.dirty = True

    def handler_of(self, group: Group) -> int:
        """The number of the handler that a group belongs to, the same for ever."""
        return zlib.crc32(group.name.encode()) % len(self.rebalance_request_q)

    def tick(self) -> None:
        """A new portion of plans and owners may be done."""
        self.planner.portion()
        for _ in range(len(self._preparing)):
            self._prepared(self._preparing.popleft(), True)

    def run(self) -> None:
        """Let every handler work on its queue, as far as this portion goes."""
        if self.planner.is_used_up() or not any(self.rebalance_request_q):
            return  # whose turn it is stays so until there is another portion
        number = len(self.rebalance_request_q)
        for handler in [(self._first + n) % number for n in range(number)]:
            self.request_handler(handler)
            if self.planner.is_used_up():
                self._first = handler + 1  # the others' groups do not wait for this one's
                return

    def request_handler(self, handler: int) -> None:
        """Begin with the rebalances in this handler's queue, not with too many in one event."""
        queue = self.rebalance_request_q[handler]
        for _ in range(AT_ONCE):
            if not queue or self.planner.is_used_up() or self._outbox.is_full():
                return
            self.rebalance(queue.popleft())

    def is_busy(self) -> bool:
        """True if something is left to be done: the next tick goes on."""
        return any(self.rebalance_request_q) or bool(self._preparing)

    def _queue(self, group: Group) -> None:
        self._enter(group, Phase.QUEUED)
        self.rebalance_request_q[self.handler_of(group)].append(group)

    def resume(self, group: Group) -> None:
        """Something that a group's rebalance may wait for has come, or is over."""
        if group.phase is Phase.WAITING:
            self._queue(group)
        elif group.phase is Phase.STOPPING:
            self._check_stopped(group)

    # ── 1 to 3: is it necessary? ────────────────────────────────────────────────────────────

    def rebalance(self, group: Group) -> None:
        """Rebalance a group if that is necessary, as soon as nothing is in the way."""
        self._enter(group, Phase.WAITING)
        if not group.loaded:
            self._recovery.load(group)
            return
        if group.ghosts or group.expected or (group.members and not self._topics.are_read):
            self._availability.waits(group)
            return
        if group.members and not self.planner.is_planned(group):
            self._queue(group)
            return
        self.groups_being_rebalanced[group.name].dirty = False  # the plan knows of it
        if not group.members:
            self._finish(group)  # 2.1
            return
        plan = self.plan(group)
        why = self._why_necessary(group, plan)
        if why is None:
            self._outbox.emit(group.step("begin_rebalance", "unnecessary"))
            self._outbox.report(
                What.REBALANCE_UNNECESSARY, group.name, members=len(group.members),
                generation=group.generation,
            )  # fmt: skip
            self._finish(group)
        else:
            self._stop_all(group, plan, why)

    def plan(self, group: Group) -> dict[Partition, str]:
        """Who is to get what: the partitions that there are, for the members that live."""
        return self.planner.plan(group)

    def _why_necessary(self, group: Group, plan: dict[Partition, str]) -> str | None:
        return why_necessary(group, plan, self._existing(group))

    def _existing(self, group: Group) -> set[Partition]:
        """The partitions that there are of the topics of which this group owns any."""
        owned = {topic for topic, _ in group.owners}
        return {(t, number) for t in owned for number in self._topics.topics.get(t, ())}

    # ── 4.1: Stops ──────────────────────────────────────────────────────────────────────────

    def _stop_all(self, group: Group, plan: dict[Partition, str], why: str) -> None:
        self._outbox.emit(group.step("begin_rebalance", "necessary"))
        self._outbox.report(
            What.REBALANCE_STARTED, group.name, why=why, members=len(group.members),
            waited_ms=self._outbox.now_ms - group.began_ms,
        )  # fmt: skip
        self._enter(group, Phase.STOPPING)
        group.began_ms = self._outbox.now_ms
        group.plan = plan
        for member in group.members.values():
            self._stop(group, member)
        self._availability.hinders(group, STOP)
        self._check_stopped(group)

    def _stop(self, group: Group, member: Registered) -> None:
        group.waiting.add(member.registration)
        member.acked = 0
        self._server.request(member.channel, Stop(), group.generation)

    def stopped(self, group: Group, member: Registered) -> None:
        """A member has answered its Stop: it fetches nothing any more."""
        member.may_fetch = False
        member.acked = 0  # a Start may have been answered since the Stop was asked for
        if group.phase is Phase.STOPPING:
            group.waiting.discard(member.registration)
            self._check_stopped(group)

    def _check_stopped(self, group: Group) -> None:
        """The barrier: go on once nobody fetches any more."""
        if self._nobody_fetches(group):
            group.waiting.clear()
            self._availability.hinders(group, REBALANCE)
            self._enter(group, Phase.FLUSHING)
            self._prepare(group)
        elif not group.waiting:
            self._availability.waits(group)

    def _nobody_fetches(self, group: Group) -> bool:
        """Every member has answered its Stop, and of nobody who is gone the lease still runs."""
        return not group.waiting and not group.ghosts

    # ── 4.2: owners ─────────────────────────────────────────────────────────────────────────

    def _prepare(self, group: Group) -> None:
        """Read and write offsets until every one is known and stored; then write the owners."""
        if not group.members:
            self._finish(group)
            return
        if not self.planner.is_planned(group) or self.planner.is_used_up():
            self._preparing.append(group)  # what follows takes a while, too
            return
        self._plan_again(group)
        missing = self._offsets.missing(group.name, group.plan)
        if missing:
            self._offsets.load(group.name, missing, partial(self._prepared, group))
        elif not self._offsets.is_written(group.name):
            self._offsets.flush(group.name, partial(self._prepared, group))
        elif not self.planner.spend(STEPS_OF_AN_OWNER * len(group.plan)):
            self._preparing.append(group)
        else:
            self._write_owners(group, group.generation + 1)

    def _plan_again(self, group: Group) -> None:
        """Plan for what has changed since the Stops were sent."""
        group.plan = self.plan(group)

    def _prepared(self, group: Group, done: bool) -> None:
        if group.phase is not Phase.FLUSHING:
            return
        if done:
            self._prepare(group)
        else:
            self.fail(group, "the offsets cannot be stored")

    def _write_owners(self, group: Group, generation: int) -> None:
        """Write generation and owners, in one transaction as far as it fits into one."""
        self._enter(group, Phase.WRITING)
        changes: dict[str, bytes | None] = {
            self._paths.owner(group.name, *partition): None
            for partition in sorted(group.owners.keys() - group.plan.keys())
        }
        owners = self._planned_owners(group)
        said: dict[str, bytes] = {}
        for partition, owner in owners.items():
            if owner.registration not in said:
                said[owner.registration] = owner_data(owner, generation)
            changes[self._paths.owner(group.name, *partition)] = said[owner.registration]
        lease_ms = max(member.session_timeout_ms for member in group.members.values())
        named = tuple((*partition, owner.registration) for partition, owner in owners.items())
        epoch = self._context.epoch
        point = CommitPoint(
            self._paths.group(group.name),
            partial(point_data, generation, epoch, session_timeout_ms=lease_ms),
            CoordinationStep(
                action="write_owners", group=group.name, epoch=epoch, generation=generation,
                owners=named,
            ),
        )  # fmt: skip
        self._store.write(group.name, changes, partial(self._owners_written, group, owners), point)

    def _planned_owners(self, group: Group) -> Owners:
        """The plan, as far as those whom it names still live."""
        owners = {name: Owner(group.members[name].consumer_id, name) for name in group.members}
        return {place: owners[name] for place, name in group.plan.items() if name in owners}

    def _owners_written(self, group: Group, owners: Owners, outcome: StoreResult) -> None:
        if outcome is not StoreResult.DONE:
            group.loaded = False  # which generation stands has to be read
            self.fail(group, f"the owners' write is {outcome.value}")
            return
        self._take_over(group, owners)
        self._outbox.report(
            What.OWNERS_WRITTEN, group.name, generation=group.generation, partitions=len(owners),
            ms=self._outbox.now_ms - group.began_ms,
        )  # fmt: skip
        self._start_all(group)

    def _take_over(self, group: Group, owners: Owners) -> None:
        """These owners are what counts from now on."""
        group.generation += 1
        group.owners = owners

    # ── 4.3: Starts ─────────────────────────────────────────────────────────────────────────

    def _start_all(self, group: Group) -> None:
        self._enter(group, Phase.STARTING)
        self._availability.hinders(group, START)
        shares: dict[str, list[Offset]] = {name: [] for name in group.members}
        offsets = self._first_offsets(group)
        for (topic, number), owner in group.owners.items():
            if owner.registration in shares:
                offset = offsets.get((topic, number), NO_OFFSET)
                shares[owner.registration].append(Offset(topic, number, offset))
        for name, share in shares.items():
            self._start(group, group.members[name], tuple(share))
        if group.unread:
            self._outbox.report(
                What.PARTITIONS_UNREAD, group.name, partitions=group.unread,
                why=f"a Start has at most {self._settings.max_start_bytes} bytes: let more members "
                f"share them, or raise listener.max_frame_bytes and coordinator.max_start_bytes",
            )  # fmt: skip
        self._reopened(group)
        self._check_started(group)

    def _first_offsets(self, group: Group) -> dict[Partition, int]:
        """Where to begin: everything that was reported up to the Stops."""
        return self._offsets.known.get(group.name, {})

    def _start(self, group: Group, member: Registered, share: tuple[Offset, ...]) -> None:
        group.waiting.add(member.registration)
        self._server.request(member.channel, Start(share), group.generation)

    def started(self, group: Group, member: Registered, generation: int, error: ErrorCode) -> None:
        """A member has answered its Start of this generation."""
        if error is ErrorCode.NONE:
            member.acked = generation
        if group.phase is not Phase.STARTING or generation != group.generation:
            return
        if error is not ErrorCode.NONE:
            self.fail(group, f"{member.consumer_id} answered its Start {error.name}")
            return
        group.waiting.discard(member.registration)
        self._check_started(group)

    def _check_started(self, group: Group) -> None:
        if group.phase is not Phase.STARTING or group.waiting:
            return
        self._succeed(group)

    # ── Members come and go meanwhile ───────────────────────────────────────────────────────

    def member_joined(self, group: Group, member: Registered) -> None:
        """A member was admitted while the group may be in the middle of a rebalance."""
        if group.phase is Phase.STOPPING:
            self._stop(group, member)
        elif group.phase is Phase.STARTING and not member.resumed:
            self._start(group, member, ())

    def member_lost(self, group: Group, member: Registered, why: str) -> None:
        """A member is gone; what may still be fetched by it is in the group's ghosts."""
        was_waited_for = member.registration in group.waiting
        group.waiting.discard(member.registration)
        if group.phase is Phase.STOPPING:
            self._check_stopped(group)
        elif group.phase is Phase.STARTING and was_waited_for:
            self.fail(group, f"{member.consumer_id} was lost before it had started: {why}")

    # ── 5: success and failure ──────────────────────────────────────────────────────────────

    def _succeed(self, group: Group) -> None:
        self._outbox.emit(group.step("finish_rebalance"))
        self._outbox.report(
            What.REBALANCE_DONE, group.name, generation=group.generation,
            members=len(group.members), partitions=len(group.owners),
            ms=self._outbox.now_ms - group.began_ms,
            whole_ms=self._outbox.now_ms - (group.triggered_ms or group.began_ms),
        )  # fmt: skip
        self._finish(group)

    def _finish(self, group: Group) -> None:
        """The group is as it should be: reset the flag, and begin again if it was dirty."""
        self._leave(group)
        self._availability.ends(group)
        group.failures, group.triggered_ms = 0, None
        if self.groups_being_rebalanced[group.name].reset():
            self.request(group)
        self._reopened(group)

    def fail(self, group: Group, why: str) -> None:
        """A rebalance has failed: reset the flag, and try again after a while, for ever."""
        self._outbox.emit(group.step("fail_rebalance"))
        for member in group.members.values():
            self._server.withdraw(member.channel)  # a Start that waits behind a ping
        self._leave(group)
        self._availability.hinders(group, FAILURE)
        group.failures += 1
        exhausted = group.failures > self._settings.max_rebalance_retries
        again_ms = self._settings.rebalance_backoff_after(group.failures)
        self._outbox.report(
            What.REBALANCE_FAILED, group.name, why=why, failures=group.failures,
            again_in_ms=again_ms,
        )  # fmt: skip
        if exhausted:
            failures = group.failures
            self._outbox.report(What.REBALANCE_EXHAUSTED, group.name, why=why, failures=failures)
        self._try_again(group, again_ms)
        self._reopened(group)

    def _try_again(self, group: Group, after_ms: int) -> None:
        """Reset the flag, and rebalance again after a while."""
        self.groups_being_rebalanced[group.name].reset()
        self._after(after_ms, ("rebalance", group.name), partial(self._again, group))

    def _again(self, group: Group) -> None:
        if group.name in self.groups_being_rebalanced:
            self.request(group)

    def _leave(self, group: Group) -> None:
        """The rebalance is over, one way or the other."""
        self._enter(group, Phase.IDLE)
        group.waiting.clear()
        group.plan = {}
        group.making = None
        self._purgatory.clear(("rebalance", group.name))
