"""
The Python emitter: an action with its parameters chosen, as a function over a list of numbers.

The plain Python of a spec copies maps and calls methods; what is emitted here is the same step as
straight code over the ground spec's slots. It is for readings that take one step of one state at a
time (traces); many states at once are for `columns.py` and `native.py`.
Naturals are Python's own: no bound applies to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from herdspec.engine.ground import FAULTS, Instance, SlotKey
from herdspec.language import graph as g
from herdspec.language.graph import Expr

Numbers = list[int]
"""A state: the numbers of its slots."""
Step = Callable[[Numbers], Numbers | None]
"""The state after; None where the step is not possible, or has no meaning."""

DEEPEST = 30
"""How deep an emitted expression is nested: Python's own parser has a limit."""


class Overflows(Exception):
    """A channel would be fuller than its capacity: the bound hides what comes then."""


def scripted(instance: Instance, places: Mapping[SlotKey, int]) -> Step:
    """A step's function; `places` says where each slot's number lies. It raises `Overflows`."""
    code = _Code(places)
    code.unless(g.conj(instance.guard, instance.defined), "return None")
    code.unless(instance.fits, "raise Overflows")
    # No budget of faults binds who follows what has happened: it stays untouched.
    changes = {places[key]: new for key, new in instance.updates.items() if key[0] != FAULTS}
    code.count(changes.values())
    values = [(place, code.of(new)) for place, new in changes.items()]
    code.lines += ["a = s.copy()", *(f"a[{place}] = {value}" for place, value in values)]
    source = "\n    ".join(["def step(s):", *code.lines, "return a"])
    space: dict[str, object] = {"Overflows": Overflows}
    exec(compile(source, f"<{instance.action.name}>", "exec"), space)
    return space["step"]  # type: ignore[return-value]


class _Code:
    """Statements so far; what is used twice, or lies deep, has a name."""

    def __init__(self, places: Mapping[SlotKey, int]) -> None:
        self.lines: list[str] = []
        self._places = places
        self._names: dict[Expr, str] = {}
        self._uses: Counter[Expr] = Counter()
        self._depths: dict[Expr, int] = {}

    def unless(self, condition: Expr, then: str) -> None:
        """Where a condition does not hold; its conjuncts one by one, the cheap ones first."""
        parts = condition.args if condition.op == "and" else (condition,)
        for part in sorted(parts, key=_size):
            if part is not g.TRUE:
                self.count([part])
                self.lines.append(f"if not {self.of(part)}: {then}")

    def count(self, roots: Iterable[Expr]) -> None:
        """Note how often each part of these is used."""
        todo = list(roots)
        while todo:
            e = todo.pop()
            self._uses[e] += 1
            if self._uses[e] == 1:
                todo.extend(e.args)

    def of(self, e: Expr) -> str:
        """An expression's text, or its name."""
        if e in self._names:
            return self._names[e]
        text = self._text(e)
        self._depths[e] = 1 + max((self._depths.get(a, 0) for a in e.args), default=0)
        if e.args and (self._uses[e] > 1 or self._depths[e] > DEEPEST):
            name = f"v{len(self._names)}"
            self.lines.append(f"{name} = {text}")
            self._names[e], self._depths[e] = name, 0
            return name
        return text

    def _text(self, e: Expr) -> str:
        match e.op:
            case "slot":
                return f"s[{self._places[e.data]}]"
            case "const":
                return repr(int(e.data))
        args = [self.of(a) for a in e.args]
        match e.op:
            case "not":
                return f"(not {args[0]})"
            case "and" | "or":
                return f"({f' {e.op} '.join(args)})"
            case "ite":
                return f"({args[1]} if {args[0]} else {args[2]})"
            case "eq":
                return f"({args[0]} == {args[1]})"
            case "le":
                return f"({args[0]} <= {args[1]})"
            case "add":
                return f"({args[0]} + {e.data})"
            case "plus":
                return f"({args[0]} + {args[1]})"
            case "minus":
                return f"({args[0]} - {args[1]})"
            case "count":
                return f"({' + '.join(f'bool({a})' for a in args)})"
        raise AssertionError(f"not a ground operator: {e.op}")


def _size(e: Expr) -> int:
    """How many nodes an expression has, at most a few hundred."""
    seen: set[Expr] = set()
    todo = [e]
    while todo and len(seen) < 300:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            todo.extend(x.args)
    return len(seen)
