"""
Every known mistake of the elector, switched on: does a walk over the spec's graph catch it?

A mutant is first tried without any fault (one broker is elected and resigns, another is elected):
what fails there would be noticed without a checker. Then it is taken along the edges of the
*verified* spec, until it first arrives where the spec does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from herdproof.conformance.graphs.edge_walk import Mismatch
from herdproof.conformance.graphs.edges import Coverage, covered
from herdproof.conformance.graphs.graph import Graph, explored
from herdproof.protocols.election.held.adapter import electors
from herdproof.protocols.election.held.flawed import simulated_with
from herdspec.check.exploration.explore import Explorer
from herdspec.protocols.election.properties import ELECTION

SIZES = ((2, 2), (3, 1), (2, 3))
"""Brokers and faults of the graphs that a mutant is taken along, in this order, until caught."""

HARMLESS_ALONE = frozenset({"delete_any", "ignores_lost"})
"""
Switches of guards behind another guard: alone, each leaves the elector as the spec has it.

A broker only ever deletes a node that it has found to be its session's, and has stopped leading
when it is suspended, before it is told of an expiry. `FLAWS` has them with the other guard off.
"""


@dataclass(frozen=True)
class Mutant:
    """A mistake, and what came of it; `mismatch` is None if no walk noticed."""

    flaw: str
    switches: frozenset[str]
    runs_without_faults: bool
    size: int
    faults: int
    mismatch: Mismatch | None


def mutant(flaw: str, switches: frozenset[str]) -> Mutant:
    """Take one mutant along the graphs, the smallest first, until it is caught."""
    for size, faults in SIZES:
        mismatch = walk(graph(size, faults), switches).mismatch
        if mismatch:
            break
    return Mutant(flaw, switches, runs_without_faults(switches), size, faults, mismatch)


def runs_without_faults(flaws: frozenset[str]) -> bool:
    """Whether one broker is elected and resigns, and another is elected after it."""
    simulated = simulated_with(flaws, 2)
    leads = []
    for b, broker in enumerate(simulated.brokers):
        simulated.stand(b)
        simulated.settle()
        leads.append(broker.shell.core.leads)
        simulated.resign(b)
        simulated.settle()
    return all(leads) and not simulated.leader()


@lru_cache(maxsize=len(SIZES))
def graph(size: int, faults: int) -> Explorer:
    """The verified election's graph at this size, explored once."""
    return explored(ELECTION, {"Broker": size}, faults=faults)


def walk(explorer: Explorer, flaws: frozenset[str] = frozenset()) -> Coverage:
    """Take the edges of the graph on cores with these mistakes."""
    return covered(Graph(explorer, electors(flaws)))


def share_of_walk(size: tuple[int, int], share: int, shares: int) -> Coverage:
    """Take a share of the edges of a graph of so many brokers and faults on the right cores."""
    return covered(Graph(graph(*size), electors()), share=share, shares=shares)
