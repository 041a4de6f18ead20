"""
The simulator of system B in a campaign: shapes of the world times mixes of what goes wrong.

A flaw that only shows where other fences are down brings that with it: so it is told apart from
what these others would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from herdproof.pipeline.campaign.runs import Asked, Broken, Configured, Ran
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS as CONSUMER_FLAWS
from herdproof.protocols.central_coordinator.held.flawed import COORDINATORS as COORDINATOR_FLAWS
from herdproof.protocols.central_coordinator.judged.world_promises import PROMISED
from herdproof.protocols.central_coordinator.simulated.random_runs import ALL, TROUBLE, Config, Kind
from herdproof.protocols.central_coordinator.simulated.shrink import NothingToShrink, shrink
from herdproof.protocols.central_coordinator.simulated.story import Line as Logged
from herdproof.protocols.central_coordinator.simulated.story import sentence
from herdproof.protocols.central_coordinator.simulated.traced import Tracers
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run, RunOutcome
from herdproof.protocols.election.held.flawed import FLAWS as ELECTOR_FLAWS

CONSUMERS = frozenset({
    Kind.KILL_CONSUMER, Kind.PAUSE_CONSUMER, Kind.CUT, Kind.PART, Kind.JOIN, Kind.LEAVE,
})  # fmt: skip
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "usual": {},
    "larger": {"brokers": 3, "consumers": 5},
    "alone": {"brokers": 1, "consumers": 2},
}
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "mixed": {"faults": 14},
    "stormy": {"faults": 40},
    "calm": {"faults": 0},
    "consumers": {"kinds": CONSUMERS, "faults": 30},
    "brokers": {"kinds": TROUBLE - CONSUMERS, "faults": 25},
    "members": {
        "kinds": frozenset({Kind.KILL_CONSUMER, Kind.CUT, Kind.PAUSE_CONSUMER, Kind.JOIN}),
        "faults": 25,
    },
    "pings": {
        "kinds": frozenset({Kind.CUT, Kind.PART, Kind.PAUSE_CONSUMER}), "faults": 25,
    },
    "sessions": {
        "kinds": frozenset({Kind.EXPIRE, Kind.KILL_CONSUMER, Kind.ADD_PARTITIONS}),
        "faults": 30, "late_election_ms": 2_000,
    },
    "deposed": {
        "kinds": frozenset({Kind.EXPIRE, Kind.PART, Kind.CUT, Kind.JOIN}), "faults": 25,
    },
}  # fmt: skip

LAST = 16
"""The last steps of a broken run that its story tells."""

Change = Callable[[Config], Config]


def _flawed(where: str, flaw: str) -> Change:
    return partial(replace, **{where: frozenset({flaw})})


_FLAWS: Mapping[str, Change] = {
    **{name: _flawed("coordinator_flaws", name) for name in sorted(COORDINATOR_FLAWS)},
    **{
        f"consumer_{name}" if name in COORDINATOR_FLAWS else name: _flawed("consumer_flaws", name)
        for name in sorted(CONSUMER_FLAWS)
    },
    **{f"elector_{name}": _flawed("elector_flaws", name) for name in sorted(ELECTOR_FLAWS)},
    "ignores_epoch": partial(
        replace, consumer_flaws=frozenset({"ignores_epoch"}), hides_epochs=True,
        coordinator_flaws=frozenset({"deposed_goes_on", "unfenced"}),
        watches=frozenset({"members_follow_no_older_epoch"}),
    ),
    "stale_commit": partial(
        replace, coordinator_flaws=frozenset({"stale_commit"}),
        consumer_flaws=frozenset({"reconnects_fetching"}),
        watches=frozenset({"exclusive_fenced"}),
    ),
}  # fmt: skip


class Central(Configured[Config]):
    """System B."""

    name = "central_coordinator"

    def __init__(self) -> None:
        configs = {
            f"{shape}/{faults}": replace(DEFAULT, **of, **what)
            for faults, what in FAULTS.items()
            for shape, of in SHAPES.items()
        }
        usual = f"{DEFAULT.faults} faults of {len(ALL)} kinds"
        super().__init__(DEFAULT, configs, _FLAWS, usual)

    def run(self, asked: Asked) -> Ran:
        """Live through the run of a seed, every process with its tracer."""
        config = self.config(asked)
        tracers = Tracers()
        tracers.run = run = Run(asked.seed, config, observe=tracers)
        outcome = run.run()
        watched = {name: said for name, said in PROMISED.items() if name in config.watches}
        return Ran(
            tracers.texts(), f"seed {asked.seed}", len(outcome.log), outcome.digest, watched,
            broken(outcome),
        )  # fmt: skip

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """A run as the simulator tells it."""
        outcome = _shrunk(asked.seed, self.config(asked)) if shrink else None
        outcome = outcome or Run(asked.seed, self.config(asked)).run()
        if outcome.violation is None:
            counts = sorted(outcome.counts.items())
            return [str(outcome), *(f"{count:9,}  {what}" for what, count in counts)]
        return str(outcome).splitlines()


def _shrunk(seed: int, config: Config) -> RunOutcome | None:
    """A run that breaks the same promise with fewer faults; None where none is broken."""
    try:
        return shrink(seed, config)
    except NothingToShrink:
        return None


def broken(outcome: RunOutcome) -> Broken | None:
    """The promise that a run broke, with the last of what happened."""
    violation = outcome.violation
    if violation is None:
        return None
    time_ns = round(violation.time_ms * 1e6)
    told = [text for line in reversed(outcome.log) if (text := _logged(line))][:LAST]
    return Broken(
        violation.promise, PROMISED[violation.promise], time_ns, violation.how,
        [*reversed(told), f"{time_ns}|contract|contract|{violation.how}"],
    )  # fmt: skip


def _logged(line: Logged) -> str | None:
    """A line of the simulator's log as a story has it; None where it is not worth telling."""
    text = sentence(line)
    if text is None:
        return None
    who = line[1].replace("|", "¦") or "the world"
    what = text.partition(" s  ")[2].removeprefix(line[1]).strip(" ━")
    return f"{round(line[0] * 1e6)}|{who}|{who}|{what}"
