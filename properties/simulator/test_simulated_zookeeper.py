"""The simulated ZooKeeper keeps what ZooKeeper promises; no service is needed to see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.simulator.tree import split
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Check,
    Children,
    Create,
    Data,
    Delete,
    Exists,
    Found,
    Get,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Stat,
    Sync,
    Synced,
    Watched,
    Why,
)
from integration.zookeeper.histories import (
    Close,
    Cut,
    Do,
    Expire,
    History,
    Open,
    Simulated,
    Step,
    Told,
    histories,
    invent,
    take,
)
from integration.zookeeper.mutants import (
    ChildWatchSurvivesItsNode,
    ExistsWatchesOnlyWhatStands,
    OwnChangesAreNotTold,
)

Watching: TypeAlias = Exists | Get | Children

LEADER = "/coordinator"


@pytest.fixture
def service() -> ZooKeeper:
    """A service with two sessions, 1 and 2."""
    service = ZooKeeper()
    assert (service.open(), service.open()) == (1, 2)
    return service


def names(service: ZooKeeper, path: str = "/") -> tuple[str, ...]:
    """The children of a path, in the leader's tree."""
    above = [split(other) for other in service.tree() if other != "/"]
    return tuple(sorted(name for parent, name in above if parent == path))


# Sessions


def test_an_operation_may_be_done_although_its_reply_is_lost(service: ZooKeeper) -> None:
    """The operation was done, the reply was lost: the node stands, and whose it is can be read."""
    service.perform(1, Create(LEADER, b"1", ephemeral=True))  # the answer is dropped: this is it
    service.lose_connection(1)

    again = service.perform(1, Create(LEADER, b"1", ephemeral=True))
    found = service.perform(1, Exists(LEADER))

    assert again == Refusal(Why.NODE_EXISTS)
    assert isinstance(found, Found)
    assert found.stat is not None
    assert found.stat.ephemeral_owner == 1


@pytest.mark.parametrize("end", [ZooKeeper.close, ZooKeeper.expire])
def test_the_ephemerals_of_a_session_go_with_it(
    service: ZooKeeper, end: Callable[[ZooKeeper, int], None]
) -> None:
    """When a session ends, by its client or by the service, its ephemerals go, no others."""
    service.perform(1, Create("/kept"))
    service.perform(1, Create("/gone", ephemeral=True))
    service.perform(2, Create("/other", ephemeral=True))

    end(service, 1)

    assert names(service) == ("kept", "other")
    assert service.perform(1, Exists("/kept")) == Refusal(Why.SESSION_EXPIRED)
    assert (service.alive(1), service.alive(2)) == (False, True)


def test_an_unknown_session_is_misuse(service: ZooKeeper) -> None:
    """A session that was never opened is the caller's mistake, and is named."""
    with pytest.raises(ValueError, match=r"session 3 was never opened \(known: 1 to 2\)"):
        service.perform(3, Sync())


# Watches


def test_a_watch_fires_once(service: ZooKeeper) -> None:
    """A watch fires for the first change, and for no other."""
    service.perform(1, Exists("/a", watch=True))
    service.perform(2, Create("/a"))
    service.perform(2, Set("/a", b"1"))

    assert service.take_events(1) == (Watched("/a", NodeChange.CREATED),)
    assert service.take_events(1) == ()


def test_a_session_is_told_of_its_own_changes(service: ZooKeeper) -> None:
    """One's own change fires one's own watch."""
    service.perform(1, Create("/a"))
    service.perform(1, Get("/a", watch=True))
    service.perform(1, Set("/a", b"1"))

    assert service.take_events(1) == (Watched("/a", NodeChange.DATA),)


def test_a_deletion_is_told_once_to_a_session_with_both_watches(service: ZooKeeper) -> None:
    """A session that watches a node's data and its children is told once that it is gone."""
    service.perform(1, Create("/a"))
    service.perform(1, Get("/a", watch=True))
    service.perform(1, Children("/a", watch=True))
    service.perform(1, Children("/", watch=True))
    service.perform(2, Delete("/a"))
    service.perform(2, Create("/a"))

    assert service.take_events(1) == (
        Watched("/a", NodeChange.DELETED),
        Watched("/", NodeChange.CHILDREN),
    )


@pytest.mark.parametrize("read", [Get("/a", watch=True), Children("/a", watch=True)])
def test_only_exists_watches_what_is_not_there(service: ZooKeeper, read: Operation) -> None:
    """A refused read leaves no watch."""
    assert service.perform(1, read) == Refusal(Why.NO_NODE)
    service.perform(2, Create("/a"))

    assert service.take_events(1) == ()


