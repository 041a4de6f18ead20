"""
The elector's core does what the election's spec allows, and the spec covers what the core does.

On the simulated ZooKeeper: every edge of the explored graph; Hypothesis, with more brokers and any
number of faults; the stories of the flaws, reproduced by the core's switches; and the mutants, each
of which some edge tells from the verified protocol. The same on a real one: `integration/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import pytest
from hypothesis import settings

from herdproof.conformance.adapter import AdapterError
from herdproof.conformance.graphs.edges import Coverage
from herdproof.conformance.holding.held import Held
from herdproof.conformance.stories import on_the_code
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import walk as random_walk
from herdproof.protocols.election import elector
from herdproof.protocols.election.gate import NothingWaits, Shell
from herdproof.protocols.election.gated import Impossible
from herdproof.protocols.election.held.adapter import SimulatedElectors, electors
from herdproof.protocols.election.held.flawed import FLAWS as FLAWS_OF_CORES
from herdproof.protocols.election.held.flawed import FLAWS_OF_SHELLS
from herdproof.protocols.election.held.observer import Observer
from herdproof.protocols.election.simulated import SimulatedElection
from herdspec.check.exploration.explore import explore
from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Ground
from herdspec.language.surface import action
from herdspec.protocols.election.flaws import DRAFTED, FLAWS
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Broker, Election
from properties.protocols.election.election_mutants import (
    HARMLESS_ALONE,
    graph,
    mutant,
    runs_without_faults,
    share_of_walk,
    walk,
)

Report = Callable[[str], None]

# ── Every edge ──────────────────────────────────────────────────────────────────────────────


def must_cover(found: Coverage, states: int, edges: int, report: Report) -> None:
    """A walk without mismatch over a graph of this size; the counts are pinned on purpose."""
    assert found.mismatch is None, found.mismatch.story
    assert (found.states, found.covered, found.missed) == (states, edges, [])
    report(f"election, simulated: {found.line}")


def test_every_edge_at_two_brokers_and_two_faults_is_the_implementations(report: Report) -> None:
    """Every step of two brokers with two faults leads the implementation where the spec says."""
    found = walk(graph(2, 2))

    must_cover(found, 22_225, 90_832, report)
    assert all(found.taken.values()), f"never taken: {found.taken}"


def test_every_edge_at_three_brokers_and_one_fault_is_the_implementations(report: Report) -> None:
    """Every step of three brokers with one fault leads the implementation where the spec says."""
    must_cover(walk(graph(3, 1)), 15_088, 64_530, report)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_edge_at_three_brokers_and_three_faults_is_the_implementations(
    report: Report,
) -> None:
    """Every step of three brokers with three faults leads it where the spec says."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(share_of_walk, repeat((3, 3)), range(2), repeat(2)))

    assert all(part.mismatch is None and part.states == 2_960_757 for part in parts)
    assert sum(part.covered for part in parts) == 18_016_242
    for part in parts:
        report(f"election, simulated: {part.line}")


def test_shares_of_a_walk_are_the_whole_walk() -> None:
    """Two walks that share the edges check each of them, and none twice."""
    parts = [share_of_walk((2, 1), k, 2) for k in (0, 1)]

    whole = walk(graph(2, 1))

    assert all(part.mismatch is None and part.covered < whole.covered for part in parts)
    together = {action: sum(part.taken[action] for part in parts) for action in whole.taken}
    assert together == whole.taken


# ── More brokers, any number of faults ──────────────────────────────────────────────────────


def held() -> Any:
    """The generated test of the cores: a rule for each of the spec's actions, none by hand."""
    return stateful(ELECTION, SimulatedElectors, Broker=(3, 5))


def test_random_runs_of_spec_and_implementation_stay_in_step(report: Report) -> None:
    """With up to five brokers and any number of faults, spec and implementation stay in step."""
    case = held()
    began = perf_counter()

    case("runTest").runTest()

    found, seconds = case.walks.report, perf_counter() - began
    rate = found.steps / seconds
    report(f"election, simulated: {found.steps:,} steps by Hypothesis, {rate:,.0f} steps/s")
    assert found.steps > 1_000
    assert found.unseen == ()
    often = [action.name for action in ELECTION.actions if action.name not in SELDOM]
    assert {*often} <= {*found.taken}


