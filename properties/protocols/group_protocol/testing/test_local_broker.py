"""The broker for tests: what a test may do to it, and that nothing of it outlives the test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from herdproof.testing import BadBrokerUse, FaultNeverCame, LocalBroker
from properties.protocols.group_protocol.testing.wired import WiredClient

READY_S = 0.3
"""What a broker takes at most until it serves, on a machine that has nothing else to do."""
UNKNOWN_MEMBER_ID, NOT_COORDINATOR, REBALANCE_IN_PROGRESS = 25, 16, 27

Connect = Callable[..., WiredClient]


@pytest.fixture
def connect(herdproof_broker: LocalBroker) -> Iterator[Connect]:
    """Connects clients to the broker, and hangs up at the end."""
    herdproof_broker.create_topic("t", partitions=2)
    with ExitStack() as stack:

        def connected(name: str = "a") -> WiredClient:
            client = WiredClient(herdproof_broker.bootstrap, name)
            stack.callback(client.close)
            return client

        yield connected


def brokers_threads() -> list[threading.Thread]:
    """The threads of brokers that live."""
    return [each for each in threading.enumerate() if each.name == "herdproof-broker"]


# ── Life ────────────────────────────────────────────────────────────────────────────────────


def test_sixteen_are_ready_side_by_side() -> None:
    """Most take less than 0.3 s to be ready, beside fifteen others, and they share nothing."""
    with ExitStack() as stack:
        brokers, took = [], []
        for _ in range(16):
            begun = time.perf_counter()
            brokers.append(stack.enter_context(LocalBroker({"t": 1})))
            took.append(time.perf_counter() - begun)
        assert median(took) < READY_S
        brokers[3].produce("t", "one")

        assert len({broker.bootstrap for broker in brokers}) == 16
        assert brokers[4].produce("t", "two")[0].offset == 0


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt])
def test_nothing_outlives_it(ending: type[BaseException] | None) -> None:
    """Whether the test passes, fails or is interrupted: no thread is left, and no port."""
    before = brokers_threads()
    broker = LocalBroker({"t": 1})
    client = None
    try:
        with broker:
            client = WiredClient(broker.bootstrap)
            client.own(0)
            if ending is not None:
                raise ending
    except (ValueError, KeyboardInterrupt):
        pass

    host, _, port = broker.bootstrap.rpartition(":")
    assert brokers_threads() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1.0)
    assert client is not None
    with pytest.raises(ConnectionError):
        client.heartbeat()
    client.close()


# ── Time ────────────────────────────────────────────────────────────────────────────────────


def test_time_passes_when_the_test_says(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """A session of 45 s is there after 44 s more, and over one second later."""
    member = connect()
    member.own(0, 1)

    herdproof_broker.advance(44)
    assert herdproof_broker.group("g").members == {"a": [("t", 0), ("t", 1)]}
    herdproof_broker.advance(1)

    assert herdproof_broker.group("g").state == "Empty"
    assert member.heartbeat() == UNKNOWN_MEMBER_ID


def test_a_heartbeat_between_two_advances_renews(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """Who is heard of halfway has the whole time again."""
    member = connect()
    member.own(0)
    herdproof_broker.advance(40)

    assert member.heartbeat() == 0
    herdproof_broker.advance(40)

    assert member.heartbeat() == 0


def test_one_session_ends_alone(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """Of two members one is expired: the other is to join anew, and has its place."""
    first, second = connect("a"), connect("b")
    first.own(0, 1)
    head = second.send(second.joining(), 3)
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.take(first.ask(first.joining()))
    second.take(second.receive(head))
    assert set(herdproof_broker.group("g").members) == {"a", "b"}

    herdproof_broker.expire("a")

    assert set(herdproof_broker.group("g").members) == {"b"}
    assert first.heartbeat() == UNKNOWN_MEMBER_ID
    assert second.heartbeat() == REBALANCE_IN_PROGRESS


# ── Faults ──────────────────────────────────────────────────────────────────────────────────


def test_a_dropped_request_is_not_taken(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """The second commit is lost with its connection; the first one counts."""
    member = connect()
    member.own(0)
    herdproof_broker.fault("drop", api="OffsetCommit", nth=2)

    assert member.commit(1) == 0
    with pytest.raises(ConnectionError):
        member.commit(2)

    assert herdproof_broker.group("g").offsets == {("t", 0): 1}


def test_a_lost_answer_is_of_a_request_that_was_taken(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """The commit is done, and its client does not hear of it."""
    member = connect()
    member.own(0)
    herdproof_broker.fault("lose_answer", api="OffsetCommit")

    with pytest.raises(ConnectionError):
        member.commit(1)

    assert herdproof_broker.group("g").offsets == {("t", 0): 1}


def test_an_error_is_answered_and_nothing_taken(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """A client is told the error that the test has said, as often as it has said."""
    member = connect()
    member.own(0)
    fault = herdproof_broker.fault("error", api="OffsetCommit", error="NOT_COORDINATOR", times=2)

    assert [member.commit(n) for n in (1, 2, 3)] == [NOT_COORDINATOR, NOT_COORDINATOR, 0]
    assert (fault.seen, fault.struck) == (3, 2)
    assert herdproof_broker.group("g").offsets == {("t", 0): 3}
    assert herdproof_broker.asked("OffsetCommit")[0].errors == ("NOT_COORDINATOR",)


def test_an_error_is_put_into_what_is_read(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """Requests that change nothing are answered with the error, too."""
    herdproof_broker.fault("error", api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE")
    asked = FindCoordinatorRequest(key_type=0, key="g")
    client = connect()

    assert client.ask(asked, 3).error_code == 15
    assert client.ask(asked, 3).error_code == 0


def test_a_delayed_request_is_taken_though_its_client_is_gone(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """A commit that was on its way comes after its client has hung up."""
    member = connect()
    member.own(0)
    herdproof_broker.fault("delay", api="Heartbeat", seconds=0.1)
    begun = time.perf_counter()
    assert member.heartbeat() == 0
    assert time.perf_counter() - begun >= 0.1
    answers = len(herdproof_broker.history)

    herdproof_broker.fault("delay", api="JoinGroup", seconds=0.1)
    member.send(member.joining(), 5)
    member.close()

    while herdproof_broker.group("g").state == "Stable":
        time.sleep(0.01)
    assert len(herdproof_broker.history) == answers + 1


def test_a_repeated_request_is_taken_twice(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """A first JoinGroup that comes twice is given two ids: a rebalance waits for the other one."""
    there, member = connect("x"), connect("a")
    there.own(0)
    herdproof_broker.fault("repeat", api="JoinGroup", client="a")
    member.take(member.ask(member.joining(), 5))
    joining = [each.send(each.joining(), 5) for each in (member, there)]
    while len(herdproof_broker.asked("JoinGroup")) < 5:
        pass

    assert herdproof_broker.group("g").state == "PreparingRebalance"
    herdproof_broker.advance(45)

    assert member.receive(joining[0]).error_code == 0
    assert there.receive(joining[1]).error_code == 0


def test_a_fault_is_of_one_client_alone(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """What is asked of client b does not strike a, nor count."""
    herdproof_broker.fault("drop", api="ApiVersions", client="b")
    assert connect("a").ask(ApiVersionsRequest(), 0).error_code == 0
    with pytest.raises(ConnectionError):
        connect("b").ask(ApiVersionsRequest(), 0)


def test_connections_are_cut(herdproof_broker: LocalBroker, connect: Connect) -> None:
    """Those of one client, or all."""
    first, second = connect("a"), connect("b")
    for client in (first, second):
        client.ask(ApiVersionsRequest(), 0)

    herdproof_broker.cut("a")

    with pytest.raises(ConnectionError):
        first.ask(ApiVersionsRequest(), 0)
    assert second.ask(ApiVersionsRequest(), 0).error_code == 0


def test_another_coordinator_reads_what_is_stored(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """Who waits is told that it waits at the wrong one; members and offsets remain."""
    member, other = connect("a"), connect("b")
    member.own(0)
    member.commit(5)
    head = other.send(other.joining(), 3)
    while member.heartbeat() != REBALANCE_IN_PROGRESS:
        pass

    herdproof_broker.failover()

    assert other.receive(head).error_code == NOT_COORDINATOR
    assert member.heartbeat() == 0
    now = herdproof_broker.group("g")
    assert (now.generation, now.offsets, list(now.members)) == (1, {("t", 0): 5}, ["a"])


def test_history_has_what_went_over_the_wire(
    herdproof_broker: LocalBroker, connect: Connect
) -> None:
    """Requests and answers are kept, in order, with their errors and faults."""
    herdproof_broker.fault("error", api="Heartbeat", error="UNKNOWN_MEMBER_ID")
    member = connect()
    member.own(0)
    member.heartbeat()

    assert [str(each) for each in herdproof_broker.history] == [
        "1 a JoinGroup: MEMBER_ID_REQUIRED",
        "2 a JoinGroup: ok",
        "3 a SyncGroup: ok",
        "4 a Heartbeat: UNKNOWN_MEMBER_ID [error]",
    ]
    assert herdproof_broker.history[1].request.group_id == "g"


# ── Bad use ─────────────────────────────────────────────────────────────────────────────────

MISUSES: dict[str, tuple[Callable[[LocalBroker], object], str]] = {
    "fault of no kind": (lambda b: b.fault("explode", api="Fetch"), "there is no fault 'explode'"),
    "fault for no api": (lambda b: b.fault("drop", api="Hartbeat"), "no client sends 'Hartbeat'"),
    "fault without error": (lambda b: b.fault("error", api="Fetch"), "error='NOT_COORD"),
    "fault of no error": (
        lambda b: b.fault("error", api="Fetch", error="OOPS"), "there is no error 'OOPS'",
    ),
    "error for a write": (
        lambda b: b.fault("error", api="Produce", error="NOT_COORDINATOR"), "drop it instead",
    ),
    "fault number 0": (lambda b: b.fault("drop", api="Fetch", nth=0), "both count from 1"),
    "fault number one and a half": (
        lambda b: b.fault("drop", api="Fetch", nth=1.5),  # type: ignore[arg-type]
        "both count from 1",
    ),
    "a drop of minus a second": (
        lambda b: b.fault("drop", api="Fetch", seconds=-1.0), "seconds are said with 'delay' alone"
    ),
    "a delay without end": (
        lambda b: b.fault("delay", api="Fetch", seconds=float("inf")), "'delay' with seconds=inf"
    ),
    "delay of nothing": (lambda b: b.fault("delay", api="Fetch"), "must be, more than 0"),
    "time back": (lambda b: b.advance(-1), "time does not go back"),
    "time without end": (lambda b: b.advance(float("inf")), "a week, is the most"),
    "time that is no number": (lambda b: b.advance(float("nan")), "a week, is the most"),
    "asked for no api": (lambda b: b.asked("Hartbeat", "a"), "no client sends 'Hartbeat'"),
    "no record": (lambda b: b.produce("t", None), "text or bytes"),  # type: ignore[arg-type]
    "no topic": (lambda b: b.produce("u", "x"), "create_topic('u') comes first"),
    "no partition": (lambda b: b.produce("t", "x", partition=9), "has no partition 9"),
    "topic twice": (lambda b: b.create_topic("t"), "there is a topic t already"),
    "nobody to cut": (lambda b: b.cut("zoe"), "connected are none"),
    "nobody to expire": (lambda b: b.expire("zoe"), "has no member in any group"),
    "begun twice": (lambda b: b.start(), "make another one"),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSES)
def test_bad_use_is_one_sentence(misuse: str) -> None:
    """What cannot be done is said at once, where it was asked for, and the broker goes on."""
    use, sentence = MISUSES[misuse]
    with LocalBroker({"t": 1}) as broker:
        with pytest.raises(BadBrokerUse, match=None) as told:
            use(broker)
        assert broker.produce("t", "still there")
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_use_after_the_end_is_one_sentence() -> None:
    """A broker that has ended says so."""
    with LocalBroker() as broker:
        pass
    with pytest.raises(BadBrokerUse, match="has ended, or not begun"):
        broker.advance(1)


def test_a_fault_that_never_came_fails_the_test() -> None:
    """A test whose fault struck nothing has shown nothing, unless it says that this may be."""
    with pytest.raises(FaultNeverCame, match="never came: 0 such requests did"), LocalBroker() as b:
        b.fault("drop", api="Heartbeat", client="a")
    with LocalBroker() as broker:
        broker.fault("drop", api="Heartbeat", must_come=False)