def test_a_connection_takes_its_watches_with_it(service: ZooKeeper) -> None:
    """What was sent before a connection broke stays with the client; nothing comes later."""
    service.perform(1, Exists("/a", watch=True))
    service.perform(1, Exists("/b", watch=True))
    service.perform(2, Create("/a"))
    service.lose_connection(1)
    service.perform(2, Create("/b"))

    assert service.take_events(1) == (Watched("/a", NodeChange.CREATED),)


# Misuse, and what a client refuses


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a\0"])
def test_what_cannot_be_a_path_is_refused(service: ZooKeeper, path: str) -> None:
    """No node can have this path: bad arguments, in a multi with the operation to blame."""
    assert service.perform(1, Get(path)) == Refusal(Why.BAD_ARGUMENTS)
    assert service.perform(1, Multi((Create("/a"), Create(path)))) == Refusal(Why.BAD_ARGUMENTS, 1)


# Multi


def test_a_multi_is_done_whole_or_not_at_all(service: ZooKeeper) -> None:
    """A refused multi names the operation to blame, changes nothing and fires nothing."""
    service.perform(1, Create("/epoch", b"7"))
    service.perform(2, Exists(LEADER, watch=True))
    before = service.tree()

    answer = service.perform(1, Multi((Create(LEADER), Check("/epoch", 0), Set("/epoch", b"8", 1))))

    assert answer == Refusal(Why.BAD_VERSION, 2)
    assert service.tree() == before
    assert service.take_events(2) == ()


def test_a_multi_sees_its_own_changes(service: ZooKeeper) -> None:
    """A later operation of a multi sees the earlier ones, and all bear one transaction's id."""
    service.perform(1, Multi((Create("/a"), Create("/a/b"), Set("/a", b"1", 0), Check("/a", 1))))

    (_, above), (_, below) = service.tree()["/a"], service.tree()["/a/b"]
    assert above.czxid == above.mzxid == below.czxid
    assert (above.version, above.cversion, above.num_children) == (1, 1, 1)


# Servers that lag


def test_a_lagging_server_serves_old_reads(service: ZooKeeper) -> None:
    """A session of a lagging server reads what was, until it writes or syncs."""
    service.fall_behind(1)
    service.perform(2, Create("/a", b"new"))

    assert service.perform(1, Children("/")) == Names(())
    assert service.perform(1, Get("/a")) == Refusal(Why.NO_NODE)
    assert service.perform(1, Sync()) == Synced()
    assert service.perform(1, Children("/")) == Names(("a",))


def test_the_writer_reads_its_own_write(service: ZooKeeper) -> None:
    """A write, even a refused one, is answered by a server that has caught up."""
    service.fall_behind(1)
    service.perform(2, Create("/a"))

    assert service.perform(1, Create("/a")) == Refusal(Why.NODE_EXISTS)
    assert service.perform(1, Children("/")) == Names(("a",))


def test_a_watch_on_an_old_view_fires_when_the_server_catches_up(service: ZooKeeper) -> None:
    """A watch that is set on what has changed already is not lost: it fires late."""
    service.perform(2, Create("/a"))
    service.fall_behind(1)
    service.perform(2, Delete("/a"))
    service.perform(2, Create("/a", b"another"))
    assert isinstance(service.perform(1, Get("/a", watch=True)), Data)
    assert service.take_events(1) == ()

    service.catch_up(1)

    assert service.take_events(1) == (Watched("/a", NodeChange.DELETED),)


def test_events_keep_the_order_of_the_changes(service: ZooKeeper) -> None:
    """A server that catches up applies what it missed in order, then the write that waits."""
    service.perform(1, Exists("/a", watch=True))
    service.perform(1, Exists("/b", watch=True))
    service.perform(1, Exists("/c", watch=True))
    service.fall_behind(1)
    service.perform(2, Create("/b"))
    service.perform(2, Create("/a"))
    assert service.take_events(1) == ()

    service.perform(1, Create("/c"))

    assert [event.path for event in service.take_events(1)] == ["/b", "/a", "/c"]


# Any history, with servers that lag

LAST = 30
"""More steps than a history has."""

lags = st.lists(st.sampled_from(("", "", "behind", "up")), min_size=LAST, max_size=LAST)
"""What the server of the session that took each step does then: begin or cease to lag."""


def run(world: Simulated, history: History, lags: Sequence[str]) -> Iterator[tuple[Step, Told]]:
    """Run a history, step by step, with what was told in each; no number is made relative."""
    for step, lag in zip(history, lags, strict=False):
        told = Told(take(step, world), world.events())
        if lag and not isinstance(step, Open):
            session = world.identities()[step.who]
            if lag == "behind":
                world.service.fall_behind(session)
            else:
                world.service.catch_up(session)
        yield step, told


