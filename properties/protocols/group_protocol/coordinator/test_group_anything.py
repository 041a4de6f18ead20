"""
Whatever happens, a group coordinator keeps what it owes: random histories, drawn by Hypothesis.

Members do what clients do, and out of turn what they must not; writes are done late, refused, or
never because the coordinator is deposed; another one then leads with what is stored. After each
step, of every answer: nothing was told before it was stored, generations never go back, each has
one leader, and nobody's offset was taken for a partition that another owns. In the end everybody
was answered, once. That histories get anywhere is a part of the test.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import GroupAnswer, GroupEffect, StoreGroup
from herdproof.protocols.group_protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    Error,
    GroupRequest,
    GroupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.settings import GroupSettings
from properties.protocols.group_protocol.coordinator.group_world import (
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
NOBODY = JoinGroupResponse()


@dataclass
class Watched(CoordinatorAlone):
    """A coordinator whose every answer is held against what is stored."""

    requests: dict[int, GroupRequest] = field(default_factory=dict)
    leaders: dict[int, set[str]] = field(default_factory=dict)
    """Of each generation, who leads: a static member by its instance id."""
    generation: int = 0
    """The last that was handed out."""
    kept: dict[int, int] = field(default_factory=dict)
    """Of each partition, the offset that was stored last."""
    owners: dict[int, str] = field(default_factory=dict)
    """Of each partition, whom it was assigned to last, as is stored."""
    told: Counter[str] = field(default_factory=Counter)
    """How often somebody was told what."""

    def ask(self, request: GroupRequest) -> int:
        """Somebody asks."""
        self.requests[len(self.requests) + 1] = request
        return super().ask(request)

    def keep(self, change: StoreGroup) -> None:
        """A change is stored."""
        super().keep(change)
        if change.is_deleted:
            self.kept.clear()
            self.owners.clear()
            self.generation = 0
            self.leaders.clear()
        for (_, partition), offset in change.offsets.items():
            assert offset is not None
            self.kept[partition] = offset.offset
        if change.metadata is not None and change.metadata.is_assigned:
            members = change.metadata.members
            for member in members:
                for _, partition in read_assignment(member.assignment):
                    self.owners[partition] = member.member_id
            ids = {member.member_id for member in members}
            self.owners = {p: owner for p, owner in self.owners.items() if owner in ids}

    def _perform(self, effects: list[GroupEffect]) -> None:
        now = list(effects)
        for effect in now:
            if isinstance(effect, GroupAnswer):
                self._judge(self.requests[effect.caller], effect.response)
        super()._perform(now)

    def _judge(self, request: GroupRequest, response: GroupResponse) -> None:
        self.told[f"{type(request).__name__} {error_of(response).name}"] += 1
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse(error=Error.NONE):
                self._judge_join(response)
            case SyncGroupRequest(), SyncGroupResponse(error=Error.NONE):
                self._judge_sync(request, response)
            case OffsetCommitRequest(), OffsetCommitResponse():
                self._judge_commit(request, response)
            case _, OffsetFetchResponse(groups=(group,)) if not group.error:
                found = [each for topic in group.topics for each in topic.partitions]
                assert {each.partition: each.offset for each in found} == self.kept

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
        (result,) = told.topics[0].partitions
        if result.error is Error.NONE:
            assert result.partition in self.kept
            if request.generation_id >= 0:
                assert self.owners.get(result.partition) in (None, request.member_id)


def error_of(response: GroupResponse) -> Error:
    """The error of a response, or of its first part."""
    match response:
        case OffsetCommitResponse(topics=topics):
            return topics[0].partitions[0].error
        case OffsetFetchResponse(groups=groups) | DescribeGroupsResponse(groups=groups):
            return groups[0].error
        case DeleteGroupsResponse(results=results):
            return results[0].error
        case _:
            return response.error


@dataclass
class Client:
    """A member as a client has it: what it was told last."""

    world: Watched
    instance: str | None = None
    caller: int = 0
    joined: JoinGroupResponse = NOBODY

    def go_on(self, shift: int) -> None:
        """Do what a client does next, unless it waits for an answer."""
        if self.caller and self.caller not in self.world.answers:
            return
        match self.world.answers.get(self.caller):
            case JoinGroupResponse(error=Error.NONE) as joined:
                self.joined = joined
                self.sync(shift)
            case JoinGroupResponse(error=Error.MEMBER_ID_REQUIRED, member_id=member_id):
                self.joined = replace(self.joined, member_id=member_id)
                self.join()
            case SyncGroupResponse(error=Error.NONE) | HeartbeatResponse(error=Error.NONE):
                self.heartbeat()
                self.world.ask(commit_of(self.joined, **{f"p{shift}": shift}))
            case (
                SyncGroupResponse(error=Error.REBALANCE_IN_PROGRESS)
                | HeartbeatResponse(error=Error.REBALANCE_IN_PROGRESS)
            ):
                self.join()
            case _:
                self.joined = NOBODY
                self.join()

    def join(self, version: int = 9, protocols: tuple[str, ...] = ("range",)) -> None:
        """Join, as who it believes to be."""
        request = join_of(
            self.joined.member_id,
            version=version,
            group_instance_id=self.instance,
            protocols=tuple(wants(name=name) for name in protocols),
        )
        self.caller = self.world.ask(request)

    def sync(self, shift: int) -> None:
        """Ask for the assignment; a leader leaves a partition out, another one each time."""
        ids = [each.member_id for each in self.joined.members]
        shares: dict[str, list[int]] = {member_id: [] for member_id in ids}
        for partition in range(PARTITIONS):
            if ids and (partition + shift) % PARTITIONS:
                shares[ids[(partition + shift) % len(ids)]].append(partition)
        request = SyncGroupRequest(
            version=5, group_id=GROUP, generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
            assignments=tuple(MemberAssignment(m, share(*ns)) for m, ns in shares.items()),
        )  # fmt: skip
        self.caller = self.world.ask(request)

    def heartbeat(self) -> None:
        """Be alive."""
        request = HeartbeatRequest(
            version=4, group_id=GROUP, generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
        )  # fmt: skip
        self.caller = self.world.ask(request)


MEMBERS = st.integers(0, 3)
PARTITION = st.integers(0, PARTITIONS - 1)
OFFSETS = st.integers(0, 9)
PROTOCOLS = st.sampled_from([("range",), ("sticky", "range"), ("range", "sticky")])


class AnyHistory(RuleBasedStateMachine):
    """Everybody does anything at any time; as a rule, what a client would do."""

    told: Counter[str]
    """Of all histories of a run together."""

    @initialize(delay_ms=st.sampled_from([0, 1_000]))
    def begin(self, delay_ms: int) -> None:
        """A coordinator is elected for the first time."""
        settings = GroupSettings(group_initial_rebalance_delay_ms=delay_ms)
        self.world = Watched(settings, holds=True)
        self.world.elected()
        self.epoch = 1
        self.clients = [Client(self.world, "static" if n == 0 else None) for n in range(4)]

    @rule(
        members=st.lists(MEMBERS, min_size=1, max_size=12), stores=st.booleans(),
        shift=st.integers(0, 2),
    )  # fmt: skip
    def go_on(self, members: list[int], stores: bool, shift: int) -> None:
        """Members do what they do, one after the other; all is stored at once, or nothing."""
        for member in members:
            self.clients[member].go_on(shift)
            if stores:
                self.world.wait(0)
                self.store(len(self.world.waiting), ok=True)

    @rule(first=st.integers(1, 3), shift=st.integers(0, 2))
    def settle(self, first: int, shift: int) -> None:
        """The first few members do what they do until there is nothing left to do."""
        for _ in range(6):
            self.go_on(list(range(first + 1)), stores=True, shift=shift)
            self.wait(1_000)

    @rule(
        member=MEMBERS, version=st.sampled_from([0, 3, 4, 9]), anew=st.booleans(),
        protocols=PROTOCOLS,
    )  # fmt: skip
    def join(self, member: int, version: int, anew: bool, protocols: tuple[str, ...]) -> None:
        """A member joins again, or one that has lost its id."""
        client = self.clients[member]
        if anew:
            client.joined = NOBODY
        client.join(version, protocols)

    @rule(member=MEMBERS, behind=st.integers(0, 1))
    def sync(self, member: int, behind: int) -> None:
        """A member syncs out of turn, perhaps of the generation before."""
        client = self.clients[member]
        believed = client.joined
        client.joined = replace(believed, generation_id=believed.generation_id - behind)
        client.sync(0)
        client.joined = believed

    @rule(member=MEMBERS, partition=PARTITION, offset=OFFSETS)
    def commit(self, member: int, partition: int, offset: int) -> None:
        """A member commits for any partition, its own or not."""
        joined = self.clients[member].joined
        self.world.ask(commit_of(joined, **{f"p{partition}": offset}))

    @rule(partition=PARTITION, offset=OFFSETS)
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
        leaving = LeavingMember(self.clients[member].joined.member_id)
        self.world.ask(LeaveGroupRequest(version=5, group_id=GROUP, members=(leaving,)))

    @rule()
    def delete(self) -> None:
        """Somebody deletes the group."""
        self.world.ask(DeleteGroupsRequest(version=2, groups=(GROUP,)))

    @rule(ms=st.sampled_from([0, 1, 1_000, SESSION_MS // 2, SESSION_MS, 60_000]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.world.wait(ms)

    @rule(how_many=st.integers(1, 5), ok=st.sampled_from([True, True, True, False]))
    def store(self, how_many: int, ok: bool) -> None:
        """What waits to be stored is, or not."""
        for _ in range(min(how_many, len(self.world.waiting))):
            self.world.store_next(ok=ok)

    @rule(done=st.integers(0, 2))
    def fail_over(self, done: int) -> None:
        """Another is elected; of what was being stored, the first few are, and nobody was told."""
        for change in self.world.waiting[:done]:
            self.world.keep(change)
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
        assert set(group.pending) == self.world.coordinator.context.pending, "it is the only one"
        names = [p.name for m in group.members.values() for p in m.protocols]
        assert group.supported == {name: names.count(name) for name in set(names)}
        assert bool(group.members) != group.is_in(GroupState.EMPTY) or group.is_in(
            GroupState.PREPARING_REBALANCE
        )

    def teardown(self) -> None:
        """In the end everybody has been answered."""
        if not hasattr(self, "world"):
            return
        self.world.holds = False
        while self.world.waiting:
            self.world.store_next()
        self.world.wait(LONG_MS)
        assert set(self.world.answers) == set(self.world.requests)
        self.told.update(self.world.told)


REACHED = {
    "JoinGroupRequest": "NONE MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID "
    "NOT_COORDINATOR",
    "SyncGroupRequest": "NONE UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS ILLEGAL_GENERATION",
    "HeartbeatRequest": "NONE UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
    "LeaveGroupRequest": "NONE",
    "OffsetCommitRequest": "NONE UNKNOWN_MEMBER_ID ILLEGAL_GENERATION NOT_COORDINATOR "
    "INVALID_COMMIT_OFFSET_SIZE",
    "OffsetFetchRequest": "NONE",
    "DeleteGroupsRequest": "NONE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND",
}
"""What somebody is told in enough histories."""


def told_in(examples: int, *, derandomize: bool) -> Counter[str]:
    """What somebody is told in so many histories, and how often."""
    told: Counter[str] = Counter()
    history = type("ThisHistory", (AnyHistory,), {"told": told})
    chosen = settings(max_examples=examples, stateful_step_count=40, derandomize=derandomize)
    run_state_machine_as_test(history, settings=chosen)
    return told


def test_whatever_happens_a_coordinator_keeps_what_it_owes() -> None:
    """And enough happens: members are assigned, fenced, answered late, by another one."""
    told = told_in(200, derandomize=True)

    wanted = [f"{request} {name}" for request, names in REACHED.items() for name in names.split()]
    assert [each for each in wanted if not told[each]] == []


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_whatever_else_happens_a_coordinator_keeps_what_it_owes() -> None:
    """In histories that are new each time."""
    assert told_in(3_000, derandomize=False)
