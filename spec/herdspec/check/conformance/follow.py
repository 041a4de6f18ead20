"""
The *conform* reading of traces that name nearly everything: a spec is led along a trace.

Where every node tells each of its steps, few states are possible after a line, and what the world
did in between (a session lost, a connection cut) shows in the next line that could not be without.
So whoever makes lines of a trace says for each in which *ways* the spec could come to it: calls of
the spec's own actions, those supposed first. A way that the guards allow, and that leads to what
the line claims, is taken; where a line leaves open what happened (a write that was never answered),
every such way is, and the states are carried on side by side.

Steps that no trace tells are *silent*: the states that are carried are closed under those that may
come before a line. A line that tells since when it was under way may be explained at any moment
from then on (`begin`); what is carried knows which of these steps it has taken already. Where such
a step only looks (`prompt`), it is taken at once: else each of some that overlap would double what
is carried.

What is found is an execution of the spec: a trace that conforms, conforms. One that differs may do
so only for want of a way that nobody thought of; which line and why is told.

This module knows no implementation and no file format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from linecache import getline
from traceback import FrameSummary, extract_tb
from typing import Any, NamedTuple, Protocol

from herdspec.check.conformance.mismatch import Miss
from herdspec.check.running.run import NOT_THERE, Machine
from herdspec.language.surface import Disabled, Spec, twin
from herdspec.language.types import Rich, Table, is_scalar

CAP = 64
"""The number of states that may be carried where nobody says otherwise."""

FEW = 8
"""The number of states up to which each is compared with each other."""

Call = tuple[str, tuple[Any, ...]]
"""An action of the spec, and its arguments."""
Way = Sequence[Call]
ELSE: Way = (("else", ()),)
"""Among ways: those after it are tried only where none before it leads to the line."""


class TooManyStates(Exception):
    """More states are possible than are carried: nothing can be said."""


def fits(state: Any) -> Sequence[str]:
    """The claims of a line that claims nothing of the state that it leads to."""
    del state
    return ()


@dataclass(slots=True)
class StepConstraint:
    """The way along which a line of a trace leads the spec."""

    ways: Sequence[Way] | Callable[[Any], Iterable[Way]]
    """In which ways the spec can come to it, or can from a state; the likeliest first."""
    claims: Callable[[Any], Sequence[str]] = fits
    """The claims of the line that the reached state does not fit; empty if it fits."""
    every: bool = False
    """True if the line leaves open which way it was: all that are possible are taken."""
    silent: Sequence[str] = ()
    """The actions that may come before it, however often, and that no line tells."""
    prompt: bool = False
    """
    True if, while it is under way, a way of it that changes nothing is gone as soon as there is
    one: nothing can depend on when it was, nor on which of its ways.
    """

    def ways_from(self, state: Any) -> Iterable[Way]:
        """In which ways the spec can come to the line from a state."""
        return self.ways(state) if callable(self.ways) else self.ways


class Steps(Protocol):
    """The steps of a spec, taken by its own Python, or compiled (`generated.py`)."""

    @property
    def machine(self) -> Machine:
        """The spec at its sizes."""

    def take(self, before: Any, action: str, arguments: tuple[Any, ...]) -> Any:
        """The state after; None where the step is not possible."""

    def plain(self, state: Any) -> Spec:
        """A state as the spec's own Python has it."""

    def of(self, state: Spec) -> Any:
        """The reverse of `plain`."""

    def key(self, state: Any) -> Hashable:
        """The key that tells a state apart from others."""

    def initial(self, changes: Mapping[tuple[str, Any], int]) -> Any:
        """The declared initial state, but for these entries (field, element) of its maps."""


def copier(kind: Rich) -> Callable[[Any], Any]:
    """The function that copies a value of a type; a copy shares nothing that can be changed."""
    return dict.copy if isinstance(kind, Table) and is_scalar(kind.value) else twin


