"""
The spec of the self-rebalancing consumers: the size of its world, what it promises, what breaks it.

The quotations are from PROTOCOLS.md, section A, and from `004`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.protocols.flaws import Flaw
from herdspec.protocols.self_rebalancing.flaws import DRAFTED, FLAWS, FOUND, READINGS
from herdspec.protocols.self_rebalancing.kept import COLUMNS
from herdspec.protocols.self_rebalancing.plan import PROTOCOL
from herdspec.protocols.self_rebalancing.properties import HELD, POSSIBLE, SELF_REBALANCING
from properties.protocols.flawed_worlds import explored_of, lived_of
from properties.protocols.owed_tables import declared_of, found_by_a_run, owed_on

ALL_FLAWS: dict[str, Flaw] = {**FLAWS, **READINGS, **FOUND, "drafted": DRAFTED}
LIVE = {"settles"}
BOUND = 8


@cache
def explored(members: int, partitions: int, faults: int) -> Exploration:
    """The corrected protocol at this size; naturals reach far enough that nothing is cut."""
    sizes = {"Member": members, "Partition": partitions}
    return explore(SELF_REBALANCING, sizes, faults=faults, bound=BOUND)


flawed, lived = explored_of(ALL_FLAWS), lived_of(ALL_FLAWS)


# ── The corrected protocol ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "states", "steps", "depth"),
    [
        ((1, 1, 1), 225, 490, 23),
        ((1, 2, 2), 9_256, 23_616, 36),
        ((2, 1, 1), 14_129, 57_099, 47),
        ((2, 1, 2), 133_530, 578_095, 62),
        ((2, 2, 1), 632_786, 2_617_070, 59),
    ],
)
def test_the_size_of_the_world_is_pinned(
    size: tuple[int, int, int], states: int, steps: int, depth: int
) -> None:
    """A changed count is a changed protocol: somebody must say why."""
    found = explored(*size)

    assert (found.states, found.generated, found.depth) == (states, steps, depth)
    assert found.complete
    assert found.dropped == 0


def test_the_size_of_the_world_with_three_consumers_is_pinned() -> None:
    """Three consumers of one partition are exhausted, and nothing fails."""
    found = explored(3, 1, 1)

    assert (found.states, found.orbits, found.depth) == (742_065, 4_452_390, 65)
    assert found.complete
    assert not found.violations


@pytest.mark.parametrize("size", [(1, 2, 2), (2, 1, 2), (2, 2, 1)])
def test_nothing_fails(size: tuple[int, int, int]) -> None:
    """Crash anywhere: every promise and every lemma holds, and nobody gets stuck."""
    found = explored(*size)

    assert not found.violations
    assert [*found.undecided] == ["settles"]  # that is asked of the whole graph, below
    assert found.deadlock is None
    assert found.complete


@pytest.mark.parametrize("promise", POSSIBLE, ids=lambda p: p.name)
def test_what_must_be_possible_is(promise: Any) -> None:
    """Each possibility is witnessed at two consumers and one partition."""
    assert promise.name in explored(2, 1, 2).witnesses


def test_every_action_is_taken() -> None:
    """At this size no action of the protocol, of its users or of the world is vacuous."""
    assert all(explored(2, 1, 2).taken.values())


@pytest.mark.parametrize(
    "size",
    [
        (2, 1, 2),
        (1, 2, 2),
        pytest.param((2, 2, 1), marks=pytest.mark.long),
        pytest.param((3, 1, 1), marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_it_settles(size: tuple[int, int, int]) -> None:
    """Sentence 7: without further faults the group is stable again, in every fair behaviour."""
    members, partitions, faults = size
    sizes = {"Member": members, "Partition": partitions}
    found = liveness(HELD, sizes, faults=faults, bound=BOUND)

    assert not found.violations
    assert not found.undecided


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────

MUST_CONTAIN = {
    # Says the text: "one event makes n consumers do O(n · partitions) ZooKeeper operations"
    "herd_effect": {"register", "close_fetchers"},
    # Says the list: "then two fetch one partition"
    "split_brain": {"expire", "claim", "start_fetchers"},
    # "offset read before the previous owner committed; … and its commits go back"
    "stale_start": {"read_offsets", "finish", "claim", "commit"},
    # "an expired consumer's own step 1 overwrites offsets"
    "zombie_commit": {"expire", "handle_new_session", "commit_offsets"},
    # "its step 2 deletes the new owner's node"
    "zombie_release": {"expire", "handle_new_session", "claim", "release"},
    # "between a watch and its renewal"
    "lost_wake_up": {"read_ids", "register", "renew_watches"},
    # "fetchers closed, no further event, the partition is nobody's for ever"
    "retries_exhausted": {"refuse_claim", "close_fetchers"},
    # its own node, of a claim whose answer it never got
    "self_conflict": {"swallow_claim", "refuse_claim"},
    # "the document's steps 5 and 6 say it both ways"
    "fetched_for_consumed": {"pull"},
    # Says the text: "stop the pull process, release the ownership of the partition …"
    "released_before_stopped": {"release", "claim", "start_fetchers"},
    "pulled_before_owned": {"start_fetchers"},
    "no_commit_at_closing": {"finish", "commit_offsets", "release"},
    # "consumer 2 and consumer 3 Rebalancing will happen together"
    "sharers_not_dragged_in": {"register", "start_fetchers"},
    # "(6) Update topicRegistry", before "(4) Write the consumer owner relationship"
    "registry_before_owners": {"read_ids", "release", "claim"},
}
"""What the story of each flaw and of each reading must tell."""


@pytest.mark.parametrize("name", ALL_FLAWS)
def test_a_flaw_breaks_just_what_is_declared(name: str) -> None:
    """The properties that fail, the lengths of their shortest stories, and their last actions."""
    flaw, found = ALL_FLAWS[name], flawed(name)
    declared = {n: (f.steps, f.last) for n, f in flaw.failures.items() if n not in LIVE}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == declared
    assert found.complete


@pytest.mark.parametrize("name", [n for n, flaw in ALL_FLAWS.items() if n != "herd_effect"])
def test_a_flaw_keeps_the_group_from_settling_as_declared(name: str) -> None:
    """The shortest way into a cycle in which the group is not stable again; or there is none."""
    flaw, found = ALL_FLAWS[name], lived(name)
    declared = {n: (f.steps, f.last) for n, f in flaw.failures.items() if n in LIVE}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == declared
    assert not found.undecided


def test_no_story_is_left_out() -> None:
    """Each flaw and each reading has actions that its story must tell."""
    assert {*MUST_CONTAIN} == {*FLAWS, *READINGS}


@pytest.mark.parametrize("name", MUST_CONTAIN)
def test_the_story_contains_what_the_document_names(name: str) -> None:
    """A flaw is told by the actions that make it."""
    found = flawed(name)
    stories = [*found.violations.values()]
    stories += [] if name == "herd_effect" else [*lived(name).violations.values()]
    told = [{step.action.name for step in story.steps} for story in stories]

    assert any(MUST_CONTAIN[name] <= actions for actions in told), told


def test_the_page_says_what_is_declared() -> None:
    """Each flaw's row of docs/self_rebalancing.md names a property and its declared length."""
    page = (Path(__file__).parents[4] / "docs" / "self_rebalancing.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| `(\w+)` \| (\d+) \|", page, re.M)

    assert {name for name, _, _ in rows} == {*FLAWS, *READINGS, *FOUND}
    for name, broken, steps in rows:
        assert ALL_FLAWS[name].failures[broken].steps == int(steps), name


def test_the_page_says_of_each_sentence_what_is_declared() -> None:
    """The draft's shortest story of each sentence, and what has no meaning."""
    draft, _ = COLUMNS
    page, declared = owed_on("self_rebalancing.md"), declared_of(draft, DRAFTED)

    assert [*page] == [*declared]
    for sentence, text in declared.items():
        assert page[sentence][0].startswith(text), sentence


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_page_says_of_each_sentence_what_a_run_does() -> None:
    """Every cell is what the checks of the two columns come to."""
    subjects = "verified", "without_lease", "timed", "drafted", "split_brain"
    found = found_by_a_run("self_rebalancing", subjects, COLUMNS)

    assert owed_on("self_rebalancing.md") == found


def test_commands_know_it() -> None:
    """The corrected spec, the draft and each flaw are found under their names."""
    assert PROTOCOL.verified() is SELF_REBALANCING
    assert PROTOCOL.drafted() is DRAFTED
    assert {*PROTOCOL.flaws()} == {*FLAWS, *READINGS, *FOUND}
