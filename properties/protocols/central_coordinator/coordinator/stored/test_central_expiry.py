"""
The coordinator's core: what is stored of a group that has been empty for long is deleted.

ZooKeeper's clock is the test's, which also goes on while nobody leads.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Leave, Start
from herdproof.zookeeper.operations import Answer, Create, Data, Delete, Get, Multi, Operation, Set
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    Consumer,
    World,
)

RETENTION_MS = 60_000
CHECK_MS = 5_000
LATE_MS = 2 * CHECK_MS
"""How much later than its time a group may expire."""
SINCE_1970_MS = 1_700_000_000_000
SETTINGS = Settings(group_retention_ms=RETENTION_MS, group_check_ms=CHECK_MS)


class DatedWorld(World):
    """A world whose ZooKeeper tells when a node was last written."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        super().__init__(settings)
        self.written: dict[str, int] = {}
        self.spoil = self._dated
        self.topic("t", 1)
        self.elect()

    def elect(self) -> int:
        """Elect the coordinator, which is a write of the epoch's node."""
        self.written[PATHS.election.epoch] = SINCE_1970_MS + self.now_ms
        return super().elect()

    def _dated(self, operation: Operation) -> Answer | None:
        if isinstance(operation, Multi):
            for each in operation.operations:
                if isinstance(each, Create | Set):
                    self.written[each.path] = SINCE_1970_MS + self.now_ms
        if not isinstance(operation, Get):
            return None
        answer = self.zookeeper.perform(self.session, operation)
        if not isinstance(answer, Data):
            return answer
        at_ms = self.written.get(operation.path, SINCE_1970_MS)
        return replace(answer, stat=replace(answer.stat, modified_ms=at_ms))

    def is_deleting(self) -> bool:
        """Whether the deletion of the group is what ZooKeeper does next."""
        wanted = self.held[0].operation if self.held else None
        return isinstance(wanted, Multi) and Delete(PATHS.group(GROUP)) in wanted.operations

    def consumed(self, offset: int = 5) -> Consumer:
        """A member that has consumed, so that an offset is stored."""
        member = self.register("a")
        member.fetches["t", "0"] = offset
        self.advance(3_000)
        assert self.stored(PATHS.offset(GROUP, "t", "0")) == str(offset).encode()
        return member

    def leave(self, member: Consumer) -> None:
        """Let a member leave, and a second pass."""
        self.send(member, Leave())
        self.advance(1_000)

    def is_stored(self) -> bool:
        """Whether all of the group is stored; else nothing of it may be."""
        paths = (PATHS.group(GROUP), PATHS.owner(GROUP, "t", "0"), PATHS.offset(GROUP, "t", "0"))
        found = {self.stored(path) is not None for path in paths}
        assert len(found) == 1
        return found == {True}


def test_a_group_expires_once_it_has_been_empty_for_long() -> None:
    """Until then all of it is stored, and after that nothing, but what others may use."""
    w = DatedWorld()
    w.leave(w.consumed())

    w.advance(RETENTION_MS - LATE_MS)
    assert w.is_stored()
    w.advance(2 * LATE_MS)

    assert not w.is_stored()
    assert len(w.told(What.GROUP_EXPIRED)) == 1
    assert w.children(PATHS.groups) == ()
    assert w.children(PATHS.consumers) == ()
    assert not w.core.groups
    assert not w.core.store.standing.get(GROUP)


def test_who_comes_after_that_begins_anew() -> None:
    """The next member is given no offset, and its generation is stored again."""
    w = DatedWorld()
    w.leave(w.consumed())
    w.advance(RETENTION_MS + LATE_MS)

    b = w.register("b")

    assert b.last(Start) == Start((Offset("t", "0", NO_OFFSET),))
    assert w.generation() == 1


def test_a_group_with_members_never_expires() -> None:
    """However long nothing is written: its member has nothing to consume."""
    w = DatedWorld()
    member = w.consumed()

    w.advance(3 * RETENTION_MS)

    assert w.is_stored()
    assert not member.closed


@pytest.mark.parametrize("fails_over", [False, True], ids=["the same leader", "another leader"])
def test_a_group_is_empty_from_when_its_last_member_left(fails_over: bool) -> None:
    """One that was idle for long before does not expire at once, whoever leads then."""
    w = DatedWorld()
    member = w.consumed()
    w.advance(3 * RETENTION_MS)
    w.leave(member)
    if fails_over:
        w.depose()
        w.advance(1_000)
        w.elect()

    w.advance(RETENTION_MS - LATE_MS)
    assert w.is_stored()
    w.advance(2 * LATE_MS)

    assert not w.is_stored()


def test_a_failover_makes_no_group_younger() -> None:
    """Its time goes on while one leader after the other is elected."""
    w = DatedWorld()
    w.leave(w.consumed())
    for _ in range(4):
        w.advance(RETENTION_MS // 4)
        w.depose()
        w.elect()
    w.advance(2 * LATE_MS)

    assert not w.is_stored()


def test_who_registers_meanwhile_waits_until_all_is_deleted() -> None:
    """A registration amid the deletion finds neither half of the offsets nor an old owner."""
    w = DatedWorld()
    w.leave(w.consumed())
    w.advance(RETENTION_MS - LATE_MS)
    w.hold()
    while not w.is_deleting():
        if w.held:
            w.release()
        else:
            w.advance(100)
    b = w.register("b")
    assert (b.error, w.is_stored()) == (None, True)
    w.release_all()
    w.advance(1_000)

    assert b.error is ErrorCode.NONE
    assert b.last(Start) == Start((Offset("t", "0", NO_OFFSET),))
    assert len(w.told(What.GROUP_EXPIRED)) == 1


def test_a_group_that_another_protocol_has_does_not_expire() -> None:
    """Who rebalances by itself goes on from these offsets."""
    w = DatedWorld()
    w.leave(w.consumed())
    w.make(f"{PATHS.ids(GROUP)}/somebody")

    w.advance(2 * RETENTION_MS)

    assert w.is_stored()


def test_what_others_have_beside_it_stays() -> None:
    """The node above is theirs, too: it does not go, and does not keep the group, either."""
    w = DatedWorld()
    w.leave(w.consumed())
    theirs = f"{PATHS.ids(GROUP).rpartition('/')[0]}/theirs"
    w.make(theirs)

    w.advance(RETENTION_MS + LATE_MS)

    assert not w.is_stored()
    assert w.stored(theirs) is not None


def test_groups_may_be_kept_for_ever() -> None:
    """A retention of 0 is none."""
    w = DatedWorld(Settings(group_retention_ms=0, group_check_ms=CHECK_MS))
    w.leave(w.consumed())

    w.advance(3 * RETENTION_MS)

    assert w.is_stored()


def test_what_cannot_be_deleted_is_tried_again() -> None:
    """A node below that nobody knows of is in the way: nothing is deleted, and it is said."""
    w = DatedWorld()
    w.leave(w.consumed())
    stranger = f"{PATHS.owner(GROUP, 't', '0')}/stranger"
    w.make(stranger)
    w.advance(RETENTION_MS + LATE_MS)
    assert w.is_stored()
    assert w.told(What.ZOOKEEPER_TROUBLE)

    w.zookeeper.perform(w.operator, Delete(stranger))
    w.advance(LATE_MS)

    assert not w.is_stored()
