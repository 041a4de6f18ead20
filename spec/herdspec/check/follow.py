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
from itertools import pairwise
from linecache import getline
from traceback import FrameSummary, extract_tb
from typing import Any, Protocol

from herdspec.check.mismatch import Miss
from herdspec.check.run import NOT_THERE, Machine
from herdspec.language.surface import Disabled, Spec

CAP = 64
"""How many states may be carried."""

Call = tuple[str, tuple[Any, ...]]
"""An action of the spec, and its arguments."""
Way = Sequence[Call]


class TooManyStates(Exception):
    """More states are possible than are carried: nothing can be said."""


def fits(state: Any) -> Sequence[str]:
    """The claims of a line that claims nothing of the state that it leads to."""
    del state
    return ()


@dataclass(slots=True)
class Led:
    """How the spec is to be led along a line of a trace."""

    ways: Sequence[Way] | Callable[[Any], Iterable[Way]]
    """In which ways the spec can come to it, or can from a state; the likeliest first."""
    claims: Callable[[Any], Sequence[str]] = fits
    """What is otherwise in the state that was reached than the line says; nothing if it fits."""
    every: bool = False
    """Whether the line leaves open which way it was: all that are possible are taken."""

    def ways_from(self, state: Any) -> Iterable[Way]:
        """In which ways the spec can come to the line from a state."""
        return self.ways(state) if callable(self.ways) else self.ways


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
    """
    A spec on its way along a trace; `states` are those that it may be in.

    Whoever follows a trace does so in `sizes_of_sorts` of the machine's sizes.
    """

    steps: Steps
    states: list[Any]
    taken: Counter[str] = field(default_factory=Counter)
    """How often each action was taken."""
    tried: int = 0
    largest: int = 1
    watch: Callable[[Any, str, tuple[Any, ...], Any], None] | None = None
    """Told of each step of the spec that was taken: before, action, arguments, after."""

    def follow(self, line: Led) -> Miss | None:
        """Go along one line; what is wrong with it, if no way leads there."""
        after: list[Any] = []
        for before in self.states:
            self._lead(before, line, after)
        if not after:
            return self._missed(line)
        if len(after) > 1:
            after = _distinct(after)
            self.largest = max(self.largest, len(after))
            if len(after) > CAP:
                raise TooManyStates
        self.states = after
        return None

    def _lead(self, before: Any, line: Led, found: list[Any]) -> None:
        """Add the states that a line leads to from one; the plain loops of a long trace."""
        take, taken = self.steps.take, self.taken
        for way in line.ways_from(before):
            path = [before]
            for action, arguments in way:
                self.tried += 1
                after = take(path[-1], action, arguments)
                if after is None:
                    break
                path.append(after)
            else:
                if line.claims(path[-1]):
                    continue
                found.append(path[-1])
                for action, _ in way:
                    taken[action] += 1
                if self.watch is not None:
                    for (action, arguments), (was, became) in zip(way, pairwise(path), strict=True):
                        self.watch(was, action, arguments, became)
                if not line.every:
                    break

    # ── Why not ─────────────────────────────────────────────────────────────────────────────

    def _missed(self, line: Led) -> Miss:
        """The way that came furthest, and what stopped it there."""
        best = Miss(1, "nothing", ("the spec has no way to it",))
        for before in self.states:
            for way in line.ways_from(before):
                best = min(best, self._miss(before, way, line), key=lambda miss: miss.rank)
        return best

    def _miss(self, before: Any, way: Way, line: Led) -> Miss:
        state = before
        for number, (action, arguments) in enumerate(way):
            self.tried += 1
            after = self.steps.take(state, action, arguments)
            if after is None:
                return Miss(-number, "guard", self._refused(state, action, arguments))
            state = after
        return Miss(-len(way), "after", tuple(line.claims(state)))

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
