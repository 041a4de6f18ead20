"""
The explored graph: its edges, made anew from the states that a search found.

A search keeps no edges; whoever wants them (recovery, liveness, walks) has every state expanded
once more, and its successors looked up. That takes as long as the search did, and 10 bytes an edge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.exploration import Edges
from herdspec.check.exploration.numpy_engine import CHUNK, NumPyEngine, truths
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.native import Native
from herdspec.language.graph import Expr


def edges_of(engine: NumPyEngine | Native, states: int, count: int) -> Edges:
    """All `count` edges of the states of a search that came to its end."""
    if isinstance(engine, Native):
        source, instance, target = engine.edges(states, count)
        return Edges(source, instance, target)
    parts = [_edges(engine, low, min(low + CHUNK, states)) for low in range(0, states, CHUNK)]
    return Edges(
        np.concatenate([p.source for p in parts]),
        np.concatenate([p.instance for p in parts]),
        np.concatenate([p.target for p in parts]),
    )


def _edges(engine: NumPyEngine, low: int, high: int) -> Edges:
    """The edges of some states, by columns."""
    columns = Columns(engine.packing, engine.rows[low:high])
    scratch = NumPyEngine(engine.packing, engine.checks)
    ranks, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for source, number, made in scratch.successors(columns, low):
        ranks.append((source + low) << 16 | number)
        targets.append(engine.visited.find(made))
    rank, target = np.concatenate(ranks), np.concatenate(targets)
    order = np.argsort(rank)
    rank = rank[order]
    return Edges(
        (rank >> 16).astype(np.uint32),
        (rank & 0xFFFF).astype(np.uint16),
        target[order].astype(np.uint32),
    )


def stuck_outside(
    packing: Packing, rows: Words, edges: Edges, formula: Expr, allowed: NDArray[np.bool_]
) -> int | None:
    """The first state from which no path of allowed instances leads to where the formula holds."""
    reached = np.zeros(len(rows), bool)
    for low in range(0, len(rows), CHUNK):
        columns = Columns(packing, rows[low : low + CHUNK])
        reached[low : low + CHUNK] = truths(columns, formula)
    mine = allowed[edges.instance]
    source, target = edges.source[mine], edges.target[mine]
    count = -1
    while count != (count := int(reached.sum())):
        reached[source[reached[target]]] = True
    return None if count == len(reached) else int(np.argmin(reached))
