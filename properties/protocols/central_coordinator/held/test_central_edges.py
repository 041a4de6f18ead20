"""The edges of system B's explored graph are taken on its real cores; what is left is named."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, quiet
from herdproof.conformance.graphs.edges import (
    ABSENT,
    BEHIND,
    BEYOND,
    REFUSED,
    RESTLESS,
    UNTOLD,
    Coverage,
    cover,
)
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.members.membership import Membership
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.held.flawed import NoStart
from herdproof.protocols.central_coordinator.simulated.gated import GatedCentral
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator.properties import HELD


def covered(
    faults: int, adapter: type[Adapter] = CentralCores, spec: Specification = HELD, **options: Any
) -> Coverage:
    """The edges at one broker, one member, one partition; told."""
    code = quiet(adapter)
    found = cover(spec, code, faults=faults, bound=5, Broker=1, Member=1, Partition=1, **options)
    print("\n".join(found.lines))
    return found


def check_taken(faults: int, edges: int, *of: Any) -> None:
    """At least 95 in a hundred are taken; prints which are not, and why."""
    found = covered(faults, *of)

    assert found.mismatch is None
    assert found.edges == edges
    assert found.covered / found.edges >= 0.95
    why = {why for _, why in reasons(found) if not why.startswith(ABSENT)}
    assert why <= {BEHIND, BEYOND, REFUSED, RESTLESS, UNTOLD}  # what fails is a fault too many
    assert sum(one.edges for one in found.missed) == found.edges - found.covered


def reasons(found: Coverage) -> dict[tuple[str, str], int]:
    """How many edges of each action were not taken, by reason."""
    return dict(Counter({(one.action, one.reason): one.edges for one in found.missed}))


class Books(Membership):
    """A coordinator's members, taken for started if they owned their shares before."""

    rebalancer_class = NoStart


class Mistaken(Coordinator):
    """A coordinator with that mistake; a class with a name, so that it can be brought back."""

    membership_class = Books


class MistakenEdges(CentralCores):
    """The adapter with that coordinator."""

    world_of = staticmethod(partial(GatedCentral, coordinator=Mistaken))


def test_a_tenth_of_all_edges_is_taken() -> None:
    """In an order by chance; everywhere the code goes where the spec does."""
    found = covered(2, part=0.1, seed=13)

    assert found.mismatch is None
    assert 0.1 <= found.covered / found.edges < 0.11


def test_without_faults_all_edges_are_taken_but_where_there_is_nothing_to_consume() -> None:
    """A queued group for which nothing is planned: the core gives nothing, and does not wait."""
    found = covered(0)

    assert found.mismatch is None
    assert reasons(found) == {("begin_rebalance", REFUSED): 15}
    assert found.covered == 428


def test_a_mistaken_core_leaves_the_graph() -> None:
    """Some edge leads elsewhere, and its story is told."""
    found = covered(1, MistakenEdges)

    assert found.mismatch is not None
    assert "in the spec" in found.mismatch.story


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_edges_are_taken_and_the_rest_is_named() -> None:
    """All that can be reached with two faults."""
    check_taken(2, 80_135)