class Memory:
    """What clients may believe: watched reads, until an event or a broken link ends them."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, Watching], object] = {}

    def forget(self, who: int, event: Watched | None = None) -> None:
        """A session was told of a change, or lost its connection."""
        for by, read in list(self.known):
            if by == who and (event is None or concerns(event, read)):
                del self.known[by, read]

    def learn(self, step: Step, told: Told) -> None:
        """Take in what one step told."""
        for who, events in enumerate(told.events):
            for event in events:
                self.forget(who, event)
        match step:
            case Close(who) | Expire(who) | Cut(who):
                self.forget(who)
            case Do(who, (Exists() | Get() | Children()) as read) if read.watch:
                if told.answer != Refusal(Why.NO_NODE):
                    self.known[who, read] = essence(told.answer)


def concerns(event: Watched, read: Watching) -> bool:
    """Whether an event tells that what was read has changed."""
    of_children = event.change is NodeChange.CHILDREN
    fitting = event.change is NodeChange.DELETED or of_children is isinstance(read, Children)
    return fitting and event.path == Simulated.root + read.path


def essence(answer: object) -> object:
    """What a watch speaks of: not how many children a node has had."""
    match answer:
        case Found(Stat() as stat) | Data(_, stat):
            return stat.czxid, stat.mzxid, stat.version
    return answer


def false_beliefs(world: Simulated, history: History, lags: Sequence[str]) -> list[Watching]:
    """The watched reads that are no longer true, once all is at rest, and that nobody was told."""
    memory = Memory()
    for step, told in run(world, history, lags):
        memory.learn(step, told)
    for session in world.identities():
        world.service.catch_up(session)
    memory.learn(Open(), Told(None, world.events()))
    return [
        read
        for (who, read), known in memory.known.items()
        if essence(take(Do(who, replace(read, watch=False)), world)) != known
    ]


@given(histories(), lags)
def test_what_was_read_with_a_watch_is_true_at_rest(history: History, lags: list[str]) -> None:
    """Whatever was read with a watch holds, unless the watch fired or the connection broke."""
    assert not false_beliefs(Simulated(), history, lags)


class CatchingUpTellsNothing(ZooKeeper):
    """A watch that was set on an old view does not fire for what that view did not show."""

    def catch_up(self, session: int) -> None:
        """Forget what was missed."""
        self._put(session, self._session(session)._replace(view=None, missed=()))


@pytest.mark.parametrize(
    "mutant",
    [
        CatchingUpTellsNothing,
        OwnChangesAreNotTold,
        ExistsWatchesOnlyWhatStands,
        ChildWatchSurvivesItsNode,
    ],
)
def test_a_watch_that_gets_lost_is_found(mutant: type[ZooKeeper]) -> None:
    """Where watches get lost, some history leaves a client with a false belief."""
    behaviours = ("", "", "behind", "up")

    def misleads(seed: int) -> bool:
        chance = Random(seed)
        history, lags = invent(chance), chance.choices(behaviours, k=LAST)
        return bool(false_beliefs(Simulated(mutant), history, lags))

    assert any(misleads(seed) for seed in range(300))


@given(histories(), lags)
def test_the_tree_is_whole(history: History, lags: list[str]) -> None:
    """Parents stand and know their children; an ephemeral has a living owner and no children."""
    world = Simulated()
    for _ in run(world, history, lags):
        tree = world.service.tree()
        for path, (data, stat) in tree.items():
            assert path == "/" or split(path)[0] in tree
            assert stat.num_children == len(names(world.service, path))
            assert stat.data_length == len(data)
            assert stat.czxid <= stat.mzxid
            if stat.ephemeral_owner:
                assert world.service.alive(stat.ephemeral_owner)
                assert not stat.num_children


@given(histories(), lags)
def test_a_refusal_changes_nothing(history: History, lags: list[str]) -> None:
    """What is refused leaves the tree as it was."""
    world = Simulated()
    before = world.service.tree()
    for _, told in run(world, history, lags):
        if isinstance(told.answer, Refusal):
            assert world.service.tree() == before
        before = world.service.tree()


@given(histories(), lags, st.integers(0, LAST))
def test_a_snapshot_is_a_place_to_go_back_to(history: History, lags: list[str], place: int) -> None:
    """After going back to a snapshot, the same steps tell the same, to the last number."""
    world = Simulated()
    for _ in run(world, history[:place], lags):
        pass
    snapshot = world.service.snapshot()
    first = list(run(world, history[place:], lags[place:]))

    world.service.restore(snapshot)

    assert world.service.snapshot() == snapshot
    assert list(run(world, history[place:], lags[place:])) == first
