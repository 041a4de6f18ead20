"""The simulator of system A in a campaign: mixes of what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from herdproof.conformance.coarse import Edges, Taken
from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.campaign.runs import Asked, Broken, Configured, Ran
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdproof.protocols.self_rebalancing.judged.eyes import (
    FENCED,
    OF_THE_LEASE,
    JudgedRun,
    judged,
    of_fields,
)
from herdproof.protocols.self_rebalancing.simulated.chance import Kind, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.world import DEFAULT
from herdproof.protocols.self_rebalancing.traces.runs import RunTracers
from herdproof.protocols.self_rebalancing.traces.trace_map import map_of

SESSIONS = frozenset({Kind.PAUSE, Kind.PART, Kind.CUT})
MIXES = {
    "mixed": DEFAULT,
    "stormy": replace(DEFAULT, troubles=30),
    "calm": replace(DEFAULT, troubles=0),
    "sessions": replace(DEFAULT, troubles=30, kinds=SESSIONS, timeouts_ms=(2_000,)),
    "larger": replace(DEFAULT, members=5, troubles=20),
}
SETTLES = "Once nothing goes wrong any more, one member consumes each partition that is wanted."
SENTENCES = {p.name: p.sentence for p in of_fields(sorted(FENCED | OF_THE_LEASE))[2]}


@dataclass(frozen=True)
class FlawedWorld:
    """What a run is asked to be, and the mistakes of its cores."""

    world: WorldConfig = DEFAULT
    flaws: frozenset[str] = frozenset()


@cache
def _edges() -> Edges:
    return Edges(map_of().specification)


class Rebalancing(Configured[FlawedWorld]):
    """System A."""

    name = "self_rebalancing"

    def __init__(self, auditor: MapAuditor) -> None:
        flaws = {name: partial(replace, flaws=frozenset({name})) for name in sorted(FLAWS)}
        configs = {name: FlawedWorld(config) for name, config in MIXES.items()}
        super().__init__(FlawedWorld(), configs, flaws, f"{DEFAULT.troubles} troubles")
        self._auditor = auditor

    def _judged(self, asked: Asked, tracers: RunTracers | None = None) -> JudgedRun:
        config = self.config(asked)
        connector = connector_with(config.flaws)
        return judged(asked.seed, config.world, connector, observe=tracers)

    def run(self, asked: Asked) -> Ran:
        """Live through the run of a seed, every member with its tracer."""
        tracers = RunTracers()
        found = self._judged(asked, tracers)
        return Ran(
            tracers.texts(), f"seed {asked.seed}", len(found.run.log), str(found.run.digest),
            SENTENCES | {"settles": SETTLES}, broken(found),
        )  # fmt: skip

    def replay(self, lines: Sequence[Any], ran: Ran) -> tuple[Any, Mapping[str, str], int]:
        """A group's lines in the spec; every step is counted, those that no line names as well."""
        del ran  # the trace has it all
        tries: list[Taken] = []

        def watches() -> Taken:
            tries.append(Taken(_edges()))
            return tries[-1]

        found, taken = self._auditor.replay(lines, watches), tries[-1]
        counted = {action: taken.counts[action] for action in found.taken}
        return replace(found, taken=counted), taken.actions, taken.counts.total()

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """A run as the simulator tells it."""
        del shrink  # what went wrong is told, and little else
        return self._judged(asked).story


def broken(found: JudgedRun) -> Broken | None:
    """What a run broke first, with what went wrong before."""
    if not found.broken:
        return None
    first = next(iter(found.violations), None)
    name = first.promise if first else "settles"
    time_ns = round((first.time_ms if first else found.run.timeline.now) * 1e6)
    story = [f"{time_ns}|contract|contract|{line.replace('|', '¦')}" for line in found.story]
    return Broken(name, SENTENCES.get(name, SETTLES), time_ns, found.story[-1], story)
