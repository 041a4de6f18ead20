"""
Lowering: a spec for given sort sizes, over numbered slots instead of maps and quantifiers.

Every entry of the state becomes a *slot* that holds a small number (see `encode`), every choice of
parameters an *instance* of its action: a guard and the new value of each slot that it changes.
Emitters (`columns.py`) need to know nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.outside import unchanged
from herdspec.language.specification import ANY, Action, DeclaredProperty, Specification
from herdspec.language.surface import LIVE, ActionKind, Expectation
from herdspec.language.types import (
    BOOL,
    NAT,
    Bool,
    EnumOf,
    Key,
    MapOf,
    Nat,
    Option,
    Range,
    Scalar,
    SortOf,
    Table,
    Type,
)
from herdspec.language.values import encode

LARGEST = (1 << 31) - 1
"""The largest number of a state, and of a spec's text: sums of many still fit 64 bits."""
MOST_ENTRIES = 1 << 14
"""From how many numbers a map can be: each has a slot of its own."""
MOST_CHOICES = 100_000
"""The most choices of its parameters that an action can have, and a quantifier of its variables."""
WIDE = 64
"""A map from more numbers than these is looked up by halves: few steps, however many there are."""
MOST_INSTANCES = 1 << 16
"""The most actions with their parameters chosen that a spec can have."""
FAULTS = "faults taken"
"""The name of the hidden slot that counts what disturbs, against the budget."""
SlotKey = tuple[str, tuple[int, ...]]
"""A flat field's name, and the indices of its keys' values (none: no map)."""
Number = int | tuple[int, ...]
"""A parameter's value: a number, or (of a map) one for each key."""


@dataclass(frozen=True)
class Slot:
    """One small number of the state: `values` of them, 0-based; `index` within a map, or ()."""

    field: str
    index: tuple[int, ...]
    kind: Scalar
    values: int
    initial: int

    @property
    def is_bounded(self) -> bool:
        """Tells whether a step may lead beyond its values: naturals are bounded here only."""
        return isinstance(_present(self.kind)[0], Nat)

    @property
    def largest(self) -> int:
        """The largest number that it can hold; that a value is absent is none."""
        return self.values - 1 - _present(self.kind)[1]

    @cached_property
    def expr(self) -> Expr:
        """The leaf that reads it."""
        return g.node("slot", self._kind, data=(self.field, self.index))

    @cached_property
    def after(self) -> Expr:
        """The leaf that reads it after a step."""
        return g.node("slot after", self._kind, data=(self.field, self.index))

    @property
    def _kind(self) -> Scalar:
        if isinstance(self.kind, Bool):
            return BOOL
        return NAT if self.is_bounded else Range(self.values - 1)


@dataclass(frozen=True)
class GroundAction:
    """An action with its parameters chosen; see `Action` for what its parts mean."""

    action: Action
    arguments: tuple[Number, ...]
    guard: Expr
    updates: Mapping[SlotKey, Expr]
    defined: Expr = g.TRUE
    fits: Expr = g.TRUE

    @property
    def plain(self) -> tuple[int, ...]:
        """Its arguments, none of which may be a map."""
        return tuple(n for n in self.arguments if isinstance(n, int))

    @property
    def owed_to(self) -> tuple[Any, ...]:
        """
        To whom its fairness is owed: to itself, or to its action with any choice of parameters.

        The arguments that select a part are no choice: each part is owed its own.
        """
        whole = self.action.fair is not None and self.action.fair.is_of_any
        kept = self.action.indices if whole else len(self.arguments)
        return self.action.name, self.arguments[:kept]

    @property
    def by_protocol(self) -> bool:
        """Tells whether the protocol takes this step by itself."""
        return self.action.kind is ActionKind.STEP


