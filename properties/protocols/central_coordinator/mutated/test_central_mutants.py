"""
Each mistake that is planted in the cores of system B is caught, and by the suite that should.

The suites are tried in the order of `central_suites.SUITES`. What catches what is pinned here: a
mutant that slips through to a later suite tells that an earlier one sees less than it did.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from herdproof.consuming.assignment import range_assign, shares
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from properties.protocols.central_coordinator.mutated.central_mutants import MUTANTS, Change, Mutant
from properties.protocols.central_coordinator.mutated.central_suites import (
    CORE_TESTS,
    PAGE,
    SUITES,
    Hunt,
    core_tests,
    ends,
    hunted,
    module_named,
    monitors,
    row,
    scenarios,
)

STEPS, END, CORE = "simulator", "simulator, at the end", "core tests"

UNSETTLED = {"complete", "settles", "shares_are_even"}
TWO_CONSUME = {"exclusive", "who_consumes_owns"}
CAUGHT: dict[str, tuple[str, set[str]]] = {
    "fence_of_any_epoch": (STEPS, {"only_the_present_epoch_writes"}),
    "deposed_keeps_channels": (STEPS, {"who_does_not_lead_commands_nobody"}),
    "answers_of_the_past": (STEPS, {"KeyError"}),
    "pause_unnoticed": (CORE, {"test_who_was_paused_closes_every_channel_before_anything_else"}),
    "first_answer_is_enough": (STEPS, TWO_CONSUME),
    "owners_written_early": (STEPS, {"who_consumes_owns"}),
    "dirty_is_cleared_first": (END, UNSETTLED),
    "two_handlers": (CORE, {"test_a_group_belongs_to_one_handler_for_ever"}),
    "lost_are_waited_for": (END, UNSETTLED),
    "point_written_first": (STEPS, {"owners_change_with_the_generation"}),
    "lease_of_who_acknowledged": (STEPS, TWO_CONSUME),
    "grace_for_a_lease": (STEPS, TWO_CONSUME),
    "delivers_after_the_lease": (STEPS, TWO_CONSUME),
    "replaced_watchers_fire": (CORE, {"test_who_waits_anew_waits_until_the_later_time"}),
    "start_by_consumer_id": (END, UNSETTLED),
    "shares_rounded_up": (END, {"shares_are_even"}),
    "stale_partitions": (END, UNSETTLED),
    "wildcards_forgotten": (END, UNSETTLED),
    "offsets_go_back": (STEPS, {"committed_offsets_never_go_back"}),
    "commit_answered_early": (STEPS, {"stored_as_taken"}),
    "one_offset_too_far": (STEPS, {"only_finished_is_committed"}),
    "unstored_reset": (STEPS, {"a_resolved_start_is_stored_first"}),
    "fetches_after_stop": (STEPS, TWO_CONSUME),
    "length_in_characters": (CORE, {"test_a_frame_is_these_bytes"}),
    "says_stopped_early": (STEPS, TWO_CONSUME),
    "over_by_id": (STEPS, TWO_CONSUME),
    "over_before_the_barrier": (
        CORE, {"test_who_is_back_amid_the_stops_is_stopped_before_owners_are_written"}
    ),
}  # fmt: skip
"""By which suite, and by which promise (any of these), error or test."""

RENEW = "renew the table: python -m properties.protocols.central_coordinator.mutated.central_suites"


def test_every_mutant_has_its_place() -> None:
    """Every mutant is expected to be caught by a suite, and each suite catches some."""
    assert [mutant.name for mutant in MUTANTS] == [*CAUGHT]
    assert {suite for suite, _ in CAUGHT.values()} == SUITES.keys()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, report: Callable[[str], None]) -> None:
    """The suite that should catches a mutant, for a reason that it may have; the page says so."""
    caught = hunted(mutant)

    assert caught is not None, f"nothing catches {mutant.name}"
    report(
        f"mutants: {mutant.name} is caught by {caught.suite}: {caught.found.by} "
        f"({caught.found.after}; {caught.seconds:.1f} s)"
    )
    suite, reasons = CAUGHT[mutant.name]
    assert caught.suite == suite
    assert caught.found.by in reasons
    rows = [row(mutant, suite, by) for by in reasons]
    page = PAGE.read_text(encoding="utf-8")
    assert any(f"\n{begun}" in page for begun in rows), RENEW


def test_the_page_tells_of_the_mutants_there_are() -> None:
    """The table of docs/central_coordinator.md has a row for each mutant, and no other."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("| mistake | what it does | caught by | after | seconds |\n")[2]
    names = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.M)

    assert names == [mutant.name for mutant in MUTANTS], RENEW


# ── The suites, and the mutants, are what they seem ─────────────────────────────────────────

WORLDS: dict[Config, list[Mutant]] = {}
for _mutant in MUTANTS:
    WORLDS.setdefault(_mutant.world, []).append(_mutant)


@pytest.mark.parametrize("mutants", WORLDS.values(), ids=lambda mutants: mutants[0].name)
def test_the_simulator_finds_nothing_in_the_cores_as_they_are(mutants: list[Mutant]) -> None:
    """What is found in a world is the mutants' doing: without one, nothing is, by as many runs."""
    hunt = Hunt(mutants[0].world, max(mutant.runs for mutant in mutants))

    assert monitors(hunt) is None
    assert ends(hunt) is None
    assert len(hunt.ran) == hunt.seeds


def test_the_tests_of_the_cores_find_nothing_in_the_cores_as_they_are() -> None:
    """Nor do the scenarios, of which every file has some."""
    assert core_tests(Hunt(Config(), 0)) is None

    for name in CORE_TESTS:
        assert next(scenarios(module_named(name)), None), name


def test_a_mutant_is_gone_after_its_hunt() -> None:
    """A mutant changes the function itself, whoever holds it, and only while it is planted."""
    mutant = Mutant("rounded", "", Change(range_assign, "(index < first)", "(first > 0)"))
    right = {"p0": "a", "p1": "b", "p2": "c", "p3": "d"}
    wrong = {"p0": "a", "p1": "a", "p2": "b", "p3": "b"}
    assert range_assign([*right], "abcd") == right
    uneven = range_assign([*right], "abc")

    def hunt() -> None:
        with mutant.planted():
            assert range_assign([*right], "abc") == wrong
            raise RuntimeError("amid the hunt")

    with pytest.raises(RuntimeError, match="amid the hunt"):
        hunt()

    assert range_assign([*right], "abc") == uneven != wrong


@pytest.mark.parametrize("old", ["partitions", "no such words"])
def test_a_change_whose_words_are_not_there_once_is_refused(old: str) -> None:
    """A mutant whose words were edited away, or stand there twice, does not pass for one."""
    with pytest.raises(ValueError, match="is not once in range_assign"):
        Change(range_assign, old, "").code()


def test_what_a_core_raises_is_no_run() -> None:
    """A core that raises an error is caught, by that error."""
    change = Change(shares, "threads[streams] = [", "threads[0] = threads[0] = [")
    broken = Mutant("raises", "", change, runs=1)

    caught = hunted(broken)

    assert caught is not None
    assert (caught.suite, caught.found.by) == (STEPS, "KeyError")
