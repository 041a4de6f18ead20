"""What is true of a spec: the verdict of every property, at one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from properties.oracle.graph import Graph, Limits, explore, holds, value
from properties.oracle.liveness import can_stay, spread, successors
from properties.oracle.source import Source, Specification
from properties.oracle.steps import Interpreter
from properties.oracle.values import World

DEFINED = "every value is defined"
NEXT = "there is always a next step"


@dataclass(frozen=True)
class Truth:
    """
    A verdict: `holds`, `fails` or `open`, where the horizon ended the search.

    `length` is that of the shortest counterexample, or of a `sometimes`' shortest witness;
    `vacuous` says that nothing ever has a `leads_to`'s premise.
    """

    verdict: str
    length: int | None = None
    vacuous: bool = False

    def __str__(self) -> str:
        return self.verdict if self.length is None else f"{self.verdict} {self.length}"


@dataclass
class Judged:
    """All that is true of a spec at a size: properties, actions that are never possible, counts."""

    of: Specification
    truths: dict[str, Truth]
    never: set[str]
    graph: Graph
    judge: Judge


class Judge:
    """Says what is true of one spec at one size."""

    def __init__(self, source: Source, of: Specification, sizes: dict[str, int],
                 limits: Limits) -> None:  # fmt: skip
        self.of = of
        self.limits = limits
        self.world = World(source, sizes)
        self.interpreter = Interpreter(self.world)
        self.graph, self.limits = explore(of, self.world, limits), limits

    def judged(self) -> Judged:
        """Every verdict."""
        truths = {DEFINED: self._defined(), NEXT: self._next()}
        ways: dict[str, Callable[[str], Truth]] = {
            "always": self._always, "lemma": self._always, "never": self._never,
            "step": self._step, "sometimes": self._sometimes, "recoverable": self._recoverable,
            "eventually": self._live, "leads_to": self._live, "eventually_always": self._live,
        }  # fmt: skip
        truths |= {p: ways[kind](p) for p, kind in self.of.properties.items() if kind in ways}
        never = {c.name for c in self.interpreter.choices(self.of.spec)}
        never -= {c.name for chosen in self.graph.possible.values() for c in chosen}
        return Judged(self.of, truths, never, self.graph, self)

    def _universal(self, lengths: Sequence[int]) -> Truth:
        """What holds unless it fails somewhere; open where the search has ended before its end."""
        if lengths:
            return Truth("fails", min(lengths))
        return Truth("holds" if self.graph.complete else "open")

    def _where(self, wanted: Callable[[int], bool]) -> list[int]:
        """The depths of the states of which something is so."""
        return [d for k, d in enumerate(self.graph.depth) if wanted(k)]

    def _has(self, name: str, number: int) -> bool:
        return holds(self.interpreter, name, self.graph.states[number])

    def _always(self, name: str) -> Truth:
        return self._universal(self._where(lambda k: not self._has(name, k)))

    def _never(self, name: str) -> Truth:
        """It has a meaning in every state, and is false there."""
        states = self.graph.states
        broken = self._where(lambda k: value(self.interpreter, name, states[k]) is not False)
        return self._universal(broken)

    def _step(self, name: str) -> Truth:
        states, depth = self.graph.states, self.graph.depth
        return self._universal([
            depth[k] + 1
            for k, edges in self.graph.edges.items()
            for e in edges
            if not holds(self.interpreter, name, states[k], states[e.target])
        ])  # fmt: skip

    def _defined(self) -> Truth:
        depth = self.graph.depth
        return self._universal([depth[k] + 1 if c else 0 for k, c in self.graph.undefined])

    def _next(self) -> Truth:
        stuck = [
            self.graph.depth[k]
            for k, p in self.graph.possible.items()
            if not p and k not in self.graph.outside
        ]
        return self._universal(stuck)

    def _sometimes(self, name: str) -> Truth:
        lengths = self._where(lambda k: self._has(name, k))
        if lengths:
            return Truth("holds", min(lengths))
        return Truth("fails" if self.graph.whole else "open")

    def _recoverable(self, name: str) -> Truth:
        """From every state, steps of the protocol alone come to it."""
        graph = self.graph
        own = {
            k: {e.target for e in edges if e.choice.action.kind == "protocol"}
            for k, edges in graph.edges.items()
        }
        # A state at the horizon, or from which a successor was dropped, might come to it.
        unknown = (set(range(len(graph.states))) - graph.edges.keys()) | graph.outside
        if graph.dropped:
            unknown = set(range(len(graph.states)))
        every = set(range(len(graph.states)))
        good = {k for k in every if self._has(name, k)}
        before: dict[int, set[int]] = {}
        for k, targets in own.items():
            for t in targets:
                before.setdefault(t, set()).add(k)
        can = spread(good, every, before)
        might = spread(unknown, every, before)
        lengths = [graph.depth[k] for k in every - can - might]
        return self._universal(lengths) if lengths or graph.whole else Truth("open")

    def _live(self, name: str) -> Truth:
        """`eventually`, `eventually_always` and `leads_to`: of every choice of elements."""
        function = self.interpreter.source.functions[name]
        notes = [a.annotation for a in function.args.args[1:]]
        domains = [self.world.domain(self.world.type(n)) for n in notes if n]
        verdicts = [self._live_for(name, chosen) for chosen in product(*domains)]
        vacuous = bool(verdicts) and all(v.vacuous for v in verdicts)
        for verdict in ("fails", "open"):
            if any(v.verdict == verdict for v in verdicts):
                return Truth(verdict)
        return Truth("holds", vacuous=vacuous)

    def _live_for(self, name: str, chosen: tuple[Any, ...]) -> Truth:
        """No fair behaviour stays where the goal is not, or comes there again and again."""
        graph, kind = self.graph, self.of.properties[name]
        if graph.undefined:
            return Truth("open")
        values = [value(self.interpreter, name, s, *chosen) for s in graph.states]
        due = {k for k, v in enumerate(values) if self._due(kind, k, v)}
        without = {k for k, v in enumerate(values) if not (v[1] if isinstance(v, tuple) else v)}
        if kind == "eventually_always":
            stays = can_stay(set(graph.edges) - graph.outside, graph, through=without)
        else:
            begun = spread(due & without, without, successors(graph))
            stays = can_stay(begun - graph.outside, graph)
        if stays:
            return Truth("fails")
        return Truth("holds" if graph.whole else "open", vacuous=not due)

    def _due(self, kind: str, number: int, said: Any) -> bool:
        """Whether something is due from a state on; it is where a promise has no meaning."""
        if kind == "leads_to":
            return said is None or bool(said[0])
        return kind == "eventually_always" or self.graph.depth[number] == 0


def judge(source: Source, name: str, sizes: dict[str, int], limits: Limits) -> Judged:
    """What is true of a spec of a file."""
    complete = dict.fromkeys(source.sorts, 2) | sizes
    return Judge(source, source.specification(name), complete, limits).judged()
