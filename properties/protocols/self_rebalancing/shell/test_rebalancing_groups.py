"""What operators see of groups, whatever their protocol, and may do to those without members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from herdproof.consuming.stored_groups import (
    AllGroups,
    GroupChanged,
    GroupHasMembers,
    NoSuchGroup,
)
from herdproof.consuming.subscription import Wildcard, named
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.self_rebalancing.admin import RebalancingGroups, in_words
from herdproof.protocols.self_rebalancing.registries.registrations import encoded, registration_of
from herdproof.zookeeper.operations import Answer, Create, Delete, Operation
from properties.protocols.self_rebalancing.core.connectors import DIRS, Group

COORDINATED = Paths()
T0, T1 = ("t", "0"), ("t", "1")


def all_groups(group: Group) -> AllGroups:
    """The groups as an operator sees them."""

    def ask_all(operations: Sequence[Operation]) -> list[Answer]:
        return [group.zookeeper.perform(group.operator, each) for each in operations]

    return AllGroups(ask_all)


def ended() -> Group:
    """A group whose only member has stored an offset, and has left."""
    group = Group({"t": 2})
    member = group.member("a")
    group.settle()
    member.resolve("t", "0", 0)
    group.settle()
    member.consume("t", "0", 7)
    member.close()
    group.settle()
    return group


def coordinate(group: Group, *members: str) -> None:
    """A coordinator has taken the group over, and these are its members."""
    group.make(COORDINATED.group("g"), point_data(3, 1, 1, 6_000))
    group.make(COORDINATED.subscriptions("g"))
    for member in members:
        group.write(Create(COORDINATED.subscription("g", member), b'{"t": 1}'))
    group.make(DIRS.owner(T0), owner_data(Owner("c1", "1-1"), 3))


def test_a_group_is_listed_with_its_protocol_members_and_owners() -> None:
    """What members have registered, own and have stored."""
    group = Group({"t": 2})
    member = group.member("g_h-1-0a", {"t": 2})
    group.settle()
    member.resolve("t", "1", 3)
    group.settle()
    [found] = all_groups(group).glance_at_all()

    assert (found.protocol, found.group.name) == ("self_rebalancing", "g")
    assert list(found.group.members) == ["g_h-1-0a"]
    assert '"subscription":{"t":2}' in found.group.members["g_h-1-0a"]
    assert found.group.owner_names == {T0: "g_h-1-0a", T1: "g_h-1-0a"}
    assert found.group.offsets == {T1: 3}


@pytest.mark.parametrize(
    ("members", "protocol"),
    [((), "central"), (("c1",), "central")],
    ids=["has left owners", "has members"],
)
def test_a_group_that_has_changed_hands_is_its_last_protocols(
    members: tuple[str, ...], protocol: str
) -> None:
    """That of its members, or of those who have left owners."""
    group = ended()
    assert all_groups(group).read("g").protocol == "self_rebalancing"
    coordinate(group, *members)
    assert all_groups(group).read("g").protocol == protocol
    if not members:
        group.member("b")
        group.settle()
        assert all_groups(group).read("g").protocol == "self_rebalancing"


def test_a_group_without_members_is_reset() -> None:
    """Offsets are stored anew, and whoever comes begins there."""
    group = ended()
    found = all_groups(group).read("g")
    found.reset_offsets({T0: 2, T1: 5})
    member = group.member("b")
    group.settle()

    assert member.fetches() == {T0: 2, T1: 5}


@pytest.mark.parametrize("act", ["reset", "delete"])
@pytest.mark.parametrize("who", ["own", "coordinated"])
def test_nothing_is_done_to_members(act: str, who: str) -> None:
    """Neither to those that are there, nor to those that come meanwhile, of either protocol."""
    group = ended()
    if who == "coordinated":
        group.make(COORDINATED.subscriptions("g"))
    own = RebalancingGroups(all_groups(group).reader.ask_all)
    before = own.read("g")
    if who == "own":
        group.member("b")
        group.settle()
        with pytest.raises(GroupHasMembers, match=r"members \(b\)"):
            own.reset_offsets(own.read("g"), {T0: 1})
    else:
        group.write(Create(COORDINATED.subscription("g", "c1")))
    acts = {
        "reset": lambda: own.reset_offsets(before, {T0: 1}),
        "delete": lambda: own.delete(before),
    }
    with pytest.raises(GroupChanged, match="nothing was done"):
        acts[act]()

    assert group.stored(*T0) == 7


def test_an_offset_that_was_stored_meanwhile_is_not_overwritten() -> None:
    """A reset is of what was read."""
    group = ended()
    found = all_groups(group).read("g")
    group.store(*T0, 9)
    with pytest.raises(GroupChanged):
        found.reset_offsets({T0: 1})

    assert group.stored(*T0) == 9


def test_a_deleted_group_is_gone_but_for_the_count_of_its_claims() -> None:
    """So whoever comes back late, with a claim of before, is refused still."""
    group = ended()
    all_groups(group).read("g").delete()

    with pytest.raises(NoSuchGroup):
        all_groups(group).read("g")
    assert all_groups(group).glance_at_all() == []
    assert group.data(DIRS.claim(T0)) is not None
    assert group.data("/consumers/g") is None


def test_garbage_is_shown_and_is_no_end() -> None:
    """A registration or an offset that nobody can read is no reason to see nothing."""
    group = ended()
    group.stranger(DIRS.id("z"), b"\xff{")
    group.write(Delete(DIRS.offset(T0)))
    group.make(DIRS.offset(T0), b"many")
    group.make(DIRS.offset(("t", "x")), b"4")
    found = all_groups(group).read("g").group

    assert found.members == {"z": "\ufffd{"}
    assert found.offsets == {("t", "x"): 4}


@pytest.mark.parametrize("name", ["nobody", "a/b", ".."])
def test_who_is_no_group_is_none(name: str) -> None:
    """Nor is what no node can be called."""
    with pytest.raises(NoSuchGroup):
        all_groups(Group({})).read(name)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (encoded(registration_of(named({"orders": 1, "logs": 2}), 0)), "logs (2 streams), orders"),
        (encoded(registration_of(Wildcard("orders-.*", 3), 0)), "topics that match orders-.* (3 s"),
        (encoded(registration_of(Wildcard("x", excluding=True), 0)), "topics that do not match x"),
        (b"{}", "{}"),
    ],
)
def test_what_a_member_wants_is_told_in_words(written: bytes, said: str) -> None:
    """As operators read it; what is no registration is shown as it is."""
    assert in_words(written.decode()).startswith(said)
