"""The connector's core when it is cut off, expires or meets strangers: what it must not do then."""

import pytest

from herdproof.consuming.events import (
    Answered,
    Committed,
    Deliver,
    Resolved,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.self_rebalancing.core.events import CommitOutcome
from herdproof.protocols.self_rebalancing.core.phases import RebalancePhase
from herdproof.protocols.self_rebalancing.held.flawed import connector_with
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.zookeeper.operations import Delete, Set, Synced
from properties.protocols.self_rebalancing.core.connectors import DIRS, TIMEOUT_MS, Group, Member

T0 = ("t", "0")


def consuming(group: Group, name: str = "b", offset: int = 5, flaw: str = "") -> Member:
    """A member that consumes partition 0 of "t", and has finished with so many records."""
    member = group.member(name, kind=connector_with(frozenset({flaw} - {""})))
    group.settle()
    if group.stored(*T0) is None:
        member.resolve(*T0, 0)
        group.settle()
    member.consume(*T0, offset)
    return member


# ── Sessions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("flaw", "stored"), [("", 9), ("zombie_commit", 5)])
def test_a_zombies_commit_is_refused(flaw: str, stored: int) -> None:
    """Who lost its session, and its partition to another, does not overwrite the other's offset."""
    group = Group({"t": 1})
    zombie = consuming(group, "b", 5, flaw)
    zombie.is_cut = True
    group.zookeeper.expire(zombie.session)
    other = consuming(group, "a", 9)
    other.commit(1)
    group.settle(other)
    assert group.stored(*T0) == 9
    zombie.forget()
    zombie.connect()
    group.settle(zombie)

    assert group.stored(*T0) == stored
    assert zombie.reports()[:2] == ["session_lost", "registered"]
    assert ("commit_refused" in zombie.reports()) == (not flaw)


@pytest.mark.parametrize(("flaw", "owner"), [("", "x-0"), ("zombie_release", "b-0")])
def test_a_zombie_deletes_no_node(flaw: str, owner: str) -> None:
    """In its new session it releases nothing: what the old one owned went with it."""
    group = Group({"t": 1})
    zombie = consuming(group, flaw=flaw)
    zombie.is_cut = True
    group.zookeeper.expire(zombie.session)
    group.stranger(DIRS.owner(T0), b"x-0")
    zombie.connect()
    group.settle()

    assert group.owners() == {"0": owner}
    assert zombie.core.rebalances.owned.is_waiting == (not flaw)


def test_a_commit_after_an_expiry_counts_if_nobody_was_faster() -> None:
    """If no other has claimed since, what was consumed before the expiry is stored."""
    group = Group({"t": 1})
    member = consuming(group, "b", 5)
    member.is_cut = True
    group.zookeeper.expire(member.session)
    member.connect()
    group.settle()

    assert (group.stored(*T0), member.fetches()) == (5, {T0: 5})


def test_a_strangers_offset_is_not_overwritten() -> None:
    """Members of 0.8 count no claims; what one has stored since is seen by the node's version."""
    group = Group({"t": 1})
    zombie = consuming(group, "b", 5)
    zombie.is_cut = True
    group.zookeeper.expire(zombie.session)
    session = group.stranger(DIRS.owner(T0), b"x-0")
    group.store(*T0, 8)
    zombie.connect()
    group.settle()
    assert group.stored(*T0) == 8
    group.zookeeper.close(session)
    group.settle()

    assert zombie.fetches() == {T0: 8}


def test_a_strangers_node_is_not_deleted_in_the_same_session_either() -> None:
    """Where a stranger has deleted the owner node and created its own, that stays."""
    group = Group({"t": 1})
    member = consuming(group)
    group.delete(DIRS.owner(T0))
    group.stranger(DIRS.owner(T0), b"x-0")
    group.write(Set("/brokers/topics/t", b'{"partitions":{"0":[0],"1":[0]}}'))
    group.settle()

    assert group.owners()["0"] == "x-0"
    assert member.core.rebalances.owned.is_waiting


@pytest.mark.parametrize(("flaw", "begins_at"), [("", 5), ("no_commit_at_closing", 0)])
def test_what_is_finished_is_stored_before_it_is_given_back(flaw: str, begins_at: int) -> None:
    """A new owner begins behind the last record that the old one has finished with."""
    group = Group({"t": 1})
    consuming(group, "b", 5, flaw)
    other = group.member("a")
    group.settle()

    assert other.fetches() == {T0: begins_at}


@pytest.mark.parametrize("flaw", ["", "new_session_goes_on"])
def test_nothing_is_fetched_in_a_new_session_before_it_is_claimed(flaw: str) -> None:
    """What the old session owned is closed when the new one begins; the draft goes on with it."""
    group = Group({"t": 1})
    member = consuming(group, flaw=flaw)
    member.core.suspend = lambda: None  # type: ignore[method-assign]
    member.is_cut = True
    group.zookeeper.expire(member.session)
    member.connect()

    assert (member.fetches() == {}) == (not flaw)


def test_after_an_expiry_it_begins_with_the_first_step() -> None:
    """A new session: stop, register, store what may be stored, and rebalance."""
    group = Group({"t": 1})
    member = consuming(group)
    member.forget()
    member.is_cut = True
    group.zookeeper.expire(member.session)
    member.connect()
    assert member.told(StopFetchers) == [StopFetchers()]
    group.settle()

    assert member.actions()[:5] == [
        "suspend", "handle_new_session", "register", "commit_offsets", "commit",
    ]  # fmt: skip
    assert member.fetches() == {T0: 5}


# ── The lease ───────────────────────────────────────────────────────────────────────────────


def test_who_is_cut_off_stops_before_its_session_can_have_ended() -> None:
    """Without ZooKeeper nothing is delivered after two thirds of the session's time-out."""
    group = Group({"t": 1})
    member = consuming(group)
    group.pass_time(20_000)
    since = group.now_ms
    member.cut()
    assert member.core.may_deliver(since)
    assert not member.core.may_deliver(since + TIMEOUT_MS * 2 // 3)
    member.forget()
    group.pass_time(TIMEOUT_MS * 2 // 3)

    assert member.told(StopFetchers) == [StopFetchers()]
    assert "lease_over" in member.reports()
    assert "suspend" in member.actions()


def test_silence_on_a_standing_connection_ends_the_lease_as_well() -> None:
    """The lease is renewed by answers alone, counted from when they were asked for."""
    group = Group({"t": 1})
    member = consuming(group)
    member.carry = lambda: False  # type: ignore[method-assign]
    group.pass_time(TIMEOUT_MS)

    assert "lease_over" in member.reports()
    assert not member.core.registry.is_fetching


def test_an_answer_renews_the_lease_from_the_sending() -> None:
    """An answer that was long under way renews it for less."""
    group = Group({"t": 1})
    member = consuming(group)
    group.pass_time(999)
    member.outbox.clear()
    asked = group.now_ms
    member.core.lease.asked(asked)
    member.core.context.ask(Delete("/x"), member.core._synced)
    group.now_ms += 3_000
    number = member.core.context._numbers
    member.give(Answered(number, Synced()))

    assert member.core.delivers_until_ms == asked + TIMEOUT_MS * 2 // 3


def test_a_lease_that_stands_keeps_delivering() -> None:
    """While ZooKeeper answers, the lease never ends."""
    group = Group({"t": 1})
    member = consuming(group)
    member.forget()
    for _ in range(60):
        group.pass_time(500)
        assert member.core.may_deliver(group.now_ms)

    assert member.told(StopFetchers) == []


# ── Lost answers ────────────────────────────────────────────────────────────────────────────


def test_who_is_back_in_time_rebalances() -> None:
    """Watches are gone with a connection: what changed meanwhile is seen by a new attempt."""
    group = Group({"t": 2})
    first = group.member("a")
    group.settle()
    first.cut()
    second = group.member("b")
    group.settle(second)
    first.connect()
    group.settle()

    assert (len(first.fetches()), len(second.fetches())) == (1, 1)
    assert first.actions().count("reconnect") == 1


@pytest.mark.parametrize("performed", [0, 1, 2, 3])
def test_a_claim_whose_answer_was_lost(performed: int) -> None:
    """Whatever of its claims was done, a member that is back releases and claims them anew."""
    group = Group({"t": 2})
    group.member("x")
    group.settle()
    group.members[0].close()
    member = group.member("a")
    while member.core.rebalances.phase is not RebalancePhase.CLAIMING:
        member.carry()
    member.cut(performed=performed)
    member.connect()
    group.settle()

    assert len(member.fetches()) == 2
    assert member.actions().count("recall") == min(performed, 2)
    assert group.owners() == {"0": "a-0", "1": "a-0"}


def test_a_claim_that_was_done_unheard_is_given_back_to_whom_it_is_due() -> None:
    """A member that does not know that it owns a partition gives it back all the same."""
    group = Group({"t": 1})
    member = group.member("b")
    while member.core.rebalances.phase is not RebalancePhase.CLAIMING:
        member.carry()
    while "0" not in group.owners():
        member.carry()
        if member.outbox and "0" not in group.owners() and group.data(DIRS.claim(T0)) is not None:
            break
    member.cut(performed=1)
    assert group.owners() == {"0": "b-0"}
    other = group.member("a")
    group.settle(other)
    member.connect()
    group.settle()

    assert other.fetches() == {T0: NO_OFFSET}


@pytest.mark.parametrize("performed", [0, 1])
@pytest.mark.parametrize("stored", [False, True])
def test_a_commit_whose_answer_was_lost(performed: int, stored: bool) -> None:
    """Whether it was done or not, nothing is lost, and the user is told that nobody knows."""
    group = Group({"t": 1})
    if stored:
        group.store(*T0, 2)
    member = group.member("a")
    group.settle()
    member.core.registry.all_partition_infos()[T0].consumed_offset = 0
    member.consume(*T0, 5)
    member.commit(1)
    member.cut(performed=performed)
    assert member.told(Committed) == [Committed(1, CommitOutcome.UNKNOWN)]
    member.consume(*T0, 6)
    member.connect()
    group.settle()

    assert (group.stored(*T0), member.fetches()) == (6, {T0: 6})
    assert "commit_refused" not in member.reports()


def test_a_strangers_write_is_not_taken_for_ones_own() -> None:
    """Where the answer to a commit was lost, and a stranger has written since, it is refused."""
    group = Group({"t": 1})
    member = consuming(group)
    member.commit(1)
    member.cut()
    group.store(*T0, 3)
    group.store(*T0, 4)
    member.connect()
    group.settle()

    assert "it was changed" in member.why("commit_refused")
    assert member.fetches() == {T0: 4}


# ── Commits ─────────────────────────────────────────────────────────────────────────────────


def test_a_users_commit_is_stored() -> None:
    """A commit of all that is consumed, or of one offset, is answered when it is stored."""
    group = Group({"t": 1})
    member = consuming(group)
    member.commit(1)
    assert member.told(Committed) == []
    group.settle()
    assert group.stored(*T0) == 5
    member.commit(2, (Offset("t", "0", 8),))
    group.settle()

    assert group.stored(*T0) == 8
    assert [c.outcome for c in member.told(Committed)] == [CommitOutcome.STORED] * 2


def test_an_older_offset_counts_as_stored() -> None:
    """A commit of less than is stored is answered, and changes nothing."""
    group = Group({"t": 1})
    member = consuming(group)
    member.commit(1)
    group.settle()
    member.commit(2, (Offset("t", "0", 3),))
    group.settle()

    assert group.stored(*T0) == 5
    assert member.told(Committed)[-1].outcome is CommitOutcome.STORED


def test_commits_of_what_is_not_owned_are_refused() -> None:
    """A partition of others, or an assignment that is past, has nothing to be committed."""
    group = Group({"t": 1})
    member = consuming(group)
    member.commit(1, (Offset("t", "9", 3),))
    assert member.told(Committed) == [Committed(1, CommitOutcome.REFUSED)]
    member.cut()
    member.commit(2)

    assert member.told(Committed)[-1] == Committed(2, CommitOutcome.NOT_SENT)


def test_offsets_are_stored_by_themselves_every_so_often() -> None:
    """With auto.commit.enable what is consumed is stored once per interval; else never."""
    group = Group({"t": 2})
    every = ConnectorSettings(auto_commit_interval_ms=1_000)
    never = ConnectorSettings(auto_commit_enable=False, auto_commit_interval_ms=1_000)
    one, other = group.member("a", settings=every), group.member("b", settings=never)
    group.settle()
    for member, partition in ((one, "0"), (other, "1")):
        member.resolve("t", partition, 0)
        group.settle()
        member.consume("t", partition, 4)
    group.pass_time(1_100)

    assert (group.stored("t", "0"), group.stored("t", "1")) == (4, 0)


def test_a_start_is_stored_before_it_is_delivered() -> None:
    """A partition without an offset begins where the reset says, once that is stored."""
    group = Group({"t": 1})
    member = group.member("a")
    group.settle()
    member.resolve(*T0, 40)
    assert member.told(Deliver) == []
    group.settle()

    assert group.stored(*T0) == 40
    assert len(member.told(Deliver)) == 1


def test_a_start_that_is_too_late_is_nothing() -> None:
    """What fetchers of a past assignment have found is dropped."""
    group = Group({"t": 1})
    member = group.member("a")
    group.settle()
    member.core.registry.generation += 1
    member.give(Resolved(Offset("t", "0", 40), member.core.registry.generation - 1))
    group.settle()

    assert group.stored(*T0) is None


def test_an_offset_that_an_operator_has_changed_is_gone_on_from() -> None:
    """A reset by somebody else is not overwritten: the member begins anew from it."""
    group = Group({"t": 1})
    member = consuming(group)
    group.store(*T0, 2)
    member.commit(1)
    group.settle()

    assert member.told(Committed) == [Committed(1, CommitOutcome.REFUSED)]
    assert (group.stored(*T0), member.fetches()) == (2, {T0: 2})


# ── What cannot be read ─────────────────────────────────────────────────────────────────────

BAD_REGISTRATIONS = [
    b"no json",
    b'{"version":2,"subscription":{"t":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"t":0},"pattern":"static"}',
    b'{"version":1,"subscription":{"t":1000000},"pattern":"static"}',
    b'{"version":1,"subscription":{"(?<=a)b":1},"pattern":"white_list"}',
]


@pytest.mark.parametrize("data", BAD_REGISTRATIONS)
def test_nobody_plans_around_a_registration_that_cannot_be_read(data: bytes) -> None:
    """It says whose registration is wrong, holds nothing, and goes on when it is mended."""
    group = Group({"t": 2})
    member = group.member("a")
    group.settle()
    session = group.stranger(DIRS.id("z"), data)
    group.settle()

    assert (member.fetches(), group.owners()) == ({}, {})
    assert DIRS.id("z") in member.why("bad_registration")
    good = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    group.zookeeper.perform(session, Set(DIRS.id("z"), good))
    group.settle()
    group.pass_time(2_000)
    assert list(member.fetches()) == [T0]


def test_a_registration_that_goes_while_it_is_read_is_nobodys() -> None:
    """A member that is gone before its registration was read is planned for no more."""
    group = Group({"t": 2})
    group.stranger(DIRS.id("x"), b"")
    member = group.member("a")
    while member.core.rebalances.phase is not RebalancePhase.IDS:
        member.carry()
    while member.outbox or member.inbox:
        if member.outbox and member.outbox[0].operation.path == DIRS.id("x"):  # type: ignore[union-attr]
            break
        member.carry()
    group.delete(DIRS.id("x"))
    group.settle()

    assert len(member.fetches()) == 2


def test_a_topic_that_cannot_be_read_is_not_guessed_at() -> None:
    """A topic's garbage is reported; when it is mended, it is consumed."""
    group = Group({"t": 1})
    group.write(Set("/brokers/topics/t", b"garbage"))
    member = group.member("a")
    group.settle()
    assert (member.fetches(), "/brokers/topics/t" in member.why("bad_topic")) == ({}, True)
    group.write(Set("/brokers/topics/t", b'{"partitions":{"0":[0]}}'))
    group.pass_time(2_000)

    assert member.fetches() == {T0: NO_OFFSET}


def test_an_offset_that_cannot_be_read_is_not_gone_on_from() -> None:
    """A partition whose offset is garbage is not consumed, the others are; until it is mended."""
    group = Group({"t": 2})
    group.store("t", "1", 3)
    group.store("t", "0", 3)
    group.write(Set(DIRS.offset(T0), b"three"))
    member = group.member("a")
    group.settle()
    assert member.fetches() == {("t", "1"): 3}
    assert DIRS.offset(T0) in member.why("bad_offset")
    group.write(Set(DIRS.offset(T0), b"4"))
    group.settle()

    assert member.fetches() == {T0: 4, ("t", "1"): 3}


def test_garbage_in_an_owner_node_is_an_owner() -> None:
    """Whatever a node in the way says, it is waited for."""
    group = Group({"t": 1})
    session = group.stranger(DIRS.owner(T0), b"\xff\x00")
    member = group.member("a")
    group.settle()
    assert member.core.rebalances.owned.is_waiting
    group.zookeeper.close(session)
    group.settle()

    assert len(member.told(StartFetchers)) == 1