SELDOM = {"expire_orphan", "expire_told", "swallow_create", "swallow_delete"}
"""Actions that many runs do not come to."""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_runs_of_spec_and_implementation_stay_in_step(report: Report) -> None:
    """The same, with so many runs that they take minutes; no action is left out."""
    case = held()
    case.settings = settings(max_examples=3_000, stateful_step_count=50)

    case("runTest").runTest()

    found = case.walks.report
    report(f"election, simulated: {found.steps:,} steps by Hypothesis in the long run")
    assert {action.name for action in ELECTION.actions} == {*found.taken}


@pytest.mark.parametrize("flaw", FLAWS)
def test_every_mistake_is_found_by_random_runs(flaw: str, report: Report) -> None:
    """Each mutant differs in some run, with three or five brokers, and is told shortly."""
    walked = random_walk(
        ELECTION, electors(FLAWS[flaw].switches), {"Broker": (3, 5)}, runs=1_000, steps=200
    )

    assert walked.difference is not None
    deeds = len(walked.difference.deeds)
    report(f"mutant {flaw}: found after {walked.steps:,} random steps, told in {deeds}")
    assert deeds <= 24


def test_a_difference_is_told_as_a_short_story_in_the_specs_words() -> None:
    """A difference is told as the shortest story, in the spec's words, and where they differ."""
    forgetful = electors(frozenset({"no_look_after_reconnect"}))

    walked = random_walk(ELECTION, forgetful, {"Broker": (3, 5)}, seed=1)

    told_so, _, program = str(walked.difference).partition("\n\nAs a program:\n")
    story = re.sub(r"broker\d", "broker", told_so).splitlines()
    assert story[0] == "Election, step by step on spec and code (SimulatedElectors):"
    assert story[1::2] == [
        "  1. The connection of broker breaks; a call under way is not done, and has no answer."
        "  [cut(broker)]",
        "  2. broker learns that its connection is lost, and stops leading: it cannot be sure."
        "  [handle_suspended(broker)]",
        "  3. broker's session finds a server again in time; whatever was in doubt, broker will"
        " look.  [handle_reconnected(broker)]",
        "There the code is elsewhere:",
    ]
    assert story[-1] == "       call[broker]: recall in the spec, none in the code"
    assert program.count("held.offer(") == 3


# ── No rule by hand, and nothing left out ───────────────────────────────────────────────────


def test_an_action_without_a_method_is_an_error_that_says_so() -> None:
    """An action of the spec that the world cannot do is an error that names both."""

    def nap(self: Election, b: Broker) -> None:
        """{b} naps."""
        self.paused[b] = True

    with pytest.raises(AdapterError, match="SimulatedElectors has no method for the action nap"):
        Held(ELECTION.add("Napping", nap=action(nap)), SimulatedElectors, Broker=2)


def test_a_field_that_nobody_observes_is_an_error_that_says_so() -> None:
    """A field of the spec that the observer does not read is an error that names it."""
    ground = Ground(ELECTION, {"Broker": 2}, 3, 2)
    slots = dict(ground.slots)
    slots["naps", (0,)] = slots["paused", (0,)]
    ground.__dict__["slots"] = slots

    with pytest.raises(AdapterError, match="only the spec, or only its observer, has: naps"):
        Observer(ground)


def test_what_cannot_happen_in_the_world_is_refused() -> None:
    """A world refuses to serve a call that is not under way, or to expire what does not stand."""
    simulated = SimulatedElection(2)

    with pytest.raises(Impossible, match="broker1 has none under way, not look"):
        simulated.serve_look(0)
    with pytest.raises(Impossible, match="no former session owns the leader's node"):
        simulated.expire_orphan()


def must_not_be_called(*arguments: object) -> None:
    """Fail."""
    pytest.fail(f"called with {arguments}")


def test_a_gate_has_nothing_to_take_and_nothing_to_release_at_first() -> None:
    """A gate with nothing in it says so, instead of doing nothing."""
    shell = Shell(elector.Elector("a"))

    with pytest.raises(NothingWaits, match="a's inbox is empty"):
        shell.take()
    with pytest.raises(NothingWaits, match="a has no call to release"):
        shell.release(must_not_be_called)


