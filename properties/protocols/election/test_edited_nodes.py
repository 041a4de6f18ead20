"""
The elector's core where somebody edits its nodes by hand: what no election comes to.

So no run of the spec has it, and no walk along its graph: a leader whose node is deleted, or stands
there again as another's, while its session lives.
"""

from __future__ import annotations

from collections import deque

import pytest

from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Effect,
    ElectionPaths,
    Elector,
    Event,
    LeaderChanged,
    LeadershipLost,
    LeadershipWon,
    LinkChanged,
    OperationAnswered,
    Stand,
    Wake,
    Woken,
    leader_data,
)
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Create, Delete, Link, Set

PATHS = ElectionPaths()


class Played:
    """One elector over a simulated ZooKeeper, in which an operator does as the test says."""

    def __init__(self) -> None:
        self.zookeeper = ZooKeeper()
        self.operator, self.session = self.zookeeper.open(), self.zookeeper.open()
        self.zookeeper.make(self.operator, PATHS.epoch)
        self.core = Elector("1")
        self.told: list[LeadershipWon | LeadershipLost] = []
        self.give(LinkChanged(Link.CONNECTED, self.session), Stand())

    def give(self, *events: Event) -> None:
        """Give the core events, and all that follows from them."""
        inbox: deque[Event] = deque(events)
        while inbox:
            for effect in self.core.receive(inbox.popleft()):
                inbox.extend(self._carried_out(effect))

    def _carried_out(self, effect: Effect) -> list[Event]:
        match effect:
            case AskZooKeeper(number=number, operation=operation):
                answer = self.zookeeper.perform(self.session, operation)
                return [*self._watches(), OperationAnswered(number, answer)]
            case Wake():
                return [Woken()]
            case LeadershipWon() | LeadershipLost():
                self.told.append(effect)
        return []

    def _watches(self) -> list[Event]:
        return [LeaderChanged() for _ in self.zookeeper.take_events(self.session)]

    def edit(self, *operations: Create | Delete | Set) -> None:
        """Let the operator do this, before the core hears of any of it."""
        for operation in operations:
            self.zookeeper.perform(self.operator, operation)
        self.give(*self._watches())


def another(*, ephemeral: bool) -> Create:
    """Another's node under the leader's path."""
    return Create(PATHS.leader, leader_data("2", 2), ephemeral=ephemeral)


@pytest.mark.parametrize("ephemeral", [True, False], ids=["of a session", "of nobody"])
def test_a_leader_that_sees_another_s_node_under_its_own_path_leads_no_more(
    ephemeral: bool,
) -> None:
    """Its session lives, and its node is not its own: it steps down, and waits for that to go."""
    played = Played()
    assert played.told == [LeadershipWon(1)]

    played.edit(Delete(PATHS.leader), another(ephemeral=ephemeral))

    assert played.told == [LeadershipWon(1), LeadershipLost(1)]
    assert not played.core.leads

    played.edit(Delete(PATHS.leader))

    assert played.told == [LeadershipWon(1), LeadershipLost(1), LeadershipWon(2)]


def test_a_leader_whose_node_is_deleted_stands_again() -> None:
    """Nobody leads without a node: it steps down first, and is elected in another epoch."""
    played = Played()

    played.edit(Delete(PATHS.leader))

    assert played.told == [LeadershipWon(1), LeadershipLost(1), LeadershipWon(2)]


def test_a_leader_whose_node_is_written_over_leads_on() -> None:
    """What the node says is for others: whose it is, its session tells."""
    played = Played()

    played.edit(Set(PATHS.leader, leader_data("2", 7)))

    assert played.told == [LeadershipWon(1)]
    assert played.core.leads
