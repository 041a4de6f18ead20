"""
Code that is taken along the edges of its spec's graph: one step on it, and what that showed.

`snapshots.py` and `tours.py` choose the steps; here they are taken, and compared. What is found
wrong here is judged once more, from the beginning, by the spec's plain Python (`Held`): bounds of
the graph and snapshots that bring back less than they should are so told from real differences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from herdproof.conformance.adapter import Adapter, method_of
from herdproof.conformance.graph import Graph
from herdproof.conformance.held import CARRIED, POLL, Deed, Differs, Held, TooManyStates
from herdproof.conformance.seen import Look, Seen
from herdproof.conformance.told import program

Belief = frozenset[int]
"""The states of the graph in which code may be."""
Path = tuple[Any, Deed] | None
"""What was done to the code since its beginning: the path before, and the last deed."""


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
    """The action, or the disturbance; "" for what code does by itself."""
    edges: int
    """How many edges had been taken."""
    steps: int
    """How many steps led to the difference, that included."""
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

    def __init__(self, graph: Graph, seconds: float | None = None) -> None:
        self.graph = graph
        self.adapter = graph.adapter
        self.taken = bytearray(len(graph))
        """By edge, whether it was taken."""
        self.rests: set[int] = set()
        """The states in which the code was certainly seen, after a step."""
        self.possibly: set[int] = set()
        """Those in which it was perhaps."""
        self.refused: dict[str, int] = {}
        self.disturbed: dict[str, int] = {}
        self.starts = self.steps = self.outside = 0
        self.seen = Seen(graph.machine, graph.adapter)
        self.path: Path = None
        self.code: Adapter
        self.called: tuple[str, float] | None = None
        """The call of the code that is under way, and when it began."""
        self.is_left = False
        """Whether nobody waits for it any more."""
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._until is not None and time.monotonic() > self._until

    def run(self) -> None:
        """EdgeWalk to the end; raises `Wrong`."""
        raise NotImplementedError

    # ── The code's life ─────────────────────────────────────────────────────────────────────

    def begin(self) -> Belief:
        """Begin the code anew; where it may be."""
        self.end()
        self.path = None
        self.starts += 1
        self.code = self.call("__init__", self.adapter)
        self.call("begin", self.code.begin, **self.graph.machine.sizes)
        silent = self.adapter.silent
        return self._filtered(self.graph.closed(self.graph.initial, silent), silent)

    def end(self) -> None:
        """End the code, if it lives."""
        if hasattr(self, "code"):
            code = self.code
            del self.code
            self.call("end", code.end)

    def call(self, name: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call the code; `watched` looks how long that takes."""
        self.called = name, time.monotonic()
        value = function(*given, **named)
        self.called = None
        if self.is_left:
            raise SystemExit
        return value

    def wrong(self, what: str) -> Wrong:
        """The code is wrong, after all that was done to it."""
        return Wrong(deeds_of(self.path), what)

    # ── What is done to it ──────────────────────────────────────────────────────────────────

    def offer(self, at: Belief, name: str, given: tuple[Any, ...]) -> Belief:
        """Have it take a step that is possible in some of these states; where it may be then."""
        graph, silent = self.graph, self.adapter.silent
        self._did(Deed("offer", name, given))
        try:
            chosen = self.call(name, getattr(self.code, method_of(name)), *given)
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
            if graph.leaks(before, {*silent, name}):
                raise Outside
            raise self.wrong("The code did it, though the spec does not allow it.")
        found = self._filtered(graph.closed(after, silent), silent)
        self._count(at, instance, found, silent)
        return found

    def _declined(self, at: Belief, name: str, given: tuple[Any, ...], why: str) -> Belief:
        """The code refused: then it is where that is right."""
        graph, silent = self.graph, self.adapter.silent
        before = graph.closed(at, silent)
        left = {k for k in before if self.allows(k, name, given) is not True}
        if not left:
            raise self.wrong(f"The code refused it{why and f': {why}'}; the spec allows it.")
        found = self._filtered(graph.closed(left, silent), silent)
        self._count(left, None, found, silent)
        return found

    def allows(self, state: int, name: str, given: tuple[Any, ...]) -> bool | None:
        """Whether the spec allows a step in a state, bound or no bound."""
        possible = self.graph.possible
        with possible.sized():
            return possible.allows(self.graph.plain(state), possible.actions[name], given)

    def refuse(self, at: Belief, name: str, given: tuple[Any, ...]) -> Belief:
        """Offer a step that the spec forbids in all of these states."""
        found = self.offer(at, name, given)
        self.refused[name] = self.refused.get(name, 0) + 1
        return found

    def wait(self, at: Belief) -> Belief:
        """Let it do what it does by itself; then nothing that is fair may be left to do."""
        silent = self.adapter.silent
        self._did(Deed("wait"))
        self.call("pump", self.code.pump)
        found = self._filtered(self.graph.closed(at, silent), silent, due=True)
        self._count(at, None, found, silent)
        return found

    def disturb(self, at: Belief, name: str) -> Belief:
        """Do what is no step of the spec."""
        brought = self.graph.brought[name]
        self._did(Deed("disturb", name))
        self.call(name, getattr(self.code, name))
        found = self._filtered(self.graph.closed(at, brought), brought)
        self._count(at, None, found, brought)
        self.disturbed[name] = self.disturbed.get(name, 0) + 1
        return found

    def _did(self, deed: Deed) -> None:
        self.steps += 1
        self.path = (self.path, deed)

    # ── What came of it ─────────────────────────────────────────────────────────────────────

    def look(self) -> Look:
        """What is seen of the code."""
        look: Look = self.call("observe", self.code.observe)
        self.seen.note(look)
        return look

    def _filtered(
        self, states: set[int], names: Sequence[str] | Iterable[str], *, due: bool = False
    ) -> Belief:
        """Those of these states that the code is seen in."""
        if len(states) > CARRIED:
            raise TooManyStates(
                f"{self.graph.spec.name} may be in more than {CARRIED:,} states:"
                f" {self.adapter.__name__} must observe more, or name less in `silent`"
            )
        until: float | None = None
        while True:
            look = self.look()
            found = {k for k in states if self.seen.agrees(self.graph.plain(k), look)}
            if found and not (due and all(map(self._due, found))):
                break
            now = time.monotonic()
            until = now + self.adapter.patience if until is None else until
            if now >= until:
                if self.graph.leaks(states, [*names]):
                    raise Outside
                self.seen.check(look)
                raise self.wrong("The code does not do what is due." if found else "Elsewhere.")
            time.sleep(POLL)
        self.possibly |= found
        if len(found) == 1:
            self.rests |= found
        return frozenset(found)

    def _due(self, state: int) -> bool:
        """Whether the code owes a step in this state."""
        graph = self.graph
        return any(
            graph.instances[e.instance][0].fair is not None
            for e in graph.moves(state, self.adapter.silent)
        )

    def _count(
        self, before: Iterable[int], instance: int | None, after: Belief, names: Iterable[str]
    ) -> None:
        for edge in self.graph.certain([*before], instance, after, [*names]):
            self.taken[edge.number] = 1

    # ── What was wrong ──────────────────────────────────────────────────────────────────────

    def told(self, wrong: Wrong) -> Mismatch:
        """What is wrong, done once more from the beginning, and judged by the plain Python."""
        last = wrong.deeds[-1] if wrong.deeds else Deed("begin")
        story = judged(self.graph, wrong.deeds) or self._not_again(wrong)
        return Mismatch(last.name, sum(self.taken), len(wrong.deeds), story, wrong.deeds)

    def _not_again(self, wrong: Wrong) -> str:
        """What is to be said of a difference that is not there when all is done once more."""
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


