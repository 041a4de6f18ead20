"""
The phases of a group's rebalance: one table, which the core, the page and the spec agree on.

The core takes the table's transitions and no others; the page shows them; simulated runs and two
scenarios take each of them; and where the spec's coordinator is in the phases that the adapter puts
beside the core's, it may go the same ways.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from herdproof.conformance.graphs.graph import explored
from herdproof.protocols.central_coordinator.coordinator import groups
from herdproof.protocols.central_coordinator.coordinator.groups import NEXT, Group, Phase
from herdproof.protocols.central_coordinator.coordinator.rebalancing.rebalance import Rebalancer
from herdproof.protocols.central_coordinator.held.adapter import of_core
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run
from herdproof.zookeeper.operations import Multi, Operation, Refusal, Why
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.central_coordinator.spec import Phase as SpecPhase
from properties.protocols.central_coordinator.coordinator.core_world import GROUP, PATHS, elected

PAGE = Path(__file__).parents[5] / "docs" / "central_coordinator.md"
Transition = tuple[Phase, Phase]
TRANSITIONS = [(p, q) for p in Phase for q in Phase if q in NEXT[p]]
OTHERS = [(p, q) for p in Phase for q in Phase if (p, q) not in TRANSITIONS]


def named(transition: Transition) -> str:
    """A transition, as a test's id."""
    return " to ".join(phase.value for phase in transition)


# ── The core ────────────────────────────────────────────────────────────────────────────────


def test_every_phase_has_its_row() -> None:
    """A phase without a row could not be left; from each, a group comes to rest."""
    assert set(NEXT) == set(Phase)
    rested = {Phase.IDLE}
    for _ in Phase:
        rested |= {phase for phase in Phase if NEXT[phase] & rested}
    assert rested == set(Phase)


@pytest.mark.parametrize("transition", OTHERS, ids=named)
def test_a_transition_that_is_not_in_the_table_is_refused(transition: Transition) -> None:
    """It is a mistake of whoever wrote it, and says so; the group stays where it is."""
    before, after = transition
    group = Group("g", phase=before)

    with pytest.raises(AssertionError, match=f"{before.value} cannot be {after.value} next"):
        elected().core.rebalancer._enter(group, after)

    assert group.phase is before


def changes_of_a_phase(text: str) -> Iterator[int]:
    """The lines of a module that assign a phase."""
    for node in ast.walk(ast.parse(text)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        yield from (t.lineno for t in targets if isinstance(t, ast.Attribute) and t.attr == "phase")


def test_phases_change_in_one_place() -> None:
    """Nothing in the coordinator's core gets round the table."""
    folder = Path(groups.__file__).parent
    found = [
        file.name for file in folder.rglob("*.py") for _ in changes_of_a_phase(file.read_text())
    ]

    assert found == ["rebalance.py"]


# ── The page ────────────────────────────────────────────────────────────────────────────────


def test_the_page_shows_the_table() -> None:
    """Each phase has a row on the page, in order, which names those that may follow."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ((?:`\w+`[^|`]*)+) \|$", PAGE.read_text(), re.M)
    shown = {phase: set(re.findall(r"`(\w+)`", after)) for phase, after in rows}

    assert shown == {p.value: {after.value for after in NEXT[p]} for p in Phase}
    assert [*shown] == [phase.value for phase in Phase]


# ── What is taken ───────────────────────────────────────────────────────────────────────────


def last_member_goes_before_it_has_stopped() -> None:
    """Nobody is left once the Stops are over: there is nothing to write."""
    w = elected()
    w.close(w.register("a", mute=True))


def write_of_the_owners_is_lost() -> None:
    """Whether the owners are written nobody knows: the rebalance fails."""

    def lost(operation: Operation) -> Refusal | None:
        writes = operation.operations if isinstance(operation, Multi) else ()
        owners = any(write.path == PATHS.group(GROUP) for write in writes)
        return Refusal(Why.CONNECTION_LOSS) if owners else None

    w = elected()
    w.register("a")
    w.spoil = lost
    w.register("b")


def test_every_transition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table allows nothing that never happens: two runs and two scenarios take all of it."""
    taken = set[Transition]()
    enter = Rebalancer._enter

    def noted(rebalancer: Rebalancer, group: Group, phase: Phase) -> None:
        taken.add((group.phase, phase))
        enter(rebalancer, group, phase)

    monkeypatch.setattr(Rebalancer, "_enter", noted)
    assert [Run(seed, DEFAULT).run().violation for seed in range(2)] == [None, None]
    last_member_goes_before_it_has_stopped()
    write_of_the_owners_is_lost()

    assert taken == {*TRANSITIONS}


# ── The spec ────────────────────────────────────────────────────────────────────────────────


@cache
def transitions_of_the_spec() -> frozenset[tuple[SpecPhase, SpecPhase]]:
    """The phases before and after each step of the spec, as long as its broker leads."""
    sizes = {"Member": 1, "Partition": 1, "Broker": 1}
    explorer = explored(CENTRAL_COORDINATOR, sizes, faults=1, bound=5)
    edges, packing = explorer.edges, explorer.packing
    assert edges is not None
    phases = packing.read(explorer.rows, ("phase", (0,)))
    leads = packing.read(explorer.rows, ("election.leads", (0,))).astype(bool)
    stays = leads[edges.source] & leads[edges.target]
    pairs = np.unique(np.stack([phases[edges.source], phases[edges.target]], axis=1)[stays], axis=0)
    kinds = [*SpecPhase]
    return frozenset((kinds[before], kinds[after]) for before, after in pairs.tolist())


def images(phase: Phase) -> set[SpecPhase]:
    """Where the spec's coordinator is; a group that waits for a back-off is idle in the core."""
    return {of_core(phase), SpecPhase.FAILED} if phase is Phase.IDLE else {of_core(phase)}


def is_allowed(transition: Transition) -> bool:
    """Whether the spec has such a step, or knows no difference between the two phases."""
    before, after = map(images, transition)
    allowed = transitions_of_the_spec()
    return bool(before & after) or any((p, q) in allowed for p in before for q in after)


@pytest.mark.parametrize("transition", TRANSITIONS, ids=named)
def test_the_spec_allows_a_transition(transition: Transition) -> None:
    """Each transition of the core's table is a step of the spec's coordinator, or none of its."""
    assert is_allowed(transition)


def test_the_spec_forbids_others() -> None:
    """The barrier cannot be left out, nor the write of the owners, nor the wait in the queue."""
    for before, after in (
        (Phase.WAITING, Phase.STARTING),
        (Phase.WAITING, Phase.WRITING),
        (Phase.STOPPING, Phase.STARTING),
        (Phase.FLUSHING, Phase.STARTING),
        (Phase.IDLE, Phase.STOPPING),
        (Phase.STARTING, Phase.STOPPING),
    ):
        assert not is_allowed((before, after)), named((before, after))
