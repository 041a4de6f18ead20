"""Finds the possible steps of a state, and the arguments with which an adapter takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import gcd, prod
from random import Random
from typing import Any, TypeVar

from herdproof.conformance.adapter import Adapter, AdapterError, controlled
from herdproof.conformance.holding.frozen import frozen, may
from herdproof.conformance.holding.solve import Solver
from herdspec.check.running.run import NOT_THERE, Machine
from herdspec.check.running.wording import guard
from herdspec.language.specification import Action
from herdspec.language.surface import Spec, sizes_of_sorts
from herdspec.language.types import (
    ChannelOf,
    MachineOf,
    MapOf,
    OptionalRecord,
    RecordOf,
    SetOf,
    Table,
)

LISTED = 256
"""Up to how many choices of arguments are tried one by one; of more, one is solved for."""
INSTANCES = 10_000
"""The most choices of an action that the code takes by itself: all are tried each time."""
FROZEN = 64
"""The number of states kept in a form that tells quickly what is not possible."""
SAMPLED = 64
"""The number of drawn choices that are tried."""

_T = TypeVar("_T")

Instance = tuple[Action, tuple[Any, ...]]
"""An action with all of its arguments."""


class Possible:
    """Tells the possible steps of a machine; `adapter` says which parameters the code chooses."""

    def __init__(self, machine: Machine, adapter: type[Adapter]) -> None:
        self.machine = machine
        self.actions = {a.name: a for a in machine.spec.actions}
        self.controlled = [a.name for a in controlled(machine.spec, adapter)]
        self._undue = frozenset(adapter.undue)
        self._chosen = {name: frozenset(of) for name, of in adapter.chosen.items() if of}
        self._counts: dict[tuple[str, bool], int] = {}
        self._solvers: dict[str, Solver] = {}
        self._frozen: dict[int, tuple[Spec, Spec]] = {}
        self._last: tuple[Spec | None, list[tuple[Action, tuple[Any, ...], bool | None]]] = None, []
        self._listed: dict[str, list[tuple[Any, ...]]] = {}
        rich = any(_is_rich(kind) for kind in machine.spec.rich.values())
        self._guards = {} if rich else {a.name: guard(a, machine) for a in machine.spec.actions}

    def must(self, action: Action) -> bool:
        """Tells whether a silent action is due where it is possible: it is fair, and waited for."""
        return action.fair is not None and action.name not in self._undue

    def takes(self, state: Spec, action: Action, arguments: tuple[Any, ...]) -> bool:
        """Tells whether a step with all of its arguments is possible in a state."""
        quick = self._guards.get(action.name)
        if quick is not None:
            try:
                return bool(quick(state, *arguments))
            except NOT_THERE:  # it has no meaning, perhaps; to take it says so
                pass
        elif not may(self._of(state), self.machine, action.name, arguments):
            return False
        return self.machine.take(state, action.name, arguments) is not None

    def _of(self, state: Spec) -> Spec:
        """A frozen copy of a state, kept."""
        known = self._frozen.get(id(state))
        if known is None or known[0] is not state:
            if len(self._frozen) >= FROZEN:
                self._frozen.clear()
            known = self._frozen[id(state)] = state, frozen(state)
        return known[1]

    def allows(self, state: Spec, action: Action, arguments: tuple[Any, ...]) -> bool | None:
        """
        Tells whether a step is possible in a state, with some choice of what the code chooses.

        `arguments` are those that the method gets. None if there are too many choices to try.
        """
        if action.name not in self._chosen:
            return self.takes(state, action, arguments)
        if self._counted(action, chosen=True) > LISTED:
            return self._some(state, action, arguments)
        return any(self.takes(state, action, w) for w in self.wholes(action, arguments))

    def _some(self, state: Spec, action: Action, arguments: tuple[Any, ...]) -> bool | None:
        """Tells whether some choice of the code makes a step possible; None: unknown."""
        if self._last[0] is not state:
            self._last = state, []
        for known, given, answer in self._last[1]:
            if known is action and given == arguments:
                return answer
        found = self._solved(state, action, arguments, Random(0))
        answer = True if isinstance(found, tuple) else found
        self._last[1].append((action, arguments, answer))
        return answer

    def _solved(
        self, state: Spec, action: Action, arguments: tuple[Any, ...] | None, random: Random
    ) -> tuple[Any, ...] | bool | None:
        """
        All arguments with which a step is possible in a state; with `arguments`, those given.

        False if there are none, None if none was found.
        """
        solver = self._solvers.get(action.name)
        if solver is None:
            solver = self._solvers[action.name] = Solver(self.machine, action)
        fixed = {}
        if arguments is not None:
            of = self._chosen.get(action.name, frozenset())
            given = tuple((n, p) for n, p in action.parameters if n not in of)
            numbers = self.machine.arguments_numbers(replace(action, parameters=given), arguments)
            fixed = {n: number for (n, _), number in zip(given, numbers, strict=True)}
        found = solver.solve(state, fixed, random)
        if not isinstance(found, tuple):
            return found
        whole = self.machine.arguments(action, found)
        return whole if self.takes(state, action, whole) else None

    def whole(self, action: Action, arguments: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
        """All arguments of an action: those that its method got, and what it returned."""
        of = self._chosen.get(action.name, frozenset())
        returned = iter(chosen if len(of) > 1 else (chosen,))
        known = iter(arguments)
        return tuple(next(returned if name in of else known) for name, _ in action.parameters)

    def unknown(self, action: Action, whole: tuple[Any, ...]) -> str | None:
        """The first parameter whose plain value is none that it can have at these sizes."""
        for k, (name, p) in enumerate(action.parameters):
            one = replace(action, parameters=(action.parameters[k],))
            try:
                (number,) = self.machine.arguments_numbers(one, (whole[k],))
                digits = number if isinstance(number, tuple) else (number,)
                ranges = self.machine.ground.domains(p.kind)
                within = all(n in some for n, some in zip(digits, ranges, strict=True))
                if within and self.machine.arguments(one, (number,)) == (whole[k],):
                    continue
            except Exception:  # whatever its own methods raise: it is no value of the spec's
                return name
            return name
        return None

    def wholes(self, action: Action, arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """An action's arguments with every choice of the code, one by one."""
        of = self._chosen.get(action.name, frozenset())
        kinds = [p.kind for name, p in action.parameters if name in of]
        for numbers in self.machine.ground.each(kinds):
            chosen = iter(self._plain(action, of, numbers))
            known = iter(arguments)
            yield tuple(next(chosen if name in of else known) for name, _ in action.parameters)

    def _plain(self, action: Action, of: Collection[str], numbers: tuple[Any, ...]) -> list[Any]:
        """The plain values behind the numbers of some of an action's parameters."""
        some = iter(numbers)
        every = tuple(
            next(some) if name in of else self._first(p.kind) for name, p in action.parameters
        )
        plain = self.machine.arguments(action, every)
        return [v for (name, _), v in zip(action.parameters, plain, strict=True) if name in of]

    def _first(self, kind: Any) -> Any:
        """The first value of a type, as numbers."""
        (number,) = next(self.machine.ground.each([kind]))
        return number

    def choices(self, name: str) -> list[tuple[Any, ...]]:
        """Every choice of the arguments that an action's method gets, in order."""
        action, of = self.actions[name], self._chosen.get(name, frozenset())
        if not of:
            return [self.machine.arguments(action, n) for n in self.machine.ground.choices(action)]
        kept = [k for k, (n, _) in enumerate(action.parameters) if n not in of]
        kinds = [action.parameters[k][1].kind for k in kept]
        found = []
        for numbers in self.machine.ground.chosen(name, kinds):
            known = dict(zip(kept, numbers, strict=True))
            every = tuple(
                known[k] if k in known else self._first(p.kind)
                for k, (_, p) in enumerate(action.parameters)
            )
            plain = self.machine.arguments(action, every)
            found.append(tuple(plain[k] for k in kept))
        return found

    def pick(
        self, state: Spec, name: str, number: int, *, possible: bool = True
    ) -> tuple[Any, ...] | None:
        """
        Arguments with which a step is possible in a state (or surely is not), by a drawn number.

        None if there are none, or (where there are too many to try) if none was found.
        """
        action = self.actions[name]
        if self._counted(action) <= LISTED:
            listed = self._listed.get(name)
            if listed is None:
                listed = self._listed[name] = self.choices(name)
            tried: Iterable[tuple[Any, ...]] = turned(listed, number)
        elif possible:
            whole = self._solved(state, action, None, Random(number))
            return self._given(action, whole) if isinstance(whole, tuple) else None
        else:
            tried = self._sampled(action, Random(number))
        plain = name not in self._chosen
        quick = self._guards.get(name) if plain else None
        for arguments in tried:
            try:  # the same as `allows`, for most specs: this is where a walk spends its time
                allowed = bool(quick(state, *arguments)) if quick else None
            except NOT_THERE:
                allowed = None
            if allowed is None:
                allowed = self.allows(state, action, arguments)
            if allowed is possible or (possible and allowed is None):
                return arguments
        return None

    def _sampled(self, action: Action, random: Random) -> Iterator[tuple[Any, ...]]:
        """Some arguments of an action's method, of very many."""
        for _ in range(SAMPLED):
            numbers = tuple(self._random(p.kind, random) for _, p in action.parameters)
            yield self._given(action, self.machine.arguments(action, numbers))

    def _given(self, action: Action, whole: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of all arguments those that the action's method gets."""
        of = self._chosen.get(action.name, frozenset())
        return tuple(
            v for (name, _), v in zip(action.parameters, whole, strict=True) if name not in of
        )

    def _random(self, kind: Any, random: Random) -> Any:
        digits = [
            random.randrange(min(len(some), LISTED)) for some in self.machine.ground.domains(kind)
        ]
        return tuple(digits) if isinstance(kind, MapOf) else digits[0]

    def _counted(self, action: Action, *, chosen: bool = False) -> int:
        """The number of choices of what a method gets, or of what the code chooses."""
        count = self._counts.get((action.name, chosen))
        if count is None:
            of = self._chosen.get(action.name, frozenset())
            kinds = [p.kind for name, p in action.parameters if (name in of) is chosen]
            digits = [digit for kind in kinds for digit in self.machine.ground.domains(kind)]
            count = self._counts[action.name, chosen] = prod(map(len, digits))
        return count

    def instances(self, names: Collection[str]) -> list[Instance]:
        """
        These actions with every choice of all their arguments.

        Raises `AdapterError` for one that has too many to try them all, again and again.
        """
        for name in names:
            counts = [self._counted(self.actions[name], chosen=of) for of in (False, True)]
            if prod(counts) > INSTANCES:
                raise AdapterError(
                    f"{name} of {self.machine.spec.name} has {prod(counts):,} choices at these"
                    f" sizes, and is to happen by itself: have the test take it, by a method that"
                    f" returns what the code chose (`chosen`), or take smaller sizes"
                )
        return [
            (action, self.machine.arguments(action, numbers))
            for action in self.machine.spec.actions
            if action.name in names
            for numbers in self.machine.ground.choices(action)
        ]

    def sized(self) -> Any:
        """The context in which plain Python of the spec knows the sizes of its sorts."""
        return sizes_of_sorts(self.machine.sizes)


def _is_rich(kind: Any) -> bool:
    """Tells whether compiled guards have to take a field's values apart at each look."""
    value = kind.value if isinstance(kind, Table) else kind
    return isinstance(value, ChannelOf | MachineOf | OptionalRecord | RecordOf | SetOf)


def turned(some: Sequence[_T], number: int) -> Iterator[_T]:
    """All of these once, in an order that a number says: from where, and in steps of how many."""
    count = len(some)
    if count:
        number, at = divmod(number, count)
        strides = _strides(count)
        stride = strides[number % len(strides)]
        for _ in range(count):
            yield some[at]
            at = (at + stride) % count


@cache
def _strides(count: int) -> list[int]:
    """The steps that lead to each of so many things before they lead back."""
    return [n for n in range(1, count + 1) if gcd(n, count) == 1]
