"""The edges of system B's explored graph are taken on its real cores; what is left is named."""

from __future__ import annotations

from functools import cache, partial

import pytest

from herdproof.conformance.graphs.edges import BEHIND, REFUSED, RESTLESS, UNTOLD
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.membership import Membership
from herdproof.protocols.central_coordinator.held.adapter import CentralEdges
from herdproof.protocols.central_coordinator.held.edges import cover, graph_of
from herdproof.protocols.central_coordinator.held.flawed import NoStart
from herdproof.protocols.central_coordinator.held.gated import GatedCentral
from herdspec.check.exploration.explore import Explorer

ABSENT = {f"absent: {why}" for why in CentralEdges.absent.values()}


@cache
def graph() -> Explorer:
    """One broker, one member, one partition, two faults."""
    return graph_of(faults=2)


class Books(Membership):
    """A coordinator's members, taken for started if they owned their shares before."""

    rebalancer_class = NoStart


class Mistaken(Coordinator):
    """A coordinator with that mistake; a class with a name, so that it can be brought back."""

    membership_class = Books


class MistakenEdges(CentralEdges):
    """The adapter with that coordinator."""

    world_of = staticmethod(partial(GatedCentral, coordinator=Mistaken))


def test_a_tenth_of_all_edges_is_taken() -> None:
    """In an order by chance; everywhere the code goes where the spec does."""
    found = cover(graph(), share=0.1, seed=13)

    print("\n".join(found.lines))
    assert found.mismatch is None
    assert 0.08 < found.share <= 0.11


def test_without_faults_all_edges_are_taken() -> None:
    """Those that start where a write is under way, too."""
    found = cover(graph_of(faults=0))

    print("\n".join(found.lines))
    assert found.mismatch is None
    assert not found.missed
    assert sum(found.taken.values()) == 421


def test_a_mistaken_core_leaves_the_graph() -> None:
    """Some edge leads elsewhere, and its story is told."""
    found = cover(graph_of(faults=1), adapters=(MistakenEdges,))

    assert found.mismatch is not None
    assert "in the spec" in found.mismatch.story


@pytest.mark.long
@pytest.mark.timeout(600)
def test_edges_are_taken_and_the_rest_is_named() -> None:
    """At least 92 in a hundred; prints which are not, and why."""
    found = cover(graph())

    print("\n".join(found.lines))
    assert found.mismatch is None
    assert found.share >= 0.92
    assert {one.reason for one in found.missed} <= {BEHIND, REFUSED, RESTLESS, UNTOLD, *ABSENT}
    taken = sum(found.taken.values())
    assert sum(one.edges for one in found.missed) == 58_216 - taken
