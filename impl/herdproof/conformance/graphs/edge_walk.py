"""
Code that is taken along the edges of its spec's graph: one step on it, and what that showed.

`snapshots.py` and `tours.py` choose the steps; here they are taken, and compared. What is found
wrong here is judged once more, from the beginning, by the spec's plain Python (`Held`): bounds of
the graph and snapshots that bring back less than they should are so told from real differences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

from herdproof.conformance.adapter import method_of
from herdproof.conformance.graphs.graph import Graph
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.held import CARRIED, POLL, PUMPED, Differs, Held, TooManyStates
from herdproof.conformance.holding.seen import Look, Seen
from herdproof.conformance.holding.told import program
from herdproof.conformance.stories import unlike_initially
from herdproof.conformance.walks.shorten import shortened
from herdspec.language.surface import twin

SHORTENED = 10.0
"""The seconds for which the story of a difference is shortened."""

_T = TypeVar("_T")

Belief = frozenset[int]
"""The states of the graph in which code may be."""
Path = tuple[Any, Deed] | None
"""The deeds done to the code since its beginning: the path before, and the last one."""


class Wrong(Exception):
    """Code that is not where the spec is, or does not do what it must, after these deeds."""

    def __init__(self, deeds: Sequence[Deed], what: str) -> None:
        super().__init__(what)
        self.deeds = tuple(deeds)


class Outside(Exception):
    """Code that may have left the graph, beyond a bound or a budget: nothing can be said."""


@dataclass(frozen=True)
class Mismatch:
    """A step of the code that is not the spec's, and how it came there."""

    action: str
    """The action, or the disturbance, that was done last; "" for what code does by itself."""
    edges: int
    """The number of edges that had been taken."""
    steps: int
    """The number of steps that led to the difference, that included."""
    story: str
    deeds: tuple[Deed, ...] = field(default=(), repr=False)


def deeds_of(path: Path) -> list[Deed]:
    """A path from its beginning on."""
    found = []
    while path is not None:
        path, deed = path
        found.append(deed)
    return found[::-1]


