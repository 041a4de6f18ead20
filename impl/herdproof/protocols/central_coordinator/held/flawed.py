"""
The known mistakes of system B's cores, which the checkers must catch: subclasses of their parts.

A coordinator's mistake is one of the part that makes it (`Rebalancer`, `Membership`, `Store`,
`Commits` or the `Coordinator` itself), a consumer's one of its connector or of the core. Each
stands under its name in `HABITS` (of the drafts) or `FOUND` (what the checkers found while the
protocol was written), or in `CONSUMERS`; the spec has variants of these names
(`herdspec.protocols.central_coordinator.flaws`).

    Coordinator = coordinator_with(frozenset({"no_barrier"}))
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from herdproof.conformance.flawed import flawed
from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.client.connector import Connector, Effects
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.coordinator.commits import Commits
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.groups import (
    Group,
    LeaseHolder,
    Phase,
    Registered,
)
from herdproof.protocols.central_coordinator.coordinator.members.bringing import BroughtOffsets
from herdproof.protocols.central_coordinator.coordinator.members.membership import Membership
from herdproof.protocols.central_coordinator.coordinator.rebalancing.necessity import (
    Necessity,
    nothing_registered,
    some_gone,
    some_not_owned,
    why_necessary,
)
from herdproof.protocols.central_coordinator.coordinator.rebalancing.rebalance import (
    Owners,
    Rebalancer,
)
from herdproof.protocols.central_coordinator.coordinator.store import Job, Store, StoreResult, Write
from herdproof.protocols.central_coordinator.events import CoordinatorEvent
from herdproof.protocols.central_coordinator.wire.messages import Brought, Frame
from herdproof.zookeeper.operations import Answer, Checked, Done, Multi, Refusal

# ── The rebalance ───────────────────────────────────────────────────────────────────────────


class NoBarrier(Rebalancer):
    """Starts right after the Stops, without waiting for their answers."""

    def _nobody_fetches(self, group: Group) -> bool:
        return True


class LostTrigger(Rebalancer):
    """A trigger while the flag is set is lost: what changes then is dropped."""

    def request(self, group: Group) -> None:
        """Set the group's flag and queue it; if the flag is set already, do nothing."""
        if not self.groups_being_rebalanced[group.name].is_set:
            super().request(group)

    def _plan_again(self, group: Group) -> None:
        """The plan stays what it was when the Stops were sent."""


class FlagStuck(Rebalancer):
    """After the retries are exhausted the flag stays set."""

    def _try_again(self, group: Group, after_ms: int) -> None:
        if group.failures <= self._settings.max_rebalance_retries:
            super()._try_again(group, after_ms)


class NoStart(Rebalancer):
    """
    Step 3.5 compares the stored owners only, not who has acknowledged its Start.

    The draft knows consumers by their ids.
    """

    def _why_necessary(self, group: Group, plan: dict[Partition, str]) -> str | None:
        existing = self._existing(group)
        if (
            nothing_registered(group)
            or some_not_owned(group.owners, plan)
            or some_gone(group.owners, existing)
        ):
            return why_necessary(group, plan, existing)
        planned = {p: group.members[name].consumer_id for p, name in plan.items()}
        if planned == {p: owner.consumer_id for p, owner in group.owners.items()}:
            return None
        return Necessity.MISMATCH


