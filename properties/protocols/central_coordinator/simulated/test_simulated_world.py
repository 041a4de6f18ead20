"""The simulated world of system B keeps what its processes may rely on, and breaks the rest."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.protocols.central_coordinator.wire.messages import Consult, Frame
from herdproof.simulator.clock import Clock, Timeline
from herdproof.simulator.network import (
    CONNECT_TIMEOUT_MS,
    Connection,
    Network,
)
from herdproof.simulator.process import Process
from herdproof.simulator.session import (
    HOST,
    SimulatedClient,
    SimulatedService,
)
from herdproof.zookeeper.operations import (
    Answer,
    Check,
    Create,
    Created,
    Data,
    Done,
    Exists,
    Found,
    Get,
    Link,
    Multi,
    NodeChange,
    Refusal,
    Set,
    Watched,
    Why,
)

# ── Time ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 9)), max_size=30))
def test_what_is_to_happen_happens_in_order_of_time_then_of_asking(
    wishes: list[tuple[float, int]],
) -> None:
    """What is to happen happens in order of time, and at one moment in the order of asking."""
    timeline = Timeline()
    lived: list[tuple[float, int]] = []
    for number, (time_ms, _) in enumerate(wishes):
        timeline.at(time_ms, lambda n=number: lived.append((timeline.now, n)))

    timeline.run_until(1e6)

    expected = sorted((time_ms, number) for number, (time_ms, _) in enumerate(wishes))
    assert lived == expected


@given(
    rates=st.lists(st.floats(0.98, 1.02), min_size=1, max_size=5),
    start=st.floats(0, 1e6),
    wait=st.integers(0, 100_000),
)
def test_a_clock_drifts_within_its_bound_and_never_goes_back(
    rates: list[float], start: float, wait: int
) -> None:
    """A clock never goes back, its drift is bounded, and an alarm rings when it shows the time."""
    timeline = Timeline()
    clock = Clock(timeline, start_ms=start, rate=1.0)
    shown = clock.now_ms()
    for rate in rates:
        clock.drift(rate)
        assert clock.now_ms() >= shown
        before = timeline.now
        due = clock.now_ms() + wait
        timeline.run_until(max(before, clock.when(due)))

        assert clock.now_ms() >= shown
        assert clock.now_ms() in (due, due + 1)
        assert timeline.now - before <= (wait + 1) / 0.98
        assert timeline.now - before >= (wait - 2) / 1.02
        shown = clock.now_ms()


# ── Processes ───────────────────────────────────────────────────────────────────────────────


class Place:
    """A world without anything in it."""

    def __init__(self, seed: int = 0) -> None:
        self.timeline = Timeline()
        self.chance = Random(seed)
        self.network = Network(self.timeline, Random(seed))
        self.service = SimulatedService(self.timeline, self.network, Random(seed))

    def note(self, *_: object) -> None:
        """Nobody reads the log."""


class Scribe(Process):
    """A process that writes down what reaches it."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, Clock(place.timeline, start_ms=0.0, rate=1.0))
        self.written: list[Any] = []

    def write(self, what: object) -> None:
        """Write something down."""
        self.written.append(what)

    def tick(self) -> None:
        """An alarm."""
        self.written.append("tick")

    def accept(self, connection: Connection) -> int:
        """Number connections from 1."""
        self.ends[len(self.ends) + 1] = (connection, connection.server)
        return len(self.ends)

    def opened(self, channel: int) -> None:
        """Write it down."""
        self.post(f"channel {channel}", self.write, "opened")

    def refused(self, channel: int) -> None:
        """Write it down."""
        self.post(f"channel {channel}", self.write, "refused")

    def received(self, channel: int, frame: Frame) -> None:
        """Write its number down."""
        self.post(f"channel {channel}", self.write, frame.correlation_id)

    def closed(self, channel: int) -> None:
        """Write it down."""
        self.post(f"channel {channel}", self.write, "closed")


