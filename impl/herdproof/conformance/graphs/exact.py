"""
Every edge taken by code that does nothing by itself, so that it is in one state at a time.

The same as `snapshots.py`, where that can be had faster: nothing is silent, nothing is chosen by
the code. An adapter may help with two more methods: `reader(ground)`, which makes a function that
reads all of the code's state as numbers of the ground spec's slots (instead of `observe`), and
`renamed(snapshot, order)`, which is a snapshot of the same code with its elements called otherwise;
then edges that are the same but for renaming are taken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter, lshift
from typing import Any

import numpy as np

from herdproof.conformance.adapter import Adapter, method_of
from herdproof.conformance.graphs.edge_walk import EdgeWalk, Mismatch, Wrong
from herdproof.conformance.graphs.graph import CHUNK, Graph
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.seen import Seen
from herdproof.errors import HerdError, Signalled
from herdspec.engine.columns import Packing
from herdspec.engine.ground import FAULTS
from herdspec.language.surface import twin

Progress = Callable[[int, int], None]
"""Told now and then: how many edges the walk has passed, of how many."""
Taking = tuple[Callable[..., Any], tuple[Any, ...]]
"""An adapter's method, and its arguments."""


def has_snapshots(adapter: type[Adapter]) -> bool:
    """Tells whether code can be put back to where it was."""
    return hasattr(adapter, "snapshot") and hasattr(adapter, "restore")


def is_exact(graph: Graph) -> bool:
    """Tells whether the code is in one state at a time, as far as its adapter says."""
    adapter = graph.adapter
    tables = (adapter.silent, adapter.chosen, adapter.absent, adapter.offered, adapter.disturbed)
    return has_snapshots(adapter) and not any(tables) and len(graph.initial) == 1


def renames(graph: Graph) -> bool:
    """Tells whether edges that are the same but for renaming can be taken once."""
    can = all(hasattr(graph.adapter, name) for name in ("reader", "renamed"))
    return can and is_exact(graph)


class Packer:
    """Numbers of slots as the words of a packed row, in plain Python."""

    def __init__(self, packing: Packing) -> None:
        keys = list(packing.ground.slots)
        self.blocks = packing.blocks
        self._words: list[tuple[itemgetter[Any], tuple[int, ...]]] = []
        for word in range(packing.words):
            places = [
                (keys.index(key), place.shift)
                for key, place in packing.places.items()
                if place.word == word
            ]
            places *= 2 if len(places) == 1 else 1  # a getter of one is no tuple
            shifts = tuple(shift for _, shift in places)
            self._words.append((itemgetter(*(at for at, _ in places)), shifts))
        self._one_hot = [
            (keys.index(key), tuple((p.word, 1 << p.shift) for p in places), packing.first[key])
            for key, places in packing.one_hot.items()
        ]

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        """The row's words, its blocks in the order of the elements."""
        words = [sum(map(lshift, get(numbers), shifts)) for get, shifts in self._words]
        for at, places, first in self._one_hot:
            if numbers[at] >= first:
                word, bit = places[numbers[at] - first]
                words[word] += bit
        return words


class Rows:
    """Compares what `reader` reads with packed states; the count of faults is not the code's."""

    def __init__(self, graph: Graph, code: Adapter) -> None:
        self.packing = graph.explorer.packing
        self.rows = graph.explorer.rows
        self.blocks = self.packing.blocks
        self.read = code.reader(graph.explorer.ground)  # type: ignore[attr-defined]
        self.packer = Packer(self.packing)

    def wanted(self, states: list[int]) -> list[list[int]]:
        """The numbers as which code in these states reads."""
        rows = self.rows[np.array(states, np.int64)]
        self.packing.write(rows, (FAULTS, ()), 0)
        found: list[list[int]] = rows.tolist()
        return found

    def arrived(self, wanted: list[int]) -> list[int] | None:
        """The words of the code's state; None if that is not the wanted one, up to renaming."""
        look, blocks = self.packer(self.read()), self.blocks
        return look if sorted(look[:blocks]) + look[blocks:] == wanted else None

    def order(self, look: list[int]) -> list[int]:
        """The order of elements in the packed state."""
        return sorted(range(self.blocks), key=look.__getitem__)


class Looks:
    """Compares what `observe` shows with states."""

    def __init__(self, graph: Graph, code: Adapter, seen: Seen) -> None:
        self.graph, self.code, self.seen = graph, code, seen

    def wanted(self, states: list[int]) -> list[Any]:
        """These states, as the spec's plain Python has them."""
        return [self.graph.plain(k) for k in states]

    def arrived(self, wanted: Any) -> Any:
        """The look of the code; None if that is not the wanted state."""
        look = self.code.observe()
        self.seen.note(look)
        return look if self.seen.agrees(wanted, look) else None

    def order(self, look: Any) -> list[int]:
        """No order of elements: nothing is renamed."""
        raise NotImplementedError


