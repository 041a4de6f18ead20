"""The simulator of system A in a campaign: mixes of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from herdproof.pipeline.campaign.judged import JudgedRun, JudgedRuns
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdproof.protocols.self_rebalancing.judged.eyes import (
    FENCED,
    OF_THE_LEASE,
    judged,
    of_fields,
)
from herdproof.protocols.self_rebalancing.simulated.random_runs import TroubleKind, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.traced import RunTracers
from herdproof.protocols.self_rebalancing.simulated.world import DEFAULT, RebalancingRun
from herdproof.simulator.traced import ProcessTracers

SESSIONS = frozenset({TroubleKind.PAUSE, TroubleKind.PART, TroubleKind.CUT})
MIXES = {
    "mixed": DEFAULT,
    "stormy": replace(DEFAULT, troubles=30),
    "calm": replace(DEFAULT, troubles=0),
    "sessions": replace(DEFAULT, troubles=30, kinds=SESSIONS, timeouts_ms=(2_000,)),
    "larger": replace(DEFAULT, members=5, troubles=20),
}


@dataclass(frozen=True)
class FlawedWorld:
    """A run to live through, and the mistakes of its cores."""

    world: WorldConfig = DEFAULT
    flaws: frozenset[str] = frozenset()


class Rebalancing(JudgedRuns[FlawedWorld, RebalancingRun]):
    """System A."""

    name = "self_rebalancing"
    tracers = RunTracers
    sentences: ClassVar = {p.name: p.sentence for p in of_fields(sorted(FENCED | OF_THE_LEASE))[2]}

    def __init__(self) -> None:
        flaws = {name: partial(replace, flaws=frozenset({name})) for name in sorted(FLAWS)}
        configs = {name: FlawedWorld(config) for name, config in MIXES.items()}
        super().__init__(FlawedWorld(), configs, flaws, f"{DEFAULT.troubles} troubles")

    def judged(
        self, asked: Asked, tracers: ProcessTracers | None = None
    ) -> JudgedRun[RebalancingRun]:
        """Live through a run, and judge it."""
        config = self.config(asked)
        return judged(asked.seed, config.world, connector_with(config.flaws), observe=tracers)
