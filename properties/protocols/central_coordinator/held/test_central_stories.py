"""Stories of the central coordinator's spec, and of its variants, replayed on the real cores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, check_adapter
from herdproof.conformance.stories import Outcome, on_the_code
from herdproof.conformance.story_tests import stories
from herdproof.protocols.central_coordinator.entry import adapter
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.implementation import adapter_of
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.explore import Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import machine
from herdspec.protocols.central_coordinator.plan import PROTOCOL
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.flaws import Flaw

SWITCHED = {name: flaw for name, flaw in PROTOCOL.flaws().items() if flaw.switches}
"""The variants whose mistake the cores have, too."""
VERIFIED = [name for name, flaw in SWITCHED.items() if not flaw.form]
"""Those of the verified spec; of a form's, stories are kept, which take long to find."""


ROOT = Path(__file__).parents[4]
SAFER = "the core is safer: "
ITS_OWN = "the spec's step is not the core's: "
"""Two kinds of reasons why a core does not follow its variant."""
SECOND_FENCE = SAFER + "a write of owners checks the version of the group's node, besides the epoch"
TWICE = "a_start_is_at_the_stored_offset"


@dataclass(frozen=True)
class Away:
    """The place where a core leaves its variant's story, and the reason."""

    outcome: Outcome
    step: str
    """The step that it does not take, or takes otherwise, with its number."""
    why: str


AWAY: dict[tuple[str, str], Away] = {
    ("owners_written_late", "exclusive"): Away(
        Outcome.ELSEWHERE, "16, begin_rebalance(broker1, False)",
        SAFER + "it waits for the lease of whoever was sent a Start, written down or not",
    ),
    ("unfenced", "exclusive"): Away(
        Outcome.DIFFERS, "24, serve_owners(broker2, {partition1: member2})", SECOND_FENCE
    ),
    ("unfenced", "complete"): Away(
        Outcome.DIFFERS, "21, serve_owners(broker1, {partition1: None})", SECOND_FENCE
    ),
    ("unfenced", "settles"): Away(
        Outcome.DIFFERS, "11, begin_rebalance(broker2, False)",
        ITS_OWN + "a group that is queued is given nothing, and does not go back to idle",
    ),
    ("member_by_id", "exclusive"): Away(
        Outcome.ELSEWHERE, "22, begin_rebalance(broker1, False)",
        SAFER + "it waits for the lease of each registration that was sent a Start",
    ),
    ("member_by_id", TWICE): Away(
        Outcome.ELSEWHERE, "22, handle_register(member1, broker1)",
        SAFER + "who registers is taken in after the write under way, so that its Start says that",
    ),
}  # fmt: skip
"""Stories that cores do not follow to their end, by variant and promise; all others they do."""


RIGHT_TOO: dict[str, set[str]] = {
    "flag_stuck": {"settles"},
    "empty_group_hangs": {"settles"},
    "deposed_goes_on": {"exclusive"},
}
"""
Stories that cores without the mistake follow, too, in the same world.

What is broken by the former two is that nothing follows; by the last, in a world in which a lease
ends that a deposed coordinator keeps alive, as no lease of ours does.
"""
UNTRIED = ("no_barrier", "stale_commit")
"""Variants whose stories are not tried on right cores: in many states at once, that takes long."""


def right(code: type[Adapter]) -> type[Adapter]:
    """The same adapter, and the same world, with cores that have no mistake."""
    world: Any = vars(code)["world_of"].__func__.func
    return type("RightCores", (code,), {"world_of": staticmethod(world)})


def stories_of(flaw: Flaw) -> dict[str, Story]:
    """By what a variant breaks, its shortest story."""
    sizes = dict(flaw.sizes or dict.fromkeys(flaw.spec.sorts, 2))
    found = dict(Explorer(flaw.spec, sizes, flaw.faults, flaw.bound).run().violations)
    if "settles" in flaw.failures:
        found |= liveness(flaw.spec, sizes, faults=flaw.faults, bound=flaw.bound).violations
    return found


def outcomes(
    name: str, code: type[Adapter], stories: Mapping[str, Story]
) -> dict[str, tuple[Outcome, str]]:
    """By what a variant breaks, what comes of its story on cores, and the step not taken."""
    flaw = SWITCHED[name]
    at, came = machine(flaw.spec, **dict(flaw.sizes or {})), {}
    for broken, story in stories.items():
        found = on_the_code(at, code, story.steps, story.initial)
        print(f"{name}, {broken}: {found.line}", *found.difference, sep="\n  ")
        asked = re.search(r"step (\d+, \w+\(.*?\)),", found.why)
        where = asked[1] if asked else ""
        if found.differs and not where:
            where = f"{found.steps + 1}, {story.steps[found.steps].label}"
        came[broken] = found.outcome, "" if found.follows else where
    return came


@pytest.mark.parametrize("name", SWITCHED)
def test_the_cores_fit_their_variant(name: str) -> None:
    """What a variant adds is named as absent, what it leaves out is not asked for."""
    code = adapter(name)

    assert code is not None
    check_adapter(SWITCHED[name].spec, code)
    assert getattr(code, "switches", None) == SWITCHED[name].switches


def test_who_has_no_mistake_in_code_has_no_code() -> None:
    """A story of such a variant is of the spec alone: right cores could only differ from it."""
    assert adapter_of("central_coordinator") is not None
    for name, flaw in PROTOCOL.flaws().items():
        assert (adapter(name) is None) is (not flaw.switches)


@pytest.mark.parametrize("name", VERIFIED)
def test_cores_follow_the_stories_of_their_variant(name: str) -> None:
    """The mistake in the spec is the one in the code: both come to where a promise is broken."""
    code = adapter(name)
    assert code is not None

    stories = stories_of(SWITCHED[name])

    came = outcomes(name, code, stories)
    without = {} if name in UNTRIED else outcomes(name, right(code), stories)

    wanted = dict.fromkeys(SWITCHED[name].failures, (Outcome.FOLLOWED, ""))
    away = {broken: away for (flaw, broken), away in AWAY.items() if flaw == name}
    assert came == wanted | {broken: (one.outcome, one.step) for broken, one in away.items()}
    follow = {broken for broken, (of, _) in without.items() if of is Outcome.FOLLOWED}
    assert follow == RIGHT_TOO.get(name, set())


def test_the_page_names_the_stories_that_cores_do_not_follow() -> None:
    """With the step at which they leave them, and the reason; and it counts the others."""
    page = (ROOT / "docs" / "central_coordinator.md").read_text()
    part = page.split("### Their stories on the cores")[1].split("\n## ")[0]
    row = re.compile(r"\| `(\w+)` \| `(\w+)` \| (\d+, .+?) \| (.+?) \|")

    rows = {(flaw, broken): (step, why) for flaw, broken, step, why in row.findall(part)}
    assert rows == {story: (away.step, away.why) for story, away in AWAY.items()}
    stories = sum(len(SWITCHED[name].failures) for name in VERIFIED)
    assert f"{stories - len(AWAY)} of the {stories} stories are followed" in " ".join(part.split())


CentralStories: Any = stories(
    CENTRAL_COORDINATOR, CentralCores, faults=1, bound=5, Broker=1, Member=1, Partition=1
)
