"""
Kafka's historical bugs, hunted by the suites that know nothing of them: who notices which.

What is here was found by `bug_suites`, and stands as a table in docs/testing_consumers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from herdproof.protocols.group_protocol.bugs.registry import BUGS
from properties.protocols.group_protocol.testing.bug_suites import (
    WORLDS,
    edges_find,
    hunted,
    lived,
    sound,
    walks_find,
)

PAGE = Path(__file__).parents[4] / "docs" / "testing_consumers.md"

IN_WORLD: Mapping[str, tuple[str, int, str]] = {
    "KAFKA-8069": ("alone", 0, "generations_never_go_back"),
    "KAFKA-8500": ("static", 0, "settles"),
    "KAFKA-8653": ("JoinGroup 0", 0, "settles"),
    "KAFKA-8715": ("hurried static", 1, "exclusive"),
    "KAFKA-9232": ("JoinGroup 3", 1, "only_one_is_handed_records"),
    "KAFKA-9801": ("restarts", 0, "one_leader"),
    "KAFKA-10284": ("static", 0, "exclusive_fenced"),
}
"""A simulated run in which a bug breaks the contract, and a sentence that is broken then."""
IN_REPLAY: Mapping[str, tuple[str, int, str]] = {
    "KAFKA-2557": ("mixed", 0, "heartbeat"),
    "KAFKA-7196": ("hurried", 1, "heartbeat"),
    "KAFKA-8500": ("static", 0, "complete_join"),
    "KAFKA-9232": ("JoinGroup 3", 8, "expire"),
    "KAFKA-9801": ("restarts", 0, "handle_sync_group"),
    "KAFKA-10284": ("static", 0, "handle_sync_group"),
}
"""A run whose trace the spec does not allow, and the action that it stops at."""
UNNOTICED: Mapping[str, str] = {
    "KAFKA-7610": "who is no member costs room, until the rebalance ends",
    "KAFKA-8220": "who is expelled too early comes back, later; the spec has no clock",
    "KAFKA-12890": "it came once: in the worlds a leader assigns, or ends",
    "KAFKA-13636": "no occasion: members of the worlds subscribe to all topics",
    "KAFKA-14009": "no occasion: all lives of a member ask for the same",
    "KAFKA-14201": "no occasion: nobody in the worlds assigns by hand",
}
"""Those that only their stories notice, and why."""


def row(bug: str) -> str:
    """A bug's line in the table."""
    cells = [bug, UNNOTICED.get(bug, "")]
    for found in (IN_WORLD, IN_REPLAY):
        if bug in found:
            world, seed, what = found[bug]
            cells.insert(-1, f"{world}, seed {seed}: `{what}`")
        else:
            cells.insert(-1, "–")
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def test_each_bug_is_noticed_or_known_to_pass() -> None:
    """By the world, by the replay, or by its story alone, for a reason."""
    assert {*IN_WORLD, *IN_REPLAY} | {*UNNOTICED} == {*BUGS}
    assert not {*UNNOTICED} & {*IN_WORLD, *IN_REPLAY}


def test_the_page_has_the_table() -> None:
    """Each bug's line, as it stands here."""
    page = PAGE.read_text(encoding="utf-8")

    assert [line for line in map(row, BUGS) if line not in page] == []


@pytest.mark.parametrize("bug", IN_WORLD)
def test_a_bug_breaks_the_contract(bug: str) -> None:
    """In a world that has its occasion; the same run of the core without it is clean."""
    world, seed, sentence = IN_WORLD[bug]
    run = lived(world, seed, BUGS[bug])

    assert run.occasions > 0
    assert sentence in run.broken
    assert not sound(world, seed).broken


@pytest.mark.parametrize("bug", IN_REPLAY)
def test_a_bug_differs_from_the_spec(bug: str) -> None:
    """By the lines of its coordinator; those of the core without it conform."""
    world, seed, action = IN_REPLAY[bug]
    run = lived(world, seed, BUGS[bug])

    assert run.occasions > 0
    assert run.differs_at == action
    assert not sound(world, seed).differs_at


@pytest.mark.parametrize("world", ["JoinGroup 0", "JoinGroup 3", "alone", "restarts"])
def test_the_core_keeps_the_contract_in_these_worlds(world: str) -> None:
    """Among members that speak old versions, all away at once, and static ones that come back."""
    for seed in range(2):
        assert not sound(world, seed).broken, seed


# ── The whole of it ─────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("world", WORLDS)
def test_it_does_so_in_many_more_runs(world: str) -> None:
    """The same, of fifty seeds."""
    for seed in range(50):
        assert not sound(world, seed).broken, seed


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("bug", BUGS)
def test_the_table_is_what_a_hunt_finds(bug: str) -> None:
    """The first runs that notice a bug are those of the table; walks and edges notice none."""
    noticed = hunted(bug)

    for found, told in ((IN_WORLD, noticed.by_world), (IN_REPLAY, noticed.by_replay)):
        world, seed, what = found.get(bug, ("", 0, ""))
        assert told.startswith(f"{world} {seed}: " if world else "")
        assert bool(told) == bool(world)
        assert what in told
    assert not walks_find(bug)
    assert not edges_find(bug)