@dataclass(frozen=True)
class Ground:
    """A spec lowered for `sizes` of its sorts, naturals up to `bound`, and `faults` at most."""

    spec: Specification
    sizes: Mapping[str, int]
    bound: int
    faults: int
    memo: dict[Any, Expr] = field(default_factory=dict, repr=False)
    _free: dict[Expr, set[Expr]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        unchanged(self.spec.shape)
        for name in self.spec.sorts:
            if self.sizes.get(name, 0) < 1:
                raise UsageError(f"{self.spec.name} needs a size for its sort {name}: at least 1")
        for slot in self.slots.values():
            if slot.initial >= slot.values or slot.largest > LARGEST:
                what = f"{slot.field} starts with {slot.initial} and has {slot.values} values"
                most = f"by at most {LARGEST:,}"
                raise UsageError(f"{what}: bound it by at least its start, {most}")

    @cached_property
    def slots(self) -> dict[SlotKey, Slot]:
        """All slots by field and index, the hidden one last."""
        found: dict[SlotKey, Slot] = {}
        for f in self.spec.fields:
            self._check_entries(f.name, f.kind)
            scalar = f.kind.value if isinstance(f.kind, MapOf) else f.kind
            start = 0 if f.initial is ANY else encode(scalar, f.initial)
            for k in self.indices(f.kind):
                found[f.name, k] = Slot(f.name, k, scalar, self.values(scalar), start)
        found[FAULTS, ()] = Slot(FAULTS, (), NAT, self.faults + 1, 0)
        return found

    def _check_entries(self, name: str, kind: Type) -> None:
        keys = kind.keys if isinstance(kind, MapOf) else ()
        entries = prod(key.top + 1 for key in keys if isinstance(key, Range))
        if entries > MOST_ENTRIES:
            what = (
                f"{self.spec.name}: {name} is from {entries:,} numbers, more than {MOST_ENTRIES:,}"
            )
            raise UsageError(f"{what}: take smaller numbers as its keys")

    def indices(self, kind: Type | Table) -> list[tuple[int, ...]]:
        """The indices of a map's entries, in order; of anything else the empty one."""
        keys = kind.keys if isinstance(kind, MapOf | Table) else ()
        return list(product(*(range(self.values(k)) for k in keys)))

    def values(self, kind: Scalar) -> int:
        """The number of values that a type has here."""
        match kind:
            case Bool():
                return 2
            case Nat():
                return self.bound + 1
            case Range(top=top):
                return top + 1
            case EnumOf(members=members):
                return len(members)
            case SortOf(name=name):
                return self.sizes[name]
            case Option(of=of):
                return 1 + self.values(of)

    @cached_property
    def instances(self) -> tuple[GroundAction, ...]:
        """Every action with every choice of parameters whose guard is not plainly false."""
        return self._instances(self.spec.actions)

    @cached_property
    def starts(self) -> tuple[GroundAction, ...]:
        """The instances that make initial states of the declared one, for all parameters."""
        return self._instances(self.spec.starts)

    def _instances(self, actions: tuple[Action, ...]) -> tuple[GroundAction, ...]:
        every = (self.instance(a, args) for a in actions for args in self.choices(a))
        found = tuple(i for i in every if i.guard is not g.FALSE)
        if len(found) > MOST_INSTANCES:  # explorers number them by 16 bits
            what = f"{self.spec.name} has {len(found):,} actions with their parameters chosen"
            raise UsageError(f"{what}, more than {MOST_INSTANCES:,}: take smaller sizes")
        return found

    def choices(self, action: Action) -> list[tuple[Number, ...]]:
        """The choices of an action's parameters, in order."""
        return self.chosen(action.name, [p.kind for _, p in action.parameters])

    def chosen(self, name: str, kinds: list[Type]) -> list[tuple[Number, ...]]:
        """The choices of values of these types."""
        if prod(len(digit) for kind in kinds for digit in self.domains(kind)) > MOST_CHOICES:
            what = f"{self.spec.name}: {name} has more than {MOST_CHOICES:,} choices"
            raise UsageError(f"{what} at this size; take smaller sizes, or smaller steps")
        return list(self.each(kinds))

    def each(self, kinds: list[Type]) -> Iterator[tuple[Number, ...]]:
        """The choices one by one, however many they are."""
        if not kinds:
            yield ()
            return
        kind, *rest = kinds
        digits = self.domains(kind)
        for number in product(*digits) if isinstance(kind, MapOf) else digits[0]:
            for others in self.each(rest):
                yield (number, *others)

    def domains(self, kind: Type) -> list[range]:
        """The numbers that a value may be; of a map, those of each entry."""
        scalar = kind.value if isinstance(kind, MapOf) else kind
        return [range(self.values(scalar))] * len(self.indices(kind))

    def instance(self, action: Action, arguments: tuple[Number, ...]) -> GroundAction:
        """One action for one choice."""
        env = self.environment(action.parameters, arguments)
        guard = self.lower(action.guard, env)
        if guard is g.FALSE:
            return GroundAction(action, arguments, guard, {})
        updates: dict[SlotKey, Expr] = {}
        for name, new in action.updates.items():
            for k in self._touched(name, new):
                made = self.lower(g.select(new, *_constants(new.kind, k)), env)
                if made is not self.slots[name, k].expr:
                    updates[name, k] = made
        if action.disturbs:
            taken = self.slots[FAULTS, ()].expr
            guard = g.conj(guard, g.le(taken, g.const(NAT, self.faults - 1)))
            if self.faults == 0:
                guard = g.FALSE
            updates[FAULTS, ()] = g.add(taken, 1)
        defined, fits = self.lower(action.defined, env), self.lower(action.fits, env)
        return GroundAction(action, arguments, guard, updates, defined, fits)

    def _touched(self, name: str, new: Expr) -> list[tuple[int, ...]]:
        """
        The entries that an update may change: not those of a key that it plainly leaves.

        It shows where the parameters were put in before (`engine/python_emit.py`).
        """
        indices = self.indices(new.kind)
        if not isinstance(new.kind, MapOf) or len(new.kind.keys) < 2:
            return indices
        first, *others = new.kind.keys
        rest = tuple(g.fresh("k", kind) for kind in others)
        left = set()
        for n in range(self.values(first)):
            at = _constants(MapOf((first,), new.kind.value), (n,))
            if g.select(new, *at, *rest) is g.select(g.field(name, new.kind), *at, *rest):
                left.add(n)
        return [k for k in indices if k[0] not in left]

    def environment(
        self, parameters: tuple[tuple[str, Expr], ...], arguments: tuple[Number, ...]
    ) -> dict[Expr, Any]:
        """The numbers (for a map: one for each key) that parameters stand for."""
        found: dict[Expr, Any] = {}
        for (_, p), n in zip(parameters, arguments, strict=True):
            if isinstance(p.kind, MapOf):
                assert isinstance(n, tuple), "a map's choice is a number for each key"
                found[p] = tuple(zip(self.indices(p.kind), n, strict=True))
            else:
                found[p] = self.constant(p.kind, n)
        return found

    def cases(self, promise: DeclaredProperty) -> list[tuple[tuple[Number, ...], Expr, Expr]]:
        """
        A promise of liveness for each choice of elements: premise and goal.

        What is to hold at last, or at last for ever, has no premise: it is due from the start.
        """
        found = []
        for chosen in self.chosen(promise.name, [p.kind for _, p in promise.parameters]):
            env = self.environment(promise.parameters, chosen)
            first = self.lower(promise.formula, env)
            if promise.expectation is not Expectation.LEADS_TO:
                found.append((chosen, g.TRUE, first))
            else:
                assert promise.goal is not None, "a leads_to has a goal"
                found.append((chosen, first, self.lower(promise.goal, env)))
        return found

    def property(self, promise: DeclaredProperty) -> Expr:
        """
        A property's formula over slots (and, for a step, over `after` leaves of slots).

        What ranges over behaviours says nothing of one state: see `cases`.
        """
        return g.TRUE if promise.expectation in LIVE else self.lower(promise.formula, {})

    def after(self, formula: Expr, instance: GroundAction) -> Expr:
        """A step property for one instance, over the slots before it."""
        leaves = g.leaves(formula, "slot after")
        new = {x: instance.updates.get(x.data, self.slots[x.data].expr) for x in leaves}
        return g.substitute(formula, new)

    def of_instance(self, formula: Expr, instance: GroundAction) -> Expr:
        """A formula over fields and an action's parameters, for one instance."""
        return self.lower(formula, self.environment(instance.action.parameters, instance.arguments))

    # ── Expressions ─────────────────────────────────────────────────────────────────────────

    def lower(self, e: Expr, env: Mapping[Expr, Any]) -> Expr:
        """An expression over slots; `env` says what each variable stands for."""
        key = (e, tuple(env.items()))
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._lower(e, env)
        return found

    def _lower(self, e: Expr, env: Mapping[Expr, Any]) -> Expr:
        match e.op:
            case "const":
                return self.constant(e.kind, 0 if e.data is None else self._small(e.data))
            case "add":
                return g.add(self.lower(e.args[0], env), self._small(e.data))
            case "var":
                found: Expr = env[e]
                return found
            case "field" | "after":
                return self.leaf(e, ())
            case "select":
                at = tuple(self.lower(i, env) for i in e.args[1:])
                return self._entry(e.args[0], at, (), env)
            case "some":
                return self.plus_one(self.lower(e.args[0], env))
            case "the":
                return self.minus_one(self.lower(e.args[0], env), e.kind)
            case "all" | "any":
                join = g.conj if e.op == "all" else g.disj
                return join(*self._turns(e.args[:1], e.args[1], env))
            case "number":
                return g.count(self._turns(e.args[:-1], e.args[-1], env))
        return g.rebuild(e, tuple(self.lower(a, env) for a in e.args))

    def _turns(self, bounds: tuple[Expr, ...], body: Expr, env: Mapping[Expr, Any]) -> list[Expr]:
        """A body for every choice of its variables."""
        counts: list[int] = [self.values(b.kind) for b in bounds]  # type: ignore[arg-type]
        if (choices := prod(counts)) > MOST_CHOICES:
            what = f"{self.spec.name}: a quantifier has {choices:,} choices at this size"
            raise UsageError(f"{what}, more than {MOST_CHOICES:,}: take smaller ones")
        numbered = zip(bounds, counts, strict=True)
        ranges = [[self.constant(b.kind, n) for n in range(count)] for b, count in numbered]
        # What the body does not speak of is no part of its environment: more of it is shared.
        free = self._variables(body)
        kept = {x: v for x, v in env.items() if x in free}
        return [
            self.lower(body, {**kept, **dict(zip(bounds, chosen, strict=True))})
            for chosen in product(*ranges)
        ]

    def _variables(self, e: Expr) -> set[Expr]:
        found = self._free.get(e)
        if found is None:
            found = self._free[e] = g.leaves(e, "var")
        return found

    def leaf(self, e: Expr, index: tuple[int, ...]) -> Expr:
        """The slot of a field's entry."""
        slot = self.slots[e.data, index]
        return slot.expr if e.op == "field" else slot.after

    def _entry(
        self, table: Expr, at: tuple[Expr, ...], index: tuple[int, ...], env: Mapping[Expr, Any]
    ) -> Expr:
        """An entry of a map: where an index is not known, a choice among all."""
        if not at:
            if table.op == "var":
                assert isinstance(table.kind, MapOf), "only maps are looked up"
                given = dict(env[table])[index]
                return given if isinstance(given, Expr) else self.constant(table.kind.value, given)
            return self.leaf(table, index)
        first, *rest = at
        others = tuple(rest)
        assert isinstance(table.kind, MapOf), "only maps are looked up"
        kind = table.kind.keys[len(index)]
        # What a map of the arguments holds is known where its index is plain.
        known = table.op != "var" or first.op == "const"
        there = self.position(kind, first) if known else None
        if there is not None:
            return self._entry(table, others, (*index, there), env)
        if isinstance(kind, Range) and self.values(kind) > WIDE:
            entries = [self._entry(table, others, (*index, k), env) for k in range(kind.top + 1)]
            return _by_halves(first, entries, 0)
        found = self._entry(table, others, (*index, 0), env)
        for k in range(1, self.values(kind)):
            here = g.eq(first, self.constant(kind, k))
            found = g.ite(here, self._entry(table, others, (*index, k), env), found)
        return found

    def _small(self, number: int) -> int:
        """A number of the spec's text, which must not be larger than any that a state can hold."""
        if abs(number) > LARGEST:
            what = f"{self.spec.name} speaks of the number {number}"
            raise UsageError(f"{what}, which is larger than {LARGEST:,}: take a smaller one")
        return number

    def constant(self, kind: Type, n: Any) -> Expr:
        """A ground constant: a truth value or a number."""
        return g.boolean(bool(n)) if kind == BOOL else g.const(NAT, n)

    def position(self, kind: Key, index: Expr) -> Any:
        """Which of a key's values an index is; None where that is not known."""
        if index.op != "const":
            return None
        # No index: the step is undefined, and what it would read here is nobody's.
        return int(index.data) if 0 <= index.data < self.values(kind) else 0

    def plus_one(self, e: Expr) -> Expr:
        """A value as a present optional one."""
        if e.kind == BOOL:
            return g.ite(e, g.const(NAT, 2), g.const(NAT, 1))
        return g.add(e, 1)

    def minus_one(self, e: Expr, kind: Type) -> Expr:
        """The reverse of `plus_one`."""
        return g.eq(e, g.const(NAT, 2)) if kind == BOOL else g.add(e, -1)


def _present(kind: Scalar) -> tuple[Scalar, int]:
    """The type of a value that is not absent, and in how many ways it may be absent."""
    absences = 0
    while isinstance(kind, Option):
        kind, absences = kind.of, absences + 1
    return kind, absences


def _by_halves(index: Expr, entries: list[Expr], first: int) -> Expr:
    """The entry at an index that is not known, of those that begin with number `first`."""
    if len(entries) == 1:
        return entries[0]
    half = len(entries) // 2
    below = g.le(index, g.const(NAT, first + half - 1))
    low, high = entries[:half], entries[half:]
    return g.ite(below, _by_halves(index, low, first), _by_halves(index, high, first + half))


def _constants(kind: Type, index: tuple[int, ...]) -> tuple[Expr, ...]:
    """The indices of an entry as constants of the keys' types."""
    keys: tuple[Key, ...] = kind.keys if isinstance(kind, MapOf) else ()
    return tuple(
        g.boolean(bool(n)) if k == BOOL else g.const(k, n) for k, n in zip(keys, index, strict=True)
    )
