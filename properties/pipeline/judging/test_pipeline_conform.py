"""
A replay of traces of which something is missing: it conforms, or nobody knows.

Clean simulated runs of each protocol, of which lines, pieces, ends or whole files are taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.implementation import implementation
from herdspec.check.conformance.conform import Verdict
from properties.pipeline.pipeline_traces import deleted, run_of
from properties.protocols.group_protocol.judged.test_group_judging import trace as groups
from properties.protocols.group_protocol.judged.test_group_judging import with_clients
from properties.protocols.self_rebalancing.judged.test_rebalancing_judging import (
    trace as connectors,
)

KINDS = ("line", "lines", "one in a hundred", "tail", "tail", "file", "file", "piece")
RUNS: dict[str, tuple[str, Callable[[int], Sequence[Any]]]] = {
    "self-rebalancing consumers": ("self_rebalancing", connectors),
    "a central coordinator": ("central_coordinator", run_of),
    "coordinators of groups": ("group_protocol", groups),
    "with their clients": ("group_protocol", with_clients),
}
SEEDS = 4


def verdicts(of: str, number: int, *, complete: bool) -> Counter[Verdict]:
    """What comes of so many deletions, the same each time."""
    name, trace = RUNS[of]
    chance, table, found = Random(of), implementation(name).table, Counter[Verdict]()
    while found.total() < number:
        left = deleted(list(trace(chance.randrange(SEEDS))), chance.choice(KINDS), chance)
        if left:
            outcome = conform_lines(left, table, invariants=False, complete=complete)
            found[outcome.verdict] += 1
    return found


@pytest.mark.parametrize("of", RUNS)
def test_what_is_missing_is_never_a_difference(of: str) -> None:
    """Though it is one if the user's word is that nothing is missing: such deletions there are."""
    found = verdicts(of, 60, complete=False)

    assert not found[Verdict.DIFFERS]
    assert found[Verdict.CONFORMS]


@pytest.mark.parametrize("of", ["self-rebalancing consumers", "a central coordinator"])
def test_whoever_says_that_nothing_is_missing_is_believed(of: str) -> None:
    """The same deletions differ then."""
    assert verdicts(of, 60, complete=True)[Verdict.DIFFERS] > 5


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("of", RUNS)
def test_nor_in_many_more_deletions(of: str) -> None:
    """Of a thousand."""
    assert not verdicts(of, 1_000, complete=False)[Verdict.DIFFERS]
