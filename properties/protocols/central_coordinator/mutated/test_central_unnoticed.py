"""
What nothing had asked of the cores of system B, until mistakes drawn by chance went unnoticed.

Each test kills a mutant that had survived all others; `survivors.py` names those that may.
"""

from __future__ import annotations

import json

import pytest

from herdproof.consuming.events import Deliver, Resolved, RevocationHandled
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.consuming.subscription import parse
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.server_cluster import ServerCluster
from herdproof.protocols.central_coordinator.coordinator.directory import read_broker
from herdproof.protocols.central_coordinator.coordinator.groups import Interests, Phase
from herdproof.protocols.central_coordinator.coordinator.outbox import FULL
from herdproof.protocols.central_coordinator.coordinator.rebalancing.planner import said_in
from herdproof.protocols.central_coordinator.coordinator.store import AT_ONCE, REPAIRS
from herdproof.protocols.central_coordinator.events import (
    Closed,
    Connect,
    Connected,
    CoordinatorEffect,
    CoordinatorEvent,
    Received,
    Send,
    Shutdown,
    Subscribe,
    Tick,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    CommitResponse,
    Consult,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    RegisterResponse,
    Stop,
)
from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Effect,
    ElectionStep,
    Elector,
    LeaderChanged,
    LinkChanged,
    OperationAnswered,
    Stand,
    Wake,
    Woken,
    leader_data,
    read_leader,
)
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Answer, Check, Get, Link, Multi, Operation, Refusal, Why
from properties.protocols.central_coordinator.client.consumer_script import (
    SESSION_MS,
    T0,
    Script,
    started,
)
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    World,
    elected,
    phase,
)
from properties.protocols.central_coordinator.coordinator.stored.test_central_expiry import (
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


def sizes_of_events(w: World) -> list[int]:
    """How much comes of each event, from now on."""
    sizes: list[int] = []
    receive = w.core.receive

    def noted(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        effects = receive(event, now_ms)
        sizes.append(len(effects))
        return effects

    w.core.receive = noted  # type: ignore[method-assign]
    return sizes


def test_a_crowd_that_is_stored_at_once_is_admitted_in_portions() -> None:
    """One event does not let in more than it has room for."""
    w = elected(1)
    w.register("first")
    sizes = sizes_of_events(w)
    w.hold()
    crowd = [w.register(f"c{number}") for number in range(2 * FULL)]
    w.release_all()
    w.advance(2_000)

    assert {one.error for one in crowd} == {ErrorCode.NONE}
    assert FULL <= max(sizes) < 2 * FULL


def test_a_crowd_is_admitted_in_portions_while_its_group_waits_for_a_lease() -> None:
    """The group is open then: it is only the event that has no room for all of them."""
    w = elected(2)
    w.register("first")
    w.close(w.register("lost"))
    assert phase(w) is Phase.WAITING
    sizes = sizes_of_events(w)

    w.hold()
    crowd = [w.register(f"c{number}") for number in range(2 * FULL)]
    w.release_all()
    w.advance(100)

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


def test_what_was_deleted_is_not_written_over() -> None:
    """Whose subscription is gone registers again: ZooKeeper is asked for nothing impossible."""
    w = elected()
    w.register("a")
    w.send(w.register("b"), Leave())
    assert w.stored(PATHS.subscription(GROUP, "b")) is None
    w.refused.clear()

    w.register("b")

    assert w.stored(PATHS.subscription(GROUP, "b")) is not None
    assert w.refused == []


def test_shares_that_are_asked_for_while_a_group_is_read_are_whole_once_it_is() -> None:
    """Owners come one by one; what was known of them before another one came is of no use."""
    w = elected(3)
    w.register("a")
    w.depose()
    w.hold()
    w.elect()

    while w.held:
        w.release()
        if GROUP in w.core.groups:
            w.core.groups[GROUP].share_of("1-1")

    group = w.core.groups[GROUP]
    assert group.loaded
    assert sorted(group.share_of("1-1")) == [("t", "0"), ("t", "1"), ("t", "2")]


def test_who_has_nothing_is_not_taken_over_by_another_consumer() -> None:
    """A registration that lives has its consumer, also where ZooKeeper says nothing of it."""
    w = elected(1)
    a, b = w.register("a", former=()), w.register("b", former=())
    [idle] = [one for one in (a, b) if not one.fetches]
    said = idle.last(RegisterResponse)
    assert isinstance(said, RegisterResponse)

    thief = w.register("thief", former=(), resumes=said.member, generation=w.generation())

    assert (thief.error, idle.closed) == (ErrorCode.STALE_GENERATION, False)


@pytest.mark.parametrize("partitions", [1, 2 * AT_ONCE])
def test_each_write_of_offsets_is_told_and_so_is_its_answer(partitions: int) -> None:
    """In as many parts as it has: each is a step, which ends before the next one begins."""
    w = elected(partitions)
    a = w.register("a")
    a.fetches = dict.fromkeys(a.fetches, 7)
    w.steps.clear()

    w.advance(3_000)

    asked = [step.number for step in w.steps if step.action == "flush_offsets"]
    assert len(asked) == (1 if partitions == 1 else 2)
    told = [step.number for step in w.steps if step.number in asked]
    assert told == [number for each in asked for number in (each, each)]


def test_who_reports_nothing_new_leads_to_no_write() -> None:
    """Nor to a timer that would find nothing to be written."""
    w = elected()
    w.register("a", ping_interval_ms=2_000)
    w.advance(4_500)

    assert ("flush", 0) not in w.core.context.purgatory.watchers


def test_a_group_whose_rebalance_has_failed_waits_for_nobody() -> None:
    """Who had not answered its Start is asked anew, with all others."""
    w = elected()
    w.register("a", mute=True)
    b = w.register("b", mute=True)
    w.answer(w.consumers[1])
    w.answer(b)
    assert phase(w) is Phase.STARTING

    w.close(b)

    assert w.told(What.REBALANCE_FAILED)
    assert not w.core.groups[GROUP].waiting


def test_topics_that_are_forgotten_have_changed() -> None:
    """No plan that was made for them is taken for one of the next election's."""
    w = elected()
    known = w.core.topics.changes

    w.depose()

    assert w.core.topics.changes > known


def test_who_is_deposed_has_nobody_waiting_for_an_answer() -> None:
    """All channels are closed, and what was asked for them is forgotten."""
    w = elected()
    w.hold()
    w.give(Received(w.open(), Frame(Consult())))
    assert w.core.directory._waiting

    w.depose()

    assert not w.core.directory._waiting


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


def test_what_is_to_be_stored_again_waits_for_a_registration() -> None:
    """Until that is answered time alone does nothing for it, and is not asked for, either."""
    script = started(Offset("t", "0", NO_OFFSET), member="1-1")
    script(Resolved(Offset("t", "0", 17), 1))
    script.answer(CommitResponse(ErrorCode.NOT_STORED))
    script(Closed(script.channel))
    script(Tick(), after_ms=6_000)
    script.consult()

    script(Connected(script.channel))

    assert script.core.phase is ConsumerPhase.REGISTERING
    assert script.wakes_ms is not None
    assert script.wakes_ms > script.now_ms


def test_who_has_wound_up_consults_at_once() -> None:
    """Its back-off is long over, and the lease that it waited for concerns nobody any more."""
    script = started(T0, resumes=False, listens=True, member="1-1")
    script(Closed(script.channel))
    script(Tick(), after_ms=SESSION_MS // 2)
    assert script.core.phase is ConsumerPhase.BACKING_OFF

    script(RevocationHandled())
    script.wake()

    assert script.now_ms == SESSION_MS // 2
    assert script.of(Connect)


@pytest.mark.parametrize("start_index", [0, 500, 999, 1_000, 1_500, 2_999])
def test_consumers_spread_their_waits_over_a_thousand_places(start_index: int) -> None:
    """The first and the thousand-and-first have the same one, and nobody waits for longer."""
    waits = []
    for index in (start_index, start_index % 1_000):
        script = Script(start_index=index)(Subscribe())
        script.consult(NO_COORDINATOR)
        waits.append(script.wakes_ms)

    assert waits[0] == waits[1]


def test_who_knows_no_broker_is_told_so() -> None:
    """In a sentence, before anybody is sought."""
    with pytest.raises(ValueError, match="at least one broker"):
        ServerCluster(())


# ── The election ────────────────────────────────────────────────────────────────────────────


def test_who_has_looked_is_not_woken_again() -> None:
    """A watch that fires amid another call makes a look due, and one look is enough."""
    zookeeper, core = ZooKeeper(), Elector("1")
    session = zookeeper.open()
    zookeeper.make(session, PATHS.election.epoch)

    def answered(effects: list[Effect]) -> list[Effect]:
        """What an asked question's answer leads to."""
        [ask] = [effect for effect in effects if isinstance(effect, AskZooKeeper)]
        return core.receive(
            OperationAnswered(ask.number, zookeeper.perform(session, ask.operation))
        )

    core.receive(LinkChanged(Link.CONNECTED, session))
    reads = answered(core.receive(Stand()))
    core.receive(LeaderChanged())
    leads = answered(answered(reads))
    assert leads[-1] == Wake()

    looked = answered(core.receive(Woken()))

    assert [type(effect) for effect in looked] == [ElectionStep]


def test_what_is_answered_after_the_connection_broke_is_late() -> None:
    """The call is under way no more, though its number is the last one."""
    core = Elector("1")
    core.receive(LinkChanged(Link.CONNECTED, 7))
    core.receive(Stand())
    core.receive(LinkChanged(Link.SUSPENDED, 7))

    told = core.receive(OperationAnswered(core.number, Refusal(Why.NO_NODE)))

    assert told == [ElectionStep("handle_late", number=core.number)]


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