class StaleOffsets(Rebalancer):
    """The offsets of a Start are read before the Stops are answered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stale: dict[str, dict[Partition, int]] = {}
        """By group, the offsets as they were before the Stops."""

    def clear(self) -> None:
        """No group is rebalanced, or waits for it."""
        super().clear()
        self.stale.clear()

    def _stop_all(self, group: Group, plan: dict[Partition, str], why: str) -> None:
        self.stale[group.name] = dict(self._offsets.known.get(group.name, {}))
        super()._stop_all(group, plan, why)

    def _first_offsets(self, group: Group) -> dict[Partition, int]:
        return {**super()._first_offsets(group), **self.stale.get(group.name, {})}

    def _leave(self, group: Group) -> None:
        super()._leave(group)
        self.stale.pop(group.name, None)


class OwnersWrittenLate(Rebalancer):
    """Owners are written after all StartResponses: step 5 of `002`."""

    def _enter(self, group: Group, phase: Phase) -> None:
        if phase in (Phase.STARTING, Phase.WRITING):
            group.phase = phase  # the other way round than the table has them
        else:
            super()._enter(group, phase)

    def _write_owners(self, group: Group, generation: int) -> None:
        if group.phase is Phase.STARTING:
            super()._write_owners(group, generation)
        else:
            self._take_over(group, self._planned_owners(group))
            self._start_all(group)

    def _check_started(self, group: Group) -> None:
        if group.phase is Phase.STARTING and not group.waiting:
            self._write_owners(group, group.generation)

    def fail(self, group: Group, why: str) -> None:
        """A rebalance has failed: what is not written does not count, and is read again."""
        group.loaded = False
        group.generation, group.owners = 0, {}
        super().fail(group, why)

    def _owners_written(self, group: Group, owners: Owners, outcome: StoreResult) -> None:
        del owners  # they have counted since the Starts were sent
        if outcome is StoreResult.DONE:
            self._succeed(group)
        else:
            self.fail(group, f"the owners' write is {outcome.value}")


class EmptyGroupHangs(Rebalancer):
    """A rebalance that has lost all its members waits for others, who may never come."""

    def _prepare(self, group: Group) -> None:
        if group.members:
            super()._prepare(group)
        else:
            group.phase = Phase.STOPPING


class AdoptsMeanwhile(Rebalancer):
    """Whoever is adopted need not be stopped: not even by a rebalance that has begun."""

    def member_joined(self, group: Group, member: Registered) -> None:
        """A member was admitted while the group may be in the middle of a rebalance."""
        if not member.resumed:
            super().member_joined(group, member)


class StopKeepsAck(Rebalancer):
    """A Stop leaves it in the books that its member follows an older Start."""

    def _stop(self, group: Group, member: Registered) -> None:
        acked = member.acked
        super()._stop(group, member)
        member.acked = acked

    def stopped(self, group: Group, member: Registered) -> None:
        """A member has answered its Stop; what it had acknowledged it still has."""
        acked = member.acked
        super().stopped(group, member)
        member.acked = acked


class MemberById(Rebalancer):
    """A Start gives a member what its consumer owns with a registration that is gone, too."""

    def _start(self, group: Group, member: Registered, share: tuple[Offset, ...]) -> None:
        offsets = self._first_offsets(group)
        former = [
            Offset(topic, number, offsets.get((topic, number), NO_OFFSET))
            for (topic, number), owner in group.owners.items()
            if owner.consumer_id == member.consumer_id
            and owner.registration not in group.members
            and member.subscription.streams(topic)  # consumers refuse what they do not want
        ]
        super()._start(group, member, (*share, *former))


class BroughtById(BroughtOffsets):
    """Who brings an offset is known by its consumer's id: whichever of its registrations owns."""

    def _may_bring(
        self, group: Group, member: Registered, one: Brought, partition: Partition
    ) -> bool:
        owner = group.owners.get(partition)
        return (
            owner is not None
            and owner.consumer_id == member.consumer_id
            and one.registration in member.former
            and not group.is_closed()
        )


# ── Members, writes, commits, and who coordinates ───────────────────────────────────────────


class PartialFailover(Membership):
    """A new coordinator does not wait for those who still fetch."""

    def _take_over(self, group: Group) -> None:
        group.expected = {}


class NoLease(Membership):
    """The partitions of who is gone are given away at once, whoever lost it."""

    def _wait_for_lease(self, group: Group, ghost: LeaseHolder) -> None:
        """Whoever is gone is taken to fetch no more."""


class Unfenced(Store):
    """Writes do not check the epoch: it goes on as if the check had held."""

    def _fenced(self, operations: tuple[Write, ...]) -> Multi:
        return Multi(operations)

    def _answered(self, job: Job, answer: Answer) -> None:
        if isinstance(answer, Done):
            answer = Done((Checked(), *answer.answers))
        elif isinstance(answer, Refusal) and answer.index is not None:
            answer = Refusal(answer.why, answer.index + 1)
        super()._answered(job, answer)


class StaleCommit(Commits):
    """Offsets are taken from whoever says them, in whichever generation."""

    def _may_say(
        self, group: Group, member: Registered, partition: Partition, generation: int
    ) -> bool:
        return True


class DeposedGoesOn(Coordinator):
    """A deposed coordinator closes nothing, and goes on pinging."""

    def _check_pause(self, event: CoordinatorEvent, now_ms: int) -> None:
        """Who was paused goes on."""

    def handle_deposed(self) -> None:
        """The election is not heeded."""

    def _refused_by_the_fence(self) -> None:
        """A write that the fence refused is not heeded."""


