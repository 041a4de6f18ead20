"""
Arguments of an action, found entry by entry, where there are too many to list.

The action's guard is lowered once, with its parameters left open. In a state it is a condition on
these alone: they are chosen one number after the other, and after each it is seen, by intervals,
what of the condition can still hold. A plan from eight parts to four members (65,536 of them) is
found in some tens of looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Number, SlotKey
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.surface import Spec
from herdspec.language.types import BOOL, NAT, MapOf, Scalar

LOOKS = 500
"""The number of values that are tried before it is given up."""
MOST_VALUES = 64
"""From how many values on some are tried, not all."""

Interval = tuple[int, int]
"""The least and the largest number that an expression can be; of a condition, 0 and 1."""


@dataclass(frozen=True)
class _Part:
    """A part of a guard, and the open numbers that it reads."""

    condition: Expr
    open: frozenset[SlotKey]


class Solver:
    """Finds arguments of one action of a machine."""

    def __init__(self, machine: Machine, action: Action) -> None:
        self.machine = machine
        self.action = action
        self.kinds: dict[SlotKey, Scalar] = {}
        """Every open number, with its type: a parameter's, or one for each entry of a map."""
        ground = machine.ground
        env: dict[Expr, Any] = {}
        for name, p in action.parameters:
            scalar = p.kind.value if isinstance(p.kind, MapOf) else p.kind
            entries = []
            for index in ground.indices(p.kind):
                self.kinds[_open(name), index] = scalar
                kind = BOOL if scalar == BOOL else NAT
                entries.append((index, g.node("slot", kind, data=(_open(name), index))))
            env[p] = tuple(entries) if isinstance(p.kind, MapOf) else entries[0][1]
        guard = ground.lower(action.guard, env)
        self.parts = [
            _Part(part, frozenset(x.data for x in g.leaves(part, "slot")) & self.kinds.keys())
            for part in (guard.args if guard.op == "and" else (guard,))
        ]

    def solve(
        self, state: Spec, fixed: Mapping[str, Number], random: Random
    ) -> tuple[Number, ...] | bool | None:
        """
        The numbers of arguments with which the action's guard holds, chosen at random.

        `fixed` says some parameters' already. False if there are none, None if none was found.
        """
        return self.solve_among(known(self.machine, state), fixed, random)

    def solve_among(
        self, numbers: Mapping[SlotKey, Interval], fixed: Mapping[str, Number], random: Random
    ) -> tuple[Number, ...] | bool | None:
        """Arguments as `solve` finds them, in the state of these numbers (`known`)."""
        search = _Search(self, random, {**numbers})
        for name, number in fixed.items():
            digits = iter(number if isinstance(number, tuple) else (number,))
            search.known |= {key: (n, n) for key in self.of(name) for n in (next(digits),)}
        left = search.undecided(self.parts)
        if left is None or not search.found(left):
            return False if search.complete else None
        return tuple(self._argument(name, p.kind, search) for name, p in self.action.parameters)

    def of(self, name: str) -> list[SlotKey]:
        """The numbers of a parameter, in order."""
        return [key for key in self.kinds if key[0] == _open(name)]

    def count(self, key: SlotKey) -> int:
        """The number of values that an open number has."""
        return self.machine.ground.values(self.kinds[key])

    def _argument(self, name: str, kind: Any, search: _Search) -> Number:
        digits = tuple(search.any(key) for key in self.of(name))
        return digits if isinstance(kind, MapOf) else digits[0]


def known(machine: Machine, state: Spec) -> dict[SlotKey, Interval]:
    """The numbers of a state, each as an interval."""
    numbers = zip(machine.ground.slots, machine.numbers(state), strict=True)
    return {key: (n, n) for key, n in numbers}


