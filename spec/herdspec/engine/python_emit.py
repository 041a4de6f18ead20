"""
The Python emitter: an action with its parameters chosen, as a function over lists of numbers.

The plain Python of a spec copies maps and calls methods; what is emitted here is the same step as
straight code over the ground spec's slots. It is for readings that take one step of one state at a
time (traces); many states at once are for `columns.py` and `native.py`. A state has a list for each
field: a step copies those that it changes, and the state after shares all others with the one
before. Naturals are Python's own: no bound applies to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count, islice
from types import CodeType, FunctionType
from typing import Any

from herdspec.engine.ground import FAULTS, Ground, Number, SlotKey
from herdspec.engine.renaming import AffineIndex, Element, Nameable, renamed
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.types import BOOL, NAT, Bool, EnumOf, Nat, Range, SortOf

Numbers = list[list[int]]
"""A state: of each field, the numbers of its slots. No list of it is ever changed."""
Slot = tuple[int, int]
"""Where a slot's number is: of which field, and where in that."""
Step = Callable[[Numbers], Numbers | None]
"""The state after; None where the step is not possible, or has no meaning."""

Truth = Callable[[Numbers], bool]
"""A formula, evaluated in a state."""

Standing = Element | AffineIndex
"""The element or place that a constant of shared code stands for."""

KEPT = 1024
"""The number of steps that are kept for others that differ by renaming."""
MOST_KEPT = 1_000_000
"""The number of lowered expressions that are kept for the next step to share."""
DEEPEST = 30
"""The deepest nesting of an emitted expression: Python's own parser has a limit."""


class Overflows(Exception):
    """A channel would be fuller than its capacity: the bound hides what comes then."""


SPACE: dict[str, Any] = {"Overflows": Overflows}
"""The names that emitted code knows."""


class Scripts:
    """
    The steps of a spec at given sizes, as they are asked for.

    What is emitted and compiled is one step for all arguments that differ by renaming; its slots
    and elements are constants of the code, which are exchanged for those of each.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = Nameable(ground.spec, ground.sizes, ground.bound, ground.faults)
        self._actions = {a.name: a for a in ground.spec.actions}
        self._kinds = {f.name: f.kind for f in ground.spec.fields}
        self._widths = Counter(field for field, _ in ground.slots)
        self._numbers = {field: number for number, field in enumerate(self._widths)}
        places = {field: count() for field in self._widths}
        self.slots: dict[SlotKey, Slot] = {
            key: (self._numbers[key[0]], next(places[key[0]])) for key in ground.slots
        }
        self._kept = lru_cache(KEPT)(self._emitted)

    def apart(self, numbers: Iterable[int]) -> Numbers:
        """A state, of the numbers of all slots in their order."""
        one_by_one = iter(numbers)
        return [[*islice(one_by_one, width)] for width in self._widths.values()]

    @property
    def emitted(self) -> int:
        """The number of steps emitted so far."""
        return self._kept.cache_info().misses

    def step(self, action: str, arguments: tuple[Number, ...]) -> Step:
        """An action with its parameters chosen. The step raises `Overflows`."""
        shared, names = renamed(self._ground, self._actions[action].parameters, arguments)
        code, standing, _ = self._kept(action, shared)
        step: Step = _made(code, [x.named(names) for x in standing])
        return step

    def changes(self, action: str, arguments: tuple[Number, ...]) -> tuple[Slot, ...]:
        """The slots that this step may change."""
        shared, names = renamed(self._ground, self._actions[action].parameters, arguments)
        _, _, changed = self._kept(action, shared)
        return tuple((field, x.named(names)) for field, x in changed)

    def truth(self, formula: Expr) -> Truth:
        """A formula of the ground spec, over its slots, as a function of a state's numbers."""
        code = _Code(self._numbers)
        code.count([formula])
        code.lines.append(f"return {code.of(formula)}")
        places = [self.slots[key][1] for key in code.standing if not isinstance(key, Element)]
        truth: Truth = _made(_compiled("def truth(s):", code.whole, "<truth>"), places)
        return truth

    def _emitted(
        self, name: str, arguments: tuple[Any, ...]
    ) -> tuple[CodeType, list[Standing], list[tuple[int, Standing]]]:
        """A step's code, what its complex constants stand for, and the slots that it changes."""
        ground, action = self._ground, self._actions[name]
        instance = ground.instance(chosen(action, arguments), arguments)
        if len(ground.memo) > MOST_KEPT:
            ground.memo.clear()
        code = _Code(self._numbers)
        guard = g.conj(instance.guard, instance.defined)
        where = _where(guard)
        code.unless(guard, "return None")
        code.unless(where(instance.fits), "raise Overflows")
        # No budget of faults binds who follows what has happened: it stays untouched.
        changes = {key: new for key, new in instance.updates.items() if key[0] != FAULTS}
        code.change({key: where(new) for key, new in changes.items()})
        step = _compiled("def step(s):", [*code.whole, "return a"], f"<{name}>")
        changed = [(self._numbers[key[0]], self._standing(key)) for key in changes]
        return step, [self._standing(x) for x in code.standing], changed

    def _standing(self, what: Element | SlotKey) -> Standing:
        if isinstance(what, Element):
            return what
        field, index = what
        return self._ground.place(index, self._kinds.get(field, NAT))


