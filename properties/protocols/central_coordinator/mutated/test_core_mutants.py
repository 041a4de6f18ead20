"""
Mistakes made by rule in the cores of system B: each is noticed, or survives for a written reason.

The mistakes of `central_mutants.py` are those that somebody thought of; these are drawn. The
machine that hunts them is tested in the short part, on a few.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from herdproof.protocols.central_coordinator.coordinator.groups import Group, Owner, Registered
from properties.protocols.central_coordinator.mutated import ladder
from properties.protocols.central_coordinator.mutated.ladder import (
    HANGS,
    KILLED,
    NUMBER,
    SEED,
    SURVIVED,
    Probe,
    Reached,
    differences,
    fate,
    fates,
    scenes,
    summary,
    unexplained,
    worlds,
)
from properties.protocols.central_coordinator.mutated.made import CORES, Mutant, drawn, mutants
from properties.protocols.central_coordinator.mutated.survivors import NEVER, SURVIVORS

OFFSETS = ("protocols.central_coordinator.coordinator.stored.test_central_core_offsets",)
"""Tests of who may say what is consumed: the slice of every day is held against these alone."""
SLICE = 5
NO_BARRIER = (
    "coordinator.rebalancing.rebalance.Rebalancer._nobody_fetches: drop `not group.waiting`"
)


def named(id: str) -> Mutant:
    """A mutant by its id."""
    return next(mutant for mutant in mutants() if mutant.id == id)


OWNS = "coordinator.groups.Group.owns: negate `owner.registration == member.registration`"


# ── A few, every day ────────────────────────────────────────────────────────────────────────


def test_a_few_are_noticed() -> None:
    """The first of the sample that the tests of commits come by: none survives."""
    reached = Reached([*scenes(OFFSETS)])
    at = [
        m for m in drawn(SEED, len(mutants())) if m.file.stem == "commits" and m.id not in SURVIVORS
    ]
    few = [mutant for mutant in at if reached.of(mutant)][:SLICE]

    found = [*fates(few, reached)]

    assert [one.fate for one in found] == [KILLED] * SLICE
    assert {one.rung for one in found} == {"tests"}
    assert unexplained(found, {}) == []


def test_what_nothing_notices_is_red() -> None:
    """A mutant that survives without a reason is named; so is a stale reason."""
    mutant = named(OWNS)

    found = fate(mutant, [Probe("tests", "looks away", lambda: None)])

    assert (found.fate, found.tried) == (SURVIVED, 1)
    assert unexplained([found], {}) == [f"{OWNS}: {SURVIVED}"]
    assert unexplained([found], {OWNS: "it may"}) == []
    assert unexplained([replace(found, fate=KILLED)], {OWNS: "it may"}) == [f"{OWNS}: {KILLED}"]


def test_what_takes_too_long_hangs_and_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what would have become of it."""
    monkeypatch.setattr(ladder, "PROBE_S", 0.1)

    found = fate(named(OWNS), [Probe("tests", "goes round", for_ever)])

    assert (found.fate, found.probe) == (HANGS, "goes round")
    assert unexplained([found], {}) == [f"{OWNS}: {HANGS}"]


def test_where_one_probe_hangs_another_may_say_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many may hang, of those that a mutant is held against."""
    monkeypatch.setattr(ladder, "PROBE_S", 0.1)
    monkeypatch.setattr(ladder, "HUNG", 2)
    hangs, says = Probe("tests", "goes round", for_ever), Probe("tests", "says", lambda: "it")

    assert fate(named(OWNS), [hangs, says]).probe == "says"
    assert fate(named(OWNS), [hangs, hangs, says]).fate == HANGS


def test_a_process_that_ends_has_killed_nothing() -> None:
    """It may have taken too much, of a processor or of memory; no probe has said what is wrong."""
    found = fate(named(OWNS), [Probe("tests", "ends", lambda: os._exit(0))])

    assert found.fate == HANGS


def for_ever() -> None:
    """Look at nothing, and never end."""
    while True:
        pass


def test_a_run_of_the_simulator_notices_one() -> None:
    """A mutant in a coordinator's books is held against runs, and the contract judges them."""
    mutant = named(NO_BARRIER)

    found = fate(mutant, [*worlds()])

    assert (found.fate, found.rung) == (KILLED, "simulator")


