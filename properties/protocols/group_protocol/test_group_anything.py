"""
Whatever happens, a group coordinator keeps what it owes: random histories, drawn by Hypothesis.

Members come with fresh, stale and made-up ids and generations; writes are done late, refused, or
never because the coordinator is deposed; another one then leads with what is stored. After each
step, of every answer: nothing was told before it was stored, generations never go back, each has one
leader, and nobody's offset was taken for a partition that another owns. In the end everybody was
answered, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import Answer, GroupEffect, StoreGroup
from herdproof.protocols.group_protocol.messages import (
    DeleteGroupsRequest,
    Error,
    GroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from properties.protocols.group_protocol.group_world import (
    GROUP,
    SESSION_MS,
    CoordinatorAlone,
    commit_of,
    fetch_of,
    join_of,
    share,
    wants,
)

PARTITIONS = 3
LONG_MS = 3_600_000


@dataclass
class Watched(CoordinatorAlone):
    """A coordinator whose every answer is held against what is stored."""

    requests: dict[int, GroupRequest] = field(default_factory=dict)
    leaders: dict[int, set[str]] = field(default_factory=dict)
    """Of each generation, who leads: a static member by its instance id."""
    generation: int = 0
    """The last that was handed out."""
    committed: dict[int, int] = field(default_factory=dict)
    """Of each partition, the offset that was stored last."""
    owners: dict[int, str] = field(default_factory=dict)
    """Of each partition, whom it was assigned to last, as is stored."""

    def ask(self, request: GroupRequest) -> int:
        """Somebody asks."""
        self.requests[len(self.requests) + 1] = request
        return super().ask(request)

    def _perform(self, effects: list[GroupEffect]) -> None:
        told = list(effects)
        for effect in told:
            if isinstance(effect, Answer):
                self._judge(self.requests[effect.caller], effect.response)
        super()._perform(told)

    def store_next(self, *, ok: bool = True) -> None:
        """The oldest change is stored, or refused."""
        change = self.waiting[0]
        if ok:
            self._note(change)
        super().store_next(ok=ok)

    def _note(self, change: StoreGroup) -> None:
        """What is stored from now on."""
        if change.is_deleted:
            self.committed.clear()
            self.owners.clear()
            self.generation = 0
            self.leaders.clear()
        for (_, partition), offset in change.offsets.items():
            assert offset is not None
            self.committed[partition] = offset.offset
        if change.metadata is not None and change.metadata.is_assigned:
            members = {member.member_id for member in change.metadata.members}
            for member in change.metadata.members:
                for _, partition in read_assignment(member.assignment):
                    self.owners[partition] = member.member_id
            self.owners = {p: owner for p, owner in self.owners.items() if owner in members}

    def _judge(self, request: GroupRequest, response: object) -> None:
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse(error=Error.NONE):
                self._judge_join(response)
            case SyncGroupRequest(), SyncGroupResponse(error=Error.NONE):
                self._judge_sync(request, response)
            case OffsetCommitRequest(), OffsetCommitResponse():
                self._judge_commit(request, response)
            case OffsetFetchRequest(), OffsetFetchResponse():
                self._judge_fetch(response)

    def _judge_join(self, told: JoinGroupResponse) -> None:
        metadata = self.store.groups[GROUP].metadata
        assert metadata is not None
        assert metadata.generation == told.generation_id >= self.generation
        self.generation = told.generation_id
        names = {m.member_id: m.group_instance_id or m.member_id for m in metadata.members}
        assert told.member_id in names
        if told.leader in names:  # else it is the old id of a static one, which has a new one
            leaders = self.leaders.setdefault(told.generation_id, set())
            leaders.add(names[told.leader])
            assert len(leaders) == 1
        assert bool(told.members) <= (told.leader == told.member_id)

    def _judge_sync(self, request: SyncGroupRequest, told: SyncGroupResponse) -> None:
        metadata = self.store.groups[GROUP].metadata
        assert metadata is not None
        assert metadata.is_assigned
        assert metadata.generation == request.generation_id
        (stored,) = (m for m in metadata.members if m.member_id == request.member_id)
        assert stored.assignment == told.assignment

    def _judge_commit(self, request: OffsetCommitRequest, told: OffsetCommitResponse) -> None:
        for asked, result in zip(
            request.topics[0].partitions, told.topics[0].partitions, strict=True
        ):
            if result.error is Error.NONE:
                assert asked.partition in self.committed
                if request.generation_id >= 0:
                    assert self.owners.get(asked.partition) in (None, request.member_id)

    def _judge_fetch(self, told: OffsetFetchResponse) -> None:
        if told.groups[0].error is Error.NONE:
            found = {
                each.partition: each.offset
                for topic in told.groups[0].topics
                for each in topic.partitions
            }
            assert found == self.committed


MEMBERS = st.integers(0, 3)
OFFSETS = st.integers(0, 9)


class AnyHistory(RuleBasedStateMachine):
    """Everybody does anything at any time."""

    @initialize(delay_ms=st.sampled_from([0, 1_000]))
    def begin(self, delay_ms: int) -> None:
        """A coordinator is elected for the first time."""
        from herdproof.protocols.group_protocol.settings import GroupSettings

        self.world = Watched(GroupSettings(group_initial_rebalance_delay_ms=delay_ms), holds=True)
        self.world.elected()
        self.epoch = 1
        self.last: dict[int, JoinGroupResponse] = {}
        """What each was told last by JoinGroup."""
        self.joins: list[tuple[int, int]] = []

    def heard(self, member: int) -> JoinGroupResponse:
        """What a member believes."""
        for caller, who in self.joins:
            answer = self.world.answers.get(caller)
            if who == member and isinstance(answer, JoinGroupResponse):
                self.last[member] = answer
        return self.last.get(member, JoinGroupResponse())

    @rule(
        member=MEMBERS,
        version=st.sampled_from([0, 3, 4, 9]),
        anew=st.booleans(),
        protocols=st.sampled_from([("range",), ("sticky", "range"), ("range", "sticky")]),
    )
    def join(self, member: int, version: int, anew: bool, protocols: tuple[str, ...]) -> None:
        """A member joins, as who it believes to be or as a new one; the first is a static one."""
        instance = "static" if member == 0 and version >= 5 else None
        request = join_of(
            "" if anew else self.heard(member).member_id,
            version=version,
            group_instance_id=instance,
            protocols=tuple(wants(name=name) for name in protocols),
        )
        self.joins.append((self.world.ask(request), member))

    @rule(member=MEMBERS, behind=st.sampled_from([0, 0, 0, 1]), shift=st.integers(0, 2))
    def sync(self, member: int, behind: int, shift: int) -> None:
        """A member syncs; the leader gives each partition to one."""
        joined = self.heard(member)
        ids = [each.member_id for each in joined.members]
        shares: dict[str, list[int]] = {member_id: [] for member_id in ids}
        for partition in range(PARTITIONS):
            if ids and (partition + shift) % 3:
                shares[ids[(partition + shift) % len(ids)]].append(partition)
        request = SyncGroupRequest(
            version=5, group_id=GROUP, generation_id=joined.generation_id - behind,
            member_id=joined.member_id,
            assignments=tuple(MemberAssignment(m, share(*ns)) for m, ns in shares.items()),
        )  # fmt: skip
        self.world.ask(request)

    @rule(member=MEMBERS)
    def heartbeat(self, member: int) -> None:
        """A member is alive."""
        joined = self.heard(member)
        self.world.ask(
            HeartbeatRequest(
                version=4, group_id=GROUP, generation_id=joined.generation_id,
                member_id=joined.member_id,
            )
        )  # fmt: skip

    @rule(member=MEMBERS, partition=st.integers(0, PARTITIONS - 1), offset=OFFSETS)
    def commit(self, member: int, partition: int, offset: int) -> None:
        """A member commits for any partition, its own or not."""
        self.world.ask(commit_of(self.heard(member), **{f"p{partition}": offset}))

    @rule(partition=st.integers(0, PARTITIONS - 1), offset=OFFSETS)
    def commit_alone(self, partition: int, offset: int) -> None:
        """Somebody commits who is no member."""
        self.world.ask(commit_of(None, **{f"p{partition}": offset}))

    @rule()
    def fetch(self) -> None:
        """Somebody wants to know what is committed."""
        self.world.ask(fetch_of(GROUP))

    @rule(member=MEMBERS)
    def leave(self, member: int) -> None:
        """A member leaves."""
        leaving = LeavingMember(self.heard(member).member_id)
        self.world.ask(LeaveGroupRequest(version=5, group_id=GROUP, members=(leaving,)))

    @rule()
    def delete(self) -> None:
        """Somebody deletes the group."""
        self.world.ask(DeleteGroupsRequest(version=2, groups=(GROUP,)))

    @rule(ms=st.sampled_from([0, 1, 1_000, SESSION_MS // 2, SESSION_MS, 60_000]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.world.wait(ms)

    @rule(how_many=st.integers(1, 5), ok=st.sampled_from([True, True, True, True, False]))
    def store(self, how_many: int, ok: bool) -> None:
        """What waits to be stored is, or not."""
        for _ in range(min(how_many, len(self.world.waiting))):
            self.world.store_next(ok=ok)

    @rule(done=st.integers(0, 2))
    def fail_over(self, done: int) -> None:
        """Another is elected; of what was being stored, the first few are, and nobody was told."""
        for change in self.world.waiting[:done]:
            self.world._note(change)
            self.world.store.write(change, lambda _: None)
        self.world.resign()
        self.epoch += 1
        self.world.elected(self.epoch)

    @invariant()
    def the_group_holds_together(self) -> None:
        """Whoever is parked is a member, the leader is one, and counts are what they count."""
        if not hasattr(self, "world") or GROUP not in self.world.coordinator.groups:
            return
        group = self.world.group()
        assert set(group.joining) | set(group.syncing) | set(group.unsynced) <= set(group.members)
        assert (group.leader in group.members) == bool(group.members)
        assert set(group.instances.values()) <= set(group.members)
        assert not set(group.pending) & set(group.members)
        names = [p.name for m in group.members.values() for p in m.protocols]
        assert group.supported == {name: names.count(name) for name in set(names)}
        if group.is_in(GroupState.EMPTY):
            assert not group.members

    def teardown(self) -> None:
        """In the end everybody has been answered."""
        if not hasattr(self, "world"):
            return
        self.world.holds = False
        while self.world.waiting:
            self.world.store_next()
        self.world.wait(LONG_MS)
        assert set(self.world.answers) == set(self.world.requests)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=60)
EXPECTED: set[str] = set()
