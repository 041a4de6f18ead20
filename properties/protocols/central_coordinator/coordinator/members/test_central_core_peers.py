"""
The coordinator's core: Consult, and whatever else a stranger may send.

References: PROTOCOLS.md, section B (Consumer, ConsultResponse; nothing a peer sends "reaches anyone
else"), and the draft `002` (On Consumer Startup).
"""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.members import admission
from herdproof.protocols.central_coordinator.events import Close, Received, Send, StepDown
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
    Commit,
    CommitResponse,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Leave,
    Ping,
    PingResponse,
    Register,
    Start,
    StartResponse,
    StopResponse,
)
from herdproof.protocols.election.elector import leader_data
from herdproof.zookeeper.operations import Delete, Get, Refusal, Set, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    PATHS,
    Consumer,
    World,
    elected,
)

# ── Consult ─────────────────────────────────────────────────────────────────────────────────

ADDRESS = b'{"host": "127.0.0.1", "port": 9192}'
INFO = BrokerInfo("127.0.0.1:9192", 1, "127.0.0.1", 9192)


def test_any_broker_tells_who_coordinates() -> None:
    """A broker that does not lead reads who does, and where the coordinators listen."""
    w = World(broker_id=1)
    w.make(PATHS.coordinator("1"), ADDRESS)
    w.make(PATHS.coordinator("2"), b'{"host": "b", "port": 7}')
    w.make(PATHS.broker("3"), ADDRESS)
    w.make(PATHS.election.leader, leader_data("2", 4))

    answer = w.consult()

    assert answer == ConsultResponse(ErrorCode.NONE, 2, (INFO, BrokerInfo("b:7", 2, "b", 7)))


def test_brokers_are_taken_from_kafka_where_no_coordinator_says_where_it_listens() -> None:
    """Without addresses of coordinators /brokers/ids is what there is, as in the draft."""
    w = World()
    w.make(PATHS.broker("1"), ADDRESS)
    w.make(PATHS.broker("2"), b"not understood")

    assert w.consult() == ConsultResponse(ErrorCode.NONE, NO_COORDINATOR, (INFO,))


def test_the_coordinator_names_itself() -> None:
    """Who leads knows, whatever ZooKeeper's node of the leader says."""
    w = elected(broker_id=5)
    w.make(PATHS.election.leader, leader_data("2", 4))

    answer = w.consult()

    assert isinstance(answer, ConsultResponse)
    assert answer.coordinator_id == 5


def test_what_is_told_is_remembered_until_it_changes() -> None:
    """ZooKeeper is asked once, and again when a watch has fired or some time has passed."""
    w = World(Settings(consult_cache_ms=2_000))
    w.make(PATHS.coordinator("1"), ADDRESS)
    w.make(PATHS.election.leader, leader_data("2", 4))
    w.consult()
    w.asked.clear()

    w.consult()
    assert not w.asked

    w.zookeeper.perform(w.operator, Set(PATHS.election.leader, leader_data("3", 5)))
    answer = w.consult()
    assert isinstance(answer, ConsultResponse)
    assert answer.coordinator_id == 3

    w.asked.clear()
    w.now_ms += 2_000
    w.consult()
    assert w.asked


def test_a_broker_that_has_gone_is_named_no_more() -> None:
    """What is read anew takes the place of what was known, and is not added to it."""
    w = World()
    w.make(PATHS.coordinator("1"), ADDRESS)
    w.make(PATHS.coordinator("3"), ADDRESS)
    w.make(PATHS.election.leader, leader_data("1", 4))
    before = w.consult()
    assert isinstance(before, ConsultResponse)
    assert [broker.id for broker in before.brokers] == [1, 3]

    w.zookeeper.perform(w.operator, Delete(PATHS.coordinator("3")))

    assert w.consult() == ConsultResponse(ErrorCode.NONE, 1, (INFO,))


def test_nobody_waits_for_what_is_known_to_be_read_again() -> None:
    """Once what is known is old it is read again; who asks meanwhile is answered with it."""
    w = World(Settings(consult_cache_ms=2_000))
    w.make(PATHS.coordinator("1"), ADDRESS)
    w.make(PATHS.election.leader, leader_data("1", 4))
    known = w.consult()
    w.now_ms += 2_000
    w.asked.clear()
    w.hold()

    assert w.consult() == w.consult() == known
    assert w.asked.count(Get(PATHS.election.leader, watch=True)) == 1
    w.zookeeper.perform(w.operator, Set(PATHS.election.leader, leader_data("3", 5)))
    late = Consumer(w.open(), "")
    w.consumers[late.channel] = late
    w.send(late, Consult())
    assert not late.requests, "a watch has said that it is so no more"
    w.release_all()
    assert late.requests == [ConsultResponse(ErrorCode.NONE, 3, (INFO,))]


def test_that_nobody_leads_is_not_remembered() -> None:
    """No watch tells that a leader has appeared where there was none, so it is read each time."""
    w = World()
    w.make(PATHS.coordinator("1"), ADDRESS)
    assert w.consult() == ConsultResponse(ErrorCode.NONE, NO_COORDINATOR, (INFO,))

    w.make(PATHS.election.leader, leader_data("1", 4))

    assert w.consult() == ConsultResponse(ErrorCode.NONE, 1, (INFO,))


