"""
A group coordinator alone with its callers: time passes by hand, and a store in memory.

As a rule what is to be stored is stored at once; where a test says `holds`, it waits until
`store_next`, so that what comes in between can be tried. Whatever is answered is kept by caller,
and nobody is ever answered twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import count
from typing import TypeVar

from herdproof.conformance.traces.line import read_texts
from herdproof.conformance.traces.replay import conform_lines
from herdproof.consuming.consumer_protocol import write_assignment, write_subscription
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import CONSUMER, ClassicGroup
from herdproof.protocols.group_protocol.effects import GroupAnswer, GroupEffect, StoreGroup
from herdproof.protocols.group_protocol.messages import (
    NO_OFFSET,
    Error,
    GroupProtocol,
    GroupRequest,
    GroupResponse,
    GroupToFetch,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionToCommit,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicToCommit,
)
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore
from herdproof.protocols.group_protocol.stores.port import WriteOutcome
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.protocols.group_protocol.tracing import GroupTracer
from herdspec.check.conformance.conform import Outcome

GROUP = "orders"
TOPIC = "purchases"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
QUICK = GroupSettings(group_initial_rebalance_delay_ms=0)
"""No waiting for more to join."""

R = TypeVar("R", bound=GroupResponse)


def wants(*topics: str, name: str = "range") -> GroupProtocol:
    """What a consumer says of itself in a protocol."""
    return GroupProtocol(name, write_subscription(topics or (TOPIC,)))


RANGE = (wants(),)


@dataclass
class CoordinatorAlone:
    """One coordinator, elected unless a test says otherwise."""

    settings: GroupSettings = QUICK
    holds: bool = False
    """What is to be stored waits for `store_next`."""
    now_ms: int = 1_000_000
    store: MemoryGroupStore = field(default_factory=MemoryGroupStore)
    answers: dict[int, GroupResponse] = field(default_factory=dict)
    waiting: list[StoreGroup] = field(default_factory=list)
    core: type[GroupCoordinator] = GroupCoordinator

    def __post_init__(self) -> None:
        numbers = count(1)
        self._callers = count(1)
        self.coordinator = self.core(self.settings, lambda: str(next(numbers)))

    def elected(self, epoch: int = 1) -> CoordinatorAlone:
        """It leads, with what is stored."""
        self._perform(self.coordinator.load(self.now_ms, epoch))
        self.lead()
        return self

    def lead(self) -> None:
        """All that is stored is read."""
        self._perform(self.coordinator.lead(self.now_ms, self.store.groups))

    # ── What happens ────────────────────────────────────────────────────────────────────────

    def ask(self, request: GroupRequest) -> int:
        """Somebody asks; the number to look for an answer by."""
        caller = next(self._callers)
        self._perform(self.coordinator.handle(self.now_ms, caller, request))
        return caller

    def answer(self, request: GroupRequest, kind: type[R]) -> R:
        """Somebody asks, and is answered at once."""
        return self.answered(self.ask(request), kind)

    def answered(self, caller: int, kind: type[R]) -> R:
        """What somebody was answered."""
        assert caller in self.answers, f"request {caller} is not answered yet"
        answer = self.answers[caller]
        assert isinstance(answer, kind)
        return answer

    def wait(self, ms: int) -> None:
        """Time passes, with all that falls due in it."""
        end_ms = self.now_ms + ms
        while (due_ms := self.coordinator.next_deadline) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._perform(self.coordinator.tick(self.now_ms))
        self.now_ms = end_ms

    def store_next(self, *, ok: bool = True) -> None:
        """The oldest change that waits is stored, or refused."""
        change = self.waiting.pop(0)
        if ok:
            self.keep(change)
        self._perform(self.coordinator.stored(self.now_ms, change.token, ok))

    def keep(self, change: StoreGroup) -> None:
        """A change is stored; whether anybody is told of it is another matter."""
        self.store.write(change, _ignore)

    def resign(self) -> None:
        """It is deposed."""
        self.waiting.clear()
        self._perform(self.coordinator.resign(self.now_ms))

    def group(self, name: str = GROUP) -> ClassicGroup:
        """A group as the coordinator has it."""
        return self.coordinator.groups[name]

    def _perform(self, effects: list[GroupEffect]) -> None:
        for effect in list(effects):
            match effect:
                case GroupAnswer(caller=caller, response=response):
                    assert caller not in self.answers, f"request {caller} is answered twice"
                    self.answers[caller] = response
                case StoreGroup():
                    self._store(effect)

    def _store(self, change: StoreGroup) -> None:
        self.waiting.append(change)
        if not self.holds:
            self.store_next()

    # ── What members do ─────────────────────────────────────────────────────────────────────

    def join(self, member_id: str = "", **fields: object) -> int:
        """Somebody joins; a new one of today is given its id first."""
        request = join_of(member_id, **fields)
        if not member_id and request.version >= 4 and request.group_instance_id is None:
            required = self.answer(request, JoinGroupResponse)
            assert required.error is Error.MEMBER_ID_REQUIRED
            request = replace(request, member_id=required.member_id)
        return self.ask(request)

    def joined(self, caller: int) -> JoinGroupResponse:
        """What somebody who joins was answered, without an error."""
        told = self.answered(caller, JoinGroupResponse)
        assert told.error is Error.NONE, told.error.name
        return told

    def sync(
        self, joined: JoinGroupResponse, shares: Mapping[str, tuple[int, ...]] | None = None
    ) -> int:
        """A member asks for its assignment; the leader assigns partitions of the topic."""
        assignments = tuple(
            MemberAssignment(member_id, share(*numbers))
            for member_id, numbers in (shares or {}).items()
        )
        return self.ask(
            SyncGroupRequest(
                version=5, group_id=GROUP, generation_id=joined.generation_id,
                member_id=joined.member_id, assignments=assignments,
            )
        )  # fmt: skip

    def synced(self, caller: int) -> SyncGroupResponse:
        """What somebody who asked for an assignment was answered."""
        return self.answered(caller, SyncGroupResponse)

    def heartbeat(self, joined: JoinGroupResponse, **fields: object) -> Error:
        """A member is alive."""
        request = HeartbeatRequest(
            version=4, group_id=GROUP, generation_id=joined.generation_id,
            member_id=joined.member_id,
        )  # fmt: skip
        return self.answer(replace(request, **fields), HeartbeatResponse).error  # type: ignore[arg-type]

    def leave(self, *members: LeavingMember, version: int = 5) -> LeaveGroupResponse:
        """Members leave."""
        request = LeaveGroupRequest(version=version, group_id=GROUP, members=members)
        return self.answer(request, LeaveGroupResponse)

    def commit(self, joined: JoinGroupResponse | None, **offsets: int) -> list[Error]:
        """Offsets of the topic's partitions (`p0=7`) are committed; without a member, by hand."""
        return errors_of(self.answer(commit_of(joined, **offsets), OffsetCommitResponse))

    def committed(self, *partitions: int) -> list[int]:
        """The committed offsets of the topic's partitions."""
        (group,) = self.answer(fetch_of(GROUP), OffsetFetchResponse).groups
        found = [each for topic in group.topics for each in topic.partitions]
        offsets = {each.partition: each.offset for each in found}
        return [offsets.get(partition, NO_OFFSET) for partition in partitions]

    def stable(self, members: int = 1) -> list[JoinGroupResponse]:
        """A group of so many members, the leader first; each has the partition of its place."""
        callers = [self.join() for _ in range(members)]
        while callers[-1] not in self.answers:
            self.wait((self.coordinator.next_deadline or 0) - self.now_ms)
        joined = [self.joined(caller) for caller in callers]
        joined.sort(key=lambda told: told.member_id != told.leader)
        shares = {told.member_id: (place,) for place, told in enumerate(joined)}
        for told in reversed(joined):
            self.sync(told, shares if told.member_id == told.leader else {})
        return joined


