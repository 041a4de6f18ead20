"""The simulator of system A in a campaign: mixes of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from herdproof.pipeline.campaign.judged import JudgedRun
from herdproof.pipeline.campaign.runs import Asked, Configured, Ran
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdproof.protocols.self_rebalancing.judged.eyes import (
    FENCED,
    OF_THE_LEASE,
    judged,
    of_fields,
)
from herdproof.protocols.self_rebalancing.simulated.chance import Kind, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.traced import RunTracers
from herdproof.protocols.self_rebalancing.simulated.world import DEFAULT, RebalancingRun

SESSIONS = frozenset({Kind.PAUSE, Kind.PART, Kind.CUT})
MIXES = {
    "mixed": DEFAULT,
    "stormy": replace(DEFAULT, troubles=30),
    "calm": replace(DEFAULT, troubles=0),
    "sessions": replace(DEFAULT, troubles=30, kinds=SESSIONS, timeouts_ms=(2_000,)),
    "larger": replace(DEFAULT, members=5, troubles=20),
}
SENTENCES = {p.name: p.sentence for p in of_fields(sorted(FENCED | OF_THE_LEASE))[2]}


@dataclass(frozen=True)
class FlawedWorld:
    """What a run is asked to be, and the mistakes of its cores."""

    world: WorldConfig = DEFAULT
    flaws: frozenset[str] = frozenset()


class Rebalancing(Configured[FlawedWorld]):
    """System A."""

    name = "self_rebalancing"

    def __init__(self) -> None:
        flaws = {name: partial(replace, flaws=frozenset({name})) for name in sorted(FLAWS)}
        configs = {name: FlawedWorld(config) for name, config in MIXES.items()}
        super().__init__(FlawedWorld(), configs, flaws, f"{DEFAULT.troubles} troubles")

    def _judged(self, asked: Asked, tracers: RunTracers | None = None) -> JudgedRun[RebalancingRun]:
        config = self.config(asked)
        connector = connector_with(config.flaws)
        return judged(asked.seed, config.world, connector, observe=tracers)

    def run(self, asked: Asked) -> Ran:
        """Live through the run of a seed, every member with its tracer."""
        tracers = RunTracers()
        found = self._judged(asked, tracers)
        return found.ran(tracers.texts(), SENTENCES)

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """A run as the simulator tells it."""
        del shrink  # what went wrong is told, and little else
        return self._judged(asked).story
