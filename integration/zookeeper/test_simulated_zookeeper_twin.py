"""
The simulated ZooKeeper and the real one are twins: they tell the same of the same histories.

One step at a time, they must agree exactly: on every answer, and on every watch event of every
session. Where several clients act at once, the real outcome must be one of those that the simulator
reaches by some interleaving. And the comparison can fail: for each of many planted mistakes, the
real service tells something else than the mistaken simulator.
"""

from __future__ import annotations

import itertools
import queue
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings

from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.client import Client, expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Check,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Done,
    Exists,
    Found,
    Link,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Synced,
    Watched,
    Why,
)
from integration.zookeeper.histories import (
    BEGINNINGS,
    Close,
    Cut,
    Do,
    Events,
    Expire,
    History,
    Open,
    Simulated,
    Transcript,
    World,
    below,
    histories,
    invent,
    invent_operation,
    relative,
    tell,
)
from integration.zookeeper.mutants import MUTANTS

pytestmark = pytest.mark.real

STEPS = (Open, Close, Expire, Cut, Do)
ANSWERS = (Created, Deleted, Changed, Done, Found, Data, Names, Synced)
REFUSALS = (
    Why.NO_NODE,
    Why.NODE_EXISTS,
    Why.BAD_VERSION,
    Why.NOT_EMPTY,
    Why.NO_CHILDREN_FOR_EPHEMERALS,
    Why.BAD_ARGUMENTS,
)

BATCH = 150
"""Histories of which the real service's transcript judges the simulator and its mutants."""

RACES = 150
"""Plans that clients carry out at once."""

SEVERAL = 5
"""How often the batch must at least show a thing."""

PATIENCE_S = 20.0
"""How long the real service may take for anything; it takes milliseconds."""

ONCE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


Outcome: TypeAlias = tuple[tuple[Watched | Answer, ...], ...]
"""What each client was told, in its order: watch events and answers."""


class Member:
    """A client of the real service, and the stream of what it was told: events and answers."""

    def __init__(self, hosts: str) -> None:
        """Open a session."""
        self.stream: list[Watched | Answer] = []
        self._links: queue.SimpleQueue[tuple[Link, int]] = queue.SimpleQueue()
        self.client = Client(
            hosts, session_timeout_s=PATIENCE_S, on_link=self._linked, on_watch=self.stream.append
        )
        self.client.start()
        self.session, self.password = self.client.session, self.client.password
        self.await_link(Link.CONNECTED)

    def _linked(self, link: Link, session: int) -> None:
        self._links.put((link, session))

    def await_link(self, *links: Link) -> None:
        """Wait until the client was told of exactly these changes of its link."""
        for link in links:
            assert self._links.get(timeout=PATIENCE_S) == (link, self.session)

    def submit(self, operation: Operation) -> None:
        """Have an operation performed; its answer goes into the stream."""
        self.client.submit(operation, self.stream.append)

    def take(self, root: str) -> list[Watched | Answer]:
        """The stream since the last call, without what is told of other histories."""
        told = list(self.stream)
        self.stream.clear()
        return [it for it in told if not isinstance(it, Watched) or it.path.startswith(root)]


class Service:
    """A real ZooKeeper and sessions that wait to be used again: to open one takes milliseconds."""

    def __init__(self, hosts: str) -> None:
        """A service at this address."""
        self.hosts = hosts
        self.idle: list[Member] = []
        self._admin = Member(hosts)
        self._roots = itertools.count()

    def new_root(self) -> str:
        """Make a node below which nothing has happened."""
        root = f"/history{next(self._roots):06}"
        assert self.ask(Create(root)) == Created(root)
        return root

    def ask(self, operation: Operation) -> Answer:
        """Perform an operation outside of any history."""
        return self._admin.client.perform(operation, PATIENCE_S)

    def member(self) -> Member:
        """A session that has nothing to do with any new root."""
        return self.idle.pop() if self.idle else Member(self.hosts)

    def close(self) -> None:
        """End all sessions."""
        for member in (self._admin, *self.idle):
            member.client.close()


