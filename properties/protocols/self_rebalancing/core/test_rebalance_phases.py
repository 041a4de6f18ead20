"""
The phases of a member's rebalance: one table, which the core, the page and the spec agree on.

The core takes the table's transitions and no others; the page shows them; simulated runs take each
of them; and the spec's member goes the same ways.
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
from herdproof.protocols.self_rebalancing.core import phases
from herdproof.protocols.self_rebalancing.core.phases import NEXT, RebalancePhase
from herdproof.protocols.self_rebalancing.core.rebalance import ZKRebalanceListener
from herdproof.protocols.self_rebalancing.judged.eyes import judged
from herdproof.protocols.self_rebalancing.simulated.random_runs import WorldConfig
from herdproof.zookeeper.operations import Set
from herdspec.protocols.self_rebalancing.properties import HELD
from herdspec.protocols.self_rebalancing.values import Rebalance
from properties.protocols.self_rebalancing.core.connectors import Group, Member

PAGE = Path(__file__).parents[4] / "docs" / "self_rebalancing.md"
Transition = tuple[RebalancePhase, RebalancePhase]
PAIRS = [(p, q) for p in RebalancePhase for q in RebalancePhase]
TRANSITIONS = [(p, q) for p, q in PAIRS if q in NEXT[p]]
OTHERS = [(p, q) for p, q in PAIRS if q not in NEXT[p]]
SEEDS = 16
STORMY = WorldConfig(troubles=25)


def named(transition: Transition) -> str:
    """A transition, as a test's id."""
    return " to ".join(phase.value for phase in transition)


# ── The core ────────────────────────────────────────────────────────────────────────────────


def test_every_phase_has_its_row() -> None:
    """A phase without a row could not be left; from each, a member comes to rest."""
    assert set(NEXT) == set(RebalancePhase)
    rested = {RebalancePhase.RESTING}
    for _ in RebalancePhase:
        rested |= {phase for phase in RebalancePhase if NEXT[phase] & rested}
    assert rested == set(RebalancePhase)


@pytest.mark.parametrize("transition", OTHERS, ids=named)
def test_a_transition_that_is_not_in_the_table_is_refused(transition: Transition) -> None:
    """It is a mistake of whoever wrote it, and says so; the member stays where it is."""
    before, after = transition
    listener = Group({"t": 1}).member("a").core.rebalances
    listener.phase = before

    with pytest.raises(AssertionError, match=f"{before.value} cannot be {after.value} next"):
        listener.enter(after)

    assert listener.phase is before


def changes_of_a_phase(text: str) -> Iterator[int]:
    """The lines of a module that assign a phase, alone or among others."""
    for node in ast.walk(ast.parse(text)):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            yield from (
                part.lineno
                for part in ast.walk(target)
                if isinstance(part, ast.Attribute) and part.attr == "phase"
            )


def test_phases_change_in_one_place() -> None:
    """Nothing in the core, or in what replaces parts of it, gets round the table."""
    room = Path(phases.__file__).parents[1]
    found = [
        f"{file.name}:{line}"
        for folder in ("core", "held", "simulated", "shell")
        for file in sorted((room / folder).glob("*.py"))
        for line in changes_of_a_phase(file.read_text())
    ]

    assert len(found) == 2, f"the first phase, and `enter`: {found}"
    assert {line.partition(":")[0] for line in found} == {"rebalance.py"}


# ── The page ────────────────────────────────────────────────────────────────────────────────


def test_the_page_shows_the_table() -> None:
    """Each phase has a row on the page, in order, which names those that may follow."""
    rows = re.findall(r"^\| `([\w ]+)` \| [^|]+ \| (`[^|]+) \|$", PAGE.read_text(), re.M)
    shown = {phase: set(re.findall(r"`([\w ]+)`", after)) for phase, after in rows}

    assert shown == {p.value: {after.value for after in NEXT[p]} for p in RebalancePhase}
    assert [*shown] == [phase.value for phase in RebalancePhase]


# ── What is taken ───────────────────────────────────────────────────────────────────────────


def reaches(member: Member, phase: RebalancePhase) -> Member:
    """A member, carried until it is in a phase."""
    while member.core.rebalances.phase is not phase:
        assert member.carry(), f"it comes to rest before it is {phase.value}"
    return member


