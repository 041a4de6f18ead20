"""What a group coordinator tells its operators: who came, who went and why, and what was stored."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import pytest
from kafka.protocol.consumer import OffsetCommitRequest
from prometheus_client import CollectorRegistry

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.effects import (
    GroupEffect,
    StoredClassicGroup,
    StoredCommit,
    StoreGroup,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    JoinGroupResponse,
    LeavingMember,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.server.metrics import GroupMetrics
from herdproof.protocols.group_protocol.server.shell import GroupShell
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore
from herdproof.protocols.group_protocol.stores.port import LoadedThen, WriteOutcome, WrittenThen
from herdproof.shells.logs import fields_of
from properties.broker.served import in_a_loop, request_of
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    QUICK,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    CoordinatorAlone,
    commit_of,
    join_of,
    wants,
)

DAY_MS = 86_400_000
OF_TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic
OF_PARTITION = OF_TOPIC.OffsetCommitRequestPartition


@dataclass
class Reported(CoordinatorAlone):
    """A coordinator alone, and what it has reported."""

    reports: list[Report] = field(default_factory=list)

    def _perform(self, effects: list[GroupEffect]) -> None:
        self.reports += [effect for effect in effects if isinstance(effect, Report)]
        super()._perform(effects)

    def told(self) -> list[tuple[str, dict[str, str | int]]]:
        """What was reported since this was asked last."""
        told, self.reports = self.reports, []
        return [(report.what, dict(report.details)) for report in told]

    def names(self) -> list[str]:
        """The names of that."""
        return [what for what, _ in self.told()]


def elected(**settings: int) -> Reported:
    """A coordinator that leads, and has told so."""
    world = Reported(replace(QUICK, **settings))  # type: ignore[arg-type]
    world.elected()
    world.reports.clear()
    return world


def test_an_election_is_told_with_what_was_read() -> None:
    """And its end with who waited."""
    world = Reported()
    world.elected(3)
    assert world.told() == [
        (What.COORDINATOR_STARTUP, {"epoch": 3}),
        (What.COORDINATOR_READY, {"epoch": 3, "groups": 0, "members": 0, "ms": 0}),
    ]
    world.stable(2)
    world.join()
    world.reports.clear()
    world.resign()
    assert world.told() == [(What.STEPPED_DOWN, {"epoch": 3, "waited": 1})]

    world.resign()
    assert world.told() == []
    world._perform(world.coordinator.load(world.now_ms, 4))
    world.now_ms += 70
    world.lead()
    ready = {"epoch": 4, "groups": 1, "members": 2, "ms": 70}
    assert world.told()[-1] == (What.COORDINATOR_READY, ready)


def test_a_generation_is_told_from_who_joins_to_its_assignments() -> None:
    """With how many, and how long that took."""
    world = elected()
    caller = world.join()
    world.wait(0)
    joined = world.joined(caller)
    world.wait(1_500)
    world.sync(joined, {joined.member_id: (0,)})

    member, began = joined.member_id, {"generation": 1, "members": 1}
    assert world.told() == [
        (
            What.MEMBER_JOINED,
            {"member": member, "client": "c", "host": "/127.0.0.1", "members": 1},
        ),
        (What.REBALANCE_STARTED, {"why": "a member has joined", "members": 1}),
        (What.GENERATION_BEGUN, {**began, "protocol": "range", "leader": member, "ms": 0}),
        (What.GENERATION_ASSIGNED, {**began, "ms": 1_500}),
    ]


def test_a_rebalance_that_is_begun_anew_is_measured_from_its_first_beginning() -> None:
    """Members have waited since then."""
    world = elected()
    (first,) = world.stable(1)
    world.wait(1_000)
    second = world.join()
    world.wait(1_000)
    world.join(first.member_id)
    second_id = world.joined(second).member_id
    world.join()
    world.reports.clear()
    world.wait(1_000)
    for member_id in (first.member_id, second_id):
        world.join(member_id)

    [(what, said)] = world.told()
    assert (what, said["members"], said["ms"]) == (What.GENERATION_BEGUN, 3, 2_000)


def test_why_all_are_to_join_anew_is_told() -> None:
    """Each cause has its words."""

    def whys(world: Reported) -> list[object]:
        return [said["why"] for what, said in world.told() if what is What.REBALANCE_STARTED]

    world = elected()
    leader, follower = world.stable(2)
    assert set(whys(world)) == {"a member has joined"}
    world.join(leader.member_id)
    assert whys(world) == ["its leader asks for that"]

    world = elected()
    leader, follower = world.stable(2)
    world.reports.clear()
    world.join(follower.member_id, protocols=(wants("other"),))
    assert whys(world) == ["a member subscribes otherwise"]

    world = elected()
    leader, follower = world.stable(2)
    world.reports.clear()
    world.leave(LeavingMember(follower.member_id))
    assert whys(world) == ["a member has left"]


def test_who_leaves_or_is_not_heard_of_is_told_as_such() -> None:
    """With how many remain; who was never a member is told of by nobody."""
    world = elected()
    first, second = world.stable(2)
    world.reports.clear()
    world.leave(LeavingMember(first.member_id))
    world.ask(join_of())
    assert world.told()[0] == (What.MEMBER_LEFT, {"member": first.member_id, "members": 1})
    world.wait(SESSION_MS + REBALANCE_MS)

    gone = [said for what, said in world.told() if what is What.MEMBER_EXPIRED]
    assert [said["member"] for said in gone] == [second.member_id]
    assert gone[0]["members"] == 0


def test_a_static_member_that_comes_back_fences_its_former_life() -> None:
    """Whoever comes with the old member id is told of as fenced, by whatever it asks."""
    world = elected()
    caller = world.join(group_instance_id="one")
    world.wait(0)
    first = world.joined(caller)
    world.sync(first, {first.member_id: (0,)})
    world.reports.clear()
    again = world.joined(world.join(group_instance_id="one"))
    replaced = {"instance": "one", "member": again.member_id, "former": first.member_id}
    assert world.told() == [(What.MEMBER_REPLACED, replaced)]

    world.heartbeat(first, group_instance_id="one")
    world.join(first.member_id, group_instance_id="one")
    world.leave(LeavingMember(first.member_id, "one"))
    fenced = [
        (What.MEMBER_FENCED, {"member": first.member_id, "request": request})
        for request in ("Heartbeat", "JoinGroup", "LeaveGroup")
    ]
    assert world.told() == fenced


def test_refusals_are_told_with_their_error() -> None:
    """But not that all are to join anew, or that a member id is to be used: that refuses nobody."""
    world = elected(group_max_size=2)
    leader, follower = world.stable(2)
    world.reports.clear()
    stranger = replace(leader, member_id="stranger")
    assert world.heartbeat(stranger) is Error.UNKNOWN_MEMBER_ID
    assert world.commit(stranger, p0=1) == [Error.UNKNOWN_MEMBER_ID]
    world.commit(follower, p0=1, p1=2)
    world.ask(join_of(version=3))
    world.ask(join_of(session_timeout_ms=1))
    assert world.told() == [
        (
            What.REQUEST_REFUSED,
            {"request": "Heartbeat", "member": "stranger", "error": "UNKNOWN_MEMBER_ID"},
        ),
        (
            What.COMMIT_REFUSED,
            {
                "member": "stranger", "error": "UNKNOWN_MEMBER_ID", "generation": 1,
                "partitions": 1,
            },
        ),
        (
            What.COMMIT_REFUSED,
            {
                "member": follower.member_id, "error": "ILLEGAL_GENERATION", "generation": 1,
                "partitions": 1,
            },
        ),
        (
            What.JOIN_REFUSED,
            {"member": "", "client": "c", "host": "/127.0.0.1", "error": "GROUP_MAX_SIZE_REACHED"},
        ),
        (
            What.JOIN_REFUSED,
            {"member": "", "client": "c", "host": "/127.0.0.1", "error": "INVALID_SESSION_TIMEOUT"},
        ),
    ]  # fmt: skip

    world.join(leader.member_id)
    world.reports.clear()
    assert world.heartbeat(follower) is Error.REBALANCE_IN_PROGRESS
    assert world.told() == []


@pytest.mark.parametrize("names", [("a generation", "an assignment"), ("a commit",)])
def test_what_cannot_be_stored_is_told(names: tuple[str, ...]) -> None:
    """A generation, an assignment, a commit: each is undone."""
    world = elected()
    if names == ("a commit",):
        world.holds = True
        world.ask(commit_of(None, p0=3))
        world.store_next(ok=False)
    else:
        world.holds = True
        caller = world.join()
        world.wait(0)
        world.store_next(ok=False)
        world.wait(0)
        again = world.join(join_refused(world, caller))
        world.wait(0)
        world.store_next()
        world.sync(world.joined(again), {})
        world.store_next(ok=False)

    undone = [said["change"] for what, said in world.told() if what is What.NOT_STORED]
    assert tuple(undone) == names


def join_refused(world: Reported, caller: int) -> str:
    """The member id of somebody whose generation could not be stored."""
    told = world.answered(caller, JoinGroupResponse)
    assert told.error is Error.UNKNOWN_SERVER_ERROR
    return told.member_id


def test_what_nobody_uses_is_told_when_it_goes() -> None:
    """Offsets of a topic that nobody wants any more, then the group that has none left."""
    world = elected(offsets_retention_minutes=60)
    world.commit(None, p0=1, p1=2)
    world.reports.clear()
    world.wait(DAY_MS)
    assert world.told() == [(What.GROUP_EXPIRED, {"offsets": 2})]
    (joined,) = world.stable(1)
    world.store.groups[GROUP] = replace(
        world.store.groups[GROUP], offsets={("old", 0): StoredCommit(offset=1, committed_ms=1)}
    )
    world.resign()
    world.elected(2)
    world.reports.clear()
    for _ in range(70):
        world.heartbeat(joined)
        world.wait(SESSION_MS - 1)

    assert (What.OFFSETS_EXPIRED, {"offsets": 1}) in world.told()


# ── More groups than may be ─────────────────────────────────────────────────────────────────


def test_all_stored_groups_are_kept_though_there_are_more_than_may_be_begun() -> None:
    """
    A successor whose `max_groups` is lower loses nothing of what is stored, and says so.

    Nobody begins a group until there are fewer; members and offsets of those that there are go on.
    """
    before = elected()
    (joined,) = before.stable(1)
    for name in ("b", "c"):
        before.store.groups[name] = StoredClassicGroup(None, {(TOPIC, 0): StoredCommit(offset=4)})
    world = Reported(replace(QUICK, max_groups=2), store=before.store)
    world.elected(2)
    registry = CollectorRegistry()
    GroupMetrics(registry).observed(world.coordinator, [GroupStep(action="load_group", epoch=2)])
    assert registry.get_sample_value("herdproof_groups_beyond_bound") == 1

    beyond = (What.TOO_MANY_GROUPS, {"groups": 3, "max_groups": 2})
    assert world.told()[-1] == beyond
    assert {*world.coordinator.groups} == {GROUP, "b", "c"}
    assert world.heartbeat(joined) is Error.NONE
    assert world.commit(joined, p0=5) == [Error.NONE]
    refused = world.answer(join_of(group_id="new"), JoinGroupResponse)
    assert refused.error is Error.POLICY_VIOLATION
    del world.coordinator.groups["b"], world.coordinator.groups["c"]
    assert (
        world.answer(join_of(group_id="new"), JoinGroupResponse).error is Error.MEMBER_ID_REQUIRED
    )


# ── The store ───────────────────────────────────────────────────────────────────────────────


class NoLongerWritten(MemoryGroupStore):
    """A store that answers every change by the same outcome, and may not be read either."""

    def __init__(self, outcome: WriteOutcome, *, is_readable: bool = True) -> None:
        super().__init__()
        self._outcome = outcome
        self._is_readable = is_readable

    def load(self, epoch: int, then: LoadedThen) -> None:
        """Read all groups, if that is possible."""
        if self._is_readable:
            super().load(epoch, then)
        else:
            then(None)

    def write(self, change: StoreGroup, then: WrittenThen) -> None:
        """Have nothing stored."""
        del change
        then(self._outcome)


@pytest.mark.parametrize(
    ("store", "told"),
    [
        (NoLongerWritten(WriteOutcome.FENCED), What.STORE_FENCED),
        (NoLongerWritten(WriteOutcome.DOUBTFUL), What.STORE_DOUBTFUL),
        (NoLongerWritten(WriteOutcome.DONE, is_readable=False), What.STORE_NOT_READ),
    ],
)
@in_a_loop
async def test_a_store_that_is_another_coordinators_is_told_once(
    store: NoLongerWritten, told: What, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its event and counted, and the coordinator steps down."""
    registry = CollectorRegistry()
    stepped: list[object] = []
    shell = GroupShell(
        QUICK, store, fail=stepped.append, step_down=lambda: stepped.append("down"),
        metrics=GroupMetrics(registry),
    )  # fmt: skip
    partition = OF_PARTITION(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        version=5, group_id="g", generation_id_or_member_epoch=-1, member_id="",
        topics=[OF_TOPIC(name="t", partitions=[partition])],
    )  # fmt: skip
    with caplog.at_level(logging.INFO):
        shell.elected(7)
        for _ in range(2):
            shell.ask(request_of(commit, 5), lambda _: None)

    events = [fields_of(record).get("event") for record in caplog.records]
    assert events.count(told) == events.count(What.STEPPED_DOWN) == 1
    assert fields_of(caplog.records[events.index(told)])["epoch"] == 7
    assert registry.get_sample_value("herdproof_reports_total", {"what": told}) == 1
    assert stepped == ["down"]
