"""
What truly stood in the way of a simulated group, moment by moment: out of the cores themselves.

The audit's attribution rests on lines alone; this one on the leader's fields and on who fetches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from herdproof.protocols.central_coordinator.coordinator.groups import Group, Phase
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Fault
from herdproof.protocols.central_coordinator.simulated.traced import Tracers
from herdproof.protocols.central_coordinator.simulated.world import Run
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line

GROUP = "g1"
STABLE = {"silent", "reader", "unassigned"}
NO_MEMBER = {"nobody", "return", "admission"}


@dataclass(frozen=True)
class Moment:
    """From a time on: causes that can be named, and the partitions that are fetched."""

    time_ns: int
    causes: frozenset[str]
    read: frozenset[tuple[str, str]]
    told: str


@dataclass
class Truth:
    """A run's lines, and what truly was."""

    lines: list[Line]
    moments: Sequence[Moment] = field(default_factory=list)

    def at(self, time_ns: int) -> Moment:
        """What was at a time."""
        return self.moments[bisect_right(self.moments, time_ns, key=lambda m: m.time_ns) - 1]


def lived(seed: int, config: Config, faults: Sequence[Fault] | None = None) -> Truth:
    """Live through a run, and look at its cores after every event."""
    tracers = Tracers()
    moments: list[Moment] = []

    def observe(who: Any, event: object, effects: Sequence[object]) -> None:
        tracers(who, event, effects)
        moments.append(moment(run))

    def strike(fault: Fault) -> None:
        Run.strike(run, fault)
        moments.append(moment(run))

    tracers.run = run = Run(seed, config, faults, observe=observe)
    run.strike = strike  # type: ignore[method-assign]
    run.run()
    return Truth(tracers.lines(), moments)


def moment(run: Run) -> Moment:
    """What is now."""
    fetching = run.fields.of(GROUP).fetching.items()
    reading = [own for who, own in fetching if who.may_deliver()]
    read = frozenset((t, n.rpartition("-")[2]) for own in reading for t, n in own)
    leaders = [b.core for b in run.brokers if b.alive and b.core.epoch is not None]
    leader = max(leaders, key=lambda core: core.epoch or 0, default=None)
    causes, told = {"election"}, "nobody leads"
    if leader is not None:
        group = leader.groups.get(GROUP)
        causes = NO_MEMBER if group is None else causes_of(group)
        told = "no group" if group is None else f"{group.phase} {group.ghosts} {group.expected}"
    return Moment(int(run.timeline.now * 1_000_000), frozenset(causes), read, told)


def causes_of(group: Group) -> set[str]:
    """What its leader waits for."""
    if not group.members:
        return NO_MEMBER
    waits = {"lease"} if group.ghosts else set()
    waits |= {"return"} if group.expected else set()
    match group.phase:
        case Phase.IDLE:
            return {"failure", *waits} if group.failures else {*STABLE, *waits}
        case Phase.QUEUED | Phase.WAITING:
            failed = {"failure"} if group.failures else set()
            return waits | failed or {"rebalance"}
        case Phase.STOPPING:
            return {"stop"} if group.waiting else waits or {"rebalance"}
        case Phase.FLUSHING | Phase.WRITING:
            return {"rebalance"}
        case _:
            return {"start"} if group.waiting else {"rebalance"}