@given(
    seed=st.integers(0, 1_000),
    posts=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), max_size=20),
)
def test_a_paused_process_handles_nothing_and_keeps_each_sources_order(
    seed: int, posts: list[tuple[str, int]]
) -> None:
    """A paused process handles nothing; when it wakes, what each source sent comes in order."""
    scribe = Scribe(Place(seed), "a")
    scribe.pause()
    for source, number in posts:
        scribe.post(source, scribe.write, (source, number))
    assert scribe.written == []

    scribe.resume()

    assert sorted(map(str, scribe.written)) == sorted(map(str, posts))
    for source in "abc":
        assert [w for w in scribe.written if w[0] == source] == [p for p in posts if p[0] == source]


@pytest.mark.parametrize("seed", range(10))
def test_the_timer_of_a_paused_process_is_late(seed: int) -> None:
    """A timer that is due in a pause rings once, after the pause; a later wish replaces it."""
    place = Place(seed)
    scribe = Scribe(place, "a")
    scribe.wake_at(50)
    scribe.wake_at(100)
    place.timeline.run_until(60)
    scribe.pause()
    place.timeline.run_until(500)
    assert scribe.written == []

    scribe.resume()
    place.timeline.run_until(1_000)

    assert scribe.written == ["tick"]


def test_a_killed_process_handles_nothing_more() -> None:
    """Of what waits for a process that is killed, nothing is handled, and no alarm rings."""
    place = Place()
    scribe = Scribe(place, "a")
    scribe.wake_at(10)
    scribe.pause()
    scribe.post("b", scribe.write, 1)

    scribe.kill()
    scribe.resume()
    scribe.post("b", scribe.write, 2)
    place.timeline.run_until(100)

    assert scribe.written == []


# ── The network ─────────────────────────────────────────────────────────────────────────────


def pair(seed: int) -> tuple[Place, Scribe, Scribe, Connection]:
    """A place in which `a` has asked `b` for a connection."""
    place = Place(seed)
    a, b = Scribe(place, "a"), Scribe(place, "b")
    place.network.listening["b", 1] = lambda: b
    connection = place.network.connect(a, 1, "b", 1)
    assert connection is not None
    a.ends[1] = (connection, connection.client)
    return place, a, b, connection


@given(
    seed=st.integers(0, 1_000),
    cut_ms=st.floats(0, 200),
    parted=st.lists(st.tuples(st.floats(0, 150), st.floats(0, 100)), max_size=3),
)
def test_a_connection_keeps_order_until_it_breaks(
    seed: int, cut_ms: float, parted: list[tuple[float, float]]
) -> None:
    """What arrives is the beginning of what was sent, in order; then, once, the end."""
    place, a, b, connection = pair(seed)
    for number in range(20):
        place.timeline.at(number * 7, connection.send, connection.client, Frame(Consult(), number))
    for at_ms, for_ms in parted:
        place.timeline.at(at_ms, place.network.part, "a", "b", at_ms + for_ms)
    place.timeline.at(cut_ms, connection.cut, 5.0, 40.0)

    place.timeline.run_until(10_000)

    assert a.written in (["opened", "closed"], ["refused"])
    assert b.written in (
        [],
        *(["opened", *range(count), "closed"] for count in range(21)),
    )


def test_nothing_gets_through_between_parted_hosts_until_they_meet() -> None:
    """Between parted hosts nothing gets through; afterwards it does, if the connection stands."""
    place, a, b, connection = pair(1)
    place.timeline.run_until(100)
    place.network.part("b", "a", 5_000)
    connection.send(connection.client, Frame(Consult(), 1))
    connection.send(connection.server, Frame(Consult(), 2))

    place.timeline.run_until(4_999)
    assert (a.written, b.written) == (["opened"], ["opened"])
    place.timeline.run_until(5_100)

    assert (a.written, b.written) == (["opened", 2], ["opened", 1])