class Real:
    """A history's world on the real service."""

    def __init__(self, service: Service) -> None:
        """A world below a root of its own."""
        self.root = service.new_root()
        self._service = service
        self._members: list[Member] = []
        self._over: set[int] = set()

    def open(self) -> None:
        """Open the next session, or use one again."""
        self._members.append(self._service.member())

    def close(self, who: int) -> None:
        """The client ends its session."""
        self._over.add(who)
        self._members[who].client.close()

    def expire(self, who: int) -> None:
        """The server ends the session; the client is gone, as those of expired sessions are."""
        self._over.add(who)
        member = self._members[who]
        member.client.abandon()
        expire_session(self._service.hosts, member.session, member.password)

    def cut(self, who: int) -> None:
        """The server breaks the connection; the client comes back by itself."""
        member = self._members[who]
        break_connection(self._service.hosts, member.session, member.password)
        member.await_link(Link.SUSPENDED, Link.CONNECTED)

    def perform(self, who: int, operation: Operation) -> Answer:
        """Perform one operation."""
        return self._members[who].client.perform(operation, PATIENCE_S)

    def submit(self, who: int, operation: Operation) -> None:
        """Have an operation performed; do not wait for it."""
        self._members[who].submit(operation)

    def rest(self) -> None:
        """
        Wait until each session was told all that it will be told of what has been done.

        Each connection keeps order, so an answer to something asked now comes after all events
        of what was done before, and after the answers to what the session asked before.
        """
        living = [m for who, m in enumerate(self._members) if who not in self._over]
        fences = [threading.Event() for _ in living]
        for member, fence in zip(living, fences, strict=True):
            member.client.submit(Exists(self.root), partial(ring, fence))
        assert all(fence.wait(PATIENCE_S) for fence in fences)

    def streams(self) -> Outcome:
        """What each session was told since the last call, once everything is at rest."""
        self.rest()
        return tuple(tuple(member.take(self.root)) for member in self._members)

    def events(self) -> Events:
        """The watch events since the last call, once everything is at rest."""
        return tuple(
            tuple(it for it in stream if isinstance(it, Watched)) for stream in self.streams()
        )

    def identities(self) -> Sequence[int]:
        """The service's own id of each session."""
        return [member.session for member in self._members]

    def leave(self) -> None:
        """Give living sessions back; their watches below this root never fire again."""
        living = (m for who, m in enumerate(self._members) if who not in self._over)
        self._service.idle.extend(living)


def ring(fence: threading.Event, _: Answer) -> None:
    """The answer at a fence has come."""
    fence.set()


def break_connection(hosts: str, session: int, password: bytes) -> None:
    """
    Make the server break a session's connection, as a network may: take the session over, hang up.

    Source: `ConnectRequest` and `ConnectResponse` of ZooKeeper's protocol (zookeeper.jute).
    """
    host, _, port = hosts.partition(":")
    timeout_ms = int(PATIENCE_S * 1000)
    hello = struct.pack("!iqiqi16s?", 0, 0, timeout_ms, session, 16, password, False)
    with (
        socket.create_connection((host, int(port)), PATIENCE_S) as line,
        line.makefile("rb") as ear,
    ):
        line.sendall(struct.pack("!i", len(hello)) + hello)
        reply = ear.read(16)  # its head; nothing, if the client has taken its session back already
    if reply:
        _, _, granted_ms, _ = struct.unpack("!iiii", reply)
        assert granted_ms > 0, "the session had ended"


@pytest.fixture(scope="module")
def service(zookeeper: EmbeddedZooKeeper) -> Iterator[Service]:
    """A real ZooKeeper of one server."""
    service = Service(zookeeper.hosts)
    yield service
    service.close()


# One step at a time


def tell_really(history: History, service: Service) -> Transcript:
    """Run a history on the real service."""
    world = Real(service)
    try:
        return tell(history, world)
    finally:
        world.leave()


def agree(history: History, real: Transcript) -> None:
    """The simulator tells what the real service told."""
    simulated = tell(history, Simulated())
    for number, (step, one, other) in enumerate(zip(history, simulated, real, strict=True)):
        assert one == other, f"step {number}, {step}: simulated {one}, real {other}"


@pytest.fixture(scope="module")
def recorded(service: Service) -> list[tuple[History, Transcript]]:
    """What the real service tells of a fixed batch of histories."""
    batch = [invent(Random(seed)) for seed in range(BATCH)]
    return [(history, tell_really(history, service)) for history in batch]


def test_the_twins_tell_the_same_of_a_fixed_batch(
    recorded: list[tuple[History, Transcript]], report: Callable[[str], None]
) -> None:
    """The simulated ZooKeeper and the real one tell the same of many histories, step by step."""
    for history, real in recorded:
        agree(history, real)

    steps = sum(len(history) for history, _ in recorded)
    report(f"twin ZooKeepers: {len(recorded)} histories, {steps} steps, no difference")


def test_the_batch_shows_what_zookeeper_can_do(
    recorded: list[tuple[History, Transcript]],
) -> None:
    """The batch has every step, every answer, every refusal and every change, several times."""
    seen: Counter[object] = Counter()
    for history, transcript in recorded:
        seen.update(type(step) for step in history)
        for told in transcript:
            answer = told.answer
            seen[answer.why if isinstance(answer, Refusal) else type(answer)] += 1
            seen.update(event.change for events in told.events for event in events)

    assert not [what for what in (*STEPS, *ANSWERS, *REFUSALS, *NodeChange) if seen[what] < SEVERAL]


@settings(ONCE, max_examples=40)
@given(history=histories())
def test_the_twins_tell_the_same_of_any_history(service: Service, history: History) -> None:
    """The twins tell the same of histories that nobody has seen before."""
    agree(history, tell_really(history, service))