def test_a_mutant_is_gone_with_its_process() -> None:
    """It is planted in memory, where nobody else is."""
    mutant = named(OWNS)
    text = mutant.file.read_bytes()

    found = fate(mutant, [Probe("tests", "owns", lambda: None if owns() else "not its own")])

    assert (found.fate, found.by) == (KILLED, "not its own")
    assert owns()
    assert mutant.file.read_bytes() == text


def test_what_a_mistake_would_change_is_counted_and_not_changed() -> None:
    """An owner is the one that it is: to ask whether it is not would be answered otherwise."""
    probe = Probe("tests", "owns", lambda: None if owns() and owns() else "not its own")
    never = OWNS.replace("negate", "drop")

    assert differences(named(OWNS), [probe]) == (2, 2)
    assert differences(named(never), [probe]) == (2, 0)


def owns() -> bool:
    """Whether an owner owns what it owns."""
    group = Group("g", owners={("t", "0"): Owner("a", "1-1")})
    member = Mock(Registered, registration="1-1")
    return group.owns(member, ("t", "0"), 0)


def test_only_what_runs_a_mutant_s_line_is_tried() -> None:
    """Another test comes to what it came to before."""
    comes = Probe("tests", "comes by", lambda: None if owns() else "never")
    reached = Reached([Probe("tests", "passes", lambda: None), comes])

    assert [probe.name for probe in reached.of(named(OWNS))] == [comes.name]


def test_what_finds_something_in_the_cores_as_they_are_is_no_probe() -> None:
    """It would kill every mutant that it comes by."""
    with pytest.raises(AssertionError, match="finds it in the cores as they are"):
        Reached([Probe("tests", "always red", lambda: "it")])


def test_a_mutant_s_name_outlives_edits_elsewhere() -> None:
    """Ids are different, of one line, and without its number; the sample is drawn by them."""
    made = mutants()

    assert len({mutant.id for mutant in made}) == len(made) > 2_000
    assert not [mutant.id for mutant in made if "\n" in mutant.id]
    assert drawn(SEED, NUMBER) == drawn(SEED, 2 * NUMBER)[:NUMBER] != drawn(SEED + 1, NUMBER)


def test_every_core_has_mutants_of_every_kind() -> None:
    """What decides is mutated everywhere; modules without a function that does are named."""
    made = mutants()

    assert {file.stem for file in CORES} - {mutant.file.stem for mutant in made} == {"__init__"}
    assert {mutant.operator for mutant in made} == {"drop", "negate", "skip", "shift", "swap"}


def test_every_reason_is_about_a_mutant() -> None:
    """A reason goes with the code that it is about, and stands for one of the sample."""
    assert NEVER <= SURVIVORS.keys() <= {mutant.id for mutant in drawn(SEED, NUMBER)}
    assert all(SURVIVORS.values())


def test_the_page_says_how_many_there_are() -> None:
    """Of those that were drawn, and of those that live."""
    page = (Path(__file__).parents[4] / "docs" / "central_coordinator.md").read_text("utf-8")

    said = f"{NUMBER - len(SURVIVORS)} of the {NUMBER} are killed, {len(SURVIVORS)} survive"
    assert said in " ".join(page.split())


# ── All of the sample ───────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_the_cores_mutants_are_noticed_or_excused(report: Callable[[str], None]) -> None:
    """What survives is what is listed, with a reason; nothing that is listed is killed."""
    reached = Reached(ladder.ladder())
    found = [*fates(drawn(SEED, NUMBER), reached)]

    report(f"mutants of the cores: {summary(found)}")
    assert unexplained(found, SURVIVORS) == []
    for id in NEVER:
        seen, differs = differences(named(id), reached.of(named(id)))
        report(f"{id}: {differs} of {seen} times otherwise")
        assert seen > differs == 0
