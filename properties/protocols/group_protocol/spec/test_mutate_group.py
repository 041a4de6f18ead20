"""Mistakes in the group protocol: guards that are missed, and reasons that are true."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from herdspec import specification
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import Bounds, failing, mutate, reasons_of
from herdspec.protocols.group_protocol import accepted_mutants as why
from herdspec.protocols.group_protocol.plan import BOUND, mistaken
from herdspec.protocols.group_protocol.properties import HELD
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.watched import WATCHED, WATCHED_GROUP

pytestmark = pytest.mark.xdist_group("mutate group")  # its mutants are made once

ONE = (1, 1, 1)
"""Brokers, members, partitions."""
GUARDS: dict[str, tuple[tuple[int, int, int], str]] = {
    # Who is counted, who waits, and who is read after whom.
    "evict: drop `not self.joined[m]`": (ONE, "nobody_is_expelled_who_waits"),
    "handle_leave_group: drop `self.leaving[m]`": (ONE, "nobody_is_expelled_who_waits"),
    "begin_life: drop `self.entry[m] == Entry.NONE`": (ONE, "no_ghosts"),
    "hears: skip `self.up[m] = False`": (ONE, "a_client_is_of_a_piece"),
    "read_join: drop `self.entry[m] == Entry.NONE`": (ONE, "each_answer_is_due"),
    # What is stored before it is told, and by whom.
    "complete_join: drop `all(not self.is_new(p) for p in Partition)`": (
        ONE, "what_was_taken_is_stored_at_the_handover",
    ),
    "store_assignment: drop `all(self.is_right(p, plan[p]) for p in Partition)`": (ONE, "complete"),
    "stores: skip `self.fenced_write()`": (
        (2, 1, 1), "what_is_stored_is_of_the_present_epoch",
    ),
    "stores: drop `not self.done`": (ONE, "a_write_goes_its_way"),
    # Where a member begins, and what of it is taken.
    "update_fetch_positions: skip `self.position[m, p] = self.committed[p]`": (
        ONE, "a_start_is_at_the_stored_offset",
    ),
    "update_fetch_positions: drop `not self.ready[m]`": (ONE, "who_consumes_goes_on"),
    "revoke: skip `self.ready[m] = False`": (ONE, "a_start_is_at_the_stored_offset"),
    # What a coordinator finds.
    "load_group: drop `not self.election.leads[b]`": (ONE, "nobody_is_expelled_who_waits"),
    "load_group: skip `self.state = GroupState.COMPLETING_REBALANCE`": (
        ONE, "what_is_loaded_is_what_is_stored",
    ),
    "elect: drop `self.seat is None`": (ONE, "one_is_elected_where_nobody_is"),
    "handle_leave_group: skip `self.prepare_rebalance()`": (
        (1, 2, 1), "who_leaves_begins_a_rebalance",
    ),
    "belongs_already: drop `self.state == GroupState.COMPLETING_REBALANCE`": (
        ONE, "a_rebalance_has_a_reason",
    ),
}  # fmt: skip
"""Guards and steps without which something fails, and the size at which it does, with a fault."""


@cache
def made() -> dict[str, Mutant]:
    """The protocol's mutants, by their ids."""
    return {m.id: m for m in mutants(WATCHED_GROUP)}


def sized(size: tuple[int, int, int]) -> dict[str, int]:
    """How many there are of each."""
    return dict(zip(("Broker", "Member", "Partition"), size, strict=True))


def reasoned(reason: str) -> list[str]:
    """The mutants that are accepted for this reason."""
    return [id for id, given in why.SURVIVORS["GroupProtocol"].items() if given == reason]


# ── What is quick ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [ONE, (2, 1, 1), pytest.param((1, 2, 1), marks=pytest.mark.long)])
def test_what_is_watched_holds(size: tuple[int, int, int]) -> None:
    """Nothing that mistakes are noticed by fails of the protocol as it stands."""
    found = explore(WATCHED_GROUP, sized(size), faults=1, bound=BOUND)

    assert not found.violations
    assert found.complete
    assert {p.name for p in WATCHED} <= {p.name for p in found.spec.properties}


@pytest.mark.parametrize("id", GUARDS)
def test_a_guard_or_a_step_is_missed(id: str) -> None:
    """Without this one a promise fails, or a step that is watched is another one."""
    size, promise = GUARDS[id]
    spec = specification(GroupProtocol, WATCHED_GROUP.promise(promise).python)
    found = explore(made()[id].of(spec), sized(size), faults=1, bound=BOUND)

    assert promise in {name for name, _ in failing(found)}


def test_no_guard_has_a_reason_to_be_missing() -> None:
    """What is noticed above is accepted nowhere."""
    assert not {*GUARDS} & {*reasons_of(WATCHED_GROUP)}


def test_every_reason_is_about_a_mutant() -> None:
    """Each accepted mistake is one that is made of the protocol as it stands, and has a reason."""
    reasons = reasons_of(WATCHED_GROUP)

    assert reasons
    assert {*reasons} <= {*made()}
    assert all(reasons.values())


def test_reasons_are_for_the_verified_protocol_only() -> None:
    """Another spec of the same state has mutants of its own, and none of these reasons."""
    assert reasons_of(WATCHED_GROUP.replace("Another")) == {}


@pytest.mark.parametrize("id", reasoned(why.NEVER))
def test_where_something_never_happens_less_is_reached(id: str) -> None:
    """Of the states of the protocol as it stands some are missing, and nothing fails."""
    found = explore(made()[id].of(HELD), sized(ONE), faults=1, bound=BOUND)

    assert found.states < explore(HELD, sized(ONE), faults=1, bound=BOUND).states
    assert not found.violations


@pytest.mark.parametrize("id", reasoned(why.LARGER))
def test_what_needs_a_second_member_is_noticed_there(id: str) -> None:
    """With two members, and no fault, the group does not settle."""
    found = liveness(made()[id].of(HELD), sized((1, 2, 1)), faults=0, bound=BOUND)

    assert {*found.violations} == {"settles"}


def test_the_page_says_how_many_there_are() -> None:
    """The figures of docs/group_protocol.md are those of the spec and of the reasons."""
    page = (Path(__file__).parents[4] / "docs" / "group_protocol.md").read_text()
    told = re.search(r"Of the (\d+) mistakes .*?; (\d+) are\s+accepted", page, re.S)

    assert told is not None
    assert (int(told[1]), int(told[2])) == (len(made()), len(reasons_of(WATCHED_GROUP)))


# ── What takes longer ───────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_mistake_is_left_without_a_reason() -> None:
    """`herdproof mutate group_protocol`: nothing survives, or is unknown, but for its reason."""
    first, *further = mistaken()
    found = mutate(
        first.spec, first.sizes, faults=first.faults, bound=first.bound,
        further=[Bounds(at.sizes, at.faults, at.bound) for at in further],
        reasons=reasons_of(first.spec),
    )  # fmt: skip

    assert [s.id for s in found.holes] == []
    assert found.undecided == []
    assert found.stale == []
