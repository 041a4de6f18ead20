"""
The central coordinator's mutation score: what survives, and that the reasons for it are true.

`central_coordinator_survivors.py` says of most survivors which promise is missing. Those promises
stand here. They are no part of the protocol; each holds of it, and would kill what it is said to
kill. The guards, the barrier and the fences are killed one by one, in the short part.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest

from herdspec import Specification, always, sometimes, specification, step
from herdspec.check.explore import explore
from herdspec.check.liveness import liveness
from herdspec.check.mutants import Mutant, mutants
from herdspec.check.mutate import Bounds, failing, mutate, reasons_of
from herdspec.check.plans import mistaken, mistaken_of
from herdspec.check.verdict import Standing
from herdspec.check.verify import Plan
from herdspec.language.surface import Property
from herdspec.protocols import central_coordinator_survivors as why
from herdspec.protocols.central_coordinator import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Partition,
    Phase,
)
from herdspec.protocols.central_coordinator_plan import mistaken as in_turn
from herdspec.protocols.central_coordinator_properties import NOTICING, stable
from herdspec.protocols.election import Broker
from properties.specs import LOCK_SERVER

pytestmark = pytest.mark.xdist_group("mutate central")  # its mutants are made once
SIZES = [(1, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 2), (2, 1, 1, 1)]
"""Members, partitions, brokers and faults, in the order in which mistakes are looked for."""

# ── The promises that are missing ───────────────────────────────────────────────────────────


def leads_on(before: CentralCoordinator, after: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates before and after a step."""
    return before.election.leads[b] and after.election.leads[b]