def test_a_connection_across_a_network_that_carries_nothing_is_given_up() -> None:
    """Who connects to a host that cannot be reached is refused after a while."""
    place, a, b, _ = pair(1)
    place.network.part("a", "b", 60_000)

    place.timeline.run_until(CONNECT_TIMEOUT_MS + 1)

    assert (a.written, b.written) == (["refused"], [])


def test_who_closes_a_connection_has_sent_everything_before() -> None:
    """Closing tells both ends, once, the other one after all that was sent."""
    place, a, b, connection = pair(3)
    place.timeline.run_until(100)
    connection.send(connection.client, Frame(Consult(), 1))
    connection.close(connection.client)
    connection.send(connection.client, Frame(Consult(), 2))
    connection.send(connection.server, Frame(Consult(), 3))

    place.timeline.run_until(10_000)

    assert (a.written, b.written) == (["opened", "closed"], ["opened", 1, "closed"])


@pytest.mark.parametrize("seed", range(8))
def test_the_connections_of_a_killed_process_end(seed: int) -> None:
    """The other end of a killed process' connection is told that it is over."""
    place, a, b, _ = pair(seed)
    place.timeline.run_until(100)

    a.kill()
    place.timeline.run_until(10_000)

    assert b.written == ["opened", "closed"]


# ── Sessions ────────────────────────────────────────────────────────────────────────────────

TIMEOUT_MS = 3_000.0


class Told(Scribe):
    """A process with a session, which writes down what it is told of it."""

    def __init__(self, place: Place, name: str = "a") -> None:
        super().__init__(place, name)
        self.client = SimulatedClient(
            place.service, self, TIMEOUT_MS, on_link=self._link, on_watch=self.write,
            on_lost=lambda watched: self.write(("lost", watched)),
        )  # fmt: skip
        place.timeline.run_until(place.timeline.now + 50)
        self.first = self.client.session
        assert self.written == [(Link.CONNECTED, self.first)]
        self.written.clear()

    def _link(self, link: Link, session: int) -> None:
        self.write((link, session))

    def pause(self) -> None:
        """As a broker does."""
        super().pause()
        self.client.paused()

    def resume(self) -> None:
        """As a broker does."""
        super().resume()
        self.client.resumed()

    def kill(self) -> None:
        """As a broker does."""
        super().kill()
        self.client.abandon()

    def answered(self, answer: Answer) -> None:
        """Write an answer down."""
        self.write(answer)


def test_answers_come_in_order_after_the_watches_that_they_show() -> None:
    """Answers come in the order of asking; a watch comes before an answer that shows its change."""
    place = Place()
    told, other = Told(place), Told(place, "b")
    told.client.submit(Exists("/x", watch=True), told.answered)
    place.timeline.run_until(200)
    other.client.submit(Create("/x", b"1"), other.answered)
    place.timeline.run_until(203)
    told.client.submit(Get("/x"), told.answered)
    told.client.submit(Get("/y"), told.answered)

    place.timeline.run_until(400)

    assert told.written[0] == Found(None)
    assert told.written[1] == Watched("/x", NodeChange.CREATED)
    assert isinstance(told.written[2], Data | Refusal)
    assert told.written[3:] == [Refusal(Why.NO_NODE)]


@pytest.mark.parametrize("silence", ["pause", "part", "kill"])
@pytest.mark.parametrize("long", [False, True])
def test_a_session_expires_with_the_silence_of_its_client(silence: str, long: bool) -> None:
    """A session lives on through a short silence; a long one ends it, and its ephemerals go."""
    place = Place()
    told = Told(place)
    told.client.submit(Create("/x", ephemeral=True), told.answered)
    place.timeline.run_until(200)
    silent_ms = TIMEOUT_MS + (100 if long else -100)
    begin: dict[str, Callable[[], None]] = {
        "pause": told.pause,
        "part": lambda: parted(place, told, 200 + silent_ms),
        "kill": told.kill,
    }

    begin[silence]()
    place.timeline.run_until(200 + silent_ms)

    assert ("/x" in place.service.zookeeper.tree()) is not long