class EdgeWalk:
    """Takes steps on code, and keeps count of the edges that it certainly went along."""

    is_whole = True
    """True if it takes all that it can, and not only a part of that."""

    def __init__(self, graph: Graph, seconds: float | None = None) -> None:
        self.graph = graph
        self.adapter = graph.adapter
        self.silent = () if self.adapter.pumped else tuple(self.adapter.silent)
        """Actions that the code may take at any time."""
        self.waited = tuple(self.adapter.silent)
        """Actions that the code may take while it is waited for."""
        self.taken = bytearray(len(graph))
        """By edge, whether it was taken."""
        self.rests: set[int] = set()
        """The states in which the code was certainly seen, after a step."""
        self.possibly: set[int] = set()
        """The states in which the code was perhaps."""
        self.doubtful: set[int] = set()
        """The edges that it perhaps went along."""
        self.refused: dict[str, int] = {}
        self.disturbed: dict[str, int] = {}
        self.outside: set[tuple[int, str]] = set()
        """The states from which the code perhaps went beyond the bounds, and by which action."""
        self.starts = self.steps = 0
        self.held = Held(graph.machine, graph.adapter)
        self.seen = Seen(graph.machine, graph.adapter)
        self.path: Path = None
        self.code: Any = None
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Tells whether the time is over."""
        return self._until is not None and time.monotonic() > self._until

    def run(self) -> None:
        """Walk to the end; raises `Wrong`."""
        raise NotImplementedError

    def on_new_code(self, body: Callable[[Belief], _T]) -> _T:
        """The result of a part of the walk that begins on fresh code; it is told where that is."""
        self.path = None
        self.starts += 1
        try:
            with self.held:
                self.code = self.held.code
                found: list[_T] = []
                self.held.run(
                    lambda: found.append(body(self._filtered(self._begun(), self.silent)))
                )
                return found[0]
        except Differs as differs:  # a call that hangs, or raises what it must not
            raise self.wrong(differs.why) from differs
        finally:
            self.code = None

    def _begun(self) -> set[int]:
        return self.graph.closed(self.graph.initial, self.silent)

    def call(self, name: str, function: Callable[..., Any], *given: Any, may_refuse: bool) -> Any:
        """Call the code; `Differs` if that hangs, or raises what is no refusal."""
        return self.held.call(name, function, *given, refusable=may_refuse)

    def wrong(self, what: str) -> Wrong:
        """The code is wrong, after all that was done to it."""
        return Wrong(deeds_of(self.path), what)

    # ── What is done to it ──────────────────────────────────────────────────────────────────

    def start(self, state: int) -> Belief:
        """Have fresh code begin in another of the initial states, by the adapter's `start`."""
        plain = self.graph.plain(state)
        self._did(Deed("start", "", (unlike_initially(self.graph.machine, plain),)))
        self.call("start", self.code.start, plain.copy(), may_refuse=False)
        return self._filtered(self.graph.closed({state}, self.silent), self.silent)

    def offer(self, at: Belief, name: str, given: tuple[Any, ...]) -> Belief:
        """Have it take a step that is possible in some of these states; where it may be then."""
        graph, silent = self.graph, self.silent
        self._did(Deed("offer", name, given))
        try:
            method = getattr(self.code, method_of(name))
            chosen = self.call(name, method, *map(twin, given), may_refuse=True)
        except self.adapter.refusals as refusal:
            return self._declined(at, name, given, str(refusal))
        if chosen is None and not self.adapter.chosen.get(name):
            whole = given
        else:
            whole = graph.possible.whole(graph.possible.actions[name], given, chosen)
        instance = graph.number(name, whole)
        before = graph.closed(at, silent)
        after = {e.target for k in before for e in graph.leaving(k) if e.instance == instance}
        if instance is None or not after:
            self._leave(before, {*silent, name})
            raise self.wrong("The code did it, though the spec does not allow it.")
        names = (*silent, *self.adapter.follows.get(name, ()))
        found = self._filtered(graph.closed(after, names), names)
        self._count(at, instance, found, names, silent)
        return found

    def _declined(self, at: Belief, name: str, given: tuple[Any, ...], why: str) -> Belief:
        """The code refused: then it is where that is right."""
        graph, silent = self.graph, self.silent
        before = graph.closed(at, silent)
        may = name in self.adapter.reluctant
        left = {k for k in before if may or self.allows(k, name, given) is not True}
        if not left:
            raise self.wrong(f"The code refused it{why and f': {why}'}; the spec allows it.")
        found = self._filtered(graph.closed(left, silent), silent)
        self._count(left, None, found, silent)
        return found

    def allows(self, state: int, name: str, given: tuple[Any, ...]) -> bool | None:
        """Tells whether the spec allows a step in a state, bound or no bound."""
        possible = self.graph.possible
        with possible.sized():
            return possible.allows(self.graph.plain(state), possible.actions[name], given)

    def refuse(self, at: Belief, name: str, given: tuple[Any, ...]) -> Belief:
        """Offer a step that the spec forbids in all of these states."""
        found = self.offer(at, name, given)
        self.refused[name] = self.refused.get(name, 0) + 1
        return found

    def wait(self, at: Belief) -> Belief:
        """Let it do what it does by itself; then nothing that is fair may be owed."""
        self._did(Deed("wait"))
        owing = self.graph.owing(at, self.waited)
        found = self._filtered(self.graph.closed(at, self.waited), self.waited, owing)
        self._count(at, None, found, self.waited)
        return found

    def disturb(self, at: Belief, name: str) -> Belief:
        """Do what is no step of the spec; a method that refuses has done nothing."""
        names = [*self.silent, *self.adapter.disturbed[name]]
        self._did(Deed("disturb", name))
        try:
            self.call(name, getattr(self.code, name), may_refuse=True)
            self.disturbed[name] = self.disturbed.get(name, 0) + 1
        except self.adapter.refusals:
            names = [*self.silent]
        found = self._filtered(self.graph.closed(at, names), names)
        self._count(at, None, found, names)
        return found

    def _leave(self, states: set[int], names: Collection[str]) -> None:
        """Raise `Outside` if the code may be beyond the bounds, by these actions."""
        if self.graph.leaks(states, names):
            self.outside.update(product(states, names))
            raise Outside

    def _did(self, deed: Deed) -> None:
        self.steps += 1
        self.path = (self.path, deed)

    # ── What came of it ─────────────────────────────────────────────────────────────────────

    def look(self) -> Look:
        """The look of the code."""
        look: Look = self.call("observe", self.code.observe, may_refuse=False)
        self.seen.note(look)
        return look

    def _filtered(
        self, states: set[int], names: Sequence[str], owing: Belief | None = None
    ) -> Belief:
        """
        The states, of these, that the code is seen in, as `Held` compares it.

        With `owing` the code is waited for, and must come to a state that is none of these.
        """
        if len(states) > CARRIED:
            raise TooManyStates(
                f"{self.graph.spec.name} may be in more than {CARRIED:,} states:"
                f" {self.adapter.__name__} must observe more, or name less in `silent`"
            )
        until: float | None = None
        pumped, last = 0, None
        while True:
            if owing is not None:
                self.call("pump", self.code.pump, may_refuse=False)
                pumped += 1
            look = self.look()
            found = frozenset(k for k in states if self.seen.agrees(self.graph.plain(k), look))
            if found and not (owing and found <= owing):
                break
            now = time.monotonic()
            until = now + self.adapter.patience if until is None else until
            goes_on = owing is not None and look != last and pumped < PUMPED
            if now >= until and not goes_on:
                self._leave(states, names)
                self.seen.check(look)
                raise self.wrong("It does not do what is due." if found else "It is elsewhere.")
            last = {name: twin(seen) for name, seen in look.items()}  # the code may change it
            if not goes_on:
                time.sleep(POLL)
        self.seen.trust(look)
        self.possibly |= found
        if len(found) == 1:
            self.rests |= found
        return found

    def _count(
        self, before: Iterable[int], instance: int | None, after: Belief, names: Iterable[str],
        first: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        every, some = self.graph.certain([*before], instance, after, [*names], first)
        for edge in every:
            self.taken[edge.number] = 1
        self.doubtful.update(edge.number for edge in some)

    # ── What was wrong ──────────────────────────────────────────────────────────────────────

    def told(self, wrong: Wrong, seconds: float = SHORTENED) -> Mismatch:
        """The difference, done once more from the beginning, and judged by the plain Python."""
        found = judged(self.held, wrong.deeds)
        if found is not None and seconds:
            found = shortened(self.held, found, seconds=seconds)
        deeds = wrong.deeds if found is None else found.deeds
        story = self._not_again(wrong) if found is None else str(found)
        name = deeds[-1].name if deeds else ""
        return Mismatch(name, sum(self.taken), len(deeds), story, tuple(deeds))

    def _not_again(self, wrong: Wrong) -> str:
        """The words on a difference that is not there when all is done once more."""
        made = program(self.graph.spec, self.adapter, self.graph.machine.sizes, wrong.deeds)
        name = self.adapter.__name__
        why = "the code does not do the same each time"
        if hasattr(self.adapter, "restore"):
            why = f"{name}.restore does not bring back all that snapshot took, or {why}"
        return "\n".join([
            f"{self.graph.spec.name} and {name} differ after these steps, but not when they are"
            f" taken once more from the beginning: {why}.",
            f"It was said: {wrong}", "", *made,
        ])  # fmt: skip


def judged(held: Held, deeds: Sequence[Deed]) -> Differs | None:
    """The difference that these deeds show from the beginning; None if they show none."""
    try:
        with held:
            held.run(lambda: redo(held, deeds))
    except Differs as differs:
        return differs
    return None


def redo(held: Held, deeds: Iterable[Deed]) -> None:
    """Do again what was done."""
    for deed in deeds:
        getattr(held, deed.kind)(*([deed.name] if deed.name else []), *deed.arguments)