@pytest.mark.parametrize(
    "operation",
    [Create("/"), Delete("/"), Multi((Create("/"),)), Multi((Check("/", 7), Delete("/")))],
    ids=str,
)
def test_the_twins_tell_the_same_of_the_root(service: Service, operation: Operation) -> None:
    """The root of all can neither be made nor deleted, and both say so in the same way."""
    simulated = ZooKeeper()

    assert service.ask(operation) == simulated.perform(simulated.open(), operation)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_twins_tell_the_same_of_many_long_histories(service: Service) -> None:
    """The twins tell the same of a thousand histories, twice as long."""
    for seed in range(BATCH, BATCH + 1000):
        history = invent(Random(seed), steps=40)
        agree(history, tell_really(history, service))


# Planted mistakes


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_mistake_is_found(
    mutant: type[ZooKeeper],
    recorded: list[tuple[History, Transcript]],
    report: Callable[[str], None],
) -> None:
    """A simulator with a planted mistake tells something else than the real service did."""
    wrong = [tell(history, Simulated(mutant)) != real for history, real in recorded]

    assert any(wrong), f"no history tells {mutant.__name__} from the real service"
    report(
        f"twin ZooKeepers: {mutant.__name__} is found by history {wrong.index(True) + 1},"
        f" {sum(wrong)} of {len(wrong)} find it"
    )


# Several clients at once


@dataclass(frozen=True)
class Race:
    """What one client does first, and what several then submit at once, without waiting."""

    first: tuple[Operation, ...]
    plans: tuple[tuple[Operation, ...], ...]


def invent_race(chance: Random) -> Race:
    """Two or three clients with two or three operations each, on what one of them has made."""
    first = tuple(step.operation for step in chance.choice(BEGINNINGS))
    standing = frozenset({"", *(one.path for one in first if isinstance(one, Create))})
    lengths = chance.choice(((2, 2), (2, 3), (3, 3), (2, 2, 2)))
    plans = (tuple(invent_operation(chance, standing) for _ in range(n)) for n in lengths)
    return Race(first, tuple(plans))


def race_really(race: Race, service: Service) -> Outcome:
    """The outcome on the real service."""
    world = Real(service)
    begin(race, world)
    for turn in itertools.zip_longest(*race.plans):
        for who, operation in enumerate(turn):
            if operation is not None:
                world.submit(who, below(world.root, operation))
    world.rest()  # now all have been answered; the events that this brought may be on their way
    outcome = relative(world.streams(), world)
    world.leave()
    return outcome


def begin(race: Race, world: World) -> None:
    """Open the sessions, and let the first one do what is done first."""
    for _ in race.plans:
        world.open()
    for operation in race.first:
        world.perform(0, below(world.root, operation))
    world.events()


def possible_outcomes(race: Race) -> set[Outcome]:
    """The outcomes on the simulator, over all interleavings that keep each client's order."""
    world = Simulated()
    begin(race, world)
    outcomes: set[Outcome] = set()
    explore(world, race.plans, tuple(() for _ in race.plans), outcomes)
    return outcomes


def explore(
    world: Simulated, left: tuple[tuple[Operation, ...], ...], told: Outcome, found: set[Outcome]
) -> None:
    """Let each client that has something left to do go next, and so on from there."""
    if not any(left):
        found.add(relative(told, world))
    here = world.service.snapshot()
    for who, plan in enumerate(left):
        if plan:
            answer = world.perform(who, below(world.root, plan[0]))
            news = tuple(
                stream + events + ((answer,) if other == who else ())
                for other, (stream, events) in enumerate(zip(told, world.events(), strict=True))
            )
            explore(world, (*left[:who], plan[1:], *left[who + 1 :]), news, found)
            world.service.restore(here)


def outcome_in_turn(race: Race) -> Outcome:
    """The outcome on the simulator if one client acts after the other."""
    world = Simulated()
    begin(race, world)
    told: list[list[Watched | Answer]] = [[] for _ in race.plans]
    for who, plan in enumerate(race.plans):
        for operation in plan:
            answer = world.perform(who, below(world.root, operation))
            for stream, events in zip(told, world.events(), strict=True):
                stream += events
            told[who].append(answer)
    return relative(tuple(map(tuple, told)), world)


def test_what_really_happens_at_once_is_possible(
    service: Service, report: Callable[[str], None]
) -> None:
    """Of clients that act at once, the real outcome is that of some interleaving."""
    uncertain, interleaved = 0, 0
    for seed in range(RACES):
        race = invent_race(Random(seed))
        possible = possible_outcomes(race)
        real = race_really(race, service)
        assert real in possible, f"{race} really came out as {real}"
        uncertain += len(possible) > 1
        interleaved += real != outcome_in_turn(race)

    assert interleaved, "the clients never came between each other: this showed nothing"
    report(
        f"twin ZooKeepers: {RACES} races, {uncertain} with several possible outcomes,"
        f" {interleaved} came out otherwise than one client after the other; all were possible"
    )