def test_who_wakes_in_time_keeps_its_session() -> None:
    """After a pause the service hears of a process again: no time-out goes on running."""
    place = Place()
    told = Told(place)
    told.client.submit(Create("/x", ephemeral=True), told.answered)
    place.timeline.run_until(200)
    told.pause()
    place.timeline.run_until(200 + 0.9 * TIMEOUT_MS)
    told.resume()
    place.timeline.run_until(200 + 3 * TIMEOUT_MS)

    assert "/x" in place.service.zookeeper.tree()


def parted(place: Place, told: Told, until_ms: float) -> None:
    """Nothing gets through between a process and ZooKeeper."""
    place.network.part(told.name, HOST, until_ms)
    told.client.parted(until_ms)


@pytest.mark.parametrize(
    ("silent_ms", "links"),
    [
        (0.5, []),
        (0.8, [Link.SUSPENDED, Link.CONNECTED]),
        (1.5, [Link.SUSPENDED, Link.LOST, Link.CONNECTED]),
    ],
)
def test_a_client_is_told_in_order_what_became_of_its_session(
    silent_ms: float, links: list[Link]
) -> None:
    """A client gives a silent connection up before its session can end; what came is told later."""
    place = Place()
    told = Told(place)
    parted(place, told, place.timeline.now + TIMEOUT_MS * silent_ms)

    place.timeline.run_until(10_000)

    assert [link for link, _ in told.written] == links
    assert told.client.link is Link.CONNECTED
    assert (told.client.session == told.first) is (Link.LOST not in links)


def test_an_operation_may_be_done_and_its_reply_lost() -> None:
    """Of what was sent when a connection breaks some is done; CONNECTION_LOSS tells neither."""
    done = set()
    for seed in range(20):
        place = Place(seed)
        told = Told(place)
        told.client.submit(Create("/x"), told.answered)
        told.client.cut()

        place.timeline.run_until(5_000)

        assert told.written[0] == Refusal(Why.CONNECTION_LOSS)
        assert told.written[1] == (Link.SUSPENDED, told.first)
        done.add("/x" in place.service.zookeeper.tree())
    assert done == {False, True}


def test_the_reply_of_the_next_transaction_can_be_lost() -> None:
    """A fault has the next transaction done and the connection broken before its reply."""
    place = Place()
    told = Told(place)
    told.client.swallows = True
    told.client.submit(Create("/y"), told.answered)
    place.timeline.run_until(200)
    told.client.submit(Multi((Create("/x"),)), told.answered)

    place.timeline.run_until(5_000)

    assert told.written[:3] == [
        Created("/y"),
        Refusal(Why.CONNECTION_LOSS),
        (Link.SUSPENDED, told.first),
    ]
    assert "/x" in place.service.zookeeper.tree()


def test_watches_that_a_broken_connection_took_are_said_to_fire() -> None:
    """What the coordinator watched on a connection that broke is told as fired on the next."""
    place = Place()
    told = Told(place)
    told.client.submit(Exists("/x", watch=True), told.answered, coordinates=True)
    place.timeline.run_until(200)
    told.client.cut()

    place.timeline.run_until(2_000)

    assert told.written[-1] == ("lost", Watched("/x", NodeChange.DATA))


def test_refused_writes_of_an_epoch_that_is_over_are_counted() -> None:
    """A coordinator's transaction whose check of the epoch fails is refused, and counted."""
    place = Place()
    told = Told(place)
    told.client.submit(Create("/epoch"), told.answered)
    told.client.submit(Set("/epoch", b""), told.answered)
    for version in (1, 0):
        told.client.submit(
            Multi((Check("/epoch", version), Create(f"/x{version}"))), told.answered,
            coordinates=True,
        )  # fmt: skip

    place.timeline.run_until(500)

    assert isinstance(told.written[2], Done)
    assert told.written[3] == Refusal(Why.BAD_VERSION, 0)
    assert place.service.fenced == 1