def test_without_zookeeper_nobody_is_known() -> None:
    """A broker that cannot read answers that it knows of nobody, and does not remember that."""
    w = World()
    w.make(PATHS.coordinator("1"), ADDRESS)
    w.make(PATHS.election.leader, leader_data("1", 4))
    w.spoil = lambda _: Refusal(Why.CONNECTION_LOSS)
    assert w.consult() == ConsultResponse(ErrorCode.NONE, NO_COORDINATOR, ())

    w.spoil = lambda _: None

    assert w.consult() == ConsultResponse(ErrorCode.NONE, 1, (INFO,))


def test_a_legacy_consult_is_answered_in_its_form() -> None:
    """The legacy form can be consulted; it is answered in kind."""
    w = elected()
    channel = w.open()

    effects = w.give(Received(channel, Frame(Consult()), legacy=True))

    [answer] = [effect for effect in effects if isinstance(effect, Send)]
    assert answer.legacy
    assert isinstance(answer.frame.message, ConsultResponse)


def test_nothing_else_is_taken_in_the_legacy_form() -> None:
    """Who speaks the legacy form can consult, and is told no when it registers; no more."""
    w = elected()
    channel = w.open()

    effects = w.give(Received(channel, Frame(Commit(())), legacy=True))

    assert [type(effect) for effect in effects if isinstance(effect, Send | Close)] == [Close]


# ── Anything ────────────────────────────────────────────────────────────────────────────────

_offsets = st.lists(
    st.builds(
        Offset, st.sampled_from(["t", "u", ""]), st.sampled_from(["0", "9-1", "x", ""]),
        st.integers(-2, 9),
    ),
    max_size=3,
).map(tuple)  # fmt: skip
_messages = st.one_of(
    st.just(Consult()),
    st.builds(Commit, _offsets),
    st.just(Leave()),
    st.builds(PingResponse, st.none() | _offsets),
    st.builds(StopResponse, st.none() | _offsets),
    st.builds(StartResponse, st.sampled_from(ErrorCode)),
    st.builds(CommitResponse, st.sampled_from(ErrorCode)),
    st.just(Ping(0)),
    st.builds(Start, _offsets),
    st.builds(
        Register, st.sampled_from(["g", "h", ""]), st.sampled_from("ab"),
        st.sampled_from(['{"t": 1}', "*1*.*", "nonsense"]), st.booleans(), st.none(),
        st.integers(-1, 3_000), st.integers(-1, 3), st.integers(-1, 20_000),
    ),
)  # fmt: skip
_steps = st.one_of(
    st.tuples(
        st.just("frame"), st.integers(1, 4),
        st.builds(
            Frame, _messages, st.integers(-1, 5), st.integers(0, 2), st.integers(-1, 3),
            error=st.sampled_from(ErrorCode),
        ),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["advance", "close", "answer", "topic"]), st.integers(1, 9)),
    st.sampled_from([("open",), ("depose",)]),
)  # fmt: skip


@given(st.lists(_steps, max_size=30))
@with_settings(max_examples=60)
def test_nothing_that_a_peer_sends_is_more_than_its_own_problem(steps: list[Any]) -> None:
    """Whatever comes over a channel, nothing is raised, and who behaves well is served."""
    w = elected()
    for step in steps:
        match step:
            case "frame", channel, frame, legacy:
                w.give(Received(channel, frame, legacy))
            case "advance", tenths:
                w.advance(tenths * 400)
            case "close", channel if channel in w.consumers:
                w.close(w.consumers[channel])
            case "answer", channel if channel in w.consumers:
                w.speak(w.consumers[channel])
            case "topic", count:
                w.topic("t", count)
            case ("open",):
                consumer = Consumer(w.open(), "", mute=True)
                w.consumers[consumer.channel] = consumer
            case ("depose",):
                w.depose()
                w.elect()
            case _:
                pass

    assert not [effect for effect in w.effects if isinstance(effect, StepDown)]
    w.consumers.clear()
    well = w.register("well", '{"t": 1}', group="quiet")
    w.advance(30_000)
    assert len(well.fetches) == len(w.core.topics.topics["t"])


# ── What a Register may cost ────────────────────────────────────────────────────────────────


def test_registers_with_long_regexes_cost_nothing() -> None:
    """A dozen strangers with regexes that take seconds to compile hold nobody up."""
    w = elected()
    began = thread_time()

    strangers = [w.register(f"s{n}", "*1*" + r"\pL" * (10_900 + n)) for n in range(12)]

    assert thread_time() - began < 1
    assert {stranger.error for stranger in strangers} == {ErrorCode.INVALID_SUBSCRIPTION}
    assert all(stranger.closed for stranger in strangers)
    said = w.told(What.REGISTRATION_REFUSED)
    assert "has 32,700 characters, more than 1,024" in str(said[0]["why"])


def test_a_broker_that_does_not_coordinate_compiles_no_regex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is refused anyway has its subscription not even read."""
    monkeypatch.setattr(admission, "parse", lambda _: pytest.fail("it was read"))

    assert World().register("a", "*1*a.*").error is ErrorCode.NOT_COORDINATOR