# ── Consumers ───────────────────────────────────────────────────────────────────────────────

FOR_EVER_MS = 2**62
"""A lease that does not end."""


class RenewsWithAny(Connector):
    """Any request read, a copy too, renews the lease from its reading on."""

    read_ms = 0
    """When the last frame was read."""

    def handle(self, frame: Frame, now_ms: int) -> Effects:
        """Take one frame of the coordinator."""
        self.read_ms = now_ms
        return super().handle(frame, now_ms)

    def _renew_lease(self, correlation_id: int) -> None:
        super()._renew_lease(correlation_id)
        self.lease_ends_ms = self.read_ms + self.settings.session_timeout_ms


class StopNotAnswered(Connector):
    """A Stop that finds the fetchers stopped gets no answer."""

    def handle_stop_request(self, frame: Frame, now_ms: int) -> Effects:
        """Close the fetchers, if they run."""
        if self.consumption.fetcher_stopped:
            return []
        return super().handle_stop_request(frame, now_ms)


class IgnoresEpoch(Connector):
    """Whoever coordinates in a past epoch is obeyed."""

    def _check_epoch(self, frame: Frame) -> None:
        self.consumption.epoch = frame.epoch


class ResumesTooLate(Connector):
    """Who has asked to resume consumes until it is answered, whatever its clock says."""

    def take_over(self, lost: Connector) -> None:
        """Go on, over this connection, with the registration of one that is lost."""
        super().take_over(lost)
        self.lease_ends_ms = FOR_EVER_MS


class ReconnectsFetching(ConsumerCore):
    """`002`: a lost connection is replaced, and fetchers go on."""

    @property
    def delivers_until_ms(self) -> int:
        """Until when records may reach the application: for ever while nothing is connected."""
        if self.connector is None and not self.consumption.fetcher_stopped:
            return FOR_EVER_MS
        return super().delivers_until_ms

    def _let_go(self, connector: Connector) -> Effects:
        return []


# ── The cores ───────────────────────────────────────────────────────────────────────────────

HABITS: Mapping[str, type[Any]] = {
    "no_barrier": NoBarrier,
    "lost_trigger": LostTrigger,
    "flag_stuck": FlagStuck,
    "no_start": NoStart,
    "stale_offsets": StaleOffsets,
    "deposed_goes_on": DeposedGoesOn,
    "owners_written_late": OwnersWrittenLate,
    "partial_failover": PartialFailover,
    "no_lease": NoLease,
    "unfenced": Unfenced,
}
"""Known mistakes of `002`'s coordinator."""

FOUND: Mapping[str, type[Any]] = {
    "empty_group_hangs": EmptyGroupHangs,
    "stop_keeps_ack": StopKeepsAck,
    "member_by_id": MemberById,
    "stale_commit": StaleCommit,
}
"""Mistakes that the checkers found in the spec while it was written."""

RESUMING: Mapping[str, type[Any]] = {"adopts_meanwhile": AdoptsMeanwhile}
"""A mistake of who lets registrations resume."""

BRINGING: Mapping[str, type[Any]] = {"brought_by_id": BroughtById}
"""A mistake of who takes offsets that are brought."""

COORDINATORS: Mapping[str, type[Any]] = {**HABITS, **FOUND, **RESUMING, **BRINGING}
"""All known mistakes of the coordinator."""

CONSUMERS: Mapping[str, type[Any]] = {
    "no_lease": RenewsWithAny,
    "reconnects_fetching": ReconnectsFetching,
    "stop_not_answered": StopNotAnswered,
    "ignores_epoch": IgnoresEpoch,
    "resumes_too_late": ResumesTooLate,
}
"""Known mistakes of the drafts' consumers, and one of who resumes."""


@cache
def coordinator_with(flaws: frozenset[str]) -> type[Coordinator]:
    """The coordinator's core with these flaws; raises `ValueError` if one is not known."""
    return flawed(Coordinator, flaws, COORDINATORS)


@cache
def consumer_with(flaws: frozenset[str]) -> type[ConsumerCore]:
    """The consumer's core with these flaws; raises `ValueError` if one of them is not known."""
    return flawed(ConsumerCore, flaws, CONSUMERS)