@dataclass(frozen=True)
class PlainSteps:
    """Steps by the spec's own Python."""

    machine: Machine

    @cached_property
    def _copies(self) -> Mapping[str, Mapping[str, Callable[[Any], Any]]]:
        """By action, the fields that it may change, and how their values are copied."""
        rich = self.machine.spec.rich
        changed = {
            a.name: dict.fromkeys(name.partition(".")[0] for name in a.updates)
            for a in self.machine.spec.actions
        }
        return {
            action: {name: copier(rich[name]) for name in names}
            for action, names in changed.items()
        }

    def take(self, before: Spec, action: str, arguments: tuple[Any, ...]) -> Spec | None:
        """A step; None where it is not possible. What the action leaves alone is shared."""
        after = before.copy_but(self._copies.get(action, {}))
        try:
            self.machine.method(after, action, arguments)
        except (Disabled, AssertionError, *NOT_THERE):
            return None
        return after

    def plain(self, state: Spec) -> Spec:
        """The state itself."""
        return state

    def of(self, state: Spec) -> Spec:
        """The state itself."""
        return state

    def key(self, state: Spec) -> Hashable:
        """Its numbers."""
        return self.machine.numbers(state)

    def initial(self, changes: Mapping[tuple[str, Any], int]) -> Spec:
        """The declared initial state, but for these entries (field, element) of its maps."""
        state = self.machine.initial()
        for (field_name, element), number in changes.items():
            getattr(state, field_name)[element] = number
        return state


class Promises(Protocol):
    """Promises about single states (`invariants.py`): a sentence for each that is broken."""

    def begun(self, state: Any) -> Sequence[str]:
        """The promises that an initial state breaks."""

    def after(
        self, action: str, arguments: tuple[Any, ...], before: Any, after: Any
    ) -> Sequence[str]:
        """The promises that the state after a step breaks, if the one before breaks none."""


class Carried(NamedTuple):
    """A state that is possible, and how the spec came to it."""

    state: Any
    silent: frozenset[str] = frozenset()
    """The silent actions on the way to it."""
    early: frozenset[int] = frozenset()
    """The steps under way that it has taken already, by their numbers."""
    broken: Sequence[str] = ()
    """The promises that the first state on the way to it breaks, of those that break any."""


_carried = partial(tuple.__new__, Carried)
"""Makes one of a tuple of its parts: of every line at least one is made."""
_UNWATCHED: list[Any] = []
"""The path of who is not watched: none."""


