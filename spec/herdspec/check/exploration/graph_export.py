"""
The state graph of a small space, to look at: for Graphviz (`dot`) and as JSON.

A node is a reachable state with its values, an edge is a step with its label. States are taken as
they are, not up to renaming, so that every label means what it says; where a promise of kind
`always` is broken, the node says so. Beyond `MOST` states no picture can be read: refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import Step, entries, said
from herdspec.engine.ground import FAULTS
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation, Property

MOST = 2_000
"""States of the largest graph that is exported."""
VERSION = 1
"""Of the JSON."""


@dataclass(frozen=True)
class GraphNode:
    """A reachable state: its number in the order of finding, its entries, what it breaks."""

    number: int
    values: Mapping[str, Any]
    initial: bool
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    """A step from one node to another."""

    source: int
    target: int
    action: str
    kind: str
    arguments: tuple[Any, ...]
    label: str
    sentence: str


@dataclass(frozen=True)
class StateGraph:
    """All reachable states and steps of a spec at one size."""

    spec: str
    sizes: Mapping[str, int]
    faults: int
    bound: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


def state_graph(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    constraint: Property | None = None,
    most: int = MOST,
) -> StateGraph:
    """
    The graph of a spec; raises `UsageError` where it has more than `most` states.

    From states without the `constraint` no edges lead on.
    """
    explorer = Explorer(
        spec, sizes, faults=faults, bound=bound, symmetry=False, constraint=constraint
    )
    explorer.keeps_edges = True
    explorer.run(lambda _depth, states, *_: check_size(states, most))
    check_size(len(explorer.rows), most)
    return StateGraph(
        spec.name, dict(sizes), faults, explorer.ground.bound,
        tuple(nodes_of(explorer)), tuple(edges_of(explorer)),
    )  # fmt: skip


def check_size(states: int, most: int) -> None:
    """Refuse what is too large to be looked at."""
    if states > most:
        raise UsageError(
            f"the state graph has more than {most:,} states: too large to look at; "
            "choose smaller sizes (--size, --faults, --bound)"
        )


def nodes_of(explorer: Explorer) -> Iterator[GraphNode]:
    """Every explored state, read back into plain Python."""
    machine = explorer.machine
    always = [p for p in machine.spec.properties if p.expectation is Expectation.ALWAYS]
    slots = list(explorer.ground.slots)
    for number, row in enumerate(explorer.rows):
        numbers = explorer.packing.unpack(row)
        state = machine.state(numbers)
        values = dict(entries(state))
        if explorer.ground.faults:
            values[FAULTS] = next(
                n for key, n in zip(slots, numbers, strict=True) if key[0] == FAULTS
            )
        broken = tuple(p.name for p in always if not machine.holds(p, state))
        yield GraphNode(number, values, number < explorer.levels[0], broken)


def edges_of(explorer: Explorer) -> Iterator[Edge]:
    """Every explored step."""
    edges = explorer.edges
    assert edges is not None, "the explorer was told to keep edges, and was not cut short"
    machine = explorer.machine
    told = []
    for instance in explorer.ground.instances:
        arguments = machine.arguments(instance.action, instance.arguments)
        step = Step(instance.action, arguments, machine.initial())
        told.append((step, tuple(map(plain, arguments))))
    for source, instance, target in zip(edges.source, edges.instance, edges.target, strict=True):
        step, arguments = told[int(instance)]
        yield Edge(
            int(source), int(target), step.action.name, step.action.kind.value, arguments,
            step.label, step.sentence,
        )  # fmt: skip


# ── Formats ─────────────────────────────────────────────────────────────────────────────────


def to_json(graph: StateGraph) -> str:
    """The graph as one JSON object; `docs/commands.md` names its keys."""
    whole = {
        "version": VERSION, "spec": graph.spec, "sizes": dict(graph.sizes),
        "faults": graph.faults, "bound": graph.bound,
        "states": [
            {
                "id": n.number, "initial": n.initial, "broken": list(n.broken),
                "values": {entry: plain(value) for entry, value in n.values.items()},
            }
            for n in graph.nodes
        ],
        "steps": [
            {
                "from": e.source, "to": e.target, "action": e.action, "kind": e.kind,
                "arguments": list(e.arguments), "label": e.label, "sentence": e.sentence,
            }
            for e in graph.edges
        ],
    }  # fmt: skip
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """A value as JSON has it: truth values, numbers and null as they are, lists, else text."""
    match value:
        case None | bool() | int():
            return value
        case list():
            return [plain(v) for v in value]
        case set():
            return sorted(map(said, value))
    return said(value)


def to_dot(graph: StateGraph) -> str:
    """The graph for Graphviz: the initial state is drawn bold, a broken promise red."""
    lines = [f"digraph {quoted(graph.spec)} {{", "  node [shape=box, fontname=monospace];"]
    lines += [f"  {n.number} [{', '.join(drawn(n))}];" for n in graph.nodes]
    for e in graph.edges:
        style = ", style=dashed" if e.kind == "fault" else ""
        lines.append(
            f"  {e.source} -> {e.target} "
            f"[label={quoted(e.label)}, tooltip={quoted(e.sentence)}{style}];"
        )
    return "\n".join([*lines, "}", ""])


def drawn(node: GraphNode) -> Iterator[str]:
    """A node's attributes."""
    words = [f"✗ {name.replace('_', ' ')}" for name in node.broken]
    words += [f"{entry} = {said(value)}" for entry, value in node.values.items()]
    label = "".join(word + "\n" for word in words)
    yield f"label={quoted(label)}"
    if node.initial:
        yield "penwidth=3"
    if node.broken:
        yield "color=red"


def quoted(text: str) -> str:
    """A string of the DOT language; lines of a label end flush left."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
    return f'"{inner}"'


FORMATS: Mapping[str, Callable[[StateGraph], str]] = {".dot": to_dot, ".json": to_json}
"""Writers of graphs, by the file's ending."""


def format_of(path: Path) -> Callable[[StateGraph], str]:
    """The writer for a file's ending; raises `UsageError` for any other."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path}: a state graph is written to a file that ends in .dot or .json")
    return FORMATS[path.suffix]
