"""A group has one protocol: members that rebalance by themselves keep out of a coordinator's."""

import pytest

from herdproof.consuming.offsets import NO_OFFSET
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.zookeeper.operations import Delete
from properties.protocols.self_rebalancing.core.connectors import DIRS, Group

COORDINATED = Paths()
BACKOFF_MS = 2_000


def test_both_protocols_look_at_the_same_nodes() -> None:
    """Where one protocol's members register is where the other one looks."""
    assert DIRS.subscriptions == COORDINATED.subscriptions("g")
    assert DIRS.coordinated == COORDINATED.group("g")
    assert DIRS.ids == COORDINATED.ids("g")
    assert COORDINATED.ids("a/b") == "/consumers/a%2Fb/ids"


def test_who_comes_to_a_coordinators_group_waits_until_it_has_ended() -> None:
    """It does not register, says whose group it is, and begins by itself when that is over."""
    group = Group({"t": 2})
    group.make(COORDINATED.subscription("g", "c1"), b'{"t": 1}')
    late = group.member("a")
    group.settle()

    assert group.data(DIRS.id("a")) is None
    assert late.fetches() == {}
    assert "members of another protocol (c1, below /herdproof/groups/g/subscriptions)" in late.why(
        What.NOT_REGISTERED
    )
    group.write(Delete(COORDINATED.subscription("g", "c1")))
    group.pass_time(BACKOFF_MS)
    assert len(late.fetches()) == 2


def test_of_two_that_come_at_once_this_one_withdraws() -> None:
    """A coordinator's member that was stored after the look is seen: nothing is kept."""
    group = Group({"t": 2})
    early = group.member("a")
    group.settle()
    early.resolve("t", "0", 0)
    group.settle()
    early.consume("t", "0", 5)
    group.make(COORDINATED.subscription("g", "c1"))
    group.settle()

    assert early.fetches() == {}
    assert group.owners() == {}
    assert group.stored("t", "0") == 5
    assert group.data(DIRS.id("a")) is None, "it is not in the way of whoever it gives way to"
    group.write(Delete(COORDINATED.subscription("g", "c1")))
    group.pass_time(BACKOFF_MS)
    assert early.fetches() == {("t", "0"): 5, ("t", "1"): NO_OFFSET}


@pytest.mark.parametrize("stands", [True, False], ids=["of a coordinator", "of nobody known"])
def test_owners_that_a_coordinator_has_left_are_cleared(stands: bool) -> None:
    """What a coordinator's group has left is in nobody's way; what nobody's has is not touched."""
    group = Group({"t": 1})
    if stands:
        group.make(COORDINATED.group("g"), b'{"generation": 3}')
    group.make(DIRS.owner(("t", "0")), b'{"consumer": "c1", "member": "1-1"}')
    late = group.member("a")
    group.settle()

    if stands:
        assert group.owners() == {"0": "a-0"}
        return
    assert late.fetches() == {}
    assert "/consumers/g/owners/t/0 is persistent" in late.why(What.ATTEMPT_FAILED)
    group.delete(DIRS.owner(("t", "0")))
    group.pass_time(BACKOFF_MS)
    assert group.owners() == {"0": "a-0"}
