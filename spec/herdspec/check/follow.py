"""
The *conform* reading of traces that name nearly everything: a spec is led along a trace.

Where every node tells each of its steps, few states are possible after a line, and what the world
did in between (a session lost, a connection cut) shows in the next line that could not be without.
So whoever makes lines of a trace says for each in which *ways* the spec could come to it: calls of
the spec's own actions, those supposed first. A way that the guards allow, and that leads to what
the line claims, is taken; where a line leaves open what happened (a write that was never answered),
every such way is, and the states are carried on side by side.

What is found is an execution of the spec: a trace that conforms, conforms. One that differs may do
so only for want of a way that nobody thought of; which line and why is told.

This module knows no implementation and no file format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from linecache import getline
from traceback import FrameSummary, extract_tb
from typing import Any, Protocol

from herdspec.check.mismatch import Mismatch
from herdspec.check.run import NOT_THERE, Machine
from herdspec.language.surface import Disabled, Spec, sizes_of_sorts

CAP = 64
"""How many states may be carried."""

Call = tuple[str, tuple[Any, ...]]
"""An action of the spec, and its arguments."""
Way = Sequence[Call]


class TooManyStates(Exception):
    """More states are possible than are carried: nothing can be said."""


@dataclass(slots=True)
class Led:
    """A line of a trace, as the spec is to be led along it."""

    where: str
    name: str
    """What the line tells, as a call."""
    ways: Callable[[Any], Iterable[Way]]
    """In which ways the spec can come to it from a state, the likeliest first."""
    claims: Callable[[Any], Sequence[str]] = lambda _: ()
    """What is otherwise in the state that was reached than the line says; nothing if it fits."""
    every: bool = False
    """Whether the line leaves open which way it was: all that are possible are taken."""


class Steps(Protocol):
    """How steps are taken: by the spec's own Python, or compiled (`scripted.py`)."""

    @property
    def machine(self) -> Machine:
        """The spec at its sizes."""

    def take(self, before: Any, action: str, arguments: tuple[Any, ...]) -> Any:
        """The state after; None where the step is not possible."""

    def plain(self, state: Any) -> Spec:
        """A state as the spec's own Python has it."""

    def initial(self, changes: Mapping[tuple[str, Any], int]) -> Any:
        """The declared initial state, but for these entries (field, element) of its maps."""


@dataclass(frozen=True)
class PlainSteps:
    """Steps by the spec's own Python."""

    machine: Machine

    def take(self, before: Spec, action: str, arguments: tuple[Any, ...]) -> Spec | None:
        """A step of a copy; None where it is not possible."""
        after = before.copy()
        try:
            self.machine.method(after, action, arguments)
        except (Disabled, AssertionError, *NOT_THERE):
            return None
        return after

    def plain(self, state: Spec) -> Spec:
        """The state itself."""
        return state

    def initial(self, changes: Mapping[tuple[str, Any], int]) -> Spec:
        """The declared initial state, but for these entries (field, element) of its maps."""
        state = self.machine.initial()
        for (field_name, element), number in changes.items():
            getattr(state, field_name)[element] = number
        return state


@dataclass
class Follower:
    """A spec on its way along a trace; `states` are those that it may be in."""

    steps: Steps
    states: list[Any]
    taken: Counter[str] = field(default_factory=Counter)
    """How often each action was taken."""
    tried: int = 0
    largest: int = 1
    watch: Callable[[Any, str, tuple[Any, ...], Any], None] | None = None
    """Told of each step of the spec that was taken: before, action, arguments, after."""

    def follow(self, line: Led) -> Mismatch | None:
        """Go along one line; what is wrong with it, if no way leads there."""
        with sizes_of_sorts(self.steps.machine.sizes):
            after = [state for before in self.states for state in self._led(before, line)]
            if not after:
                return self._missed(line)
        self.states = after
        if len(after) > 1:
            self.states = _distinct(after)
            self.largest = max(self.largest, len(self.states))
            if len(self.states) > CAP:
                raise TooManyStates
        return None

    def _led(self, before: Any, line: Led) -> list[Any]:
        """The states that a line leads to from one; the plain loops of a long trace."""
        found: list[Any] = []
        for way in line.ways(before):
            path, state = [], before
            for action, arguments in way:
                after = self.take(state, action, arguments)
                if after is None:
                    break
                path.append((state, action, arguments, after))
                state = after
            else:
                if line.claims(state):
                    continue
                for step in path:
                    self.taken[step[1]] += 1
                    if self.watch is not None:
                        self.watch(*step)
                found.append(state)
                if not line.every:
                    break
        return found

    def take(self, before: Any, action: str, arguments: tuple[Any, ...]) -> Any:
        """A step of the spec; None where it is not possible."""
        self.tried += 1
        return self.steps.take(before, action, arguments)

    # ── Why not ─────────────────────────────────────────────────────────────────────────────

    def _missed(self, line: Led) -> Mismatch:
        """The way that came furthest, and what stopped it there."""
        best: tuple[int, str, tuple[str, ...]] = (-1, "nothing", ("the spec has no way to it",))
        for before in self.states:
            for way in line.ways(before):
                best = max(best, self._miss(before, way, line), key=lambda miss: miss[0])
        return Mismatch(line.where, line.name, best[1], best[2])

    def _miss(self, before: Any, way: Way, line: Led) -> tuple[int, str, tuple[str, ...]]:
        state = before
        for number, (action, arguments) in enumerate(way):
            after = self.take(state, action, arguments)
            if after is None:
                return number, "guard", self._refused(state, action, arguments)
            state = after
        return len(way), "after", tuple(line.claims(state))

    def _refused(self, state: Any, action: str, arguments: tuple[Any, ...]) -> tuple[str, ...]:
        """The condition that does not allow a step, as the spec's source has it."""
        call = f"{action}({', '.join(map(repr, arguments))}) is not possible"
        try:
            self.steps.machine.method(self.steps.plain(state).copy(), action, arguments)
        except (Disabled, AssertionError, *NOT_THERE) as error:
            frames = [f for f in extract_tb(error.__traceback__) if f.name != "require"]
            return (call, *map(source_of, frames[-1:]))
        return (call,)


def source_of(frame: FrameSummary) -> str:
    """The statement that a frame is in, in one line."""
    first = frame.lineno or 1
    lines = (getline(frame.filename, n) for n in range(first, (frame.end_lineno or first) + 1))
    return " ".join(line.strip() for line in lines)


def _distinct(states: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for state in states:
        if state not in found:
            found.append(state)
    return found


def differences(wanted: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """For each named value that the spec (first) and the trace (second) tell otherwise, a line."""
    return [
        f"{name}: the spec has {ours}, the trace {theirs}"
        for name, (ours, theirs) in wanted.items()
        if ours != theirs
    ]
