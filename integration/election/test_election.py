"""What `ZkElection` promises, on a real ZooKeeper, with real faults."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

import pytest

from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Effect,
    Elector,
    Event,
    OperationAnswered,
    fenced,
)
from herdproof.protocols.election.gate import Observe, ignore_epoch
from herdproof.protocols.election.shell import ElectionOver, NeverLed, ZkElection
from herdproof.zookeeper.client import ZooKeeperUnreachable
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Link,
    Multi,
    Refusal,
    Set,
    Stat,
    Why,
)
from herdproof.zookeeper.proxy import FaultProxy
from integration.clients import connected, eventually
from integration.election.election_ground import Broker, Ground, lead

pytestmark = pytest.mark.real

ANOTHER_EPOCH = Refusal(Why.BAD_VERSION, 0)
RAPID_CHANGES = 50


@pytest.fixture
def ground(zookeeper: EmbeddedZooKeeper) -> Iterator[Ground]:
    """A place for this test's election."""
    with connected(zookeeper.hosts) as client, ExitStack() as stack:
        yield Ground(zookeeper, client, stack)


def stat_of(node: Data | None) -> Stat:
    """The stat of a node that must be there."""
    assert node is not None
    return node.stat


def when(operation: type[Create | Delete], act: Callable[[], None]) -> Observe:
    """An observer that acts just before the elector's first transaction with such an operation."""
    acted: list[Event] = []

    def observe(core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        asked = [effect.operation for effect in effects if isinstance(effect, AskZooKeeper)]
        parts = [part for ask in asked if isinstance(ask, Multi) for part in ask.operations]
        if not acted and any(isinstance(part, operation) for part in parts):
            acted.append(event)
            act()

    return observe


# ── Elections ───────────────────────────────────────────────────────────────────────────────


def test_after_a_resignation_another_leads_in_a_greater_epoch(ground: Ground) -> None:
    """One broker is elected; when it resigns, another is, in a greater epoch."""
    first, second = ground.broker("first"), ground.broker("second")
    assert lead(first) == 1
    second.stand()

    first.resign()

    eventually(second.is_leader)
    assert ground.leader() == ("second", 2)
    assert first.told == [("elected", 1), ("deposed", 1)]
    assert second.told == [("elected", 2)]
    assert not first.leads


def test_brokers_that_start_at_once_make_the_nodes_together(ground: Ground) -> None:
    """Brokers that start at the same time on an empty ZooKeeper tolerate each other."""
    brokers = [Broker(ground, f"b{n}", ground.hosts, observe=None) for n in range(3)]
    starts = [threading.Thread(target=broker.start) for broker in brokers]

    for start in starts:
        start.start()
    for start in starts:
        start.join()
    for broker in brokers:
        broker.stand()

    leading(brokers)
    assert [broker.leads for broker in brokers].count(True) == 1
    for broker in brokers:
        broker.close()


def test_fifty_rapid_changes_lose_no_watch(ground: Ground) -> None:
    """Through 50 rapid changes of leader among three brokers, somebody always leads again."""
    brokers = {name: ground.broker(name) for name in ("a", "b", "c")}
    for broker in brokers.values():
        broker.stand()

    for change in range(RAPID_CHANGES):
        leader = leading(brokers.values())
        told = len(leader.told)
        leader.resign()
        if change % 2:  # back before anybody has heard of it; it may even keep its node
            leader.stand()
            eventually(lambda who=leader, before=told: len(who.told) > before)  # type: ignore[misc]
        else:  # only the others' watches can find a successor
            leading([broker for broker in brokers.values() if broker is not leader])
            leader.stand()

    leading(brokers.values())
    leader_now = ground.leader()
    assert leader_now is not None
    assert leader_now[1] > RAPID_CHANGES / 2
    eventually(brokers[leader_now[0]].is_leader)
    assert_told_in_turns(*(broker.told for broker in brokers.values()))


def leading(brokers: Iterable[Broker]) -> Broker:
    """Wait until one of them leads; that one."""
    found: list[Broker] = []

    def anybody_leads() -> bool:
        found[:] = [broker for broker in brokers if broker.is_leader()]
        return bool(found)

    eventually(anybody_leads)
    return found[0]


def assert_told_in_turns(*histories: list[tuple[str, int]]) -> None:
    """Elected and deposed take turns, in growing epochs, and no epoch is of two brokers."""
    for told in histories:
        for (what, epoch), (then, next_epoch) in pairwise(told):
            assert (what, then) in {("elected", "deposed"), ("deposed", "elected")}
            assert next_epoch == epoch if then == "deposed" else next_epoch >= epoch
    epochs = [epoch for told in histories for epoch in {epoch for _, epoch in told}]
    assert len(epochs) == len(set(epochs))


def test_a_node_that_goes_just_after_the_look_is_noticed(ground: Ground) -> None:
    """A leader's node that goes between a broker's look and whatever it does next is noticed."""
    leader = ground.broker("leader")
    lead(leader)
    resigned: list[Event] = []

    def resign(core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, OperationAnswered) and not resigned:
            resigned.append(event)
            leader.resign()
            eventually(lambda: ground.node() is None)

    follower = ground.broker("follower", observe=resign)

    assert lead(follower) == 2
    assert isinstance(resigned[0], OperationAnswered)
    assert isinstance(resigned[0].answer, Found)


def test_a_resignation_deletes_no_successors_node(ground: Ground) -> None:
    """If somebody else removes the node, and another wins, a resignation that is late is void."""
    successor = ground.broker("successor")

    def replace() -> None:
        ground.client.perform(Delete(ground.paths.leader))
        lead(successor)

    broker = ground.broker("broker", observe=when(Delete, replace))
    lead(broker)
    broker.resign()
    eventually(successor.is_leader)
    broker.close()

    assert ground.leader() == ("successor", 2)
    assert successor.told == [("elected", 2)]


# ── Sessions ────────────────────────────────────────────────────────────────────────────────


def test_a_leader_that_is_cut_off_is_deposed_and_leads_again_in_its_epoch(
    ground: Ground, proxy: FaultProxy
) -> None:
    """A cut deposes a leader while its node still stands; back in time, it leads in its epoch."""
    broker = ground.broker("broker", proxy.hosts)
    epoch = lead(broker)
    node = stat_of(ground.node())

    proxy.refuse()
    proxy.cut()
    eventually(broker.is_deposed)
    assert broker.told == [("elected", epoch), ("deposed", epoch)]
    assert stat_of(ground.node()) == node
    proxy.accept()

    eventually(broker.is_leader)
    assert broker.told[2:] == [("elected", epoch)]
    assert stat_of(ground.node()) == node


def test_a_leader_whose_session_expires_is_replaced_and_stands_again(ground: Ground) -> None:
    """After an expiry another leads in a greater epoch, and the old leader stands again."""
    old, new = ground.broker("old"), ground.broker("new")
    assert lead(old) == 1
    new.stand()

    old.expiry(ground.hosts)()

    eventually(lambda: new.is_leader() and old.is_deposed())
    assert ground.leader() == ("new", 2)
    eventually(lambda: old.client.link is Link.CONNECTED)
    new.resign()
    eventually(old.is_leader)
    assert old.told == [("elected", 1), ("deposed", 1), ("elected", 3)]


def test_a_restarted_broker_does_not_take_its_predecessors_node_for_its_own(
    ground: Ground,
) -> None:
    """The node of a broker that crashed is not its successor's, which waits for the expiry."""
    crashed = ground.broker("broker")
    lead(crashed)
    node = stat_of(ground.node())
    expire = crashed.expiry(ground.hosts)
    crashed.abandon()

    looked: list[Event] = []
    restarted = ground.broker("broker", observe=lambda _core, event, _: looked.append(event))
    restarted.stand()
    eventually(lambda: any(isinstance(event, OperationAnswered) for event in looked))
    assert stat_of(ground.node()) == node, "the old session has not expired yet"
    assert restarted.told == []
    expire()

    eventually(restarted.is_leader)
    assert restarted.told == [("elected", 2)]
    assert stat_of(ground.node()).ephemeral_owner == restarted.client.session
    assert not crashed.leads


# ── Writes ──────────────────────────────────────────────────────────────────────────────────


def test_the_write_of_a_leader_that_expired_was_replaced_and_reconnected_is_refused(
    ground: Ground,
) -> None:
    """The very write that a leader could make is refused once another was elected, forever."""
    old, new = ground.broker("old"), ground.broker("new")
    epoch = lead(old)
    write = fenced(ground.paths, epoch, (Set(ground.plan, b"old's"),))
    assert isinstance(old.client.perform(write), Done)
    former_session = old.client.session
    old.expiry(ground.hosts)()
    lead(new)
    assert isinstance(new.write(Set(ground.plan, b"new's")), Done)
    eventually(lambda: old.client.link is Link.CONNECTED and old.client.session != former_session)

    assert old.client.perform(write) == ANOTHER_EPOCH
    assert old.write(Set(ground.plan, b"old's")) == ANOTHER_EPOCH
    assert ground.plan_now() == b"new's"

    unfenced = Multi((Set(ground.plan, b"old's"),))
    assert isinstance(old.client.perform(unfenced), Done)
    assert ground.plan_now() == b"old's", "this is what the fence is for"


def test_a_write_names_the_epoch_in_which_it_was_decided(ground: Ground) -> None:
    """A write that was decided in an earlier epoch is refused, though its broker leads again."""
    broker = ground.broker("broker")
    with pytest.raises(NeverLed, match="epochs count from 1"):
        broker.write(Set(ground.plan, b"early"))
    first = lead(broker)
    broker.resign()
    eventually(lambda: ground.node() is None)
    second = lead(broker)

    assert broker.write(Set(ground.plan, b"late"), epoch=first) == ANOTHER_EPOCH
    assert isinstance(broker.write(Set(ground.plan, b"now"), epoch=second), Done)
    assert broker.write(Delete(f"{ground.plan}/none"), epoch=second) == Refusal(Why.NO_NODE, 1)
    assert ground.plan_now() == b"now"


# ── Lost replies ────────────────────────────────────────────────────────────────────────────


def test_a_broker_whose_creation_was_done_unheard_leads_in_the_epoch_of_its_node(
    ground: Ground, proxy: FaultProxy
) -> None:
    """The reply of the creation is lost: the broker finds its node and leads in its epoch."""
    former = ground.broker("former")
    lead(former)
    former.close()
    broker = ground.broker("broker", proxy.hosts, observe=when(Create, proxy.swallow_replies))

    broker.stand()
    proxy.wait_swallowed_reply()
    node = stat_of(ground.node())
    assert broker.told == []
    proxy.cut()

    eventually(broker.is_leader)
    assert broker.told == [("elected", 2)]
    assert ground.leader() == ("broker", 2)
    assert stat_of(ground.node()) == node
    assert isinstance(broker.write(Set(ground.plan, b"mine")), Done)


def test_a_broker_whose_deletion_was_done_unheard_can_lead_again(
    ground: Ground, proxy: FaultProxy
) -> None:
    """The reply of the deletion is lost: nothing stands, and the broker may stand again."""
    broker = ground.broker("broker", proxy.hosts, observe=when(Delete, proxy.swallow_replies))
    lead(broker)

    broker.resign()
    proxy.wait_swallowed_reply()
    assert ground.node() is None
    proxy.cut()

    assert lead(broker) == 2
    assert broker.told == [("elected", 1), ("deposed", 1), ("elected", 2)]


def test_a_resignation_that_was_cut_short_is_finished_after_the_reconnection(
    ground: Ground, proxy: FaultProxy
) -> None:
    """A broker that resigned while cut off deletes its node when it is back."""
    broker, other = ground.broker("broker", proxy.hosts), ground.broker("other")
    lead(broker)
    other.stand()
    proxy.refuse()
    proxy.cut()
    eventually(broker.is_deposed)

    broker.resign()
    assert ground.leader() == ("broker", 1)
    proxy.accept()

    eventually(other.is_leader)
    assert broker.told == [("elected", 1), ("deposed", 1)]


# ── Callbacks ───────────────────────────────────────────────────────────────────────────────


def test_a_broker_that_cannot_lead_resigns(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in `on_elected` is logged and makes the broker resign; another leads."""

    def fail(epoch: int) -> None:
        raise RuntimeError(f"no disk in epoch {epoch}")

    deposed: list[int] = []
    with ZkElection(
        ground.hosts, "unable", on_elected=fail, on_deposed=deposed.append, paths=ground.paths
    ) as unable:
        unable.stand()
        eventually(lambda: deposed == [1])
        other = ground.broker("other")

        assert lead(other) == 2

        assert not unable.leads
    assert "no disk in epoch 1" in caplog.text
    caplog.clear()


def test_a_failing_on_deposed_or_observer_stops_nothing(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in `on_deposed` or in the observer is logged, and the election goes on."""

    def fail(*_told: object) -> None:
        raise RuntimeError("what now?")

    elected: list[int] = []
    with ZkElection(
        ground.hosts, "clumsy", on_elected=elected.append, on_deposed=fail, observe=fail,
        paths=ground.paths,
    ) as clumsy:  # fmt: skip
        clumsy.stand()
        eventually(lambda: elected == [1])
        clumsy.resign()
        clumsy.stand()

        eventually(lambda: len(elected) == 2)

    assert caplog.text.count("what now?") > 2


def test_a_callback_may_write(ground: Ground) -> None:
    """`on_elected` can make the leader's first write, under the epoch that it was told."""
    answers: list[Done | Refusal] = []
    election = ZkElection(
        ground.hosts,
        "eager",
        on_elected=lambda epoch: answers.append(
            election.write(Set(ground.plan, b"first"), epoch=epoch)
        ),
        on_deposed=ignore_epoch,
        paths=ground.paths,
    )

    with election:
        election.stand()
        eventually(lambda: bool(answers))

    assert isinstance(answers[0], Done)
    assert ground.plan_now() == b"first"


# ── The end ─────────────────────────────────────────────────────────────────────────────────


def test_close_resigns(ground: Ground) -> None:
    """A leader that is closed resigns, its node is gone when that returns, and nothing follows."""
    broker = ground.broker("broker")
    lead(broker)

    broker.close()
    broker.close()

    assert ground.node() is None
    assert broker.told == [("elected", 1), ("deposed", 1)]
    assert not broker.leads
    broker.stand()
    assert broker.write(Set(ground.plan, b"late")) == Refusal(Why.CONNECTION_LOSS)
    with pytest.raises(ElectionOver):
        broker.start()


def test_close_does_not_wait_for_a_network_that_is_gone(ground: Ground, proxy: FaultProxy) -> None:
    """A leader that is cut off, or that nobody answers, can be closed."""
    cut_off = ground.broker("cut off", proxy.hosts)
    lead(cut_off)
    expire = cut_off.expiry(ground.hosts)
    proxy.refuse()
    proxy.cut()
    eventually(cut_off.is_deposed)

    cut_off.close()

    expire()
    proxy.accept()
    silenced = ground.broker("silenced", proxy.hosts)
    lead(silenced)
    proxy.freeze()
    silenced.close()
    proxy.thaw()
    assert silenced.told == [("elected", 2), ("deposed", 2)]


@pytest.mark.parametrize("moment", ["on_elected", "on_deposed", "creation"])
def test_close_in_the_midst(ground: Ground, moment: str) -> None:
    """An election can be closed by its own callbacks, and while its node is being created."""
    told: list[str] = []

    def close(what: str) -> None:
        told.append(what)
        if what == moment:
            election.close()

    election = ZkElection(
        ground.hosts,
        "broker",
        on_elected=lambda _epoch: close("on_elected"),
        on_deposed=lambda _epoch: close("on_deposed"),
        paths=ground.paths,
        observe=when(Create, lambda: close("creation")),
    )
    election.start()
    election.stand()
    if moment == "on_deposed":
        eventually(lambda: election.leads)
        election.resign()

    eventually(lambda: moment in told and election.client.link is Link.LOST)
    assert ground.node() is None
    election.close()
    assert told.count("on_elected") == told.count("on_deposed")


def test_an_election_without_zookeeper_says_so(ground: Ground) -> None:
    """A start that finds no server, or no chroot, fails in one sentence; close is safe before."""
    unstarted = ZkElection("127.0.0.1:1", "a", on_elected=print, on_deposed=print)
    unstarted.close()
    with pytest.raises(ElectionOver):
        unstarted.start()
    lonely = ZkElection("127.0.0.1:1", "a", on_elected=print, on_deposed=print)
    with pytest.raises(ZooKeeperUnreachable, match=r"127\.0\.0\.1:1"):
        lonely.start(timeout_s=0.2)
    lonely.close()
    rootless = ZkElection(f"{ground.hosts}/none", "a", on_elected=print, on_deposed=print)
    with pytest.raises(ZooKeeperUnreachable, match="chroot"):
        rootless.start()


def test_a_broken_core_ends_its_part(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """If somebody deletes the epoch node, electors do not guess: they log it, and are out."""
    broker = ground.broker("broker")
    assert ground.client.perform(Exists(ground.paths.leader)) == Found(None)
    ground.client.perform(Delete(ground.paths.epoch))

    with caplog.at_level(logging.ERROR):
        broker.stand()
        eventually(lambda: broker.client.link is Link.LOST)

    assert "the epoch node" in caplog.text
    assert broker.told == []
