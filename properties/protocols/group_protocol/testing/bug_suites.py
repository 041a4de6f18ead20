"""
Which of our generic suites notice Kafka's historical bugs, beside the story that each has: a table.

    python -m properties.protocols.group_protocol.testing.bug_suites [BUG …]

Simulated runs are looked through, seed by seed, in worlds that have what a bug needs as far as they
can: members that speak old versions of JoinGroup, a short rebalance timeout, static members. What
the coordinator counts as occasions tells a bug that went unnoticed from one that never came.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from herdproof.conformance.graphs.edges import cover
from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.replay import conform_lines
from herdproof.conformance.walks.walk import walk
from herdproof.protocols.group_protocol.bugs import statics
from herdproof.protocols.group_protocol.bugs.registry import BUGS
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.judged.eyes import judged_group_run
from herdproof.protocols.group_protocol.simulated.broker import SimulatedGroupBroker
from herdproof.protocols.group_protocol.simulated.random_runs import GroupRunConfig, Mishap
from herdproof.protocols.group_protocol.simulated.traced import GroupRunTracers
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.simulator.process import Process
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import HELD

MIXED, STATIC = MIXES["mixed"], MIXES["static"]
WORLDS: Mapping[str, GroupRunConfig] = {
    "mixed": MIXED,
    "static": STATIC,
    "hurried": replace(MIXED, rebalance_timeout_ms=3_000),
    "hurried static": replace(STATIC, rebalance_timeout_ms=2_000),
    "restarts": replace(
        STATIC, statics=3, troubles=60, kinds=(Mishap.KILL, Mishap.JOIN, Mishap.PART)
    ),
    "JoinGroup 0": replace(MIXED, join_version=0),
    "JoinGroup 3": replace(MIXED, join_version=3, new_member_join_timeout_ms=5_000),
    "alone": replace(
        MIXED, members=1, retention_check_ms=500,
        kinds=(Mishap.KILL_BROKER, Mishap.KILL, Mishap.LEAVE),
    ),
}  # fmt: skip
"""By name, worlds beside that of all other suites."""
SEEDS = range(12)


@dataclass
class Occasions:
    """Counts occasions in the brokers of a run, and passes on what they do."""

    tracers: GroupRunTracers
    of: dict[int, int] = field(default_factory=dict)

    def __call__(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """A process's core has taken an event."""
        self.tracers(who, event, effects)
        if isinstance(who, SimulatedGroupBroker):
            self.of[id(who.core)] = getattr(who.core, "occasions", 0)


@dataclass(frozen=True)
class BugRun:
    """A simulated run: its occasions, the broken sentences, and the step at which it differs."""

    occasions: int
    broken: frozenset[str]
    differs_at: str


def lived(world: str, seed: int, core: type[GroupCoordinator] = GroupCoordinator) -> BugRun:
    """A run of a world, judged by the contract and replayed in the spec."""
    tracers = GroupRunTracers()
    occasions = Occasions(tracers)
    found = judged_group_run(seed, WORLDS[world], coordinator=core, observe=occasions)
    at = differs_at(tracers.lines(seed))
    return BugRun(sum(occasions.of.values()), frozenset(found.broken), at)


def differs_at(lines: Sequence[TraceLine]) -> str:
    """The action at which a trace differs from the spec; "" if it does not."""
    outcome = conform_lines(lines, map_of(), invariants=False)
    differs = outcome.verdict is Verdict.DIFFERS and outcome.mismatch is not None
    return outcome.mismatch.action.partition("(")[0] if differs and outcome.mismatch else ""


@cache
def sound(world: str, seed: int) -> BugRun:
    """The same run of the core without a bug: what is noticed there, too, is none of a bug's."""
    return lived(world, seed)


@dataclass
class Noticed:
    """The first run of a bug in which the contract is broken, and that which the replay refuses."""

    by_world: str = ""
    by_replay: str = ""
    occasions: int = 0
    runs: int = 0


def worlds_of(bug: str) -> list[str]:
    """The worlds with static members for their bugs, and those without for the others."""
    has_statics = BUGS[bug].__module__ == statics.__name__ or bug == "KAFKA-14201"
    return [name for name, config in WORLDS.items() if bool(config.statics) is has_statics]


def hunted(bug: str) -> Noticed:
    """Look through the worlds until both have noticed a bug, or there are no more."""
    noticed = Noticed()
    for seed in SEEDS:
        for world in worlds_of(bug):
            run = lived(world, seed, BUGS[bug])
            noticed.runs += bool(run.occasions)
            noticed.occasions += run.occasions
            if not run.occasions:
                continue
            as_ought = sound(world, seed) if run.broken or run.differs_at else run
            if run.broken and not noticed.by_world and not as_ought.broken:
                broken = ", ".join(f"`{each}`" for each in sorted(run.broken))
                noticed.by_world = f"{world} {seed}: {broken}"
            if run.differs_at and not noticed.by_replay and not as_ought.differs_at:
                noticed.by_replay = f"{world} {seed}: `{run.differs_at}`"
            if noticed.by_world and noticed.by_replay:
                return noticed
    return noticed


def held(bug: str) -> type[HeldCoordinators]:
    """The adapter of a core with a bug."""
    return type("HeldBug", (HeldCoordinators,), {"core": BUGS[bug]})


def walks_find(bug: str) -> bool:
    """Tells whether walks through the spec, two members at two brokers, lead elsewhere."""
    sizes = {"Broker": 2, "Member": 2, "Partition": 1}
    return walk(HELD, held(bug), sizes, runs=40, steps=200, shorten=0).difference is not None


def edges_find(bug: str) -> bool:
    """Tells whether an edge leads elsewhere: of one member and one fault, or of two and none."""
    return any(
        cover(HELD, held(bug), faults=faults, bound=BOUND, Broker=1, Member=members, Partition=1)
        .mismatch is not None
        for members, faults in ((1, 1), (2, 0))
    )  # fmt: skip


def row(bug: str) -> str:
    """The line of a bug."""
    noticed = hunted(bug)
    walks, edges = ("yes" if finds(bug) else "–" for finds in (walks_find, edges_find))
    none = f"– ({noticed.runs} runs)" if noticed.runs else "–"
    cells = (bug, walks, edges, noticed.by_world or none, noticed.by_replay or none)
    return f"| {' | '.join(cells)} |"


def main(bugs: Sequence[str]) -> None:
    """Print the table."""
    print("| bug | walks | edges | simulated world | replay |\n|---|---|---|---|---|")
    for bug in bugs or BUGS:
        print(row(bug), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
