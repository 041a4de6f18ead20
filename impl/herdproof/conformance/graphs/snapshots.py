"""
Every edge taken from a snapshot of the code in the state where it starts, breadth first.

The code that is the first to arrive somewhere is held there, until all that is possible there has
been tried: so at most two levels of the search are held. Where code may do something by itself that
was not seen yet, other code that comes there is held, too: it may have a memory of its own, such as
the order of a queue.

A part of the edges is taken in an order by chance: whoever is held may be next. Then nothing is
waited for, if all that the code does by itself can be asked of it, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from herdproof.conformance.graphs.edge_walk import Belief, EdgeWalk, Outside, Path
from herdproof.conformance.graphs.graph import Graph
from herdspec.language.errors import UsageError

Try = Callable[[Belief], Belief]


VARIANTS = 16
"""Of code that the spec sees in one state, so many snapshots are held that are not the same."""


class Snapshots(EdgeWalk):
    """
    A walk over all that the code can be brought to, by `snapshot` and `restore`.

    It ends when about this `part` of the edges is taken, drawn by `seed`. Where the adapter has
    `start`, it is walked from each initial state; of a part, for a share of that. Or a part is
    taken `near` an action, or a `sometimes`: from where the shortest story to it has led.
    """

    def __init__(
        self, graph: Graph, seconds: float | None = None, *, part: float = 1.0, seed: int = 0,
        near: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(graph, seconds)
        self._near = near
        self.is_whole = part == 1.0
        self._wanted = round(part * len(graph))
        self._enough = self._wanted
        self._chance = Random(seed)
        hidden = {*self.waited} - {*graph.possible.controlled}
        self._waits = bool(hidden or (self.waited and self.is_whole))
        self._known: dict[Belief, list[Any]] = {}
        """Where the code has been: its snapshots there, as long as more may be wanted."""
        self._todo: deque[tuple[Belief, Any, Path]] = deque()

    @property
    def is_over(self) -> bool:
        """Tells whether the time is over, or enough was taken."""
        return super().is_over or (not self.is_whole and self.taken.count(1) >= self._enough)

    def run(self) -> None:
        """Walk to the end; raises `Wrong`."""
        if self._near is not None:
            self.on_new_code(partial(self._run_near, self._near))
            return
        starts = [*self.graph.initial] if hasattr(self.adapter, "start") else [None]
        for number, state in enumerate(starts, 1):
            self._enough = self._wanted * number // len(starts)
            self.on_new_code(partial(self._run, state))

    def _run_near(self, name: str, begun: Belief) -> None:
        explorer, found, at = self.graph.explorer, self.graph.shortest(name), begun
        story = explorer.result.witnesses.get(name) if found is None else explorer.story(found[0])
        if story is None:
            raise UsageError(f"there is no story to {name} at this size")
        if hasattr(self.adapter, "start"):
            initial = self.graph.initial
            at = self.start(next(k for k in initial if self.graph.plain(k) == story.initial))
        for step in story.steps:
            number = self.graph.number(step.action.name, step.arguments)
            given = None if number is None else self.graph.given[number]
            at = self.wait(at) if given is None else self.offer(at, step.action.name, given)
        self._enough += self.taken.count(1)
        self._walk(at)

    def _run(self, state: int | None, begun: Belief) -> None:
        self._walk(begun if state is None else self.start(state))

    def _walk(self, begun: Belief) -> None:
        self._arrive(begun)
        while self._todo and not self.is_over:
            if not self.is_whole:
                self._todo.rotate(self._chance.randrange(len(self._todo)))
            at, snapshot, path = self._todo.popleft()
            for attempt in self._tries(at):
                self.path = path
                self.call("restore", self.code.restore, snapshot, may_refuse=False)
                with suppress(Outside):
                    self._arrive(attempt(at))
            if not self._unseen(at):
                self._known[at].clear()
        for at, *_ in self._todo:  # whoever was not tried, as it is over, may come there again
            self._known.pop(at, None)
        self._todo.clear()

    def _arrive(self, at: Belief) -> None:
        """Hold the code here, if it is the first, or may do by itself what no other did."""
        is_known = at in self._known
        variants = self._known.setdefault(at, [])
        if is_known and not (self._unseen(at) and len(variants) < VARIANTS):
            return
        snapshot = self.call("snapshot", self.code.snapshot, may_refuse=False)
        if not is_known or not any(_is_same(snapshot, other) for other in variants):
            if self._unseen(at):
                variants.append(snapshot)
            self._todo.append((at, snapshot, self.path))

    def _unseen(self, at: Belief) -> bool:
        """Tells whether something that code may do by itself here has not been seen."""
        if not self._waits:
            return False
        moves = (e for k in at for e in self.graph.moves(k, self.waited))
        return any(not self.taken[e.number] for e in moves)

    def _tries(self, at: Belief) -> Iterator[Try]:
        """All that can be tried where the code may be in these states."""
        graph, offered = self.graph, set[tuple[str, Any]]()
        if self._waits:
            yield self.wait
        for state in graph.closed(at, self.silent):
            for edge in graph.leaving(state):
                given = graph.given[edge.instance]
                key = (graph.instances[edge.instance][0].name, repr(given))
                if given is not None and key not in offered:
                    offered.add(key)
                    yield partial(self.offer, name=key[0], given=given)
        yield from refusals(self, at)
        for name in self.adapter.disturbed:
            yield partial(self.disturb, name=name)


def refusals(walk: EdgeWalk, at: Belief) -> Iterator[Try]:
    """The steps that are to be refused, as the spec forbids them in all of these states."""
    closed = walk.graph.closed(at, walk.silent)
    for name in walk.adapter.offered:
        for given in walk.graph.given_to(name):
            if all(walk.allows(k, name, given) is False for k in closed):
                yield partial(walk.refuse, name=name, given=given)


def _is_same(one: Any, other: Any) -> bool:
    """Tells whether two snapshots are equal, as far as they can be compared."""
    try:
        return bool(one == other)
    except Exception:  # whatever its own comparison raises
        return False