@step
def phases_in_order(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """A rebalance goes from phase to phase in order, and none begins without members."""
    return all(
        not leads_on(before, after, b)
        or before.phase[b] == after.phase[b]
        or (before.phase[b] == Phase.IDLE and after.phase[b] == Phase.QUEUED)
        or (before.phase[b] == Phase.QUEUED and after.phase[b] == Phase.IDLE)
        or (
            before.phase[b] == Phase.QUEUED
            and after.phase[b] == Phase.STOPPING
            and any(before.books[m] == b for m in Member)
        )
        or (
            before.phase[b] == Phase.STOPPING
            and (after.phase[b] == Phase.IDLE or after.phase[b] == Phase.FAILED)
        )
        or (
            before.phase[b] == Phase.STOPPING
            and after.phase[b] == Phase.STARTING
            and any(before.books[m] == b for m in Member)
        )
        or (before.phase[b] == Phase.STARTING and after.phase[b] != Phase.STOPPING)
        or (before.phase[b] == Phase.FAILED and after.phase[b] == Phase.QUEUED)
        for b in Broker
    )


@step
def who_takes_up_begins_anew(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who takes an epoch up reads the topics, and queues the group."""
    return all(
        before.election.leads[b]
        or not after.election.leads[b]
        or (
            after.phase[b] == Phase.QUEUED
            and all(after.knows[b, p] == after.exists[p] for p in Partition)
        )
        for b in Broker
    )


@step
def changes_queue_the_group(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Whoever comes or goes is a reason for a rebalance, and nothing else but new partitions is."""
    return all(
        not leads_on(before, after, b)
        or (
            (
                all((before.books[m] == b) == (after.books[m] == b) for m in Member)
                or after.phase[b] == Phase.QUEUED
                or after.dirty[b]
            )
            and (
                before.phase[b] != Phase.IDLE
                or after.phase[b] == Phase.IDLE
                or any((before.books[m] == b) != (after.books[m] == b) for m in Member)
                or any(before.knows[b, p] != after.knows[b, p] for p in Partition)
            )
            and all(not before.knows[b, p] or after.knows[b, p] for p in Partition)
        )
        for b in Broker
    )


@step
def a_rebalance_begins_with_nothing_to_remember(
    before: CentralCoordinator, after: CentralCoordinator
) -> bool:
    """What changed before a rebalance began, or has queued it, is not remembered any more."""
    return all(
        before.phase[b] == after.phase[b]
        or not after.dirty[b]
        or (after.phase[b] != Phase.STOPPING and before.phase[b] != Phase.STARTING)
        or after.phase[b] == Phase.FAILED
        for b in Broker
    )


@always
def who_is_idle_remembers_nothing(s: CentralCoordinator) -> bool:
    """Where the flag is reset, no change is remembered."""
    return all(s.phase[b] != Phase.IDLE or not s.dirty[b] for b in Broker)


@always
def who_does_not_lead_rests(s: CentralCoordinator) -> bool:
    """A broker that does not coordinate knows nothing, and has nothing to do."""
    return all(
        s.election.leads[b]
        or (
            s.phase[b] == Phase.IDLE
            and not s.dirty[b]
            and all(not s.knows[b, p] and s.noted[b, p] == 0 for p in Partition)
        )
        for b in Broker
    )


@always
def only_what_exists_is_known(s: CentralCoordinator) -> bool:
    """Nobody knows of a partition that is not there, and none has a record."""
    return all(
        s.exists[p] or (s.end[p] == 0 and all(not s.knows[b, p] for b in Broker)) for p in Partition
    )


@step
def records_one_by_one(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Records are appended, and finished, one by one; generations are counted up by one."""
    return (
        all(
            after.end[p] <= before.end[p] + 1 and after.finished[p] <= before.finished[p] + 1
            for p in Partition
        )
        and after.generation <= before.generation + 1
    )


@always
def no_record_is_finished_before_it_is_there(s: CentralCoordinator) -> bool:
    """What was finished was appended before."""
    return all(s.finished[p] <= s.end[p] for p in Partition)


@always
def who_does_not_fetch_is_nowhere(s: CentralCoordinator) -> bool:
    """Who does not fetch a partition has no position in it."""
    return all(s.fetching[m, p] or s.position[m, p] == 0 for m in Member for p in Partition)


@always
def nothing_travels_without_a_connection(s: CentralCoordinator) -> bool:
    """What belongs to a connection is gone with it; a Register is of no generation."""
    return all(
        (
            s.link[m]
            or (
                len(s.up[m]) == 0
                and len(s.down[m]) == 0
                and all(
                    not s.given[m, p] and s.begin[m, p] == 0 and s.reported[m, p] == 0
                    for p in Partition
                )
            )
        )
        and (not s.link[m] or s.via[m] is not None)
        and all(x.kind != Kind.REGISTER or x.generation == 0 for x in s.up[m])
        for m in Member
    )


@always
def who_begins_anew_has_no_generation(s: CentralCoordinator) -> bool:
    """Who is not connected, or has just registered, has heard of no generation."""
    return all(
        (s.via[m] is not None and (s.books[m] is not None or not s.link[m]))
        or (s.at[m] == 0 and s.barred[m] == 0)
        for m in Member
    )


@always
def who_is_struck_is_forgotten(s: CentralCoordinator) -> bool:
    """Of who is in no books, nothing is remembered."""
    return all(s.books[m] is not None or (not s.stopped[m] and s.acked[m] == 0) for m in Member)


@always
def the_seat_is_the_winners(s: CentralCoordinator) -> bool:
    """Who has won an epoch has the seat, until it has lost it."""
    return all((s.seat == b) == (s.election.won[b] > 0) for b in Broker)


@step
def answers_are_noted(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """An owner's offset is noted when its answer is read."""
    return all(
        not leads_on(before, after, b)
        or before.books[m] != b
        or not after.link[m]
        or not before.link[m]
        or len(before.up[m]) <= len(after.up[m])
        or all(x.kind == Kind.START for x in before.up[m])
        or any(x.generation != before.generation for x in before.up[m])
        or before.owner[p] != m
        or before.orphan[p]
        or before.reported[m, p] <= after.noted[b, p]
        for b in Broker
        for m in Member
        for p in Partition
    )


@step
def answers_are_true(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who answers tells how far it is, and heeds the epoch; only who fetches commits."""
    return all(
        len(after.up[m]) <= len(before.up[m])
        or any(x.kind == Kind.REGISTER for x in after.up[m])
        or (
            before.link[m]
            and (
                any(x.kind == Kind.START for x in after.up[m])
                or all(after.reported[m, p] == before.position[m, p] for p in Partition)
            )
            and (
                len(after.down[m]) < len(before.down[m])
                or (len(before.up[m]) == 0 and any(before.fetching[m, p] for p in Partition))
            )
            and (
                len(after.down[m]) == len(before.down[m])
                or any(
                    before.via[m] == b and after.seen[m] == before.election.token[b] for b in Broker
                )
            )
        )
        for m in Member
    )


@always
def one_stop_in_a_rebalance(s: CentralCoordinator) -> bool:
    """Who has answered the Stop is not stopped again, nor is its answer there any more."""
    return all(
        s.asked[m] != Asked.STOP
        or s.books[m] != b
        or s.phase[b] != Phase.STOPPING
        or not s.stopped[m]
        for m in Member
        for b in Broker
    )


@always
def an_answer_is_awaited(s: CentralCoordinator) -> bool:
    """A request or an answer that is on its way is the one that is outstanding."""
    return all(
        all(s.asks(m, x.kind) for x in s.down[m])
        and all(
            x.kind == Kind.REGISTER
            or x.kind == Kind.COMMIT
            or (s.asks(m, x.kind) and len(s.down[m]) == 0)
            for x in s.up[m]
        )
        for m in Member
    )


@step
def what_is_wanted_is_handed_over(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """A handover gives away just what the coordinator knows and somebody is interested in."""
    return before.generation == after.generation or any(
        before.phase[b] != after.phase[b]
        and all(
            (after.owner[p] is not None)
            == (
                before.knows[b, p]
                and any(before.books[m] == b and before.interest[m, p] for m in Member)
            )
            for p in Partition
        )
        for b in Broker
    )


@always
def nobody_else_is_named(s: CentralCoordinator) -> bool:
    """Once a group with members is stable, ZooKeeper names nobody who does not serve."""
    return all(
        not stable(s, b)
        or not s.has_members(b)
        or all(s.owner[p] is None or s.is_owned(p, b) for p in Partition)
        for b in Broker
    )


@always
def whoever_is_counted_was_told(s: CentralCoordinator) -> bool:
    """Once the group is stable, every member has acknowledged a Start."""
    return all(
        not stable(s, b) or s.books[m] != b or (s.acked[m] == s.generation and s.acked[m] > 0)
        for b in Broker
        for m in Member
    )


@step
def who_steps_down_closes_every_channel(
    before: CentralCoordinator, after: CentralCoordinator
) -> bool:
    """Who steps down closes every channel, also to who has only just connected."""
    return all(
        not before.election.leads[b]
        or after.election.leads[b]
        or all(after.via[m] != b or not after.link[m] for m in Member)
        for b in Broker
    )


@sometimes
def a_member_comes_back(s: CentralCoordinator) -> bool:
    """A member comes back to the coordinator whose epoch it has heard of."""
    return any(
        s.books[m] == b and s.orphan[p] and s.owner[p] == m and s.election.token[b] == 1
        for b in Broker
        for m in Member
        for p in Partition
    )


@step
def starts_where_it_is_told(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who starts to fetch a partition begins where the Start says."""
    return all(
        before.fetching[m, p]
        or not after.fetching[m, p]
        or after.position[m, p] == before.begin[m, p]
        for m in Member
        for p in Partition
    )


MISSING: dict[str, Property] = {
    why.PHASES: phases_in_order,
    why.TAKES_UP: who_takes_up_begins_anew,
    why.QUEUES: changes_queue_the_group,
    why.BEGINS_CLEAN: a_rebalance_begins_with_nothing_to_remember,
    why.IDLE_IS_CLEAN: who_is_idle_remembers_nothing,
    why.RESTS: who_does_not_lead_rests,
    why.EXISTS: only_what_exists_is_known,
    why.ONE_BY_ONE: records_one_by_one,
    why.FINISHED_IS_THERE: no_record_is_finished_before_it_is_there,
    why.NOWHERE: who_does_not_fetch_is_nowhere,
    why.CONNECTION: nothing_travels_without_a_connection,
    why.ANEW: who_begins_anew_has_no_generation,
    why.STRUCK: who_is_struck_is_forgotten,
    why.SEAT: the_seat_is_the_winners,
    why.NOTED: answers_are_noted,
    why.ANSWERS: answers_are_true,
    why.ONE_STOP: one_stop_in_a_rebalance,
    why.AWAITED: an_answer_is_awaited,
    why.HANDED_OVER: what_is_wanted_is_handed_over,
    why.NAMED: nobody_else_is_named,
    why.TOLD: whoever_is_counted_was_told,
    why.CHANNELS: who_steps_down_closes_every_channel,
    why.COMES_BACK: a_member_comes_back,
    why.STARTS_AT: starts_where_it_is_told,
}
"""The promise that each reason names, in its words."""

GUARDS: dict[str, tuple[tuple[int, int, int, int], str]] = {
    # The barrier: all have stopped, all that is free is, all that was noted is stored.
    "write_owners: drop `self.phase[b] == Phase.STOPPING`": ((2, 1, 1, 1), "exclusive"),
    "write_owners: drop `self.all_stopped(b)`": ((2, 1, 1, 1), "exclusive"),
    "write_owners: drop `all(self.is_free(p, b) for p in Partition)`": (
        (2, 1, 1, 1), "exclusive",
    ),
    "write_owners: drop `all(self.noted[b, p] <= self.committed[p] for p in Partition)`": (
        (2, 1, 1, 1), "a_start_is_at_the_stored_offset",
    ),
    "finish_rebalance: drop `all(self.books[m] != b or self.follows(m) for m in Member)`": (
        (1, 1, 1, 1), "complete",
    ),
    "begin_rebalance: skip `self.stopped[m] = False`": ((2, 1, 1, 1), "exclusive"),
    # The lease.
    "lease_is_over: drop `all(not self.fetching[m, p] for p in Partition)`": (
        (2, 1, 1, 1), "exclusive",
    ),
    # The fences: of what is written, of whom consumers follow, of whom a Start is for.
    "write_owners: skip `self.fenced_write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "flush_offsets: skip `self.fenced_write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "fenced_write: skip `self.election.write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "accepts: drop `self.seen[m] <= self.election.token[b]`": ((1, 1, 2, 2), "monotone"),
    "accepts: drop `self.election.leads[b]`": (
        (1, 1, 1, 1), "who_does_not_lead_commands_nobody",
    ),
    "is_given: drop `self.owner[p] == m`": ((2, 1, 1, 1), "exclusive"),
    # One request at a time, over a connection that stands, to who is to be asked.
    "ask: drop `self.asked[m] == Asked.NONE`": (
        (1, 1, 1, 1), "a_start_is_at_the_stored_offset",
    ),
    "ask: drop `self.link[m]`": ((1, 1, 2, 2), "monotone"),
    "send_start: drop `not self.follows(m)`": ((1, 1, 1, 1), "a_start_is_at_the_stored_offset"),
    # Who counts as what.
    "handle_register: drop `self.via[m] == b`": ((1, 1, 2, 2), "monotone"),
    "register: drop `self.owner[p] == m`": ((1, 1, 1, 2), "a_start_is_at_the_stored_offset"),
    "is_owned: drop `self.serves(owner, p, b)`": ((2, 1, 1, 1), "complete"),
    "abandon_rebalance: drop `not self.has_members(b)`": ((1, 1, 1, 1), "complete"),
}  # fmt: skip
"""Guards, the barrier and the fences: the size at which each is missed, and by which promise."""


@cache
def made() -> dict[str, Mutant]:
    """The central coordinator's mutants, by their ids."""
    return {m.id: m for m in mutants(NOTICING)}


def elements(size: tuple[int, int, int, int]) -> dict[str, int]:
    """The sizes of the sorts; the last number is that of faults."""
    return dict(zip(("Member", "Partition", "Broker"), size, strict=False))


def fails(spec: Specification, size: tuple[int, int, int, int]) -> set[str]:
    """What fails of a spec at a size."""
    found = explore(spec, elements(size), faults=size[3], bound=4 + size[3])
    return {name for name, _ in failing(found)}


# ── What is quick ───────────────────────────────────────────────────────────────────────────


def test_every_reason_is_about_a_mutant() -> None:
    """Each accepted mutant is one that is made of the protocol as it stands, and has a reason."""
    reasons = reasons_of(NOTICING)

    assert reasons
    assert set(reasons) <= set(made())
    assert all(reasons.values())


def test_reasons_are_for_the_verified_protocol_only() -> None:
    """Another spec of the same state has mutants of its own, and none of these reasons."""
    assert reasons_of(NOTICING.replace("Another")) == {}


def test_every_reason_that_names_a_promise_has_it_here() -> None:
    """But for what needs a larger size, or can be told by none, each reason's promise is known."""
    reasons = set(reasons_of(NOTICING).values()) - {why.larger(*at) for at in why.LARGER.values()}

    assert reasons - set(MISSING) <= set(why.IN_WORDS)
    assert set(MISSING) <= reasons


@pytest.mark.parametrize("size", [(1, 2, 1, 1), (1, 1, 2, 2)])
def test_the_missing_promises_hold(size: tuple[int, int, int, int]) -> None:
    """What is said to be missing is true of the protocol: it could be promised."""
    held = NOTICING.with_properties(*MISSING.values())

    assert fails(held, size) & {p.name for p in MISSING.values()} == set()


@pytest.mark.parametrize("id", GUARDS)
def test_a_guard_a_barrier_or_a_fence_is_missed(id: str) -> None:
    """Without this one a promise fails: the contract's own, no lemma of the proof."""
    size, promise = GUARDS[id]
    spec = specification(CentralCoordinator, NOTICING.promise(promise).python)

    assert promise in fails(made()[id].of(spec), size)


def test_no_guard_has_a_reason_to_be_missing() -> None:
    """What is killed above is accepted nowhere."""
    assert not set(GUARDS) & set(reasons_of(NOTICING))


def test_mistakes_are_looked_for_at_sizes_that_hold() -> None:
    """`herdproof verify central_coordinator --mutate` judges at these sizes, in turn."""
    check = mistaken(Plan("central_coordinator", (), specs={"verified": NOTICING}))

    assert check.name.count("fault") == len(in_turn()) == len(SIZES)
    assert [tuple(at.sizes.values()) for at in in_turn()] == [
        tuple(elements(size)[sort] for sort in ("Broker", "Member", "Partition")) for size in SIZES
    ]
    assert [at.faults for at in in_turn()] == [size[3] for size in SIZES]


def test_what_a_small_size_does_not_notice_a_further_one_does() -> None:
    """Sizes in turn kill what the last of them kills alone, and say which of them did."""
    small, large = (dict.fromkeys(LOCK_SERVER.sorts, n) for n in (1, 2))
    alone = mutate(LOCK_SERVER, large, faults=1)

    found = mutate(LOCK_SERVER, small, faults=1, further=[Bounds(large, 1)])

    assert {k.id for k in alone.killed} <= {k.id for k in found.killed}
    assert {k.at for k in found.killed} == {0, 1}
    assert len(found.at) == 2


def test_the_page_says_how_many_there_are() -> None:
    """The figures of docs/central_coordinator.md are those of the spec and of the reasons."""
    page = (Path(__file__).parents[1] / "docs" / "central_coordinator.md").read_text()

    assert f"Of the {len(made())} mistakes" in page
    assert f"; {len(why.CENTRAL)} are accepted" in page
    assert f"; {len(why.LARGER)} are noticed at a larger size only" in page


# ── What takes longer ───────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.parametrize(
    ("id", "reason"),
    [(id, r) for id, r in why.CENTRAL.items() if r in MISSING],
)
def test_the_promise_that_a_reason_names_kills(id: str, reason: str) -> None:
    """With the promise that its reason names, the survivor would be killed."""
    promise = MISSING[reason]
    spec = specification(CentralCoordinator, promise)

    assert any(promise.name in fails(made()[id].of(spec), size) for size in SIZES)


@pytest.mark.long
@pytest.mark.parametrize("id", why.LARGER)
def test_what_needs_a_larger_size_is_killed_there(id: str) -> None:
    """What survives the sizes of every day is killed at the one that its reason names."""
    size, promise = why.LARGER[id]
    spec = specification(CentralCoordinator, NOTICING.promise(promise).python)
    mutant = made()[id].of(spec)

    if promise == "settles":
        found = liveness(mutant, elements(size), faults=size[3], bound=4 + size[3])
        assert promise in found.violations
    else:
        assert promise in fails(mutant, size)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_the_central_coordinator_notices_its_mistakes() -> None:
    """Every mutant is killed, or accepted with a reason; no reason is stale."""
    first, *further = in_turn()
    found = mutate(
        NOTICING, first.sizes, faults=first.faults, bound=first.bound,
        further=[Bounds(at.sizes, at.faults, at.bound) for at in further],
        reasons=reasons_of(NOTICING), processes=2,
        source=partial(mistaken_of, "central_coordinator"),
    )  # fmt: skip

    assert ([s.id for s in found.holes], found.undecided, found.stale) == ([], [], [])
    assert found.standing is Standing.HOLDS