@dataclass
class Follower:
    """
    A spec on its way along a trace; `begins` are the states that it may begin in.

    Whoever follows a trace does so in `sizes_of_sorts` of the machine's sizes.
    """

    steps: Steps
    begins: list[Any]
    taken: Counter[str] = field(default_factory=Counter)
    """The number of times that each action was taken."""
    tried: int = 0
    largest: int = 1
    watch: Callable[[Any, str, tuple[Any, ...], Any], None] | None = None
    """Told of each step of the spec that was taken: before, action, arguments, after."""
    cap: int = CAP
    """The number of states that may be carried."""
    put_off: frozenset[str] = frozenset()
    """Silent actions that are tried only where a line is not explained without."""
    has_put_off: bool = False
    """True if some of these might have been taken, and were not tried."""
    promises: Promises | None = None
    """The promises that are evaluated in every state that is reached."""

    def __post_init__(self) -> None:
        self.carried = [Carried(state) for state in self.begins]
        self._is_watched = self.watch is not None
        """True if anybody wants to know of each step."""
        if self.promises is not None:
            self.hold_to(self.promises)
        self._under_way: dict[int, StepConstraint] = {}
        self._silent: dict[str, list[Call]] = {}
        actions = self.steps.machine.spec.actions
        self._still = frozenset(action.name for action in actions if not action.updates)
        """The actions that change nothing."""

    @property
    def states(self) -> list[Any]:
        """The states that it may be in."""
        return [carried.state for carried in self.carried]

    @property
    def silently(self) -> frozenset[str]:
        """The silent actions that led to one of the states."""
        return self.carried[0].silent if self.carried else frozenset()

    @property
    def doubts(self) -> Sequence[str]:
        """The promises that are broken on the way to some of the states, and not to others."""
        return next((carried.broken for carried in self.carried if carried.broken), ())

    def hold_to(self, promises: Promises) -> None:
        """From now on these are evaluated in every state; in those that are carried first."""
        self.promises = promises
        self._is_watched = True
        self.carried = [c._replace(broken=promises.begun(c.state)) for c in self.carried]

    def begin(self, number: int, line: StepConstraint) -> None:
        """From now on this step may be taken, until `follow` is told of its end."""
        self._under_way[number] = line
        if line.prompt:
            self.carried = [self._looked(carried) for carried in self.carried]

    def follow(self, line: StepConstraint, ends: int | None = None) -> Miss | None:
        """
        Go along one line; what is wrong with it, if no way leads there.

        `ends` is the number of a step under way which this line ends.
        """
        if line.silent or self._under_way:
            after = self._after_silence(line, ends)
        else:
            after = []
            for carried in self.carried:
                self._lead(carried, line, after)
        if not after:
            return self._missed(line)
        if len(after) > 1:
            after = self._distinct(after)
            self.largest = max(self.largest, len(after))
            if len(after) > self.cap:
                raise TooManyStates
        self.carried = after
        if self.promises is None or not all(carried.broken for carried in after):
            return None
        return Miss(0, "promise", tuple(after[0].broken))

    def _after_silence(self, line: StepConstraint, ends: int | None) -> list[Carried]:
        """The states after a line before which silent steps may come, or late ones."""
        silent = line.silent
        after = self._after(self._closed(silent, self.put_off), line, ends)
        if silent and self.put_off.intersection(silent):
            self.has_put_off = True
            if not after:
                after = self._after(self._closed(silent), line, ends)
        if ends is not None:
            self._under_way.pop(ends, None)
        return after

    def _looked(self, carried: Carried) -> Carried:
        """A state that has taken the steps under way which only look, and can be taken there."""
        early = carried.early
        for number, line in self._under_way.items():
            if line.prompt and number not in early and self._is_seen(carried.state, line):
                early |= {number}
        return carried if early is carried.early else carried._replace(early=early)

    def _is_seen(self, state: Any, line: StepConstraint) -> bool:
        """True if a way of a line that changes nothing is possible in a state, and leads to it."""
        for way in line.ways_from(state):
            if all(action in self._still for action, _ in way):
                self.tried += len(way)
                if all(self.steps.take(state, *call) is not None for call in way):
                    self.taken.update(action for action, _ in way)
                    return not line.claims(state)
        return False

    def _after(
        self, possible: Sequence[Carried], line: StepConstraint, ends: int | None
    ) -> list[Carried]:
        """The states to which a line leads from these; who has taken its step already stays."""
        after: list[Carried] = []
        for carried in possible:
            if ends is not None and ends in carried.early:
                after.append(carried._replace(early=carried.early - {ends}))
            elif not line.prompt:
                self._lead(carried, line, after)
            else:
                led: list[Carried] = []
                self._lead(carried, line, led)
                looked = (self._looked(new) for new in led)
                after += [new._replace(early=new.early - {ends}) for new in looked]
        return after

    def _lead(self, carried: Carried, line: StepConstraint, found: list[Carried]) -> None:
        """Add the states that a line leads to from one; the plain loops of a long trace."""
        take, taken, ways = self.steps.take, self.taken, line.ways
        known, claims, is_watched = len(found), line.claims, self._is_watched
        begin, silent, early, broken = carried
        tried = 0
        for way in ways(begin) if callable(ways) else ways:
            if way is ELSE:
                if len(found) > known:
                    break
                continue
            state, path = begin, [begin] if is_watched else _UNWATCHED
            for action, arguments in way:
                tried += 1
                state = take(state, action, arguments)
                if state is None:
                    break
                if is_watched:
                    path.append(state)
            else:
                if claims(state):
                    continue
                if is_watched:
                    broken = self._broken(carried, way, path)
                found.append(_carried((state, silent, early, broken)))
                for action, _ in way:
                    taken[action] += 1
                if not line.every:
                    break
        self.tried += tried

    def _broken(self, carried: Carried, way: Way, path: Sequence[Any]) -> Sequence[str]:
        """The promises that the first such state on a way breaks; each step is told of."""
        broken = carried.broken
        for (action, arguments), (before, after) in zip(way, pairwise(path), strict=True):
            if self.watch is not None:
                self.watch(before, action, arguments, after)
            if self.promises is not None and not broken:
                broken = self.promises.after(action, arguments, before, after)
        return broken

    # ── Silent steps ────────────────────────────────────────────────────────────────────────

    def _closed(
        self, silent: Sequence[str], without: frozenset[str] = frozenset()
    ) -> list[Carried]:
        """These states, and those that silent steps and steps under way lead to from there."""
        names = [name for name in silent if name not in without]
        if not names and not self._under_way:
            return self.carried
        known: set[Hashable] = set()
        found = list(self.carried)
        for carried in found:  # it grows
            for new in self._reached(carried, names):
                known = known or {self._key(c) for c in self.carried}
                key = self._key(new)
                if key not in known:
                    known.add(key)
                    found.append(new)
            if len(found) > self.cap:
                raise TooManyStates
        self.largest = max(self.largest, len(found))
        return found

    def _key(self, carried: Carried) -> Hashable:
        return self.steps.key(carried.state), carried.early

    def _reached(self, carried: Carried, names: Iterable[str]) -> Iterable[Carried]:
        """The states to which one silent step, or one that is under way, leads."""
        for name in names:
            for action, arguments in self._calls(name):
                self.tried += 1
                after = self.steps.take(carried.state, action, arguments)
                if after is not None:
                    way = [(action, arguments)]
                    broken = self._broken(carried, way, [carried.state, after])
                    new = Carried(after, carried.silent | {name}, carried.early, broken)
                    yield self._looked(new)
        for number, line in self._under_way.items():
            if number not in carried.early:
                after_it: list[Carried] = []
                self._lead(carried, line, after_it)
                for new in after_it:
                    yield self._looked(new._replace(early=carried.early | {number}))

    def _calls(self, name: str) -> list[Call]:
        """An action with every choice of its arguments."""
        if name not in self._silent:
            machine = self.steps.machine
            action = machine.spec.action(name)
            self._silent[name] = [
                (name, machine.arguments(action, numbers))
                for numbers in machine.ground.choices(action)
            ]
        return self._silent[name]

    def _distinct(self, found: Sequence[Carried]) -> list[Carried]:
        """Each state once; the first way to it counts, and one on which nothing was broken."""
        if len(found) <= FEW:  # to compare them is quicker than to take them apart
            return self._unequal(found)
        kept: dict[Hashable, Carried] = {}
        for carried in found:
            key = self._key(carried)
            if key not in kept or (kept[key].broken and not carried.broken):
                kept[key] = carried
        return list(kept.values())

    @staticmethod
    def _unequal(found: Sequence[Carried]) -> list[Carried]:
        kept: list[Carried] = []
        for new in found:
            for k, old in enumerate(kept):
                if old.early == new.early and old.state == new.state:
                    if old.broken and not new.broken:
                        kept[k] = new
                    break
            else:
                kept.append(new)
        return kept

    # ── Why not ─────────────────────────────────────────────────────────────────────────────

    def _missed(self, line: StepConstraint) -> Miss:
        """The way that came furthest, and what stopped it there."""
        best = Miss(1, "nothing", ("the spec has no way to it",))
        for carried in self._closed(line.silent, self.put_off):
            for way in line.ways_from(carried.state):
                if way is ELSE:
                    continue
                best = min(best, self._miss(carried.state, way, line), key=lambda m: m.distance)
        return best

    def _miss(self, before: Any, way: Way, line: StepConstraint) -> Miss:
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


def differences(wanted: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """For each named value that the spec (first) and the trace (second) tell otherwise, a line."""
    return [
        f"{name}: the spec has {ours}, the trace {theirs}"
        for name, (ours, theirs) in wanted.items()
        if ours != theirs
    ]
