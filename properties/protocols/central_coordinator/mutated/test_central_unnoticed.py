"""
What nothing had asked of the cores of system B, until mistakes drawn by chance went unnoticed.

Each test kills a mutant that had survived all others; `survivors.py` names those that may.
"""

from __future__ import annotations

import json

import pytest

from herdproof.consuming.events import Deliver, Resolved
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.consuming.subscription import parse
from herdproof.protocols.central_coordinator.coordinator.directory import read_broker
from herdproof.protocols.central_coordinator.coordinator.groups import Interests
from herdproof.protocols.central_coordinator.coordinator.outbox import FULL
from herdproof.protocols.central_coordinator.coordinator.rebalancing.planner import said_in
from herdproof.protocols.central_coordinator.coordinator.store import REPAIRS
from herdproof.protocols.central_coordinator.events import (
    CoordinatorEffect,
    CoordinatorEvent,
    Send,
    Shutdown,
    Tick,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    CommitResponse,
    ErrorCode,
    Leave,
    LeaveResponse,
    Stop,
)
from herdproof.protocols.election.elector import (
    Answered,
    Ask,
    Effect,
    Elector,
    LeaderChanged,
    LinkChanged,
    Stand,
    Step,
    Wake,
    Woken,
    leader_data,
    read_leader,
)
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Answer, Check, Get, Link, Multi, Operation, Refusal, Why
from properties.protocols.central_coordinator.client.consumer_script import T0, started
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    World,
    elected,
)
from properties.protocols.central_coordinator.coordinator.test_central_expiry import (
    RETENTION_MS,
    DatedWorld,
)

# ── The coordinator ─────────────────────────────────────────────────────────────────────────


def test_who_does_not_lead_has_nothing_to_step_down_from() -> None:
    """However long it was paused: only a leader may have been deposed without hearing of it."""
    w = World(Settings(leadership_lease_ms=4_000))
    w.open()

    w.now_ms += 60_000
    w.open()

    assert w.stepped_down == []


def test_whose_subscription_cannot_be_stored_takes_nobody_s_place() -> None:
    """It is refused, its channel closed, and there is room for another."""
    w = elected(settings=Settings(max_members_per_group=1))

    def cannot(operation: Operation) -> Answer | None:
        writes = operation.operations if isinstance(operation, Multi) else ()
        stores = any(write.path == PATHS.subscription(GROUP, "a") for write in writes)
        return Refusal(Why.BAD_ARGUMENTS) if stores else None

    w.spoil = cannot
    a = w.register("a")
    assert (a.error, a.closed) == (ErrorCode.NOT_COORDINATOR, True)

    b = w.register("b")

    assert b.error is ErrorCode.NONE


def test_a_write_is_built_anew_so_often_and_not_for_ever() -> None:
    """What stands is learnt from refusals; a ZooKeeper that contradicts itself is given up."""
    w, tries = elected(), 0
    stored = PATHS.subscription(GROUP, "a")

    def contradicts(operation: Operation) -> Answer | None:
        nonlocal tries
        if not isinstance(operation, Multi) or operation.operations[-1].path != stored:
            return None
        tries += 1
        return Refusal(Why.NODE_EXISTS, 1)

    w.spoil = contradicts
    a = w.register("a")

    assert tries == 1 + REPAIRS
    assert a.error is ErrorCode.NOT_COORDINATOR


def test_who_is_given_more_than_a_start_can_say_is_given_what_it_can() -> None:
    """The rest is read by nobody, which is told, until more members share it."""
    of_one = said_in(("t", "0"))
    w = elected(10, settings=Settings(max_start_bytes=4 * of_one))

    a = w.register("a")

    assert len(a.fetches) == 4
    assert [told["partitions"] for told in w.told(What.PARTITIONS_UNREAD)] == [6]
    b, c = w.register("b"), w.register("c")
    assert [len(member.fetches) for member in (a, b, c)] == [4, 3, 3]
    assert len(w.told(What.PARTITIONS_UNREAD)) == 2


