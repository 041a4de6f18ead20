"""Every edge of the verified election, taken by the electors' cores on the simulated ZooKeeper."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from time import perf_counter

from herdproof.conformance.edges import Coverage, covered
from herdproof.conformance.graph import Graph
from herdproof.conformance.graph import explored as explored_of
from herdproof.link.election_adapter import electors
from herdspec.check.explore import Explorer
from herdspec.protocols.election_properties import ELECTION


def explored(size: int, faults: int) -> Explorer:
    """The verified election's graph at this size."""
    return explored_of(ELECTION, {"Broker": size}, faults=faults)


def walk(
    explorer: Explorer, flaws: frozenset[str] = frozenset(), *, share: int = 0, shares: int = 1
) -> Coverage:
    """
    Take the edges of an explored graph, up to the first mismatch.

    Of several walks that are to take all edges together, each goes through all states but counts
    only its `share` of `shares` (0-based) of the edges.
    """
    return covered(Graph(explorer, electors(flaws)), share=share, shares=shares)


def cover(size: int, faults: int, *, processes: int = 1) -> Coverage:
    """
    Take every edge of the verified election at this size.

    Each process explores the graph for itself, goes through all of its states and takes its share
    of the edges; memory and the time to explore are needed once for each.
    """
    if processes == 1:
        return walk(explored(size, faults))
    began = perf_counter()
    shares = [(size, faults, share, processes) for share in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(_share, shares))
    return _joined(parts, perf_counter() - began)


def _share(part: tuple[int, int, int, int]) -> Coverage:
    size, faults, share, shares = part
    return walk(explored(size, faults), share=share, shares=shares)


def _joined(parts: list[Coverage], seconds: float) -> Coverage:
    """What the shares covered together; of mismatches, the one found first."""
    found = [part.mismatch for part in parts if part.mismatch]
    return replace(
        parts[0],
        taken={action: sum(part.taken[action] for part in parts) for action in parts[0].taken},
        starts=len(parts), steps=sum(part.steps for part in parts), seconds=seconds,
        mismatch=min(found, key=lambda mismatch: mismatch.edges, default=None),
    )  # fmt: skip
