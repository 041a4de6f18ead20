"""
The spec of the group protocol: the size of its world, what it promises, what breaks it.

The quotations are from PROTOCOLS.md, section C, and from `003`.
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
from herdspec.check.sentences import Column, Sentence, shown
from herdspec.protocols.flaws import Flaw
from herdspec.protocols.group_protocol.flaws import DRAFTED, FOUND, KAFKAS, PRINTED
from herdspec.protocols.group_protocol.kept import COLUMNS
from herdspec.protocols.group_protocol.plan import BOUND, PROTOCOL
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL, HELD, LATER, POSSIBLE
from herdspec.protocols.group_protocol.variants.static.properties import STATIC
from properties.protocols.flawed_worlds import explored_of, lived_of
from properties.protocols.owed_tables import declared_of, found_by_a_run, owed_on

ALL_FLAWS: dict[str, Flaw] = {**PRINTED, **KAFKAS, **FOUND, "drafted": DRAFTED}
LIVE = {"settles"}


def sized(brokers: int, members: int, partitions: int) -> dict[str, int]:
    """How many there are of each."""
    return {"Broker": brokers, "Member": members, "Partition": partitions}


@cache
def explored(brokers: int, members: int, partitions: int, faults: int) -> Exploration:
    """The verified protocol at this size; naturals reach far enough that nothing is cut."""
    sizes = sized(brokers, members, partitions)
    return explore(GROUP_PROTOCOL, sizes, faults=faults, bound=BOUND)


flawed, lived = explored_of(ALL_FLAWS), lived_of(ALL_FLAWS)


# ── The verified protocol ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "states", "steps", "depth"),
    [
        ((1, 1, 1, 1), 2_932, 5_105, 44),
        ((2, 1, 1, 2), 45_488, 120_396, 59),
        ((1, 2, 1, 1), 148_812, 368_872, 72),
        ((2, 2, 1, 1), 441_633, 1_179_660, 72),
        ((1, 3, 1, 0), 47_509, 131_766, 74),
        pytest.param((1, 2, 2, 1), 1_666_322, 4_200_399, 72, marks=pytest.mark.long),
    ],
)
def test_the_size_of_the_world_is_pinned(
    size: tuple[int, int, int, int], states: int, steps: int, depth: int
) -> None:
    """A changed count is a changed protocol: somebody must say why."""
    found = explored(*size)

    assert (found.states, found.generated, found.depth) == (states, steps, depth)
    assert found.complete
    assert found.dropped == 0


@pytest.mark.parametrize("size", [(2, 1, 1, 2), (2, 2, 1, 1)])
def test_nothing_fails(size: tuple[int, int, int, int]) -> None:
    """Crash anywhere: every promise and every lemma holds, and nobody gets stuck."""
    found = explored(*size)

    assert not found.violations
    assert [*found.undecided] == ["settles"]  # that is asked of the whole graph, below
    assert found.deadlock is None


@pytest.mark.parametrize("promise", POSSIBLE, ids=lambda p: p.name)
def test_what_must_be_possible_is(promise: Any) -> None:
    """Each possibility is witnessed with two brokers and two members."""
    assert promise.name in explored(2, 2, 1, 1).witnesses


def test_every_action_is_taken() -> None:
    """At this size no action of the protocol, of its users or of the world is vacuous."""
    assert all(explored(2, 2, 1, 1).taken.values())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_commit_may_come_after_its_generation() -> None:
    """With a second fault an OffsetCommit is read, and refused, when its generation is over."""
    found = explore(LATER, sized(1, 2, 1), faults=2, bound=BOUND)

    assert not found.missing
    assert not found.violations
    assert found.complete
    assert (found.states, found.generated) == (2_477_035, 7_773_274)


@pytest.mark.parametrize(
    "size",
    [(1, 2, 1, 1), (2, 1, 1, 2), pytest.param((2, 2, 1, 1), marks=pytest.mark.long)],
)
def test_it_settles(size: tuple[int, int, int, int]) -> None:
    """Sentence 7: without further faults the group is stable again, in every fair behaviour."""
    brokers, members, partitions, faults = size
    found = liveness(HELD, sized(brokers, members, partitions), faults=faults, bound=BOUND)

    assert not found.violations
    assert not found.undecided


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────

MUST_CONTAIN = {
    # "a joinFuture that is never reset": another one joins, and the first never comes again
    "join_future_never_reset": {"on_join_complete", "handle_join_group"},
    # "answers with an error that complete nothing"
    "errors_complete_nothing": {"handle_join_group"},
    # "a rejoin flag set during a join and lost on its success"
    "rejoin_flag_lost": {"appear", "update_metadata", "on_join_complete"},
    # "a ghost member after a lost JoinGroup answer"
    "ghost_member": {"lose", "answer_joins"},
    # "LeaveGroup after the poll time-out while the user still processes"
    "leave_while_processing": {"poll_time_out", "handle_leave_group", "store_assignment"},
    "joins_with_partitions": {"initiate_join_group", "store_assignment"},
    # "a member overwrites offsets of a partition that another one owns"
    "commit_by_generation": {"consume", "commit", "handle_offset_commit"},
    # "handed out before it is stored is handed out again after a failover"
    "generation_unstored": {"on_join_leader", "load_group"},
    "evicted_goes_on": {"expire", "store_assignment", "update_fetch_positions"},
    # "No session timer expels a member whose Join or Sync is pending"
    "expels_who_waits": {"handle_join_group", "expire"},
    # a new member's JoinGroup waits for five minutes, as Kafka has it, and no longer
    "new_member_expires": {"handle_join_group", "expire_new_member"},
    "unfenced": {"lose_session", "elect", "store_generation"},
    "late_join": {"read_late_join", "store_assignment"},
}
"""What the story of each flaw must tell."""


@pytest.mark.parametrize("name", ALL_FLAWS)
def test_a_flaw_breaks_just_what_is_declared(name: str) -> None:
    """The properties that fail, the lengths of their shortest stories, and their last actions."""
    flaw, found = ALL_FLAWS[name], flawed(name)
    declared = {n: (f.steps, f.last) for n, f in flaw.failures.items() if n not in LIVE}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == declared
    assert found.complete


@pytest.mark.parametrize(
    "name",
    [
        n if LIVE & {*flaw.failures} else pytest.param(n, marks=pytest.mark.long)
        for n, flaw in ALL_FLAWS.items()
    ],
)
def test_a_flaw_keeps_the_group_from_settling_as_declared(name: str) -> None:
    """The shortest way into a cycle in which the group is not stable again; or there is none."""
    flaw, found = ALL_FLAWS[name], lived(name)
    declared = {n: (f.steps, f.last) for n, f in flaw.failures.items() if n in LIVE}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == declared
    assert not found.undecided


def test_no_story_is_left_out() -> None:
    """Each flaw has actions that its story must tell."""
    assert {*MUST_CONTAIN} == {*PRINTED, *KAFKAS, *FOUND}


@pytest.mark.parametrize("name", MUST_CONTAIN)
def test_the_story_contains_what_the_document_names(name: str) -> None:
    """A flaw is told by the actions that make it."""
    found = flawed(name)
    stories = [*found.violations.values()]
    stories += [*lived(name).violations.values()] if LIVE & {*ALL_FLAWS[name].failures} else []
    told = [{step.action.name for step in story.steps} for story in stories]

    assert any(MUST_CONTAIN[name] <= actions for actions in told), told


def test_the_page_says_what_is_declared() -> None:
    """Each flaw's row of docs/group_protocol.md names properties and their declared lengths."""
    page = (Path(__file__).parents[4] / "docs" / "group_protocol.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (`[\w`; ]+`) \| ([\d; ]+) \|", page, re.M)

    assert {name for name, _, _ in rows} == {*PROTOCOL.flaws()}
    for name, broken, steps in rows:
        failures = PROTOCOL.flaws()[name].failures
        lengths = [failures[each.strip("`")].steps for each in broken.split("; ")]
        assert lengths == [int(each) for each in steps.split("; ")], name