def test_a_crowd_that_is_stored_at_once_is_admitted_in_portions() -> None:
    """One event does not let in more than it has room for."""
    w = elected(1)
    w.register("first")
    sizes: list[int] = []
    receive = w.core.receive

    def noted(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        """Note how much comes of an event."""
        effects = receive(event, now_ms)
        sizes.append(len(effects))
        return effects

    w.core.receive = noted  # type: ignore[method-assign]
    w.hold()
    crowd = [w.register(f"c{number}") for number in range(2 * FULL)]
    w.release_all()
    w.advance(2_000)

    assert {one.error for one in crowd} == {ErrorCode.NONE}
    assert FULL <= max(sizes) < 2 * FULL


def test_who_is_deposed_has_nothing_queued() -> None:
    """A group that waited for its turn is read for nobody any more."""
    w = elected(settings=Settings(request_handlers=1))
    w.hold()
    w.register("a")
    w.core.rebalancer.request(w.core.groups[GROUP])
    read = w.asked.count(Get(PATHS.group(GROUP)))

    w.depose()

    assert w.asked.count(Get(PATHS.group(GROUP))) == read


def test_a_rebalance_that_fails_is_told_as_a_step() -> None:
    """Whoever reads the trace has to know that its Starts are over."""
    w = elected()
    w.register("a")
    b = w.register("b", mute=True)
    w.answer(b)  # its Stop

    w.close(b)

    assert len(w.told(What.REBALANCE_FAILED)) == 1
    assert [step.action for step in w.steps].count("fail_rebalance") == 1


def test_who_is_deposed_tells_it_as_a_step() -> None:
    """Once, of the epoch that is over for it."""
    w = elected()

    w.depose()

    assert [step.epoch for step in w.steps if step.action == "step_down"] == [1]


def test_what_is_learnt_of_a_topic_is_told_as_a_step() -> None:
    """With its partitions: whoever follows the trace knows what can be assigned."""
    w = elected(2)

    w.topic("t", 3)
    w.topic("u", 1)

    steps = [step for step in w.steps if step.action == "topic_change_listener"]
    assert [[(o.topic, o.partition) for o in step.partitions] for step in steps] == [
        [("t", "0"), ("t", "1")], [("t", "0"), ("t", "1"), ("t", "2")], [("u", "0")],
    ]  # fmt: skip


def test_a_topic_concerns_a_group_once() -> None:
    """Also one with a member that names it and another whose wildcard means it."""
    interests = Interests()
    for topics in ('{"t": 1}', "*1*t.*", "*1*.*"):
        interests.follow("both", parse(topics))
    interests.follow("wild", parse("*1*t.*"))

    assert [*interests.groups_of("t", lambda wanted, topic: wanted.streams(topic) > 0)] == [
        "both", "wild",
    ]  # fmt: skip


@pytest.mark.parametrize("port", [-1, 0, 65_536, "9192"])
def test_where_a_broker_listens_is_a_port(port: object) -> None:
    """Nobody listens at port 0, nor beyond the last one."""
    assert read_broker(1, json.dumps({"host": "h", "port": 65_535}).encode()) is not None
    assert read_broker(1, json.dumps({"host": "h", "port": port}).encode()) is None


UNKNOWN = {
    "its election": (PATHS.election.epoch, Why.NO_NODE),
    "a subscription": (PATHS.subscriptions(GROUP), Why.CONNECTION_LOSS),
}


@pytest.mark.parametrize("unread", UNKNOWN.values(), ids=UNKNOWN)
def test_a_group_stays_while_nobody_knows_how_old_it_is(unread: tuple[str, Why]) -> None:
    """What cannot be read may be young; nothing is deleted."""
    w = DatedWorld()
    member = w.consumed()
    w.make(PATHS.ids(GROUP))  # where no stranger is: what was not read before counts all the same
    dated, (path, why) = w.spoil, unread
    w.spoil = lambda asked: Refusal(why) if asked == Get(path) else dated(asked)

    w.leave(member)
    w.advance(3 * RETENTION_MS)

    assert w.is_stored()


def test_who_has_stopped_and_is_lost_haunts_nobody() -> None:
    """Its answer to the Stop has ended its lease, whatever becomes of its connection."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    b.mute = True
    w.register("c")
    assert w.core.groups[GROUP].waiting

    w.close(a)

    assert not w.core.groups[GROUP].ghosts


def test_a_group_has_so_many_different_subscriptions_and_is_told_how_many() -> None:
    """As many as the limit says, and no more; equal ones are one."""
    w = elected(settings=Settings(max_subscriptions_per_group=2))
    for name, topics in (("a", '{"t": 1}'), ("b", "*1*t"), ("c", "*1*t")):
        assert w.register(name, topics).error is ErrorCode.NONE

    d = w.register("d", "*2*t")

    assert d.error is ErrorCode.GROUP_FULL
    [refused] = w.told(What.REGISTRATION_REFUSED)
    assert refused["why"] == "the group has 2 different subscriptions"


def test_who_joins_is_told() -> None:
    """With its registration, and how many there are then."""
    w = elected()

    w.register("a")
    w.register("b")

    assert [told["members"] for told in w.told(What.MEMBER_JOINED)] == [1, 2]


def test_nothing_is_remembered_of_a_group_that_is_gone() -> None:
    """Neither what stood nor in which version: another one of its name begins from nothing."""
    w = elected(1)
    a = w.register("a")
    a.fetches.clear()

    w.send(a, Leave())

    assert GROUP not in w.core.groups
    assert GROUP not in w.core.store.standing
    assert not w.core.store.versions


# ── The consumer ────────────────────────────────────────────────────────────────────────────


def test_a_resolved_start_that_is_stored_after_its_stop_delivers_nothing() -> None:
    """Its generation is still the present one, and its fetchers are closed."""
    script = started(Offset("t", "0", NO_OFFSET))
    commit = script(Resolved(Offset("t", "0", 17), 1)).of(Send)[0].frame
    script.read(Stop(), generation=1)

    script.read(CommitResponse(ErrorCode.NONE), correlation_id=commit.correlation_id)

    assert script.of(Deliver) == []


def test_a_resolved_start_is_stored_again_once_at_a_time() -> None:
    """While that is not answered, time alone asks for nothing more."""
    script = started(Offset("t", "0", NO_OFFSET))
    script(Resolved(Offset("t", "0", 17), 1))
    script.answer(CommitResponse(ErrorCode.NOT_STORED))
    assert len(script(Tick(), after_ms=5_000).sent) == 1

    assert script(Tick(), after_ms=1).sent == []


def test_who_leaves_tells_of_its_last_step_once() -> None:
    """With the Leave; that this is answered, or the connection closed, is none of its steps."""
    script = started(T0, auto_commit=False)

    told = script(Shutdown()).steps + script.answer(LeaveResponse(ErrorCode.NONE)).steps

    assert [step.action for step in told].count("on_lost_connection") == 1


# ── The election ────────────────────────────────────────────────────────────────────────────


def test_who_has_looked_is_not_woken_again() -> None:
    """A watch that fires amid another call makes a look due, and one look is enough."""
    zookeeper, core = ZooKeeper(), Elector("1")
    session = zookeeper.open()
    zookeeper.make(session, PATHS.election.epoch)

    def answered(effects: list[Effect]) -> list[Effect]:
        """What an asked question's answer leads to."""
        [ask] = [effect for effect in effects if isinstance(effect, Ask)]
        return core.receive(Answered(ask.number, zookeeper.perform(session, ask.operation)))

    core.receive(LinkChanged(Link.CONNECTED, session))
    reads = answered(core.receive(Stand()))
    core.receive(LeaderChanged())
    leads = answered(answered(reads))
    assert leads[-1] == Wake()

    looked = answered(core.receive(Woken()))

    assert [type(effect) for effect in looked] == [Step]


def test_what_is_answered_after_the_connection_broke_is_late() -> None:
    """The call is under way no more, though its number is the last one."""
    core = Elector("1")
    core.receive(LinkChanged(Link.CONNECTED, 7))
    core.receive(Stand())
    core.receive(LinkChanged(Link.SUSPENDED, 7))

    told = core.receive(Answered(core.number, Refusal(Why.NO_NODE)))

    assert told == [Step("handle_late", number=core.number)]


@pytest.mark.parametrize(("given", "checked"), [(None, 3), (0, 0), (7, 7)])
def test_writes_are_fenced_by_the_epoch_that_is_given_or_the_last(
    given: int | None, checked: int
) -> None:
    """A writer may be of an epoch that its broker has left since."""
    core = Elector("1")
    core.token = 3

    assert core.fenced(epoch=given).operations == (Check(PATHS.election.epoch, checked),)


def test_data_of_another_s_making_names_nobody_and_no_epoch() -> None:
    """Epoch 0 is before the first one."""
    assert read_leader(b"of no broker") == ("", 0)
    assert read_leader(leader_data("b 1", 7)) == ("b 1", 7)
