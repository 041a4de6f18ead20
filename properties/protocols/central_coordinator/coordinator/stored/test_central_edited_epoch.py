"""
Somebody edits the election's epoch node by hand, while a coordinator stands.

No election does that: whoever counts the epoch up creates the leader's node with it. So the fence
refuses the leader, whose node stands nevertheless, in its own session; it must give that node up,
and the next epoch be won, or nobody would ever coordinate again.

Reference: PROTOCOLS.md, "Election" (the ruling on fencing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from herdproof.protocols.central_coordinator.events import Elected, Report
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.world import Run, RunOutcome
from herdproof.protocols.election.elector import (
    ElectionPaths,
    Elector,
    LeaderChanged,
    LinkChanged,
    Resign,
    Stand,
    fenced,
    read_leader,
)
from herdproof.protocols.election.gate import Shell
from herdproof.simulator.process import Process
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Data,
    Delete,
    Done,
    Get,
    Link,
    Multi,
    Operation,
    Refusal,
    Set,
    Why,
)

PATHS = ElectionPaths()
EDITED_MS = 8_000
QUIET = Config(faults=0, duration_ms=30_000, quiet_ms=15_000, settle_ms=10_000)


class Broker:
    """An elector on a ZooKeeper that answers at once; every call is noted."""

    def __init__(self, zookeeper: ZooKeeper, name: str) -> None:
        self.zookeeper = zookeeper
        self.session = zookeeper.open()
        self.told: list[int] = []
        self.asked: list[Operation] = []
        self.shell = Shell(
            Elector(name), elected=self.told.append, deposed=lambda epoch: self.told.append(-epoch)
        )
        self.core = self.shell.core
        self.give(LinkChanged(Link.CONNECTED, self.session))
        self.give(Stand())

    def give(self, event: Stand | Resign | LinkChanged | LeaderChanged) -> None:
        """Give the elector an event, and answer what it asks until it asks no more."""
        self.shell.post(event)
        for _ in range(100):
            while self.shell.inbox:
                self.shell.take()
            if self.shell.outbox:
                self.shell.release(self._submit)
            elif self.zookeeper.take_events(self.session):
                self.shell.post(LeaderChanged())
            else:
                return
        raise AssertionError("the elector asks for ever")

    def _submit(self, operation: Operation, answer: object) -> None:
        assert callable(answer)
        self.asked.append(operation)
        answer(self.zookeeper.perform(self.session, operation))

    def step_down(self) -> None:
        """What its owner does when the fence has refused a write: resign, and stand anew."""
        self.give(Resign())
        self.give(Stand())

    def write(self) -> Answer:
        """A write of its owner's, in the epoch that it leads in."""
        data = str(self.told).encode()
        return self.zookeeper.perform(
            self.session, fenced(PATHS, self.core.token, (Set("/plan", data),))
        )


@pytest.fixture
def zookeeper() -> ZooKeeper:
    """A ZooKeeper with the election's nodes."""
    zookeeper = ZooKeeper()
    operator = zookeeper.open()
    for path in ("/herdproof", "/herdproof/election", PATHS.epoch, "/plan"):
        zookeeper.perform(operator, Create(path))
    return zookeeper


def edit(zookeeper: ZooKeeper) -> None:
    """Somebody sets the epoch's node by hand."""
    assert not isinstance(zookeeper.perform(zookeeper.open(), Set(PATHS.epoch, b"me")), Refusal)


def leader(zookeeper: ZooKeeper) -> tuple[str, int]:
    """What the leader's node says."""
    found = zookeeper.perform(zookeeper.open(), Get(PATHS.leader))
    return read_leader(found.data) if isinstance(found, Data) else ("", 0)


def test_a_leader_that_the_fence_refuses_wins_a_new_epoch(zookeeper: ZooKeeper) -> None:
    """It was elected in 1, the epoch was set to 2 by hand: it gives its node up, and wins 3."""
    broker = Broker(zookeeper, "a")
    assert broker.told == [1]
    edit(zookeeper)
    assert broker.write() == Refusal(Why.BAD_VERSION, 0)

    broker.step_down()

    assert broker.told == [1, -1, 3]
    assert leader(zookeeper) == ("a", 3)
    assert isinstance(broker.write(), Done)


def test_another_one_may_win_it_instead(zookeeper: ZooKeeper) -> None:
    """Whose node of a past epoch is given up is not the leader any more: the others stand, too."""
    a, b = Broker(zookeeper, "a"), Broker(zookeeper, "b")
    edit(zookeeper)
    a.give(Resign())
    b.give(LeaderChanged())
    assert b.told == []  # the node stands: it could not be deleted under the epoch of its own

    a.give(Stand())
    b.give(LeaderChanged())

    assert a.told + b.told == [1, -1, 3]
    assert isinstance((a if a.core.leads else b).write(), Done)


def test_it_may_be_edited_again_and_again(zookeeper: ZooKeeper) -> None:
    """Each time the next epoch is won, and none is told twice."""
    broker = Broker(zookeeper, "a")
    for _ in range(3):
        edit(zookeeper)
        broker.step_down()

    assert broker.told == [1, -1, 3, -3, 5, -5, 7]


def test_who_stays_out_gives_its_node_up_when_it_sees_it(zookeeper: ZooKeeper) -> None:
    """Only one who has seen that the node is its own session's deletes it without the fence."""
    a, b = Broker(zookeeper, "a"), Broker(zookeeper, "b")
    edit(zookeeper)
    a.give(Resign())
    assert leader(zookeeper) == ("a", 1)

    a.give(LinkChanged(Link.SUSPENDED, a.session))
    a.give(LinkChanged(Link.CONNECTED, a.session))
    assert leader(zookeeper) == ("", 0)
    b.give(LeaderChanged())

    assert (a.told, b.told) == ([1, -1], [3])
    assert a.asked[-1] == Multi((Delete(PATHS.leader),))


def test_a_node_of_another_session_is_never_given_up(zookeeper: ZooKeeper) -> None:
    """An expired leader's epoch is over, too; but the node that stands now is its successor's."""
    a = Broker(zookeeper, "a")
    zookeeper.expire(a.session)
    b = Broker(zookeeper, "b")
    assert b.told == [2]
    a.session = zookeeper.open()

    a.give(Resign())
    a.give(LinkChanged(Link.CONNECTED, a.session))
    a.give(Stand())

    assert a.told == [1, -1]
    assert leader(zookeeper) == ("b", 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_groups_are_coordinated_again(seed: int) -> None:
    """In the whole world: one step down, one more election, and every promise is kept."""
    told: Counter[str] = Counter()
    epochs: list[int] = []

    def observe(_: Process, event: object, effects: Sequence[object]) -> None:
        if isinstance(event, Elected):
            epochs.append(event.epoch)
        told.update(e.what for e in effects if isinstance(e, Report))

    run = Run(seed, QUIET, [], observe)
    run.timeline.at(EDITED_MS, edit, run.service.zookeeper)
    outcome: RunOutcome = run.run()

    assert outcome.violation is None, str(outcome)
    assert told["stepped_down"] == 1
    assert epochs == [1, 3]
