"""The planted mistakes of the connector's core, hunted: which suite finds which, in which run."""

import pytest

from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.replay import conform_lines
from herdproof.pipeline.judging.gaps import last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.protocols.implementation import auditors
from herdproof.protocols.self_rebalancing.judged.eyes import judged
from herdproof.protocols.self_rebalancing.simulated.random_runs import TroubleKind, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.traced import RunTracers
from herdproof.protocols.self_rebalancing.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict
from properties.protocols.self_rebalancing.held.rebalancing_mutants import MUTANTS, mutant
from properties.protocols.self_rebalancing.simulated.test_simulated_rebalancing import (
    PAUSES,
    STORMY,
)

WORLD, REPLAY, AUDIT = "simulated world", "replay", "audit"
CALM = WorldConfig(troubles=0, kinds=frozenset())
"""Nothing goes wrong: in such a run no mistake may show, or any test would have found it."""
GROWING = WorldConfig(troubles=3, kinds=frozenset({TroubleKind.ADD_PARTITIONS}))
"""Nothing goes wrong, and topics get more partitions."""

HUNTED: dict[str, tuple[WorldConfig, int, tuple[str, ...], str]] = {
    "commits_ahead": (STORMY, 1, (WORLD,), "only_finished_is_committed"),
    "long_lease": (PAUSES, 1, (WORLD, REPLAY, AUDIT), "exclusive"),
    "registers_once": (PAUSES, 1, (WORLD,), "settles"),
    "starts_anywhere": (
        STORMY, 0, (WORLD, REPLAY, AUDIT), "who_begins_does_so_at_the_stored_offset"
    ),
    "remembers_offsets": (
        PAUSES, 1, (WORLD, REPLAY, AUDIT), "who_begins_does_so_at_the_stored_offset"
    ),
    "starts_early": (PAUSES, 1, (WORLD, REPLAY, AUDIT), "exclusive"),
    "takes_any_node": (PAUSES, 1, (WORLD, REPLAY, AUDIT), "exclusive"),
    "owner_unwatched": (STORMY, 0, (WORLD,), "settles"),
    "keeps_nodes": (STORMY, 0, (WORLD, REPLAY), "settles"),
    "topics_unwatched": (GROWING, 0, (WORLD,), "settles"),
    "plans_backwards": (PAUSES, 0, (WORLD, REPLAY), "settles"),
    "never_retries": (STORMY, 0, (WORLD,), "settles"),
}  # fmt: skip
"""By mistake: a run, who finds it there, and a promise that the world sees broken."""


def violated(lines: list[TraceLine]) -> bool:
    """Whether the audit finds a promise broken."""
    auditor = auditors()["self_rebalancing"]
    ordered = auditor.order(lines)
    judging = auditor.judging("run", "g")
    go_through(judging, auditor.filled(ordered, [], last_lines(ordered)))
    return any(row["verdict"] == "violated" for row in judging.close()["verdicts"])


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_found(name: str) -> None:
    """By those who are said to find it, and by nobody else; the core itself passes that run."""
    config, seed, finders, promise = HUNTED[name]
    tracers = RunTracers()
    found = judged(seed, config, mutant(name), observe=tracers)
    lines = tracers.lines(seed)
    by = {
        WORLD: bool(found.broken),
        REPLAY: conform_lines(lines, map_of(), invariants=False).verdict is Verdict.DIFFERS,
        AUDIT: violated(lines),
    }

    assert tuple(finder for finder, finds in by.items() if finds) == finders
    assert promise in found.broken
    assert not judged(seed, config).broken
    assert not judged(seed, CALM, mutant(name)).broken