def test_a_gate_tells_its_observer_each_event_with_its_effects() -> None:
    """A gate tells its observer each event, in order, with the effects, after the core has it."""
    seen: list[tuple[str, str, int]] = []

    def observe(
        core: elector.Elector, event: elector.Event, effects: Sequence[elector.Effect]
    ) -> None:
        seen.append((type(event).__name__, core.call.value, len(effects)))

    simulated = SimulatedElection(1, observe=observe)
    simulated.stand(0)
    simulated.settle()

    assert seen == [
        ("LinkChanged", "none", 1),
        ("Stand", "look", 2),
        ("OperationAnswered", "read", 2),
        ("OperationAnswered", "create", 2),
        ("LeaderChanged", "create", 1),  # its own watch: it comes before the answer
        ("OperationAnswered", "none", 3),
        ("Woken", "look", 2),
        ("OperationAnswered", "none", 1),
    ]


# ── Flaws and mutants ───────────────────────────────────────────────────────────────────────

DRAFT_AND_FLAWS = {"drafted": DRAFTED, **FLAWS}


@pytest.mark.parametrize("flaw", DRAFT_AND_FLAWS)
def test_the_stories_of_every_flaw_are_the_implementations_with_its_switches(flaw: str) -> None:
    """Each story that the checker tells of a flaw is reproduced by the core's switches."""
    found = DRAFT_AND_FLAWS[flaw]
    result = explore(found.spec, {"Broker": 2}, faults=found.faults)
    assert set(result.violations) == set(found.failures)

    machine = Machine(Ground(found.spec, {"Broker": 2}, bound=LARGEST, faults=0))
    for story in result.violations.values():
        followed = on_the_code(machine, electors(found.switches), story.steps)
        assert followed.follows, "\n".join(followed.difference)


def test_every_switch_belongs_to_a_flaw_of_the_spec() -> None:
    """Every switch of the core and of the world is part of the draft, or of a flaw by itself."""
    switches = frozenset[str]().union(*(flaw.switches for flaw in DRAFT_AND_FLAWS.values()))

    assert switches == FLAWS_OF_CORES.keys() | FLAWS_OF_SHELLS.keys()


CAUGHT = {
    "unfenced_write": ("write", 16),
    "ignores_suspended": ("handle_suspended", 9),
    "ignores_lost": ("handle_suspended", 9),
    "mine_by_data": ("handle_look", 9),
    "delete_any": ("handle_look", 9),
    "resign_keeps_node": ("resign", 8),
    "no_watch": ("serve_look", 2),
    "watch_after_check": ("serve_look", 2),
    "no_look_after_reconnect": ("handle_reconnected", 3),
    "uncounted_epoch": ("serve_create", 6),
    "epoch_of_read": ("serve_create", 6),
    "believes_lost_reply": ("handle_suspended", 7),
    "no_sync": ("handle_reconnected", 4),
}
"""In which action each mutant first differs from the verified spec, after how many steps."""
FAIL_WITHOUT_FAULTS = {"resign_keeps_node", "epoch_of_read"}
"""Mutants after whose first leader's resignation nobody is elected: no checker is needed."""


@pytest.mark.parametrize("flaw", FLAWS)
def test_every_mutant_is_caught_on_an_edge(flaw: str, report: Report) -> None:
    """Every mutant arrives, on some edge at two brokers and two faults, where the spec does not."""
    found = mutant(flaw, FLAWS[flaw].switches)

    assert found.mismatch is not None
    assert (found.size, found.faults) == (2, 2)
    assert (found.mismatch.action, found.mismatch.steps) == CAUGHT[flaw]
    assert "in the code" in found.mismatch.story or "The code" in found.mismatch.story
    assert found.runs_without_faults == (flaw not in FAIL_WITHOUT_FAULTS)
    report(f"mutant {flaw}: caught in {found.mismatch.action} after {found.mismatch.edges:,} edges")


@pytest.mark.parametrize("switch", sorted(HARMLESS_ALONE))
def test_a_guard_behind_another_guard_makes_no_difference_alone(switch: str) -> None:
    """A guard behind another one makes no difference alone: every edge is still the spec's."""
    assert walk(graph(2, 2), frozenset({switch})).mismatch is None


def test_without_mistakes_and_faults_one_broker_is_elected_after_the_other() -> None:
    """Without any fault one broker is elected and resigns, and another is elected after it."""
    assert runs_without_faults(frozenset())