def attempts_that_fail_and_are_taken_up_again() -> None:
    """Nobody may create owner nodes; in the next attempt; and after a lost connection."""
    group = Group({"t": 1})
    group.stranger("/consumers/g/owners/t")
    member = reaches(group.member("a"), RebalancePhase.BACKING_OFF)
    group.pass_time(2_000)
    member.cut()
    member.connect()


def topic_that_cannot_be_read() -> None:
    """No plan is made without it."""
    group = Group({"t": 1})
    group.write(Set("/brokers/topics/t", b"garbage"))
    reaches(group.member("a"), RebalancePhase.BACKING_OFF)


def offsets_that_come_too_late() -> None:
    """By then the session may have ended."""
    group = Group({"t": 1})
    member = reaches(group.member("a"), RebalancePhase.OFFSETS)
    group.now_ms += 60_000
    reaches(member, RebalancePhase.BACKING_OFF)


def session_that_ends_amid(phase: RebalancePhase) -> None:
    """The next one begins with the first step."""
    group = Group({"t": 1})
    member = reaches(group.member("a"), phase)
    member.cut()
    group.zookeeper.close(member.session)
    member.connect()


def connection_that_is_lost_amid(phase: RebalancePhase) -> None:
    """The session lives on."""
    group = Group({"t": 1})
    member = reaches(group.member("a"), phase)
    member.cut()
    member.connect()


def test_every_transition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table allows nothing that never happens: runs and scenarios take all of it."""
    taken = set[Transition]()
    enter = ZKRebalanceListener.enter

    def noted(listener: ZKRebalanceListener, phase: RebalancePhase) -> None:
        taken.add((listener.phase, phase))
        enter(listener, phase)

    monkeypatch.setattr(ZKRebalanceListener, "enter", noted)
    assert not any(judged(seed, STORMY).broken for seed in range(SEEDS))
    attempts_that_fail_and_are_taken_up_again()
    topic_that_cannot_be_read()
    offsets_that_come_too_late()
    for phase in (RebalancePhase.TOPICS, RebalancePhase.IDS, RebalancePhase.OFFSETS):
        session_that_ends_amid(phase)
        connection_that_is_lost_amid(phase)

    assert taken == {*TRANSITIONS}


# ── The spec ────────────────────────────────────────────────────────────────────────────────

ENDS = ("kill", "shutdown")
"""The actions after which a member is in no phase at all."""
IMAGES = {
    RebalancePhase.RESTING: {Rebalance.RESTING, Rebalance.BACKING_OFF},
    RebalancePhase.OFFSETS: {Rebalance.CLAIMING, Rebalance.STARTING},
}
"""The phases of the spec that are one in the core: an attempt that was cut off fails, there."""


@cache
def transitions_of_the_spec() -> frozenset[tuple[Rebalance, Rebalance]]:
    """The phases before and after each step of a member that lives."""
    explorer = explored(HELD, {"Member": 1, "Partition": 1}, faults=2, bound=5)
    edges = explorer.edges
    assert edges is not None
    phase = explorer.packing.read(explorer.rows, ("phase", (0,)))
    ends = [i for i, step in enumerate(explorer.ground.instances) if step.action.name in ENDS]
    lives = ~np.isin(edges.instance, ends)
    steps = np.stack([phase[edges.source], phase[edges.target]], axis=1)[lives]
    kinds = [*Rebalance]
    return frozenset((kinds[p], kinds[q]) for p, q in np.unique(steps, axis=0).tolist())


def is_allowed(transition: Transition) -> bool:
    """Whether the spec has such a step, or knows no difference between the two phases."""
    before, after = (IMAGES.get(phase, {Rebalance[phase.name]}) for phase in transition)
    allowed = transitions_of_the_spec()
    return bool(before & after) or any((p, q) in allowed for p in before for q in after)


@pytest.mark.parametrize("transition", TRANSITIONS, ids=named)
def test_the_spec_allows_a_transition(transition: Transition) -> None:
    """Each transition of the core's table is a step of the spec's member, or none of its."""
    assert is_allowed(transition)


def test_the_spec_forbids_all_others() -> None:
    """
    No step can be left out, but those that are one phase in the spec.

    Failures without a back-off are left out here: in the core they lead to rest.
    """
    others = [(p, q) for p, q in OTHERS if p is not q and q is not RebalancePhase.BACKING_OFF]

    found = {named(other) for other in others if is_allowed(other)}

    assert found == {"ids to offsets", "offsets to claiming"}