def _compiled(head: str, lines: Sequence[str], name: str) -> CodeType:
    """The code of one function."""
    module = compile("\n    ".join([head, *lines]), name, "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))


def _made(code: CodeType, stood_for: Sequence[int]) -> Any:
    """A function of this code, with what its complex constants stand for put in."""
    constants = (stood_for[int(c.imag)] if isinstance(c, complex) else c for c in code.co_consts)
    return FunctionType(code.replace(co_consts=tuple(constants)), SPACE)


def chosen(action: Action, numbers: tuple[Number, ...]) -> Action:
    """An action with its plain parameters put in: most of it folds before it is lowered."""
    parameters = zip(action.parameters, numbers, strict=True)
    by = {
        p: g.boolean(bool(n)) if p.kind == BOOL else g.const(p.kind, n)
        for (_, p), n in parameters
        if isinstance(p.kind, Bool | SortOf | EnumOf | Range | Nat)
    }
    within = g.substitution(by)
    return replace(
        action,
        guard=within(action.guard),
        defined=within(action.defined),
        fits=within(action.fits),
        updates={name: within(new) for name, new in action.updates.items()},
    )


class _Code:
    """
    Statements so far; what is used twice, or lies deep, has a name.

    No number of a state is complex: as a constant, one stands for a slot's place or an element.
    """

    def __init__(self, fields: Mapping[str, int]) -> None:
        self.lines: list[str] = []
        self._numbers = fields
        self._fields: set[int] = set()
        """The fields that are read or changed, each by the name of its list."""
        self.standing: dict[Element | SlotKey, int] = {}
        """Complex numbers, by the element or the place that they stand for."""
        self._names: dict[Expr, str] = {}
        self._uses: dict[Expr, int] = {}
        self._depths: dict[Expr, int] = {}

    @property
    def whole(self) -> list[str]:
        """The statements, after those that name the lists."""
        return [*(f"f{n} = s[{n}]" for n in sorted(self._fields)), *self.lines]

    def field(self, key: SlotKey) -> int:
        """Which field a slot is of, whose list has a name now."""
        number = self._numbers[key[0]]
        self._fields.add(number)
        return number

    def place(self, what: Element | SlotKey) -> str:
        """The number that stands for something."""
        return f"{self.standing.setdefault(what, len(self.standing))}j"

    def unless(self, condition: Expr, then: str) -> None:
        """Where a condition does not hold; its conjuncts one by one, the cheap ones first."""
        parts = condition.args if condition.op == "and" else (condition,)
        for part in sorted(parts, key=_size) if len(parts) > 1 else parts:
            if part is not g.TRUE:
                self.count([part])
                self.lines.append(f"if not {self.of(part)}: {then}")

    def change(self, changes: Mapping[SlotKey, Expr]) -> None:
        """A copy of the state with these changes; of a list in which nothing changes, none."""
        changed = [(key, *_change(key, new)) for key, new in changes.items()]
        self.count(e for _, *both in changed for e in both)
        blocks: dict[str, list[tuple[int, str, str]]] = {}
        for key, condition, value in changed:
            told = (self.field(key), self.place(key), self.of(value))
            blocks.setdefault(self.of(condition), []).append(told)
        of = Counter(n for block in blocks.values() for n in {n for n, *_ in block})
        whole = {n for n, *_ in blocks.get(_ALWAYS, ())} | {n for n in of if of[n] > 1}
        self.lines += ["a = s.copy()", *map(_copied, sorted(whole))]
        for test, block in blocks.items():
            copies = [_copied(n) for n in dict.fromkeys(n for n, *_ in block) if n not in whole]
            lines = [*copies, *(f"n{n}[{place}] = {value}" for n, place, value in block)]
            if test != _ALWAYS:
                lines = [f"if {test}:", *(f"    {line}" for line in lines)]
            self.lines += lines

    def count(self, roots: Iterable[Expr]) -> None:
        """Note how often each part of these is used."""
        uses, todo = self._uses, list(roots)
        while todo:
            e = todo.pop()
            if e in uses:
                uses[e] += 1
            else:
                uses[e] = 1
                todo += e.args

    def of(self, e: Expr) -> str:
        """An expression's text, or its name."""
        name = self._names.get(e)
        if name is not None:
            return name
        text = self._text(e)
        if not e.args:
            return text
        depth = 1 + max([self._depths.get(a, 0) for a in e.args])
        if self._uses[e] > 1 or depth > DEEPEST:
            self._names[e] = name = f"v{len(self._names)}"
            self.lines.append(f"{name} = {text}")
            return name
        self._depths[e] = depth
        return text

    def _text(self, e: Expr) -> str:
        if e.args:
            return PYTHON_TEXTS[e.op](e, [self.of(a) for a in e.args])
        if e.op == "slot":
            return f"f{self.field(e.data)}[{self.place(e.data)}]"
        if isinstance(e.data, Element):
            return self.place(e.data)
        assert e.op == "const", f"not a ground operator: {e.op}"
        return repr(int(e.data))


_ALWAYS = repr(int(True))
"""The text of a condition that always holds."""


def _copied(n: int) -> str:
    return f"a[{n}] = n{n} = f{n}.copy()"


def _where(condition: Expr) -> Callable[[Expr], Expr]:
    """Simplifies an expression where a condition holds: what it says of each part is known."""
    parts = condition.args if condition.op == "and" else (condition,)
    known = {**dict.fromkeys(parts, g.TRUE), **{g.negate(p): g.FALSE for p in parts}}
    return g.substitution(known)


def _change(key: SlotKey, new: Expr) -> tuple[Expr, Expr]:
    """Of a slot's new number, the condition where it need not be the former one, and what it is."""
    conditions = []
    while new.op == "ite":
        test, then, otherwise = new.args
        if (otherwise.op, otherwise.data) == ("slot", key):
            conditions.append(test)
            new = then
        elif (then.op, then.data) == ("slot", key):
            conditions.append(g.negate(test))
            new = otherwise
        else:
            break
    if new.op == "const" and not conditions:
        conditions.append(g.negate(g.eq(g.node("slot", new.kind, data=key), new)))
    return g.conj(*conditions), new


PYTHON_TEXTS: dict[str, Callable[[Expr, list[str]], str]] = {
    "not": lambda _, args: f"(not {args[0]})",
    "and": lambda _, args: f"({' and '.join(args)})",
    "or": lambda _, args: f"({' or '.join(args)})",
    "ite": lambda _, args: f"({args[1]} if {args[0]} else {args[2]})",
    "eq": lambda _, args: f"({args[0]} == {args[1]})",
    "le": lambda _, args: f"({args[0]} <= {args[1]})",
    "add": lambda e, args: f"({args[0]} + {e.data})",
    "plus": lambda _, args: f"({args[0]} + {args[1]})",
    "minus": lambda _, args: f"({args[0]} - {args[1]})",
    "mod": lambda _, args: f"({args[0]} % {args[1]})",
    "div": lambda _, args: f"({args[0]} // {args[1]})",
    "count": lambda _, args: f"({' + '.join([f'bool({a})' for a in args])})",
}
"""Emitters of Python's text, by operator."""


def _size(e: Expr) -> int:
    """The number of an expression's nodes, at most a few hundred."""
    seen: set[Expr] = {e}
    todo = [e]
    while todo and len(seen) < 300:
        fresh = [a for a in todo.pop().args if a not in seen]
        seen.update(fresh)
        todo += fresh
    return len(seen)
