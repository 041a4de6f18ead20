"""The group coordinator's core and its spec, taken through the same steps by chance."""

import pytest

from herdproof.conformance.walks.walk import walk
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.held.flawed import TellsBeforeStoring
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL
from properties.protocols.group_protocol.group_mutants import MUTANTS

SIZES = {"Broker": 2, "Member": 2, "Partition": 1}
FOUND: dict[str, type[GroupCoordinator]] = {
    "tells_before_storing": TellsBeforeStoring,
    "forgets_a_member": MUTANTS["forgets_a_member"],
    "never_says_rebalance": MUTANTS["never_says_rebalance"],
    "nobody_leaves": MUTANTS["nobody_leaves"],
}


def held(core: type[GroupCoordinator]) -> type[HeldCoordinators]:
    """The adapter of another core."""
    return type("HeldMistake", (HeldCoordinators,), {"core": core})


@pytest.mark.timeout(300)
def test_the_core_goes_where_its_spec_goes() -> None:
    """Brokers, clients and the store in any order: what is seen of the core is as in the spec."""
    found = walk(GROUP_PROTOCOL, HeldCoordinators, SIZES, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert found.steps > 2_000


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_it_does_so_for_long() -> None:
    """Longer walks, other chances."""
    found = walk(GROUP_PROTOCOL, HeldCoordinators, SIZES, runs=1_000, steps=400, seed=1)

    assert found.difference is None, str(found.difference)
    assert [a for a, n in found.report.taken.items() if not n] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FOUND)
def test_a_core_with_a_mistake_goes_elsewhere(name: str) -> None:
    """Walks of the same kind show it."""
    found = walk(GROUP_PROTOCOL, held(FOUND[name]), SIZES, runs=40, steps=200, shorten=0)

    assert found.difference is not None