class Exact(EdgeWalk):
    """
    A walk over the states in the explorer's order, each held from the first arrival on.

    Of several walks that are to take all edges together, each goes through all states, but counts
    only its `share` of `shares` (0-based) of the edges.
    """

    def __init__(
        self, graph: Graph, seconds: float | None = None, *,
        share: int = 0, shares: int = 1, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        super().__init__(graph, seconds)
        self.share, self.shares, self.progress = share, shares, progress
        self.is_whole = shares == 1
        self._held: dict[int, Any] = {}
        self._reached = 1
        self._at = 0, 0
        """The state, and the instance, of the edge that is taken."""

    def run(self) -> None:
        """Walk to the end; raises `Wrong`."""
        self.on_new_code(lambda _: self._run())

    def _run(self) -> None:
        self._held[0] = self.call("snapshot", self.code.snapshot, may_refuse=False)
        has_reader = hasattr(self.adapter, "reader")
        self.view: Rows | Looks = (
            Rows(self.graph, self.code) if has_reader else Looks(self.graph, self.code, self.seen)
        )
        self._arrives, self._watched = self._arriving(), self.adapter.timeout is not None
        for low in range(0, self.graph.states, CHUNK):
            if self.is_over:
                break
            self._take(low)
            if self.progress:
                high = min(low + CHUNK, self.graph.states)
                self.progress(int(self.graph.first[high]), len(self.graph))

    def told(self, wrong: Wrong, seconds: float = 0.0) -> Mismatch:
        """The first difference is the nearest: its story is not shortened."""
        return super().told(wrong, seconds)

    def wrong(self, what: str) -> Wrong:
        """The code is wrong, after a shortest way to the edge that is taken, and that edge."""
        return Wrong(self._deeds(*self._at), what)

    def _taking(self, instance: int) -> Taking:
        action, whole = self.graph.instances[instance]
        method = getattr(self.code, method_of(action.name))
        if all(twin(value) is value for value in whole):
            return method, whole
        return lambda *given: method(*map(twin, given)), whole  # it may change what it gets

    def _take(self, low: int) -> None:
        """Take the edges from some states."""
        held, taken, arrives, watched = self._held, self.taken, self._arrives, self._watched
        present, snapshot, share, shares = -1, None, self.share, self.shares
        for number, source, instance, target, wanted in self._edges(low):
            if source != present:
                present, snapshot = source, held.pop(source)
            new = target >= self._reached
            mine = number % shares == share
            if new or mine:
                self._at = source, instance
                if watched:
                    given = (snapshot, instance, wanted, new)
                    kept = self.call("step", arrives, *given, may_refuse=False)
                else:
                    kept = arrives(snapshot, instance, wanted, new)
                if kept is None:
                    raise self.wrong("The code is elsewhere.")
                if new:
                    held[target], self._reached = kept, target + 1
                taken[number] = mine
                self.steps += 1

    def _edges(self, low: int) -> Iterator[tuple[int, int, int, int, Any]]:
        """Edges from some states: number, source, instance, target, and what is wanted there."""
        graph = self.graph
        high = min(low + CHUNK, graph.states)
        first, last = int(graph.first[low]), int(graph.first[high])
        columns = [
            c[first:last].tolist()
            for c in (graph.edges.source, graph.edges.instance, graph.edges.target)
        ]
        return zip(range(first, last), *columns, self.view.wanted(columns[-1]), strict=True)

    def _arriving(self) -> Callable[[Any, int, Any, bool], Any]:
        """
        The function that takes an edge: from a snapshot, by an instance, to what is wanted.

        It returns a snapshot where that is new, else True; None if the code is elsewhere.
        """
        code: Any = self.code
        view, restore, snapshot = self.view, code.restore, code.snapshot
        arrived = view.arrived
        order = view.order if self.graph.explorer.packing.blocks > 1 else None
        takings = [self._taking(k) for k in range(len(self.graph.instances))]

        def arrives(at: Any, instance: int, wanted: Any, new: bool) -> Any:
            try:
                restore(at)
            except Exception as error:
                raise self.held.unkept("restore", error) from error
            method, arguments = takings[instance]
            try:
                method(*arguments)
                found = arrived(wanted)
            except (HerdError, Signalled):
                raise
            except (Exception, SystemExit):  # whatever it raises, it did not take the step
                return None
            if found is None:
                return None
            if not new:
                return True
            try:
                kept = snapshot()
            except Exception as error:
                raise self.held.unkept("snapshot", error) from error
            return kept if order is None else code.renamed(kept, order(found))

        return arrives

    def _deeds(self, source: int, instance: int) -> list[Deed]:
        """A shortest way to an edge, and the edge."""
        steps = self.graph.explorer.story(source, instance).steps
        return [Deed("offer", step.action.name, step.arguments) for step in steps]
