"""
The central coordinator's spec: the size of its world, what it promises, and what its flaws break.

The quotations are from PROTOCOLS.md, section B. That the verified protocol keeps its promises at
any size is proved in `test_central_proof.py`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import Liveness, liveness
from herdspec.protocols.central_coordinator.drafted import who_has_started_fetches_what_it_owns
from herdspec.protocols.central_coordinator.flaws import (
    ALONE,
    DRAFTED_000,
    DRAFTED_002,
    FLAWS,
    FOUND,
)
from herdspec.protocols.central_coordinator.properties import (
    CENTRAL_COORDINATOR,
    HELD,
    POSSIBLE,
)
from herdspec.protocols.flaws import Flaw

ALL_FLAWS: dict[str, Flaw] = {
    **FLAWS, **FOUND, "drafted-000": DRAFTED_000, "drafted-002": DRAFTED_002,
    "drafted-002 alone": ALONE,
}  # fmt: skip
LIVE = {"settles"}


@cache
def explored(members: int, partitions: int, brokers: int, faults: int) -> Exploration:
    """The verified protocol at this size; naturals reach far enough that nothing is cut."""
    sizes = {"Member": members, "Partition": partitions, "Broker": brokers}
    return explore(CENTRAL_COORDINATOR, sizes, faults=faults, bound=4 + faults)


@cache
def flawed(name: str) -> Exploration:
    """A flaw, at the size for which its failures are declared."""
    flaw = ALL_FLAWS[name]
    assert flaw.sizes is not None
    return explore(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)


def lived(name: str) -> Liveness:
    """What must happen, and does not, where a flaw is."""
    flaw = ALL_FLAWS[name]
    assert flaw.sizes is not None
    return liveness(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)


# ── The verified protocol ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "states", "steps", "depth"),
    [
        ((1, 1, 1, 1), 3_472, 9_426, 30),
        ((2, 1, 1, 1), 242_720, 873_202, 68),
        ((2, 1, 2, 1), 887_870, 3_456_036, 69),
        ((1, 2, 2, 2), 354_785, 1_445_123, 43),
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


@pytest.mark.parametrize("size", [(2, 1, 1, 2), (2, 2, 1, 1), (2, 1, 2, 1), (1, 2, 2, 2)])
def test_nothing_fails(size: tuple[int, int, int, int]) -> None:
    """Crash anywhere: every promise and every lemma holds, and nobody gets stuck."""
    found = explored(*size)

    assert not found.violations
    assert not found.undecided
    assert found.deadlock is None
    assert found.complete


@pytest.mark.parametrize("promise", POSSIBLE, ids=lambda p: p.name)
def test_what_must_be_possible_is(promise: Any) -> None:
    """Each possibility is witnessed at two members, one partition and two brokers."""
    assert promise.name in explored(2, 1, 2, 1).witnesses


def test_every_action_is_taken() -> None:
    """At this size no action of the protocol, of its users or of the world is vacuous."""
    assert all(explored(2, 1, 2, 1).taken.values())


@pytest.mark.parametrize("size", [(2, 1, 1, 1), (1, 2, 2, 1)])
def test_it_settles(size: tuple[int, int, int, int]) -> None:
    """Sentence 7: without further faults the group is stable again, in every fair behaviour."""
    sizes = dict(zip(("Member", "Partition", "Broker"), size, strict=False))
    found = liveness(HELD, sizes, faults=size[3], bound=6)

    assert not found.violations
    assert not found.undecided


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────

MUST_CONTAIN = {
    # "002 sends Start without knowing that the Stops were carried out"
    "no_barrier": {"send_stop", "send_start", "handle_start"},
    # "a change that arrives while the flag is set is dropped"
    "lost_trigger": {"begin_rebalance", "handle_register", "finish_rebalance"},
    # "after the retries are exhausted"
    "flag_stuck": {"fail_rebalance"},
    # "the new plan equals the stored owners, 3.5 says 'not necessary'"
    "no_start": {"write_owners", "register", "begin_rebalance"},
    # "stale offsets handed out in Start"
    "stale_offsets": {"consume", "handle_stop", "flush_offsets", "send_start"},
    # "after a lost election its socket server, scheduler and listeners go on"
    "deposed_goes_on": {"lose_session", "step_down"},
    # "crash between Start and owner write": nobody remembers who was started
    "owners_written_late": {"decide_owners", "handle_start", "fail"},
    # "rebalancing on those who have reconnected while another still fetches"
    "partial_failover": {"coordinator_startup", "write_owners", "handle_start"},
    # "the coordinator gives a partition away while the old owner … still fetches"
    "no_lease": {"fail", "write_owners", "handle_start"},
    # "`002` only reconnects", and fetches on
    "reconnects_fetching": {"on_lost_connection", "register", "write_owners", "handle_start"},
}
"""What the story of each flaw that PROTOCOLS.md lists must tell."""


@pytest.mark.parametrize("name", [n for n in ALL_FLAWS if n != "drafted-002 alone"])
def test_a_flaw_breaks_just_what_is_declared(name: str) -> None:
    """The properties that fail, the lengths of their shortest stories, and their last actions."""
    flaw, found = ALL_FLAWS[name], flawed(name)
    declared = {n: (f.steps, f.last) for n, f in flaw.failures.items() if n not in LIVE}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == declared


@pytest.mark.parametrize("name", [n for n, flaw in ALL_FLAWS.items() if LIVE & {*flaw.failures}])
def test_a_flaw_keeps_the_group_from_settling_as_declared(name: str) -> None:
    """The shortest way into a cycle in which the group is not stable again."""
    expected = ALL_FLAWS[name].failures["settles"]
    story = lived(name).violations["settles"]

    assert (len(story.steps), story.steps[-1].action.name) == (expected.steps, expected.last)


@pytest.mark.parametrize("name", MUST_CONTAIN)
def test_the_story_contains_what_the_document_names(name: str) -> None:
    """A flaw is told by the actions that make it."""
    found = flawed(name)
    stories = [*found.violations.values()] or [*lived(name).violations.values()]
    told = [{step.action.name for step in story.steps} for story in stories]

    assert any(MUST_CONTAIN[name] <= actions for actions in told), told


OF_THE_DRAFT = {
    # the interests of the first member are the group's, whoever comes and goes
    "complete": ["handle_register", "handle_register", "begin_rebalance"],
    # the answer to a Ping comes when that to a Start is waited for
    "who_has_started_fetches_what_it_owns": [
        "send_ping", "send_start", "handle_start_response", "serve_owners",
    ],
    # a topic appears after the topics were read, and before anybody listens
    "settles": ["coordinator_startup", "appear", "register_listeners"],
}  # fmt: skip
"""By which actions, in this order, the stories of `002` as a whole break these promises."""


@pytest.mark.parametrize("promise", OF_THE_DRAFT)
def test_the_draft_as_a_whole_tells_what_no_single_mistake_does(promise: str) -> None:
    """Stale interests, an answer to something else, the gap at start-up: each a shortest story."""
    alone = promise in LIVE
    found = lived("drafted-002 alone") if alone else flawed("drafted-002")
    told = [step.action.name for step in found.violations[promise].steps]

    places = iter(told)
    assert all(action in places for action in OF_THE_DRAFT[promise]), told
    assert "handle_start" not in told, "nobody has read the Start that is taken for answered"


def test_the_verified_protocol_keeps_what_the_draft_is_asked_beside() -> None:
    """Who acknowledged the present Start has carried it out, where answers name their requests."""
    held = HELD.with_properties(who_has_started_fetches_what_it_owns)
    sizes = {"Broker": 2, "Member": 2, "Partition": 1}

    assert not explore(held, sizes, faults=1, bound=5).violations


def test_the_page_says_what_is_declared() -> None:
    """Each flaw's row of docs/central_coordinator.md names a property and its declared length."""
    page = (Path(__file__).parents[4] / "docs" / "central_coordinator.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| `(\w+)` \| (\d+) \|", page, re.M)

    assert {name for name, _, _ in rows} == {*FLAWS, *FOUND}
    for name, broken, steps in rows:
        assert ALL_FLAWS[name].failures[broken].steps == int(steps), name