class _Search:
    """Chooses number after number, and goes back where the condition cannot hold any more."""

    def __init__(self, solver: Solver, random: Random, known: dict[SlotKey, Interval]) -> None:
        self.solver = solver
        self.random = random
        self.known = known
        self.looks = 0
        self.complete = True
        """True if all was tried that could be."""

    def undecided(self, parts: Sequence[_Part]) -> list[_Part] | None:
        """The parts that are not known to hold yet; None if one cannot."""
        left = []
        for part in parts:
            least, most = within(part.condition, self.known, {})
            if most == 0:
                return None
            if least == 0:
                left.append(part)
        return left

    def found(self, parts: list[_Part]) -> bool:
        """Tells whether numbers were found with which these parts hold; `known` then says which."""
        if not parts:
            return True
        key = min((sorted(p.open - self.known.keys()) for p in parts), key=len)[0]
        for number in self._values(key, parts):
            self.looks += 1
            if self.looks > LOOKS:
                self.complete = False
                break
            self.known[key] = (number, number)
            left = self.undecided([p for p in parts if key in p.open])
            if left is not None and self.found([*left, *(p for p in parts if key not in p.open)]):
                return True
        self.known.pop(key, None)
        return False

    def any(self, key: SlotKey) -> int:
        """The number that was found, or any, where nothing is said of it."""
        if key in self.known:
            return self.known[key][0]
        return self.random.randrange(min(MOST_VALUES, self.solver.count(key)))

    def _values(self, key: SlotKey, parts: Sequence[_Part]) -> Iterator[int]:
        """The numbers to try, in a random order; of very many, those near to what is known."""
        count = self.solver.count(key)
        if count <= MOST_VALUES:
            yield from self.random.sample(range(count), count)
            return
        self.complete = False
        read = {x for p in parts if key in p.open for x in g.leaves(p.condition, "slot")}
        named = {int(c.data) for p in parts for c in g.leaves(p.condition, "const")}
        named |= {self.known[x.data][0] for x in read if x.data in self.known}
        near = sorted({n + m for n in (*named, 0) for m in (-1, 0, 1, 2) if 0 <= n + m < count})
        yield from self.random.sample(near, len(near))


def within(e: Expr, known: Mapping[SlotKey, Interval], memo: dict[Expr, Interval]) -> Interval:
    """Between which numbers a lowered expression is, where not all slots are known."""
    found = memo.get(e)
    if found is None:
        found = memo[e] = _within(e, known, memo)
    return found


def _within(e: Expr, known: Mapping[SlotKey, Interval], memo: dict[Expr, Interval]) -> Interval:
    match e.op:
        case "const":
            return int(e.data), int(e.data)
        case "slot":
            return known.get(e.data, (0, 1 if e.kind == BOOL else LARGEST))
        case "ite":
            least, most = within(e.args[0], known, memo)
            sides = [within(x, known, memo) for x in e.args[1 if most else 2 : 2 if least else 3]]
            return min(a for a, _ in sides), max(b for _, b in sides)
    inner = (within(x, known, memo) for x in e.args)
    if e.op == "and":
        low, high = 1, 1
        for least, most in inner:
            low, high = min(low, least), min(high, most)
            if not high:
                break
        return (low, high) if high else (0, 0)
    if e.op == "or":
        low, high = 0, 0
        for least, most in inner:
            low, high = max(low, least), max(high, most)
            if low:
                return 1, 1
        return low, high
    return _number(e, [*inner])


def _number(e: Expr, inner: list[Interval]) -> Interval:
    (a, b), (c, d) = inner[0] if inner else (0, 0), inner[1] if len(inner) > 1 else (0, 0)
    exact = a == b and c == d
    match e.op:
        case "not":
            return 1 - b, 1 - a
        case "eq":
            return int(exact and a == c), int(a <= d and c <= b)
        case "le":
            return int(b <= c), int(a <= d)
        case "add":
            return a + int(e.data), b + int(e.data)
        case "plus":
            return a + c, b + d
        case "minus":
            return a - d, b - c
        case "mod":
            return (a % c, a % c) if exact and c else (0, LARGEST)
        case "div":
            return (a // c, a // c) if exact and c else (0, LARGEST)
        case "count":
            return sum(least for least, _ in inner), sum(most for _, most in inner)
    raise AssertionError(f"a lowered expression has no operator {e.op!r}")


def _open(name: str) -> str:
    """The name of a parameter's numbers, which is no field's."""
    return f"parameter {name}"
