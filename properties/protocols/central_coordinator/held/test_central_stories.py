"""Stories of the central coordinator's spec, and of its variants, replayed on the real cores."""

from __future__ import annotations

from typing import Any

import pytest

from herdproof.conformance.adapter import check_adapter
from herdproof.conformance.stories import OnTheCode, on_the_code
from herdproof.conformance.story_tests import stories
from herdproof.protocols.central_coordinator.entry import adapter
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.implementation import adapter_of
from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import machine
from herdspec.protocols.central_coordinator.plan import PROTOCOL
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.flaws import Flaw

SWITCHED = {name: flaw for name, flaw in PROTOCOL.flaws().items() if flaw.switches}
"""The variants whose mistake the cores have, too."""
VERIFIED = [name for name, flaw in SWITCHED.items() if not flaw.form]
"""Those of the verified spec; of a form's, stories are kept, which take long to find."""


DIFFERING = {
    "deposed_goes_on": "its core does not hear that it is deposed, so that it is seen to lead on"
}
"""Where a flawed core does not what its variant does; why."""
FOLLOWED = ("lost_trigger", "reconnects_fetching")
"""Whose stories of broken promises are followed to the end."""


def outcomes(name: str, flaw: Flaw) -> dict[str, OnTheCode]:
    """By what a variant breaks, what comes of its shortest story on the flawed cores."""
    sizes = dict(flaw.sizes or dict.fromkeys(flaw.spec.sorts, 2))
    explorer = Explorer(flaw.spec, sizes, flaw.faults, flaw.bound)
    found = explorer.run()
    at, code = machine(flaw.spec, **sizes), adapter(name)
    assert code is not None, "it has a switch"
    return {
        broken: on_the_code(at, code, story.steps, story.initial)
        for broken, story in found.violations.items()
    }


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
def test_the_stories_of_a_variant_are_taken_along_on_its_cores(
    name: str, request: pytest.FixtureRequest
) -> None:
    """None differs; prints which the cores follow, and where others are stuck, or elsewhere."""
    if name in DIFFERING:
        request.applymarker(pytest.mark.xfail(strict=True, reason=DIFFERING[name]))
    came = outcomes(name, SWITCHED[name])

    for broken, code in came.items():
        print(f"{name}, {broken}: {code.line}")
    assert not [line for code in came.values() for line in code.difference]


def test_some_cores_follow_their_variants_to_the_end() -> None:
    """The mistake in the spec is the one in the code: both come to the same broken state."""
    assert all(
        code.follows for name in FOLLOWED for code in outcomes(name, SWITCHED[name]).values()
    )


CentralStories: Any = stories(
    CENTRAL_COORDINATOR, CentralCores, faults=1, bound=5, Broker=1, Member=1, Partition=1
)