def watched(walk: EdgeWalk) -> None:
    """
    Run a walk in a thread of its own, so that a call that hangs can be named: it is `Wrong`.

    Nobody can end a thread that hangs: it stays behind. Without a time-out, in the caller's own.
    """
    ends: list[BaseException] = []

    def run() -> None:
        try:
            try:
                walk.run()
            finally:
                walk.end()
        except BaseException as error:  # handed to the caller, whatever it is
            ends.append(error)

    timeout = walk.adapter.timeout
    if timeout is None:
        run()
    else:
        thread = Thread(target=run, name="code under test", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(min(timeout, 0.1))
            called = walk.called
            if called is not None and time.monotonic() - called[1] > timeout:
                walk.is_left = True
                raise walk.wrong(f"`{called[0]}` did not return within {timeout:g} s.")
    for error in ends:
        raise error


def judged(graph: Graph, deeds: Sequence[Deed]) -> str:
    """The story of a difference that these deeds show from the beginning; empty if they do not."""
    try:
        with Held(graph.machine, graph.adapter) as held:
            for deed in deeds:
                redo(held, deed)
    except Differs as differs:
        return str(differs)
    except AssertionError as error:  # the code's own, or of its adapter
        made = program(graph.spec, graph.adapter, graph.machine.sizes, deeds)
        return "\n".join([f"The code fails: {error!r}", "", *made])
    return ""


def redo(held: Held, deed: Deed) -> None:
    """Do a deed again."""
    getattr(held, deed.kind)(*([deed.name] if deed.name else []), *deed.arguments)
