"""
System B's cores take offsets that are brought as the variant says in which they are.

They are held to it where the process of a member that has stopped registers anew, as another one;
so are the cores that have the variant's known mistake, and some that are mistaken here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, check_adapter, controlled, quiet
from herdproof.conformance.flawed import with_parts
from herdproof.conformance.graphs.edges import cover
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.walks.walk import Walked, walk
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.connector import Connector
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.members.admission import Admission
from herdproof.protocols.central_coordinator.coordinator.members.bringing import BroughtOffsets
from herdproof.protocols.central_coordinator.coordinator.members.membership import Membership
from herdproof.protocols.central_coordinator.entry import adapter
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.held.bringing import BringingCores, somebody_is_back
from herdproof.protocols.central_coordinator.simulated.gated_processes import GatedProcesses
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.spec import Member, Partition, Phase
from herdspec.protocols.central_coordinator.variants.bringing_flaws import BRINGING_FLAWS
from herdspec.protocols.central_coordinator.variants.bringing_properties import (
    BRINGING,
    BRINGING_HELD,
)
from herdspec.protocols.election.spec import Broker
from properties.protocols.central_coordinator.held.test_central_resuming_cores import (
    consuming,
    rebalanced,
    taken,
)
from properties.protocols.central_coordinator.held.test_central_stories import right

TWO: dict[str, Any] = {"Broker": 1, "Member": 2, "Partition": 1}
TWO_OF_ALL = {"Broker": 2, "Member": 2, "Partition": 2}
FLAW = "brought_by_id"


def stopped(held: Held) -> tuple[Broker, Member, Member, Partition]:
    """A member that has finished a record, which nobody knows, has lost its connection."""
    b, m, p = consuming(held)
    taken(
        held, ("produce", p), ("consume", m, p), ("cut", m), ("handle_closed", m, b),
        ("on_lost_connection", m),
    )  # fmt: skip
    return b, m, Member(1), p


def seen(held: Held) -> dict[str, Any]:
    """What is seen of the code."""
    assert held.code is not None, "it lives within `with`"
    return dict(held.code.observe())


def held_to(code: type[CentralCores] = BringingCores, **sizes: int) -> Held:
    """Code beside the variant, with two members if nothing else is said."""
    return Held(BRINGING_HELD, code, **{**TWO, **sizes})


def brought_and_stored(code: type[CentralCores] = BringingCores) -> None:
    """Who has stopped is back as another member, and is given what it had, from there on."""
    with held_to(code) as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = stopped(held)
        taken(held, ("register_again", n, b, {p}, {m}))
        assert (seen(held)["left"][m, p], (n, m) in seen(held)["over"]) == (1, False)

        taken(held, ("handle_register", n, b))
        rebalanced(held, n)
        assert (seen(held)["committed"][p], seen(held)["position"][n, p]) == (1, 1)


def test_the_adapter_offers_all_that_the_variant_adds() -> None:
    """Nothing is absent but what is of the verified spec."""
    check_adapter(BRINGING, BringingCores)
    offered = {action.name for action in controlled(BRINGING, BringingCores)}

    assert {a.name for a in BRINGING.actions} - offered == {*BringingCores.absent} == {"refuse"}


def test_what_is_brought_is_stored_before_the_partition_is_given_away() -> None:
    """It is noted where the Register is taken."""
    brought_and_stored()


def test_the_next_coordinator_takes_it_too() -> None:
    """It has read who owns what, and what is stored."""
    with held_to(Broker=2) as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = stopped(held)
        other = Broker(1)
        taken(
            held, ("lose_session", b), ("elect", other), ("coordinator_startup", other),
            ("register_again", n, other, {p}, {m}), ("handle_register", n, other),
        )  # fmt: skip

        assert seen(held)["noted"][other, p] == 1


def test_who_is_in_the_books_and_said_to_have_stopped_is_struck_at_once() -> None:
    """Its coordinator has not heard that its connection is closed."""
    with held_to() as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        n = Member(1)
        taken(
            held, ("produce", p), ("consume", m, p), ("time_out", m),
            ("register_again", n, b, {p}, {m}), ("handle_register", n, b),
        )  # fmt: skip

        assert seen(held)["books"] == {m: None, n: b}
        assert seen(held)["noted"][b, p] == 1


def test_a_register_that_was_lost_is_said_again() -> None:
    """By the same process, over its next connection; it was a member of nothing meanwhile."""
    with held_to() as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = stopped(held)
        taken(
            held, ("register_again", n, b, {p}, {m}), ("cut", n), ("on_lost_connection", n),
            ("register_again", n, b, {p}, {m}), ("handle_register", n, b),
        )  # fmt: skip

        assert seen(held)["noted"][b, p] == 1


def owned_by_another(code: type[CentralCores] = BringingCores) -> None:
    """Who has stopped owns nothing any more: what it brings is of the past."""
    with held_to(code, Member=3) as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = stopped(held)
        other = Member(2)
        taken(held, ("register", other, b, {p}), ("handle_register", other, b))
        rebalanced(held, other)
        taken(held, ("register_again", n, b, {p}, {m}), ("handle_register", n, b))

        assert (seen(held)["owner"][p], seen(held)["position"][other, p]) == (other, 0)
        assert (b, p) not in seen(held).get("noted", {})


def test_of_who_owns_nothing_any_more_nothing_is_taken() -> None:
    """Another has been given it, and begins at what is stored."""
    owned_by_another()


def test_a_member_does_not_begin_anew_while_it_is_said_to_be_over() -> None:
    """The spec could not tell its lives apart: the world has it wait, as the spec need not."""
    with held_to() as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = stopped(held)
        taken(held, ("register_again", n, b, {p}, {m}))

        assert not held.offer("register", m, b, {p})


# ── By chance ───────────────────────────────────────────────────────────────────────────────


def walked(code: type[CentralCores] = BringingCores, runs: int = 10, sizes: Any = TWO) -> Walked:
    """Random walks from where a Register that brings something is on its way."""
    return walk(BRINGING_HELD, code, sizes, runs=runs, steps=40, shorten=0, first=somebody_is_back)


def test_walks_from_where_somebody_is_back_go_where_the_spec_does() -> None:
    """Offsets are brought, and whoever has brought them stops, and is back once more."""
    found = walked()

    print(f"{found.steps} steps", *found.gaps, sep="\n")
    assert found.holds, found.difference or found.unknown
    assert found.report.taken["register_again"] > found.runs
    assert found.report.taken["handle_register"] > found.runs


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_edges_near_where_an_offset_is_brought_are_taken() -> None:
    """Some four thousand of those with two faults: everywhere the code goes where the spec does."""
    code: Any = quiet(BringingCores)

    found = cover(
        BRINGING, code, faults=2, bound=6, part=0.0001, seed=13, near="an_offset_is_brought", **TWO
    )

    print("\n".join(found.lines))
    assert found.mismatch is None
    assert found.covered > 4_000


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_the_cores_do_what_the_variant_allows_for_long() -> None:
    """Two hundred walks; prints what a pass does not show."""
    found = walk(
        BRINGING_HELD, BringingCores, TWO_OF_ALL, runs=200, steps=100, first=somebody_is_back
    )

    print("\n".join([f"{found.steps} steps in {found.seconds:.0f} s", *found.gaps]))
    assert found.holds, found.difference or found.unknown


# ── Mistaken cores ──────────────────────────────────────────────────────────────────────────


class TakesNothing(BroughtOffsets):
    """Offsets that are brought are passed over."""

    def _may_bring(self, *_: Any) -> bool:
        return False


class TakesOfAnybody(BroughtOffsets):
    """Whose an offset is does not matter."""

    def _may_bring(self, *_: Any) -> bool:
        return True


class SaysOneMore(Connector):
    """Where it stops is said to be one record further."""

    def where_it_stops(self) -> tuple[Offset, ...]:
        """Not where it would answer a Stop."""
        return tuple(Offset(x.topic, x.partition, x.offset + 1) for x in super().where_it_stops())


def taking(part: type[BroughtOffsets]) -> dict[str, Any]:
    """Coordinators that take offsets so."""
    admission = with_parts(Admission, brought_class=part)
    membership = with_parts(Membership, admission_class=admission)
    return {"coordinator": with_parts(Coordinator, membership_class=membership)}


MISTAKEN = {
    "takes nothing": taking(TakesNothing),
    "takes of anybody": taking(TakesOfAnybody),
    "says one more": {"consumer": with_parts(ConsumerCore, connector_class=SaysOneMore)},
}
FOUND_BY = {
    "takes nothing": "wait", "takes of anybody": "handle_register",
    "says one more": "on_lost_connection",
}  # fmt: skip


def followed(code: type[CentralCores]) -> None:
    """A core along two of the stories above."""
    brought_and_stored(code)
    owned_by_another(code)


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_mistaken_core_is_found(name: str) -> None:
    """By one of the stories above: where an offset is said, or noted, or before owners are sent."""
    world = staticmethod(partial(GatedProcesses, **MISTAKEN[name]))
    code = type("Mistaken", (BringingCores,), {"world_of": world})

    with pytest.raises(Differs) as found:
        followed(code)

    print(name, found.value.why)
    assert type(found.value) is Differs
    assert FOUND_BY[name] in (found.value.deeds[-1].name, found.value.deeds[-1].kind)


# ── The known mistake ───────────────────────────────────────────────────────────────────────


def mistaken() -> type[Adapter]:
    """Cores that have the mistake, as the entry has them for the variant that has it, too."""
    code = adapter(FLAW)
    assert code is not None, "the cores can have it"
    return code


def flawed(code: type[Adapter] | None = None) -> Held:
    """A core that knows by its id whose offsets it is brought, beside its variant."""
    return Held(BRINGING_FLAWS[FLAW].spec, code or mistaken(), **TWO)


def told_to_start(held: Held) -> None:
    """A member is told to start once more; what its former registration has finished is brought."""
    b, m, n, p = Broker(0), Member(0), Member(1), Partition(0)
    rebalance = (
        ("begin_rebalance", b, False), ("send_stop", m, b), ("handle_stop", m),
        ("handle_stop_response", m, b), ("write_owners", b), ("serve_owners", b), ("answered", b),
    )  # fmt: skip
    taken(
        held, ("elect", b), ("coordinator_startup", b), ("register", m, b, {p}),
        ("handle_register", m, b), *rebalance, ("send_start", m, b), ("doubt", b),
        ("coordinator_startup", b), ("handle_start", m), ("produce", p), ("consume", m, p),
        ("on_lost_connection", m), ("register_again", n, b, set(), {m}),
        ("register", m, b, {p}), ("handle_register", m, b), *rebalance,
        ("handle_register", n, b), ("send_start", m, b),
    )  # fmt: skip


def test_who_is_known_by_its_id_is_told_to_start_behind_what_is_stored() -> None:
    """`brought_by_id`: the core goes with its variant, to where the promise is broken."""
    with flawed() as held, sizes_of_sorts(held.machine.sizes):
        told_to_start(held)
        taken(held, ("flush_offsets", Broker(0), False), ("serve_offsets", Broker(0)))

        look = seen(held)
        assert (look["committed"][Partition(0)], look["begin"][Member(0), Partition(0)]) == (1, 0)
        assert look["phase"][Broker(0)] is Phase.STARTING


def test_cores_without_the_mistake_have_nothing_to_store_there() -> None:
    """In the same world: what is brought is of a registration that owns nothing any more."""
    with flawed(right(mistaken())) as held, sizes_of_sorts(held.machine.sizes):
        told_to_start(held)

        assert not held.offer("flush_offsets", Broker(0), False)


def test_what_a_former_life_has_finished_is_taken_of_its_own_name() -> None:
    """
    The shorter story of the mistake, which right cores go along with, too.

    A member has begun anew, and what it owned it owns no more. To the core the owner is a
    registration, whose name is given once: the spec says that to take its offset breaks
    `exclusive_fenced`, the core that it is brought by whom it is of. Neither comes to the story's
    very end, as a rebalance whose last member is lost is over at once, in the core.
    """
    for code in (mistaken(), right(mistaken())):
        with flawed(code) as held, sizes_of_sorts(held.machine.sizes):
            b, m, n, p = consuming_unheard(held)
            taken(
                held, ("produce", p), ("consume", m, p), ("on_lost_connection", m),
                ("register_again", n, b, set(), {m}), ("register", m, b, set()),
                ("handle_register", n, b),
            )  # fmt: skip

            assert seen(held)["noted"][b, p] == 1
            assert {vars(s.state)["stale_commit_accepted"] for s in held.states} == {True}


def consuming_unheard(held: Held) -> tuple[Broker, Member, Member, Partition]:
    """A member that carries a Start out, though its channel is closed by then."""
    b, m, n, p = Broker(0), Member(0), Member(1), Partition(0)
    taken(
        held, ("elect", b), ("coordinator_startup", b), ("register", m, b, {p}),
        ("handle_register", m, b), ("begin_rebalance", b, False), ("send_stop", m, b),
        ("handle_stop", m), ("handle_stop_response", m, b), ("write_owners", b),
        ("serve_owners", b), ("answered", b), ("send_start", m, b), ("fail", m, b),
        ("handle_start", m),
    )  # fmt: skip
    return b, m, n, p