def test_the_page_names_a_timers_actions_and_tests() -> None:
    """Each action in the table of timers is one of a spec, and each test is there."""
    page = (Path(__file__).parents[4] / "docs" / "group_protocol.md").read_text()
    table = page[page.index("### Timers") : page.index("### What is otherwise than")]
    rows = re.findall(r"^\| ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", table, re.M)[1:]
    specs = (GROUP_PROTOCOL, STATIC, ALL_FLAWS["new_member_expires"].spec)
    actions = {action.name for spec in specs for action in spec.actions}
    tests = (Path(__file__).parents[1] / "coordinator" / "test_group_coordinator.py").read_text()

    assert len(rows) == 8
    for _, told, _, tested in rows:
        assert {*re.findall(r"`([a-z_]+)`", told)} - {"new_member_expires"} <= actions
        for name in re.findall(r"`(test_\w+)`", tested):
            assert f"def {name}(" in tests


OF_ITS_OWN = {
    Sentence("of its own", name, (name,)): name
    for name in ("nobody_is_expelled_who_waits", "no_ghosts")
}
"""Promises that the contract does not ask for, in the table for the same reasons."""
OWN = [
    Column(title, {s: shown(subject, name) for s, name in OF_ITS_OWN.items()})
    for title, subject in (("C drafted", "drafted"), ("C verified", "without_stopping"))
]
WHOLE = [Column(of.title, {**of.cells, **own.cells}) for of, own in zip(COLUMNS, OWN, strict=True)]


def test_the_page_says_of_each_sentence_what_is_declared() -> None:
    """The draft's shortest story of each sentence."""
    page, declared = owed_on("group_protocol.md"), declared_of(WHOLE[0], DRAFTED)

    assert [*page] == [*declared]
    for sentence, text in declared.items():
        assert page[sentence][0].startswith(text), sentence


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_page_says_of_each_sentence_what_a_run_does() -> None:
    """Every cell is what the checks of the two columns come to."""
    subjects = "verified", "without_stopping", "drafted", "evicted_goes_on"

    assert owed_on("group_protocol.md") == found_by_a_run("group_protocol", subjects, WHOLE)


def test_commands_know_it() -> None:
    """The verified spec, the draft and each flaw are found under their names."""
    assert PROTOCOL.verified() is GROUP_PROTOCOL
    assert PROTOCOL.drafted() is DRAFTED
    assert {*PROTOCOL.flaws()} > {*PRINTED, *KAFKAS, *FOUND}  # and those of its variants
