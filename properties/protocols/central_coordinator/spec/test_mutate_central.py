"""
The central coordinator's mutation score: what survives, and that the reasons for it are true.

`central_coordinator/accepted_mutants.py` says of most survivors which promise is missing. Those
promises stand in `central_missing.py`. They are no part of the protocol; each holds of it, and
would kill what it is said to kill. The guards, the barrier and the fences are killed one by one, in
the short part.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest

from herdspec import Specification, specification
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import Bounds, failing, mutate, reasons_of
from herdspec.check.plans import mistaken, mistaken_of
from herdspec.check.verdict import Standing
from herdspec.check.verify import Plan
from herdspec.protocols.central_coordinator import accepted_mutants as why
from herdspec.protocols.central_coordinator.plan import mistaken as in_turn
from herdspec.protocols.central_coordinator.properties import NOTICING
from herdspec.protocols.central_coordinator.spec import CentralCoordinator
from properties.protocols.central_coordinator.spec.central_missing import MISSING
from properties.specs import LOCK_SERVER

pytestmark = pytest.mark.xdist_group("mutate central")  # its mutants are made once
SIZES = [(1, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 2), (2, 1, 1, 1)]
"""Members, partitions, brokers and faults, in the order in which mistakes are looked for."""

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
    "lease_is_over: drop `all(x.kind != Kind.START for x in self.down[m])`": (
        (2, 1, 1, 1), "exclusive",
    ),
    # The fences: of what is written, of whom consumers follow, of whom a Start is for.
    "serve_owners: skip `self.fenced_write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "serve_offsets: skip `self.fenced_write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "fenced_write: skip `self.election.write(b)`": (
        (1, 1, 2, 2), "what_is_stored_is_of_the_present_epoch",
    ),
    "accepts: drop `self.seen[m] <= self.election.token[b]`": (
        (1, 1, 2, 2), "members_follow_no_older_epoch",
    ),
    "accepts: drop `self.election.leads[b]`": (
        (1, 1, 1, 1), "who_does_not_lead_commands_nobody",
    ),
    "is_given: drop `self.owner[p] == m`": ((2, 1, 1, 1), "exclusive"),
    # One request at a time, over a connection that stands, to who is to be asked.
    "ask: drop `self.link[m]`": ((1, 1, 2, 2), "members_follow_no_older_epoch"),
    "ask: drop `self.books[m] == b`": ((1, 1, 2, 2), "a_start_says_what_is_stored"),
    "send_start: drop `not self.follows(m)`": ((1, 1, 1, 1), "a_start_is_at_the_stored_offset"),
    # Who counts as what.
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
    held = NOTICING.with_properties(*dict.fromkeys(MISSING.values()))

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
    page = (Path(__file__).parents[4] / "docs" / "central_coordinator.md").read_text()

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