class TracedAlone(CoordinatorAlone):
    """A coordinator alone, traced."""

    def traced(self, epoch: int = 1) -> TracedAlone:
        """It leads, and writes its trace."""
        self.stream = StringIO()
        self.tracer = GroupTracer("1", "alone", self.stream, lambda: self.now_ms * 1_000_000)
        self.elected(epoch)
        return self

    def _perform(self, effects: list[GroupEffect]) -> None:
        self.tracer(self.coordinator, effects)
        super()._perform(effects)

    def outcome(self) -> Outcome:
        """Its trace, replayed."""
        lines = read_texts(self.stream.getvalue().splitlines(), "alone")
        return conform_lines(lines, map_of(), invariants=True)


# ── Requests ────────────────────────────────────────────────────────────────────────────────


def join_of(member_id: str = "", **fields: object) -> JoinGroupRequest:
    """A consumer joins."""
    request = JoinGroupRequest(
        version=9, client_id="c", client_host="/127.0.0.1", group_id=GROUP,
        session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, member_id=member_id,
        protocol_type=CONSUMER, protocols=RANGE,
    )  # fmt: skip
    return replace(request, **fields)  # type: ignore[arg-type]


def share(*numbers: int) -> bytes:
    """What a consumer is assigned of the topic."""
    return write_assignment((TOPIC, number) for number in numbers)


def commit_of(joined: JoinGroupResponse | None, **offsets: int) -> OffsetCommitRequest:
    """A member commits offsets of the topic's partitions (`p0=7`); without one, by hand."""
    partitions = tuple(PartitionToCommit(int(name[1:]), offset) for name, offset in offsets.items())
    return OffsetCommitRequest(
        version=9, group_id=GROUP,
        generation_id=-1 if joined is None else joined.generation_id,
        member_id="" if joined is None else joined.member_id,
        topics=(TopicToCommit(TOPIC, partitions),),
    )  # fmt: skip


def fetch_of(*groups: str, version: int = 9) -> OffsetFetchRequest:
    """Somebody asks for all offsets of groups."""
    return OffsetFetchRequest(
        version=version, groups=tuple(GroupToFetch(group, None) for group in groups)
    )


def _ignore(written: WriteOutcome) -> None:
    """Go on, whatever became of it: memory never refuses."""
    assert written is WriteOutcome.DONE


def errors_of(committed: OffsetCommitResponse) -> list[Error]:
    """The error of each partition."""
    return [each.error for topic in committed.topics for each in topic.partitions]
